"""Device tensors in several processes at once: one memory, counted once, kept until both have let go."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT, run_snippet
from tests.warm_python import python

torch = pytest.importorskip("torch")
reductions: Any = pytest.importorskip("torch.multiprocessing").reductions

pytestmark = pytest.mark.rehearsal

START = """
import gc, os, queue, sys, time
import torch
import torch.multiprocessing as mp
{plugin}
DEVICE = "{device}"
NAMESPACE = getattr(torch, DEVICE, None)
torch.set_num_threads(1)

def allocated():
    gc.collect()
    return NAMESPACE.memory_allocated()

def until(condition):
    end = time.monotonic() + HANGS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
"""


class Run(NamedTuple):
    """What a rehearsed program left."""

    lines: list[str]
    err: str
    summary: dict[str, Any]

    def events(self, kind: str) -> set[tuple[str, str]]:
        return {(event["subject"], event["detail"]) for event in self.summary["events"] if event["kind"] == kind}


def rehearse(folder: Path, program: str, target: str = "npu", device: str = "npu", status: int = 0) -> Run:
    """Run a program, which has a file since children that are spawned read it again, and return what it left."""
    plugin = {"ptex": "import ptex", "sdaa": "import torch_sdaa"}.get(target, "")
    (folder / "program.py").write_text(START.format(plugin=plugin, device=device) + textwrap.dedent(program))
    command = [sys.executable, "-m", "torchferry.rehearsal", "-t", target, "--devices", "2"]
    command += ["--summary-file", str(folder / "summary.json"), "--", python(), str(folder / "program.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANGS, env=ENVIRONMENT, cwd=folder
    )
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Run(done.stdout.splitlines(), done.stderr, json.loads((folder / "summary.json").read_text()))


# --- one memory ---


def test_both_ends_see_the_writes_of_the_other(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def child(inbox, outbox, given):
            whole, row, weight, number = inbox.get()
            outbox.put([
                given.tolist(), whole.tolist(), row.tolist(), str(whole.device), whole.requires_grad,
                type(weight).__name__, weight.requires_grad, weight.grad is None, number.requires_grad,
                whole.untyped_storage().data_ptr() == row.untyped_storage().data_ptr(), row.storage_offset(),
                allocated(),
            ])
            row.fill_(7)
            with torch.no_grad():
                weight.mul_(3)
            outbox.put("written")
            inbox.get()
            outbox.put(whole.tolist())
            try:
                whole.resize_(1000)
            except RuntimeError as error:
                outbox.put(str(error).splitlines()[0])
            try:
                mp.reductions.reduce_tensor(row)
            except RuntimeError as error:
                outbox.put(str(error).splitlines()[0])

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            given = torch.arange(3.0, device=DEVICE)
            whole = torch.zeros(3, 2, device=DEVICE)
            weight = torch.nn.Parameter(torch.ones(2, device=DEVICE))
            number = torch.nn.Parameter(torch.ones(2, dtype=torch.int32, device=DEVICE), requires_grad=False)
            whole.share_memory_()
            before, address, owned = allocated(), whole.data_ptr(), whole.tolist()
            process = context.Process(target=child, args=(inbox, outbox, given))
            process.start()
            inbox.put((whole, whole[1], weight, number))
            print(*outbox.get(), sep="\\n")
            print(outbox.get())
            print(whole.tolist(), weight.tolist(), whole.data_ptr() == address, allocated() == before)
            whole[2] = 5
            inbox.put("look")
            for _ in range(3):
                print(outbox.get())
            process.join()
            print(process.exitcode)
        """,
    )
    assert run.lines == [
        "[0.0, 1.0, 2.0]",
        "[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]",
        "[0.0, 0.0]",
        "npu:0",
        "False",
        "Parameter",
        "True",
        "True",
        "False",
        "True",
        "2",
        "0",
        "written",
        "[[0.0, 0.0], [7.0, 7.0], [0.0, 0.0]] [3.0, 3.0] True True",
        "[[0.0, 0.0], [7.0, 7.0], [5.0, 5.0]]",
        "Trying to resize storage that is not resizable",
        "Attempted to send NPU tensor received from another process; this is not currently supported. Consider "
        "cloning before sending.",
        "0",
    ]
    assert run.events("sharing") == {("send", "it came from another process; send a clone")}


def test_memory_is_kept_until_the_receiver_lets_go_and_nothing_else_stays(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def child(inbox, outbox):
            files = len(os.listdir("/proc/self/fd"))
            kept = [inbox.get() for _ in range(300)]
            outbox.put((sum(each.sum().item() for each in kept), len(os.listdir("/proc/self/fd")) - files))
            inbox.get()
            del kept
            gc.collect()
            outbox.put("released")
            inbox.get()

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            shared_memory = set(os.listdir("/dev/shm"))
            process = context.Process(target=child, args=(inbox, outbox))
            process.start()
            torch.ones(1, device=DEVICE).sum().item()
            files = len(os.listdir("/proc/self/fd"))
            for number in range(300):
                inbox.put(torch.full((1000,), number, dtype=torch.int32, device=DEVICE))
            total, opened = outbox.get()
            print(total == 1000 * sum(range(300)), opened <= 2, len(os.listdir("/proc/self/fd")) - files <= 2)
            NAMESPACE.ipc_collect()
            print(allocated() == 300 * 4096)
            inbox.put("release")
            print(outbox.get())
            NAMESPACE.ipc_collect()
            print(allocated())
            inbox.put("end")
            process.join()
            print({name for name in os.listdir("/dev/shm") if not name.startswith("sem.")} - shared_memory)
        """,
    )
    assert run.lines == ["True True True", "True", "released", "0", "set()"]
    assert run.events("sharing") == set()
    assert "Producer process" not in run.err


@pytest.fixture
def allocated(rehearsed: Any) -> Callable[[], int]:
    """Bytes allocated since the test began, on the first device."""
    gc.collect()
    rehearsed.native.collect_shared()
    before = rehearsed.namespace.memory_allocated()
    return lambda: rehearsed.namespace.memory_allocated() - before


def test_what_comes_home_is_the_same_storage(device: str, allocated: Callable[[], int]) -> None:
    values = torch.arange(6.0, device=device)
    rebuild, arguments = reductions.reduce_tensor(values[2:])
    view = rebuild(*arguments)
    assert view.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    view.zero_()
    assert values.tolist() == [0, 1, 0, 0, 0, 0]
    assert allocated() == 512
    del view, values
    assert allocated() == 0


def test_the_receiver_may_choose_another_device(device: str) -> None:
    values = torch.arange(3.0, device=f"{device}:0")
    rebuild, arguments = reductions.reduce_tensor(values)
    other = rebuild(*arguments[:6], 1, *arguments[7:])
    assert (str(other.device), other.tolist()) == (f"{device}:1", [0, 1, 2])


def test_memory_that_was_let_go_elsewhere_is_found_before_memory_runs_out(
    device: str, native: Any, allocated: Callable[[], int]
) -> None:
    values = torch.ones(1 << 18, device=device)
    rebuild, arguments = reductions.reduce_tensor(values)
    del values
    assert allocated() == 1 << 20  # on its way
    there = rebuild(*arguments)
    assert there.sum().item() == 1 << 18
    used = native.memory(0).allocated
    native.set_capacity(used + 512)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 18, device=device)
    del there
    assert allocated() == 1 << 20
    assert torch.empty(1 << 18, device=device).numel() == 1 << 18
    assert allocated() == 0


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_empty_tensors_are_sent_too(device: str, shape: tuple[int, ...]) -> None:
    values = torch.empty(shape, device=device)
    rebuild, arguments = reductions.reduce_tensor(values)
    again = rebuild(*arguments)
    assert (again.shape, again.stride(), again.device.type) == (values.shape, values.stride(), device)


def test_a_shared_tensor_may_grow_and_is_its_own_then(device: str, allocated: Callable[[], int]) -> None:
    values = torch.ones(2, device=device)
    rebuild, arguments = reductions.reduce_tensor(values)
    values.resize_(1000).fill_(3)
    assert values.sum().item() == 3000
    assert allocated() == 512 + 4096
    old = rebuild(*arguments)
    assert old.tolist() == [1, 1]
    del old
    rebuild, arguments = reductions.reduce_tensor(values)
    assert rebuild(*arguments).sum().item() == 3000
    del values
    torch.empty(0, device=device)
    reductions.reduce_tensor(torch.ones(1, device=device))
    gc.collect()


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda device: torch.ones(2, device=device, requires_grad=True) * 2, "Cowardly refusing"),
        (lambda device: torch.ones(2, device=device).untyped_storage(), "try pickling a SDAA tensor instead"),
    ],
)
def test_what_cuda_refuses_to_send_is_refused(device: str, make: Callable[[str], Any], wanted: str) -> None:
    value = make(device)
    reduce = reductions.reduce_tensor if isinstance(value, torch.Tensor) else reductions.reduce_storage
    with pytest.raises(RuntimeError, match=wanted):
        reduce(value)


@pytest.mark.parametrize("handle", [b"", b"ferry", b"ferry 1 2 3 4 5", b"ferry -1 0 4096 8 x", b"\xff"])
def test_a_handle_that_is_none_is_refused(device: str, handle: bytes) -> None:
    _, arguments = reductions.reduce_tensor(torch.ones(2, device=device))
    rebuild = reductions.reduce_tensor(torch.ones(2, device=device))[0]
    with pytest.raises((RuntimeError, UnicodeDecodeError)):
        rebuild(*arguments[:7], handle, *arguments[8:])


def test_a_tensor_larger_than_what_was_sent_is_refused(device: str) -> None:
    rebuild, arguments = reductions.reduce_tensor(torch.ones(2, device=device))
    with pytest.raises(RuntimeError, match="does not fit"):
        rebuild(arguments[0], (1000,), *arguments[2:])


def test_writes_are_not_lost_while_another_thread_sends(device: str) -> None:
    size = 1 << 18
    for _ in range(20):
        values = torch.zeros(size, device=device)
        begin = threading.Barrier(2)

        def send(values: Any = values, begin: threading.Barrier = begin) -> None:
            begin.wait()
            reductions.reduce_tensor(values)

        thread = threading.Thread(target=send)
        thread.start()
        begin.wait()
        for _ in range(30):
            values.add_(1)
            torch.add(values, values, alpha=0, out=values)  # the storage several times in one call
        thread.join()
        values.add_(1)
        assert values.eq(31).all().item()


# --- lives ---


def test_a_tensor_whose_sender_has_gone_cannot_be_received(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def child(outbox):
            outbox.put(torch.ones(3, device=DEVICE))

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            outbox = context.Queue()
            process = context.Process(target=child, args=(outbox,))
            process.start()
            process.join()
            try:
                print(outbox.get())
            except RuntimeError as error:
                print(str(error).splitlines()[0].replace(str(process.pid), "PID"))
        """,
    )
    assert run.lines == [
        "NPU error: the memory of a tensor that process PID sent is not there: the process that sent it had ended. "
        "Keep that process until the receivers are done with the tensor, or send a copy on the CPU"
    ]
    assert run.events("sharing") == {("receive", "the process that sent it had ended")}
    assert (run.summary["would_fail"], run.summary["goes_on_without"]) == (0, 1)


@pytest.mark.parametrize("end", ["inbox.put('end')", "process.terminate()"], ids=["ended", "killed"])
def test_use_after_the_sender_has_gone_is_found(tmp_path: Path, end: str) -> None:
    run = rehearse(
        tmp_path,
        f"""
        def child(inbox, outbox):
            values = torch.ones(3, device=DEVICE)
            outbox.put(values)
            inbox.get()

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            process = context.Process(target=child, args=(inbox, outbox))
            process.start()
            values = outbox.get()
            print(values.sum().item())
            {end}
            process.join()
            time.sleep(0.01)
            print((values + 1).sum().item())
        """,
    )
    assert run.lines == ["3.0", "6.0"]
    assert run.events("sharing") == {("use", "the process that sent it had ended")}
    assert ("Producer process has been terminated before all shared NPU tensors released" in run.err) == (
        "inbox" in end
    )


def test_a_process_forked_after_use_cannot_receive(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def child(inbox, outbox):
            try:
                inbox.get()
            except RuntimeError as error:
                outbox.put(str(error).splitlines()[0])

        if __name__ == "__main__":
            context = mp.get_context("fork")
            inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
            values = torch.ones(3, device=DEVICE)
            inbox.put(values)
            process = context.Process(target=child, args=(inbox, outbox))
            process.start()
            print(outbox.get())
            process.join()
            print(values.tolist(), process.exitcode)
        """,
    )
    assert run.lines == [
        "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
        "start method",
        "[1.0, 1.0, 1.0] 0",
    ]


# --- the ways that programs send ---


def test_pipes_loaders_and_hogwild(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def through_pipe(end):
            values = end.recv()
            values.add_(1)
            end.send("added")
            end.recv()

        class OnDevice(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                return torch.full((2,), float(index), device=DEVICE)

        def train(rank, model, inputs, wanted):
            optimizer = torch.optim.SGD(model.parameters(), 0.02)
            for _ in range(60):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(inputs), wanted).backward()
                optimizer.step()

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=through_pipe, args=(theirs,))
            process.start()
            values = torch.zeros(3, device=DEVICE)
            ours.send(values)
            print(ours.recv(), values.tolist())
            ours.send("end")
            process.join()

            loader = torch.utils.data.DataLoader(
                OnDevice(), batch_size=4, num_workers=2, multiprocessing_context="spawn", persistent_workers=True
            )
            print([batch.sum().item() for batch in loader], str(next(iter(loader)).device))
            del loader

            torch.manual_seed(0)
            model = torch.nn.Linear(3, 1).to(DEVICE)
            model.share_memory()
            inputs = torch.randn(64, 3).to(DEVICE)
            wanted = inputs.sum(1, keepdim=True)
            first = torch.nn.functional.mse_loss(model(inputs), wanted).item()
            mp.spawn(train, args=(model, inputs, wanted), nprocs=2)
            print(torch.nn.functional.mse_loss(model(inputs), wanted).item() < first / 10)
        """,
    )
    assert run.lines == ["added [1.0, 1.0, 1.0]", "[12.0, 44.0] npu:0", "True"]
    assert run.events("sharing") == set()


def test_events_are_sent(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        """
        def child(inbox, outbox):
            event, values = inbox.get()
            event.synchronize()
            values.mul_(2)
            event.record()
            outbox.put((str(event.device), event.query()))
            inbox.get()

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            process = context.Process(target=child, args=(inbox, outbox))
            process.start()
            with NAMESPACE.device(1):
                event = NAMESPACE.Event(interprocess=True)
                values = torch.ones(2, device=DEVICE)
                event.record()
            inbox.put((event, values))
            print(*outbox.get())
            event.wait()
            print(values.tolist())
            inbox.put("end")
            process.join()
            for make in (lambda: NAMESPACE.Event(interprocess=True, enable_timing=True),
                         lambda: NAMESPACE.Event().ipc_handle(),
                         lambda: NAMESPACE.Event.from_ipc_handle(0, b"x" * 64)):
                try:
                    make()
                except RuntimeError as error:
                    print("refused")
        """,
    )
    assert run.lines == ["npu:1 True", "[2.0, 2.0]", "refused", "refused", "refused"]


# --- targets ---

SEND = """
from torch.multiprocessing import reductions
values = torch.ones(2, device=DEVICE)
values.share_memory_()
try:
    rebuild, arguments = reductions.reduce_tensor(values)
    print(rebuild(*arguments).tolist())
except RuntimeError as error:
    print(str(error).split(" [")[0])
"""


@pytest.mark.parametrize(
    ("target", "device", "line", "kind", "events"),
    [
        ("npu", "npu", "[1.0, 1.0]", "sharing", set()),
        (
            "npu@2.5.1",
            "npu",
            "_share_fd_: only available on CPU",
            "sharing",
            {("send", "torch_npu does not share tensors")},
        ),
        ("musa", "musa", "[1.0, 1.0]", "sharing", set()),
        ("gcu", "gcu", "[1.0, 1.0]", "sharing", set()),
        ("sdaa", "sdaa", "[1.0, 1.0]", "unverified-api", {("torch.multiprocessing (tensors of sdaa)", "")}),
        ("ptex", "xla", "_share_fd_: only available on CPU", "sharing", {("send", "ptex does not share tensors")}),
    ],
)
def test_each_target_shares_as_its_plugin_does(
    tmp_path: Path, target: str, device: str, line: str, kind: str, events: set[tuple[str, str]]
) -> None:
    run = rehearse(tmp_path, SEND, target, device)
    assert run.lines == [line]
    assert run.events(kind) >= events
    assert (run.summary["goes_on_without"] > 0) == line.startswith("_share")  # the program catches it and prints


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (
            "npu",
            "from torch_npu.multiprocessing.reductions import rebuild_npu_tensor as rebuild\n"
            "share, new = values.untyped_storage()._share_npu_, torch.UntypedStorage._new_shared_npu\n",
        ),
        (
            "musa",
            "from torch.multiprocessing.reductions import rebuild_cuda_tensor as rebuild\n"
            "share, new = values.untyped_storage()._share_cuda_, torch.UntypedStorage._new_shared_cuda\n"
            "assert values.is_shared() and not torch.ones(2).is_shared()\n",
        ),
        (
            "gcu",
            "from torch.multiprocessing.reductions import reduce_tensor; rebuild = reduce_tensor(values)[0]\n"
            "share, new = values._typed_storage()._share_gcu_, torch.UntypedStorage._new_shared_gcu\n",
        ),
    ],
)
def test_the_plugins_own_names_are_there(target: str, code: str) -> None:
    out, _ = run_snippet(
        "values = torch.ones(2, device=device)\n"
        + code
        + "from torch.multiprocessing import reductions\n"
        + "print(rebuild(*reductions.reduce_tensor(values)[1]).tolist(), len(share()), new(*share()).nbytes())\n",
        target,
    )
    assert out == "[1.0, 1.0] 8 8\n"
