"""Communicators of the simulated driver between processes; no torch, no wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.rehearsal.test_driver import PRELUDE
from torchferry.backends import registry
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import load_driver

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="shared memory of Linux"),
]

PARAMETER, TIMEOUT, REMOTE, NOT_SUPPORTED = 1, 9, 21, 5

JOIN = """
hccl = ctypes.CDLL(folder + "/libhccl.so")
rank, ranks, root = int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
core.ferry_set_number(b"timeout", 20)
u64, u32, i32 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
group = p()
assert hccl.HcclCommInitRootInfo(u32(ranks), root, u32(rank), ctypes.byref(group)) == 0
def floats(*values):
    return (ctypes.c_float * len(values))(*values)
def all_reduce(values, count=None, operation=0, dtype=4):
    return hccl.HcclAllReduce(values, values, u64(len(values) if count is None else count), i32(dtype), i32(operation),
                              group, None)
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    description = load_driver(registry.choose("npu").backend)
    assert description is not None
    return building.driver_folder(description)


def new_root(folder: Path) -> str:
    code = PRELUDE + (
        "root = ctypes.create_string_buffer(4108)\n"
        "ctypes.CDLL(folder + '/libhccl.so').HcclGetRootInfo(root)\n"
        "print(root.raw.hex())\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    ).stdout.strip()


def on_ranks(folder: Path, body: str, ranks: int = 2) -> list[tuple[str, str]]:
    """Run Python on so many ranks; what each of them printed to stdout and stderr."""
    root = new_root(folder)
    code = PRELUDE + JOIN + textwrap.dedent(body)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(rank), str(ranks), root],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    return [process.communicate(timeout=HANGS) for process in started]


def outputs(folder: Path, body: str, ranks: int = 2) -> list[str]:
    ended = on_ranks(folder, body, ranks)
    assert all("Traceback" not in err for _, err in ended), ended
    return [out.strip() for out, _ in ended]


def test_sums_are_those_of_all_ranks_beyond_one_slot(folder: Path) -> None:
    body = """
    n = 300_007
    values = floats(*[rank + 1 + i % 7 for i in range(n)])
    code = all_reduce(values)
    print(code, values[0], values[6], values[n - 1] == 6 + 3 * ((n - 1) % 7))
    """
    assert outputs(folder, body, 3) == ["0 6.0 24.0 True"] * 3


@pytest.mark.parametrize(("operation", "result"), [(0, 12.0), (1, 35.0), (2, 7.0), (3, 5.0)])
def test_the_four_reductions(folder: Path, operation: int, result: float) -> None:
    body = f"values = floats(5.0 + 2 * rank); all_reduce(values, operation={operation}); print(values[0])"
    assert outputs(folder, body) == [str(result)] * 2


@pytest.mark.parametrize(
    ("dtype", "given", "result"),
    [
        (3, (0x3C00, 0x1400), 0x3C01),  # 1 + 2**-10 is the next float16 after 1
        (3, (0x7BFF, 0x7BFF), 0x7C00),  # 65504 twice is beyond float16
        (3, (0x0001, 0x0002), 0x0003),  # below the normal numbers
        (3, (0x7E00, 0x3C00), 0x7E00),  # NaN
        (11, (0x3F80, 0x3B80), 0x3F80),  # 1 + 2**-8 rounds to even in bfloat16
        (11, (0x3F81, 0x3B80), 0x3F82),
        (11, (0x7F80, 0xFF80), 0x7FC0),  # inf - inf
    ],
)
def test_half_precision_is_rounded_after_each_addition(
    folder: Path, dtype: int, given: tuple[int, int], result: int
) -> None:
    body = f"""
    values = (ctypes.c_uint16 * 1)({given!r}[rank])
    print(all_reduce(values, dtype={dtype}), values[0])
    """
    assert outputs(folder, body) == [f"0 {result}"] * 2


def test_gathering_scattering_and_broadcast(folder: Path) -> None:
    body = """
    given, all_, one = floats(rank, rank + 10), floats(*[-1] * 4), floats(-1, -1)
    hccl.HcclAllGather(given, all_, u64(2), i32(4), group, None)
    print(list(all_))
    hccl.HcclReduceScatter(floats(1, 2, 3, 4), one, u64(2), i32(4), i32(0), group, None)
    print(list(one))
    hccl.HcclScatter(floats(*[5, 6, 7, 8] if rank == 1 else [0] * 4), one, u64(2), i32(4), u32(1), group, None)
    print(list(one))
    hccl.HcclBroadcast(given, u64(2), i32(4), u32(1), group, None)
    print(list(given))
    """
    first, second = outputs(folder, body)
    assert first.splitlines() == ["[0.0, 10.0, 1.0, 11.0]", "[2.0, 4.0]", "[5.0, 6.0]", "[1.0, 11.0]"]
    assert second.splitlines() == ["[0.0, 10.0, 1.0, 11.0]", "[6.0, 8.0]", "[7.0, 8.0]", "[1.0, 11.0]"]


def test_messages_of_both_ranks_cross_when_they_go_together(folder: Path) -> None:
    body = """
    class Item(ctypes.Structure):
        _fields_ = [("kind", i32), ("buffer", p), ("count", u64), ("type", i32), ("peer", u32)]
    n = 500_000  # more than a mailbox holds
    out, into = floats(*[rank + 1] * n), (ctypes.c_float * n)()
    peer = 1 - rank
    items = (Item * 2)(Item(0, ctypes.addressof(out), n, 4, peer), Item(1, ctypes.addressof(into), n, 4, peer))
    print(hccl.HcclBatchSendRecv(items, u32(2), group, None), into[0], into[n - 1])
    """
    assert outputs(folder, body) == ["0 2.0 2.0", "0 1.0 1.0"]


ONE_BY_ONE = """
core.ferry_refused.restype = ctypes.c_char_p
def send(values, peer):
    return hccl.HcclSend(values, u64(len(values)), i32(4), u32(peer), group, None)
def receive(count, peer):
    values = (ctypes.c_float * count)()
    assert hccl.HcclRecv(values, u64(count), i32(4), u32(peer), group, None) == 0
    return values
def crossed():
    return b"before either receives" in core.ferry_refused()
n = COUNT
"""


@pytest.mark.parametrize("count", [3, 32_768, 500_000], ids=["small", "one mailbox", "many mailboxes"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_sender_goes_on_before_its_message_is_received(folder: Path, count: int, ranks: int) -> None:
    body = ONE_BY_ONE.replace("COUNT", str(count)) + textwrap.dedent("""
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        first, second = floats(*[rank] * n), floats(*[rank + 10] * n)
        assert send(first, after) == send(second, after) == 0
        first[0] = second[n - 1] = -1  # what is sent was read already
        one, other = receive(n, before), receive(n, before)
        print(set(one), set(other))
        ranks_that_crossed = floats(crossed())
        assert all_reduce(ranks_that_crossed) == 0
        print(ranks_that_crossed[0] > 0)
    """)
    for rank, out in enumerate(outputs(folder, body, ranks)):
        sender = float((rank - 1) % ranks)
        assert out.splitlines() == [f"{{{sender}}} {{{sender + 10}}}", str(ranks == 2)]


def test_the_last_message_of_a_process_arrives(folder: Path) -> None:
    body = ONE_BY_ONE.replace("COUNT", "500_000") + textwrap.dedent("""
        import time
        if rank == 0:
            print(send(floats(*[3] * n), 1))
        else:
            time.sleep(1)
            print(set(receive(n, 0)), crossed())
    """)
    assert outputs(folder, body) == ["0", "{3.0} False"]


@pytest.mark.parametrize("leave", ["hccl.HcclCommDestroy(group)", ""], ids=["left", "ended"])
def test_nobody_waits_for_messages_that_both_ranks_leave(folder: Path, leave: str) -> None:
    body = ONE_BY_ONE.replace("COUNT", "500_000") + "core.ferry_set_number(b'timeout', 100)\n"
    body += f"print(send(floats(*[3] * n), 1 - rank))\n{leave}\n"
    assert outputs(folder, body) == ["0", "0"]


def test_ranks_that_ask_for_different_things_are_told_what_the_other_asked(folder: Path) -> None:
    ended = on_ranks(folder, "print(all_reduce(floats(*[1] * (4 + rank))))")
    assert [out.strip() for out, _ in ended] == [str(PARAMETER)] * 2
    for _, err in ended:
        assert "HcclAllReduce of 4 x float32" in err
        assert "HcclAllReduce of 5 x float32" in err


def test_a_rank_whose_process_has_ended_is_not_waited_for(folder: Path) -> None:
    ended = on_ranks(folder, "print(all_reduce(floats(1)) if rank == 0 else 'gone')")
    assert ended[0][0].strip() == str(REMOTE)
    assert "the process of rank 1" in ended[0][1]


def test_a_rank_that_does_not_come_is_waited_for_so_long(folder: Path, tmp_path: Path) -> None:
    body = f"""
    import os, time
    core.ferry_set_number(b"timeout", 1)
    if rank == 0:
        print(all_reduce(floats(1)), flush=True)
        open({str(tmp_path / "done")!r}, "w").close()
    while not os.path.exists({str(tmp_path / "done")!r}):
        time.sleep(0.05)
    """
    ended = on_ranks(folder, body)
    assert ended[0][0].strip() == str(TIMEOUT)
    assert "waited 1 s for another rank" in ended[0][1]


def test_a_type_that_nobody_can_add_is_refused(folder: Path) -> None:
    assert outputs(folder, "print(all_reduce(floats(1), dtype=12))") == [str(NOT_SUPPORTED)] * 2


def test_nothing_is_left_in_shared_memory(folder: Path) -> None:
    before = set(Path("/dev/shm").glob("ferry-*"))
    outputs(folder, "print(all_reduce(floats(1)))")
    assert set(Path("/dev/shm").glob("ferry-*")) == before


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(("0,1", 0), ("0,1", 1), 0), (("0,1", 0), ("0,1", 0), 1), (("0", 0), ("1", 0), 0), (("0,1", 1), ("1", 0), 1)],
    ids=["two cards", "one card", "one visible card each", "one card by two numbers"],
)
def test_two_ranks_need_two_cards(folder: Path, first: tuple[str, int], second: tuple[str, int], code: int) -> None:
    root = new_root(folder)
    script = PRELUDE + textwrap.dedent("""
        rank, root = int(sys.argv[2]), bytes.fromhex(sys.argv[3])
        core.ferry_set_text.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        core.ferry_set_text(b"visible_variable", b"VISIBLE")
        assert acl.aclrtSetDevice(int(sys.argv[4])) == 0
        hccl, group = ctypes.CDLL(folder + "/libhccl.so"), p()
        print(hccl.HcclCommInitRootInfo(ctypes.c_uint32(2), root, ctypes.c_uint32(rank), ctypes.byref(group)))
    """)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder), str(rank), root, str(device)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "VISIBLE": visible},
        )
        for rank, (visible, device) in enumerate((first, second))
    ]
    for process in started:
        out, err = process.communicate(timeout=HANGS)
        assert out.strip() == str(code), err
        assert ("each rank needs a card of its own" in err) == (code != 0)
