"""The simulated driver in C, called as a plugin calls it; no torch, no wheel."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.processes import HANGS
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.backends.visible_cards import read_list
from torchferry.core.errors import TorchferryError
from torchferry.rehearsal import build
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import SimulatedDriver, load_driver

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler"),
]

NO_CONTEXT, BAD_DEVICE, BAD_ARGUMENT, OUT_OF_MEMORY, NOT_SIMULATED = 107002, 107001, 107000, 207001, 207000


@pytest.fixture(scope="module")
def driver() -> SimulatedDriver:
    description = load_driver(registry.choose("npu").backend)
    assert description is not None
    return description


@pytest.fixture(scope="module")
def folder(driver: SimulatedDriver) -> Path:
    return building.driver_folder(driver)


PRELUDE = """
import ctypes, sys, threading
folder = sys.argv[1]
core = ctypes.CDLL(folder + "/libtorchferry_driver.so", ctypes.RTLD_GLOBAL)
acl = ctypes.CDLL(folder + "/libascendcl.so", ctypes.RTLD_GLOBAL)
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
p, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
core.ferry_set_number.argtypes = [ctypes.c_char_p, number]
core.ferry_set_number(b"devices", 2)
core.ferry_refused.restype = ctypes.c_char_p
for name in ("aclrtFree", "aclrtFreeHost", "aclrtReleaseMemAddress", "aclrtUnmapMem", "aclrtFreePhysical"):
    getattr(acl, name).argtypes = [p]
def malloc(n):
    pointer = p()
    return acl.aclrtMalloc(ctypes.byref(pointer), size(n), 0), pointer
"""


def in_driver(folder: Path, body: str, *, environment: dict[str, str] | None = None) -> str:
    """Run Python that calls the driver in a process of its own, whose devices and memory are its own."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), str(folder)],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_thread_has_no_device_before_it_sets_one(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        device = ctypes.c_int32(-5)
        print(acl.aclrtGetDevice(ctypes.byref(device)), device.value, malloc(8)[0])
        print(acl.aclrtSetDevice(2), acl.aclrtSetDevice(-1), acl.aclrtSetDevice(1))
        print(acl.aclrtGetDevice(ctypes.byref(device)), device.value)
        threading.Thread(target=lambda: print(acl.aclrtGetDevice(ctypes.byref(device)))).start()
        """,
    )
    assert out.split() == [
        *(str(NO_CONTEXT), "-5", str(NO_CONTEXT)),
        *(str(BAD_DEVICE), str(BAD_DEVICE), "0"),
        *("0", "1", str(NO_CONTEXT)),
    ]


LISTS = [
    *(
        "",
        "0",
        "1,0",
        "0,7",
        "x",
        "0,1,0",
        "-1",
        "0,0",
        "0,1",
        "1",
        "7",
        "0,1,7",
        "1,7,0",
        " 0",
        "0 ,1",
        "0, 1",
        "0x,1",
    ),
    *("0,,1", ",0", "0,1,", "+1", "00,1", "0,1,1", "99999999999999999999", "1,99999999999999999999,0"),
]
"""On a machine of two devices; what a list gives is what `backends/visible_cards.py` says."""


@pytest.mark.parametrize("rises", [True, False])
def test_lists_of_visible_devices_are_read_as_the_table_of_the_target_says(folder: Path, rises: bool) -> None:
    script = """
        import os
        core.ferry_set_text.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        for number, listed in enumerate(LISTS):
            if os.fork():
                os.wait()
                continue
            os.environ["VISIBLE"] = listed
            ctypes.CDLL(None).setenv(b"VISIBLE", listed.encode(), 1)
            core.ferry_set_text(b"visible_variable", b"VISIBLE")
            core.ferry_set_number(b"visible_rising", RISES)
            n = ctypes.c_uint32(9)
            acl.aclrtGetDeviceCount(ctypes.byref(n))
            print(number, n.value, flush=True)
            os._exit(0)
        """
    out = in_driver(folder, script.replace("LISTS", repr(LISTS)).replace("RISES", str(int(rises))))
    counts = {LISTS[int(number)]: int(count) for number, count in (line.split() for line in out.splitlines())}
    if not rises:
        assert (counts["1,0"], counts["0,1,0"], counts["0,0"]) == (2, 2, 2)
        return
    target, wanted = Target.named("npu"), {}
    for listed in LISTS:
        reading = read_list(target, listed, 2)
        wanted[listed] = reading.got if reading is not None else 0  # hidden on purpose, or no number of a card
    assert counts | {listed: 0 for listed in LISTS if read_list(target, listed, 2) is None} == wanted
    assert counts["1,0"] == counts["0,1,0"] == counts["0,0"] == 0
    assert (counts["0,1"], counts["0,7"], counts["0 ,1"], counts["0x,1"], counts[" 0"]) == (2, 1, 1, 1, 0)


def test_memory_ends_where_the_cards_does_and_comes_back(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        core.ferry_set_number(b"memory", 1 << 20)
        acl.aclrtSetDevice(0)
        free, total = size(), size()
        first, a = malloc(700_000)
        second, b = malloc(700_000)
        acl.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
        print(first, second, b.value, a.value % 512, total.value - free.value)
        print(acl.aclGetRecentErrMsg().decode())
        print(acl.aclGetRecentErrMsg())
        acl.aclrtSetDevice(1)
        print(malloc(700_000)[0])
        print(acl.aclrtFree(a), acl.aclrtFree(a))
        acl.aclrtSetDevice(0)
        print(malloc(1 << 20)[0], malloc(1)[0], malloc((1 << 64) - 1)[0])
        """,
    ).splitlines()
    assert out[0] == f"0 {OUT_OF_MEMORY} None 0 700416"
    assert "device 0 has 1048576 bytes, 700416 of them in use" in out[1]
    assert out[2] == "None"  # a text is told once
    assert out[3:] == ["0", f"0 {BAD_ARGUMENT}", f"0 {OUT_OF_MEMORY} {OUT_OF_MEMORY}"]


def test_an_allocation_fails_as_ordered(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        core.ferry_fail_allocation.argtypes = [number]
        acl.aclrtSetDevice(0)
        core.ferry_fail_allocation(2)
        print(malloc(8)[0], *(malloc(5000)[0] for i in range(4)), malloc(8)[0])
        core.ferry_fail_allocation(1)
        print(malloc(8)[0], malloc(5000)[0], malloc(8)[0])
        """,
    )
    bad = str(OUT_OF_MEMORY)  # also when it is asked for again, after the plugin has freed what it could
    assert out.split() == ["0", bad, bad, bad, "0", "0", bad, "0", "0"]


def test_a_copy_stays_inside_of_its_block(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        acl.aclrtMemcpy.argtypes = [p, size, p, size, ctypes.c_int]
        acl.aclrtMemset.argtypes = [p, size, ctypes.c_int32, size]
        acl.aclrtSetDevice(0)
        _, a = malloc(512)
        text = ctypes.create_string_buffer(b"x" * 600)
        print(acl.aclrtMemcpy(a, 512, text, 512, 1), acl.aclrtMemcpy(a, 600, text, 600, 1))
        print(acl.aclrtMemcpy(a, 100, text, 200, 1), acl.aclrtMemcpy(None, 8, text, 8, 1))
        print(acl.aclrtMemset(a, 512, 1, 512), acl.aclrtMemset(a, 1024, 1, 513), ctypes.string_at(a, 2))
        kinds = (ctypes.c_uint32 * 7)()
        host = p()
        acl.aclrtMallocHost(ctypes.byref(host), size(64))
        acl.aclrtPointerGetAttributes.argtypes = [p, p]
        for pointer in (a, host, ctypes.addressof(text)):
            acl.aclrtPointerGetAttributes(pointer, kinds)
            print(kinds[1])
        """,
    ).splitlines()
    bad = str(BAD_ARGUMENT)
    assert out == [f"0 {bad}", f"{bad} {bad}", f"0 {bad} b'\\x01\\x01'", "1", "0", "2"]


def test_a_forked_process_leaves_the_memory_of_its_parent_alone(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        import os
        acl.aclrtSetDevice(0)
        _, kept = malloc(4096)
        ctypes.memset(kept, ord("A"), 4096)
        if os.fork() == 0:
            _, other = malloc(4096)
            ctypes.memset(other, ord("C"), 4096)
            os._exit(acl.aclrtFree(kept))
        print(os.wait()[1], ctypes.string_at(kept, 2))
        _, fresh = malloc(4096)
        print(ctypes.string_at(fresh, 2), acl.aclrtFree(kept), acl.aclrtFree(fresh))
        """,
    )
    assert out.splitlines() == ["0 b'AA'", "b'\\x00\\x00' 0 0"]


def test_a_key_names_memory_of_devices_or_nothing(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_bytes(b"x" * 4096)
    out = in_driver(
        folder,
        f"""
        import os
        mine = os.open({str(file)!r}, os.O_RDWR)
        acl.aclrtSetDevice(0)
        _, own = malloc(4096)
        ctypes.memset(own, ord("A"), 4096)
        key, taken = ctypes.create_string_buffer(256), p()
        print(acl.aclrtIpcMemGetExportKey(own, size(4096), key, size(256), 0))
        print(acl.aclrtIpcMemImportByKey(ctypes.byref(taken), key, 0), ctypes.string_at(taken, 2))
        key.value = f"{{os.getpid()}} {{mine}} 0 4096 0".encode()
        print(acl.aclrtIpcMemImportByKey(ctypes.byref(taken), key, 0))
        """,
    )
    assert out.splitlines() == ["0", "0 b'AA'", str(BAD_ARGUMENT)]


def test_addresses_first_and_memory_later(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        core.ferry_set_number(b"memory", 8 << 20)
        acl.aclrtReserveMemAddress.argtypes = [p, size, size, p, ctypes.c_uint64]
        acl.aclrtMallocPhysical.argtypes = [p, size, p, ctypes.c_uint64]
        acl.aclrtMapMem.argtypes = [p, size, size, p, ctypes.c_uint64]
        core.ferry_memory_used.restype = number
        early = p()
        print(acl.aclrtReserveMemAddress(ctypes.byref(early), 512, 0, None, 1), acl.aclrtReleaseMemAddress(early))
        acl.aclrtSetDevice(1)
        address, handle, other = p(), p(), p()
        properties = (ctypes.c_uint32 * 16)(0, 0, 0, 1)
        print(acl.aclrtReserveMemAddress(ctypes.byref(address), 64 << 20, 0, None, 0))
        print(acl.aclrtMallocPhysical(ctypes.byref(handle), 2 << 20, properties, 0), core.ferry_memory_used(1) >> 20)
        print(acl.aclrtMallocPhysical(ctypes.byref(other), 7 << 20, properties, 0))
        print(acl.aclrtMapMem(address, 2 << 20, 0, handle, 0), acl.aclrtMapMem(address, 3 << 20, 0, handle, 0))
        ctypes.memset(address, 7, 2 << 20)
        print(acl.aclrtUnmapMem(address), acl.aclrtUnmapMem(address))
        print(acl.aclrtMapMem(address.value + (2 << 20), 2 << 20, 0, handle, 0))
        print(ctypes.string_at(address.value + (2 << 20), 1))
        print(acl.aclrtFreePhysical(handle), core.ferry_memory_used(1))
        print(acl.aclrtUnmapMem(address.value + (2 << 20)), acl.aclrtReleaseMemAddress(address))
        """,
    ).splitlines()
    bad = str(BAD_ARGUMENT)
    assert out[0] == "0 0"  # addresses need no device
    assert out[1:] == ["0", "0 2", str(OUT_OF_MEMORY), f"0 {bad}", f"0 {bad}", "0", "b'\\x07'", "0 0", "0 0"]


def test_events_have_times(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        import time
        acl.aclrtSetDevice(0)
        for name in ("aclrtRecordEvent", "aclrtEventElapsedTime"):
            getattr(acl, name).argtypes = None
        a, b, elapsed = p(), p(), ctypes.c_float(-1)
        acl.aclrtCreateEventExWithFlag(ctypes.byref(a), 8), acl.aclrtCreateEventExWithFlag(ctypes.byref(b), 8)
        print(acl.aclrtEventElapsedTime(ctypes.byref(elapsed), a, b))
        acl.aclrtRecordEvent(a, None); time.sleep(0.02); acl.aclrtRecordEvent(b, None)
        print(acl.aclrtEventElapsedTime(ctypes.byref(elapsed), a, b), elapsed.value >= 20)
        for flags in (1, 0x40):  # without a time, and of several processes
            c = p()
            acl.aclrtCreateEventExWithFlag(ctypes.byref(c), flags)
            acl.aclrtRecordEvent(c, None)
            print(acl.aclrtEventElapsedTime(ctypes.byref(elapsed), a, c))
        """,
    ).split()
    assert out == [str(BAD_ARGUMENT), "0", "True", "107006", "207000"]


def test_every_refused_entry_point_says_its_name(driver: SimulatedDriver, folder: Path) -> None:
    out = in_driver(
        folder,
        f"""
        for name in {driver.refused!r}:
            code = getattr(acl, name)(None)
            print(name, code, acl.aclGetRecentErrMsg().decode())
        print(len(core.ferry_refused().splitlines()))
        """,
    ).splitlines()
    for name, line in zip(driver.refused, out, strict=False):
        assert line == f"{name} {NOT_SIMULATED} [simulated driver] {name} is not simulated"
    assert out[-1] == str(len(driver.refused))


def test_every_entry_point_of_the_table_exists_once(driver: SimulatedDriver, folder: Path) -> None:
    core = ctypes.CDLL(str(building.driver_core(folder)))
    for name in (*driver.accepted, *driver.refused):
        assert hasattr(core, name), name
    written = "".join(path.read_text() for path in building.sources(driver))
    for name in (*driver.accepted, *driver.refused):
        assert not re.search(rf"FERRY_EXPORT [\w *]+\b{name}\(", written), f"{name} is in C and in the table"


def test_each_library_leads_to_the_same_driver(driver: SimulatedDriver, folder: Path) -> None:
    names = [name for name in driver.libraries if not hasattr(ctypes.CDLL(str(folder / name)), "aclInit")]
    assert names == []


def test_graph_operators_are_computed_or_refused_by_name(folder: Path) -> None:
    out = in_driver(
        folder,
        """
        acl.aclCreateTensorDesc.restype = acl.aclCreateDataBuffer.restype = p
        kept = []  # the driver holds addresses
        def tensor(dtype, array, *sizes):
            kept.append(array)
            return (p(acl.aclCreateTensorDesc(dtype, len(sizes), (number * len(sizes))(*sizes), 2)),
                    p(acl.aclCreateDataBuffer(array, size(ctypes.sizeof(array)))))
        def execute(name, inputs, output):
            d, b = (p * len(inputs))(*(i[0] for i in inputs)), (p * len(inputs))(*(i[1] for i in inputs))
            return acl.aclopCompileAndExecute(name, len(inputs), d, b, 1, (p * 1)(output[0]), (p * 1)(output[1]),
                                              None, 0, 0, None, None)
        f = ctypes.c_float
        given, wide = (f * 3)(1, 2, 3), (f * 5)(9, 9, 9, 9, 9)
        row, out = tensor(0, given, 1, 3), tensor(0, wide, 1, 5)
        print(execute(b"PadV3", [row, tensor(3, (ctypes.c_int32 * 4)(0, 0, 0, 2), 4)], out), list(wide))
        print(execute(b"PadV3", [row, tensor(3, (ctypes.c_int32 * 4)(0, 0, 1, 1), 4)], out))
        print(acl.aclGetRecentErrMsg().decode())
        print(execute(b"Fill", [tensor(9, (number * 1)(5), 1), tensor(0, (f * 1)(4), 1)], out), list(wide))
        print(execute(b"MatMul", [row], out), acl.aclGetRecentErrMsg().decode())
        """,
    ).splitlines()
    assert out[0] == "0 [1.0, 2.0, 3.0, 0.0, 0.0]"
    assert out[1] == "500002"
    assert "PadV3" in out[2]
    assert out[3] == "0 [4.0, 4.0, 4.0, 4.0, 4.0]"
    assert out[4] == "500002 [simulated driver] the graph operator MatMul is not computed here"


def test_the_c_compiles_without_a_warning(driver: SimulatedDriver, tmp_path: Path) -> None:
    written = tmp_path / "entry_points.c"
    written.write_text(building.stubs(driver))
    flags = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    call = building.command(driver, building.c_compiler(), written, tmp_path / "none", flags)
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PROGRAM = Path(__file__).with_name("driver_program.c")
ARM, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PRINTED = """\
devices 2: 107002 107001 0, device 1, in a new thread 107002
memory 0 207001: [simulated driver] device 1 has 4194304 bytes, 3145728 of them in use: no room for 2097152
aligned 1, 1048576 of 4194304 available
copied 0 'carried' '---ried', too far 107000
pointer of device 1 kind 1
freed 0, twice 107000, pinned 0
addresses 0
streams 0, too early 107000, 1 call, waited 1, elapsed 1
refused 207000: [simulated driver] aclrtValueWait is not simulated
ranks 0 0, written by the other 'i'
"""


@pytest.mark.parametrize("machine", ["this", "aarch64"])
def test_a_program_that_is_linked_with_the_driver_runs(
    driver: SimulatedDriver, folder: Path, tmp_path: Path, machine: str
) -> None:
    compiler, runner = building.c_compiler(), []
    if machine == "aarch64":
        emulator = shutil.which(EMULATOR)
        if shutil.which(ARM) is None or emulator is None:
            pytest.skip(f"no {ARM} or no {EMULATOR} (g++-aarch64-linux-gnu, qemu-user)")
        compiler, runner = ARM, [emulator, "-L", "/usr/aarch64-linux-gnu"]
        folder = tmp_path / "driver"
        folder.mkdir()
        building.make(driver, compiler, folder)
    program = tmp_path / "program"
    libraries = ["-ltorchferry_driver", "-lascendcl", "-lhccl", "-pthread", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    flags = ["-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(PROGRAM), "-o", str(program), *libraries], check=True)
    done = subprocess.run([*runner, str(program)], capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr


def test_what_does_not_compile_says_why(
    driver: SimulatedDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'x.c:1: error: no such thing' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(TorchferryError, match="no such thing"):
        building.driver_folder(driver)
    assert [path.name for path in (tmp_path / "cache" / "rehearsal").iterdir() if path.is_dir()] == []


def test_without_a_compiler_its_name_is_asked_for(
    driver: SimulatedDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "absent"))
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))  # a driver that was built before would serve
    with pytest.raises(TorchferryError, match="no C compiler"):
        building.driver_folder(driver)


FAKE_COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo fake {version}; exit 0; fi
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
{body}
"""


def fake_compiler(folder: Path, body: str, version: str = "1.0") -> Path:
    path = folder / "cc"
    path.write_text(FAKE_COMPILER.format(version=version, body=body))
    path.chmod(0o755)
    return path


def test_another_version_of_the_compiler_is_another_driver(
    driver: SimulatedDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    folders = []
    for version in ("1.0", "1.0", "2.0"):
        monkeypatch.setenv("CC", str(fake_compiler(tmp_path, 'echo built > "$out"', version)))
        build.compiler_version.cache_clear()
        folders.append(building.driver_folder(driver))
    assert folders[0] == folders[1] != folders[2]


def test_a_killed_build_of_the_driver_leaves_nothing_in_the_way(
    driver: SimulatedDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, 'echo part > "$out"; sleep 60')))
    code = """
    from torchferry.backends import registry
    from torchferry.rehearsal.driver import building, description
    building.driver_folder(description.load_driver(registry.choose("npu").backend))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    try:
        deadline = time.monotonic() + HANGS
        while not list((tmp_path / "cache").rglob("*.so")) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert list((tmp_path / "cache").rglob("*.so"))
    fake_compiler(tmp_path, 'echo whole > "$out"')
    folder = building.driver_folder(driver)
    assert building.driver_core(folder).read_text() == "whole\n"
    assert [path for path in folder.parent.iterdir() if path.is_dir()] == [folder]


def test_a_disk_without_room_is_the_cache_s_fault(
    driver: SimulatedDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    full = os.strerror(errno.ENOSPC)
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, f"echo 'fatal error: x.o: {full}' >&2; exit 1")))
    with pytest.raises(TorchferryError, match="cannot write in the cache"):
        building.driver_folder(driver)
