"""Logs in the forms of real ones: what failed first, where, and what only follows from it."""

from __future__ import annotations

import gzip
import json
import os
import re
import string
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.process import torchferry
from tests.diagnosis import healthy
from torchferry.backends import registry
from torchferry.backends.errors import errors_of_all
from torchferry.diagnosis import inputs, report
from torchferry.diagnosis.inputs import LogReader
from torchferry.diagnosis.judging import RunDiagnosis, diagnose
from torchferry.diagnosis.literals import CODE_WORDS, LiteralSearch
from torchferry.diagnosis.places import moment_of, writer_of_line, writer_of_path
from torchferry.diagnosis.scanning import Scan

ENTRIES = tuple(
    entry for entry in errors_of_all(registry.load(name) for name in registry.built_in()) if "log" in entry.where
)


def explained(*paths: Path) -> RunDiagnosis:
    return diagnose(Scan(LogReader(paths), ENTRIES))


def logs(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return folder / "logs"


def answer(diagnosis: RunDiagnosis) -> str:
    if diagnosis.first is not None:
        return diagnosis.first.entry.key
    return diagnosis.raised.error.kind if diagnosis.raised is not None else ""


OOM = (
    "NPU out of memory. Tried to allocate {size} (NPU 0; 60.00 GiB total capacity; {allocated} GiB already allocated; "
    "{allocated} GiB current active; {free} free; {reserved} GiB reserved in total by PyTorch)"
)
SAID = {
    "ModuleNotFoundError: No module named 'ptex'": "ptex/plugin-not-found",
    "ModuleNotFoundError: No module named 'ptexts'": "common/module-missing",
    "error: shared memory (42904) exceeds limit (28672) in function '_ZL22k'": "musa/shared-memory-limit",
    "RuntimeError: operator aten::foo is not implemented for NPU": "npu/guide-operator-missing",
    "RuntimeError: nms_impl: implementation for device musa:0 not found.": "common/library-without-device",
    "RuntimeError: carafe_forward_impl: implementation for device cpu not found.": "common/library-without-device",
    "RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB": "common/memory-unsaid",
    'loc("k.mlir":3:3): error: ub overflow, requires 3072000 bits while 1572864 bits available!': (
        "npu/triton-buffer-overflow"
    ),
    "               NVRM: fallen off the bus and is not responding to commands.": "common/card-off-the-bus",
    "EJ0003: [PID: 9] Failed to bind the IP port. Reason: The port is bound.": "npu/ej0003",
    "[PID: 9] 2026-01-01-00:00:00.1 Get_Socket_Timeout(EI0006): Getting socket times out.": "npu/ei0006",
    "RuntimeError: ACL stream synchronize failed, error code:507035": "npu/acl-507035",
    "wait for compute device to finish failed, runtime result = 507014.[FUNC:X]": "npu/acl-507014",
    "EZ9999: Inner Error!\n  there is an exception of aivec error, core id is 1": "npu/kernel-exception",
    "fault kernel_name=Add_1_mix, error code = 507015": "npu/fault-kernel",
    "detail:EZ1001: [PID: 9] 2026-01-01-00:00:00.1 self not implemented for DT_DOUBLE, in [DT_INT]": "npu/ez1001",
    "call aclnnCast failed, detail:EZ9999: Inner Error! Op Cast does not has any binary. 561000": "npu/no-binary",
    "ERROR Please run 'source set_env.sh' in the CANN installation path.": "npu/set-env",
    "ImportError: libatb.so: cannot open shared object file: No such file": "npu/nnal-not-sourced",
    "ImportError: libhccl.so: cannot open shared object file: No such file": "npu/cann-not-on-path",
    "ModuleNotFoundError: No module named 'torch_npu._C'": "npu/plugin-source-folder",
    "ImportError: /usr/local/musa/lib/libmusa.so.1.0: undefined symbol: PVRSRVGetDevInfo": "musa/driver-older",
    "ImportError: libmusa.so.4: cannot open shared object file: No such file": "musa/other-sdk",
    "ImportError: libmupti.so.0.2: cannot open shared object file: No such file": "musa/other-sdk",
    "[1.5] MTGPU:(Error): PID 17 experienced error Guilty Lockup (0x1)": "musa/lockup",
    "ImportError: libsdaart.so: cannot open shared object file: No such file": "sdaa/toolkit-not-on-path",
    "ImportError: libtopsrt.so.1: cannot open shared object file: No such file": "gcu/libraries-not-on-path",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file": "common/cuda-library-missing",
    "ImportError: libfoo.so: cannot open shared object file: No such file": "common/library-missing",
    "ImportError: /a/flash.so: undefined symbol: _ZN2at": "common/undefined-symbol",
    OOM.format(size="22.00 MiB", allocated="10.2", free="19.52 MiB", reserved="10.6"): "common/memory-elsewhere",
    OOM.format(size="5.00 GiB", allocated="49.0", free="1.30 GiB", reserved="57.5"): "common/memory-fragmented",
    OOM.format(size="72.00 MiB", allocated="57.0", free="5.00 MiB", reserved="58.3"): "common/memory-full",
    "NPU out of memory. Tried to allocate more than 1EB memory.": "common/memory-nonsense",
    "[Thu Nov 26 10:00:00 2026] Memory cgroup out of memory: Killed process 7 (python)": "common/killed-for-memory",
    "slurmstepd: error: *** JOB 4 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***": "common/slurm-time",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. out of shared memory": "common/bus-error",
    "exits with return code = -11": "common/segmentation-fault",
    "failed (exitcode: -9) local_rank: 5 (pid: 26) of binary: python": "common/exit-killed",
    "[E1 socket.cpp:1] [c10d] The client socket has timed out after 1ms while trying": "common/master-unreachable",
    "RuntimeError: The server socket has failed to bind (errno: 98 - Address already in use).": "common/port-in-use",
    "[rank0]:[E1 x.cpp] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5": "common/collective-timeout",
    "RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU": "common/forked-device",
    "RuntimeError: Expected to have finished reduction in the prior iteration": "common/ddp-unused",
    "[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!": "npu/compile-process",
    "Traceback (most recent call last):\n  File 't.py'\nValueError: nobody knows": "ValueError",
    "all is well, no error: 507035 tokens, 0 failed": "",
}


@pytest.mark.parametrize("text", SAID, ids=[*map(str, SAID.values())])
def test_a_message_has_its_entry(text: str, tmp_path: Path) -> None:
    assert answer(explained(logs(tmp_path, {"a.log": f"before\n{text}\nafter\n"}))) == SAID[text]


TIMEOUT = "EI0002: [PID: 9] 2026-11-26-10:30:0{rank}.1 The wait execution of the Notify register times out.\n"


def test_a_cause_is_apart_from_what_follows_from_it(tmp_path: Path) -> None:
    """Three ranks wait for the one that failed half an hour before; the launcher then ends them."""
    files = {
        f"job/attempt_0/{rank}/stderr.log": "2026-11-26 10:00:00 INFO start\n"
        + (TIMEOUT.format(rank=rank) if rank != 2 else "")
        for rank in range(4)
    }
    files["job/attempt_0/2/stderr.log"] += (
        '[rank2]: Traceback (most recent call last):\n[rank2]:   File "/w/train.py", line 12, in step\n'
        "[rank2]:     loss.backward()\n"
        f"[rank2]: RuntimeError: {OOM.format(size='1.00 GiB', allocated='58.0', free='5.00 MiB', reserved='58.3')}\n"
    )
    files["launcher.log"] = (
        "E1126 10:30:10.5 api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 26) of binary: python\n"
        "ChildFailedError: \nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-11-26_10:00:05\n"
        "  host      : node7\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 26)\n"
    )
    diagnosis = explained(logs(tmp_path, files))
    assert diagnosis.first is not None
    assert diagnosis.first.entry.key == "common/memory-full"
    assert diagnosis.first.first.writer.rank == 2
    assert diagnosis.raised is not None
    assert diagnosis.raised.error.frame is not None
    assert (diagnosis.raised.error.frame.file, diagnosis.raised.error.frame.line) == ("/w/train.py", 12)
    assert diagnosis.causes == ()
    waiting = next(each for each in diagnosis.consequences if each.entry.key == "npu/ei0002")
    assert sorted(sighting.writer.rank or 0 for sighting in waiting.all) == [0, 1, 3]
    text = "\n".join(report.lines(diagnosis, "en"))
    assert "rank 0, rank 1, rank 3" in text
    assert "/w/train.py:12 (step)" in text


def test_the_earliest_of_two_causes_is_first_by_the_clock_and_not_by_the_name(tmp_path: Path) -> None:
    late = "2026-11-26 11:00:00 x\nOSError: [Errno 28] No space left on device\n"
    early = "2026-11-26 10:00:00 x\nEJ0003: Failed to bind the IP port\n"
    folder = logs(tmp_path, {"a.log": late, "node1/z.log": early})
    diagnosis = explained(folder)
    assert answer(diagnosis) == "npu/ej0003"
    assert [each.entry.key for each in diagnosis.causes] == ["common/disk-full-log"]
    # without the times nobody knows, and that is said
    for path in (folder / "a.log", folder / "node1/z.log"):
        path.write_text(path.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
    assert [doubt.template for doubt in explained(folder).doubts] == [
        "the logs do not all say when, so the order between files is not known"
    ]


def test_where_no_log_says_when_the_launcher_says_who_ended_first(tmp_path: Path) -> None:
    summary = (
        "Root Cause (first observed failure):\n[0]:\n  host      : n1\n"
        "  rank      : 5 (local_rank: 5)\n  exitcode  : 1 (pid: 26)\n"
    )
    files = {
        "rank_1.log": "OSError: [Errno 28] No space left on device\n",
        "rank_5.log": "EJ0003: Failed to bind the IP port\n",
        "zz.log": summary,
    }
    assert answer(explained(logs(tmp_path, files))) == "npu/ej0003"


def test_a_line_of_a_summary_speaks_of_the_rank_that_stands_above_it(tmp_path: Path) -> None:
    """Its other rank ended first, so that the launcher's own line names that one."""
    entry = (
        "  rank      : {0} (local_rank: {0})\n  exitcode  : {1} (pid: 2{0}) {2}\n"
        "  error_file: <N/A>\n  traceback : {3}\n"
    )
    text = (
        "E1126 10:30:10.5 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 20) of binary: python\n"
        "ChildFailedError: \nFailures:\n[1]:\n" + entry.format(0, 1, "", "To enable traceback see: x")
        + "Root Cause (first observed failure):\n[0]:\n"
        + entry.format(1, -9, " (SIGKILL)", "Signal 9 (SIGKILL) received by PID 21")
    )  # fmt: skip
    diagnosis = explained(logs(tmp_path, {"run.log": text}))
    assert answer(diagnosis) == "common/exit-killed"
    assert diagnosis.first is not None
    assert {sighting.writer.rank for sighting in diagnosis.first.all} == {1}


def test_clocks_of_hosts_may_differ_and_that_is_said(tmp_path: Path) -> None:
    files = {
        "node1/a.log": "2026-11-26 10:00:00 OSError: [Errno 28] No space left on device\n",
        "node2/a.log": "2026-11-26 10:00:01 EJ0003: Failed to bind the IP port\n",
    }
    diagnosis = explained(logs(tmp_path, files))
    assert diagnosis.first is not None
    assert diagnosis.first.first.writer.host == "node1"
    assert "clocks" in "\n".join(report.lines(diagnosis, "en"))


def test_an_exception_that_no_entry_knows_has_a_ready_issue_and_no_cause(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "/w/a.py", line 7, in go\n    f()\nacme.OddError: 7 of 9\n'
    later = "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5\n"
    diagnosis = explained(logs(tmp_path, {"a.log": text + later}))
    assert answer(diagnosis) == "acme.OddError"
    shown = "\n".join(report.lines(diagnosis, "en"))
    assert "report it with this text" in shown
    assert "acme.OddError: 7 of 9" in shown
    assert "What to do" not in shown


@pytest.mark.parametrize("stack", healthy.STACKS)
def test_no_entry_fires_on_a_healthy_log(stack: str, tmp_path: Path) -> None:
    diagnosis = explained(logs(tmp_path, {"a.log": healthy.lines(stack, 100_000)}))
    assert diagnosis.lines == 100_000
    assert (answer(diagnosis), diagnosis.consequences) == ("", ())
    assert not diagnosis.is_unknown


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-26 10:00:00 - ERROR - the loader gave up",
        "[ERROR|trainer.py:10] gave up",
        "(worker pid=1) ERROR 12-05 07:51:00 [core.py:708] gave up",
        "CRITICAL:root:gave up",
        "\x1b[31m[FATAL]\x1b[0m Acl return error attention.cc:140",
        "[F  1/ 2  7:48:00.120 engine.cc:300 Build] Check failed: false",
        "kernel.cc:3:4: error: no matching function for call to 'f'",
        "cc1plus: fatal error: acme.h: No such file or directory",
        "/usr/bin/ld: libx.so: undefined reference to `f'",
        "make[2]: *** [CMakeFiles/demo.dir/build.make:100: demo] Error 1",
        "ninja: build stopped: subcommand failed.",
        "ACME error: the device has gone",
    ],
)
def test_a_line_that_is_marked_as_an_error_is_no_success(line: str, tmp_path: Path) -> None:
    folder = logs(tmp_path, {"a.log": f"step 1\n{line}\nstep 2\n"})
    diagnosis = explained(folder)
    assert (diagnosis.failed, diagnosis.is_unknown, diagnosis.unexplained_count) == (False, True, 1)
    assert diagnosis.unexplained[0].line == 2
    shown = "\n".join(report.lines(diagnosis, "en"))
    assert "not known: one line is marked as an error" in shown.splitlines()[0]
    known = explained(logs(tmp_path, {"a.log": f"{line}\n{CAUSE}\n"}))
    assert answer(known).endswith("ej0003")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[rank1]: RuntimeError: InnerRunOpApi:a.cpp:281 OPS function error: HcclAllreduce, error code is 6\n"
            "[rank1]: EI0006: [PID: 1] 2025-04-08-18:07:20.444.436 Getting socket times out.\n",
            "npu/ei0006",
        ),
        ("  Message info[0]:RTS_HWTS: aicore exception, slot_id=31, stream_id=3\n", "npu/kernel-exception"),
        ("CANN error: EZ9903: [PID: 7] support for Ascend910 is not implemented\n", "npu/chip-not-implemented"),
        ("/usr/bin/ld: libx.so: undefined reference to `aclnnGemm'\n", "npu/not-linked"),
        ("[W 1/ 2] CANN version mismatch. The build version is 0.0.0, but the current environment version is 5.1.2.\n",
         "npu/built-for-other-cann"),
        ("ERROR [ParseJson] Parse blockDim failed, the json file:/usr/include/kernel_meta/x.json.\n",
         "npu/operator-json"),
        ("RuntimeError: EJ0002: [PID: 7] The network port is down.\n", "npu/ej0002"),
        ("RuntimeError: aclnnFooV3 or aclnnFooV3GetWorkspaceSize not in libopapi.so, or libopapi.sonot found.\n",
         "npu/not-in-opapi"),
        ("E40020: [PID: 7] Failed to import Python module decorator.\n", "npu/compiler-python"),
        ("EE1004: [PID: 7] a pointer is null\n", "npu/module-runtime"),
        ("ray.exceptions.RayTaskError(RuntimeError): ray::train()\n"
         "RuntimeError: No backend type associated with device type npu\n", "common/no-backend-for-device"),
        ("runc create failed: error running prestart hook #0: exit status 255, stderr: failed to mount src: "
         "/usr/local/bin/npu-smi.failed to mount dev.\n", "npu/mount-hook"),
    ],
)  # fmt: skip
def test_what_reports_of_november_showed_to_be_missing(text: str, expected: str, tmp_path: Path) -> None:
    assert answer(explained(logs(tmp_path, {"a.log": text}))) == expected


# --- bad input ---

CAUSE = "EJ0003: Failed to bind the IP port"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CAUSE.encode(), id="cut in its line"),
        pytest.param(f"a\r\n{CAUSE}\r\n".encode(), id="ends of lines of Windows"),
        pytest.param(f"\ufeffa\n{CAUSE}\n".encode("utf-16"), id="UTF-16"),
        pytest.param("训练开始\n".encode("gb18030") + f"错误 {CAUSE}\n".encode("gb18030"), id="GB 18030"),
        pytest.param(b"a\xff\xfe\x00" * 3 + b"\n" + CAUSE.encode() + b"\n", id="some bytes that are no text"),
        pytest.param(b"log line\n" * 2000 + b"\0" * 5000 + b"\n" + CAUSE.encode(), id="a hole"),
        pytest.param(f"\x1b[31m{CAUSE}\x1b[0m\n".encode(), id="colours"),
        pytest.param(b"x" * 3_000_000 + b" " + CAUSE.encode() + b"y" * 3_000_000, id="one line"),
    ],
)
def test_a_log_is_read_as_it_comes(data: bytes, tmp_path: Path) -> None:
    diagnosis = explained(logs(tmp_path, {"a.log": data}))
    assert answer(diagnosis) == "npu/ej0003"
    assert len("\n".join(report.lines(diagnosis, "en"))) < 6000


def test_what_is_no_log_is_said(tmp_path: Path) -> None:
    folder = logs(tmp_path, {"a.gz": gzip.compress(CAUSE.encode()), "core": os.urandom(9000), "b.log": CAUSE})
    os.symlink(tmp_path, folder / "link.log")
    os.mkfifo(folder / "pipe")
    reasons = {Path(each.name).name: each.reason.render("en") for each in explained(folder).not_read}
    assert reasons == {
        "a.gz": "packed with gzip; unpack it first",
        "core": "binary",
        "logs": "1 link, not followed",
        "pipe": "not a regular file",
    }


def test_of_a_large_log_the_head_and_the_tail_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_OF_FILE", 4_000_000)
    monkeypatch.setattr(inputs, "HEAD", 1_500_000)
    filler = "an ordinary line\n" * 600_000
    for place in (0, 8_000_000, len(filler)):
        text = filler[:place] + f"\n{CAUSE}\n" + filler[place:]
        diagnosis = explained(logs(tmp_path, {"a.log": text}))
        is_read = place != 8_000_000 or len(text) - place < 2_500_000
        assert (answer(diagnosis) == "npu/ej0003") is is_read
        assert [each.reason.template for each in diagnosis.not_read] == ["{size} MiB between its head and its tail"]


def test_escapes_are_shown_and_secrets_are_not(tmp_path: Path) -> None:
    token = "hf_" + string.ascii_letters[:30] + "1234"
    text = f"\x1b]0;title\x07{CAUSE} --token {token} <script>alert(1)</script>\n"
    diagnosis = explained(logs(tmp_path, {"a.log": text}))
    page, document = report.page(diagnosis, "en"), report.document(diagnosis, "en")
    done = torchferry("explain", str(tmp_path / "logs"))
    assert done.returncode == 1
    for shown in (page, document, done.stdout):
        assert token not in shown
        assert "\x1b" not in shown
    assert "<script>alert" not in page
    assert "\\x1b" in done.stdout


def test_a_traceback_across_blocks_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = "".join(f'  File "/w/{n}.py", line {n}, in f\n    g()\n' for n in range(60))
    text = "line\n" * 700 + "Traceback (most recent call last):\n" + frames + "acme.OddError: 7\n" + "line\n" * 700
    whole = explained(logs(tmp_path, {"a.log": text})).raised
    monkeypatch.setattr(inputs, "BLOCK", 512)
    parts = explained(logs(tmp_path, {"a.log": text})).raised
    assert whole is not None
    assert whole == parts


# --- the search ---

WORDS = st.text(st.sampled_from("abE 07:"), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=12))
def test_the_search_finds_what_a_look_at_each_line_finds(literals: list[str], lines: list[str]) -> None:
    """Except codes, which stand alone."""
    spelled = [literal for literal in literals if not re.fullmatch("[A-Z]{0,4}[0-9]*", literal)] or ["a"]
    block = "\n".join(lines).encode()
    found = dict(LiteralSearch(spelled).lines(block))
    expected = {number: {each for each in spelled if each in line} for number, line in enumerate(lines)}
    assert found == {number: each for number, each in expected.items() if each}


def test_a_number_is_a_code_behind_a_word_that_says_so() -> None:
    search = LiteralSearch(["507015", "boom"])
    text = "\n".join(["507015", *(f"{word.decode()} 507015" for word in CODE_WORDS), "code 1507015", "code 507015"])
    assert [number for number, _ in search.lines(text.encode())] == [
        *range(1, len(CODE_WORDS) + 1),
        len(CODE_WORDS) + 2,
    ]


def test_entries_with_a_number_ask_for_such_a_word() -> None:
    for entry in ENTRIES:
        for literal in entry.literals:
            if literal.isdigit():
                assert entry.pattern is not None, entry.key
                assert entry.match_expression(f"x {literal} y") is None, entry.key
                assert entry.match_expression(f"error code is {literal}") is not None, entry.key


def test_no_entry_is_the_cause_of_its_own_cause() -> None:
    TopologicalSorter({entry.key: set(entry.explains) for entry in ENTRIES}).prepare()


# --- who and when ---


@pytest.mark.parametrize(
    ("line", "rank", "process", "host"),
    [
        ("[rank3]: x", 3, "", ""),
        ("[default2]:[rank7]: x", 2, "", ""),
        ("\x1b[36m(Worker_TP1 pid=5)\x1b[0m x", None, "Worker_TP1", ""),
        ("(WorkerDict pid=5, ip=10.0.0.7) [rank4]: x", 4, "WorkerDict", "10.0.0.7"),
        ("[ERROR] 2026-01-01-00:00:00 (PID:5, Device:1, RankID:6) ERR02200", 6, "", ""),
        ("[ERROR] 2026-01-01-00:00:00 (PID:5, Device:1, RankID:-1) ERR02200", None, "", ""),
        ("12: from srun", 12, "", ""),
        ("[pod/train-worker-3/pytorch] x", None, "", "train-worker-3"),
        ("worker-1  | x", None, "", "worker-1"),
        ("node7:12:34 [5] NCCL WARN x", None, "", "node7"),
        ("Nov 26 10:00:00 host4 kernel: x", None, "", "host4"),
        ("nobody says", None, "", ""),
    ],
)
def test_who_wrote_a_line(line: str, rank: int | None, process: str, host: str) -> None:
    writer = writer_of_line(line)
    assert (writer.rank, writer.process, writer.host) == (rank, process, host)


@pytest.mark.parametrize(
    ("name", "rank", "pid"),
    [
        ("run/attempt_0/3/stderr.log", 3, None),
        ("logs/rank_12.log", 12, None),
        ("worker-4.out", 4, None),
        ("ascend/log/debug/plog/plog-1609_20251231235959123.log", None, 1609),
        ("train.log", None, None),
    ],
)
def test_who_wrote_a_file(name: str, rank: int | None, pid: int | None) -> None:
    assert (writer_of_path(name).rank, writer_of_path(name).pid) == (rank, pid)


ONE_MOMENT = [
    "2026-11-26 10:20:30,500 x",
    "2026-11-26T10:20:30.500 stdout F x",
    "EI0002: 2026-11-26-10:20:30.500.000 x",
    "[Thu Nov 26 10:20:30 2026] x",
    "2026/11/26 10:20:30 x",
    "2026-11-26T18:20:30.500+08:00 x",
]


def test_times_of_all_forms_are_compared() -> None:
    moments = [moment_of(line) for line in ONE_MOMENT]
    assert len({round(moment.seconds) // 2 for moment in filter(None, moments)}) == 1
    assert None not in moments
    for line in (
        "[rank5]:[E1126 10:20:30.5 x",
        "[W926 10:20:30.5 x",
        "ERROR 11-26 10:20:30 [x.py]",
        "Nov 26 10:20:30 h x",
    ):
        moment = moment_of(line)
        assert moment is not None
        assert not moment.year
    assert moment_of("iteration 20261126102030 of 9999-99-99 99:99:99") is None


# --- the command ---


def test_the_command_says_it_in_every_form(tmp_path: Path) -> None:
    folder = logs(tmp_path, {"rank_3.log": f"2026-11-26 10:00:00 x\n{CAUSE}\n"})
    text = torchferry("explain", str(folder))
    assert text.returncode == 1
    assert re.match(r"failed first, rank 3, at ~2026-11-26 10:00:00: EJ0003: ", text.stdout)
    assert "source: https://" in text.stdout
    chinese = torchferry("explain", str(folder), "--lang", "zh").stdout
    assert chinese.startswith("最先失败（rank 3，~2026-11-26 10:00:00）")
    document = json.loads(torchferry("explain", str(folder), "-f", "json").stdout)
    assert document["first"]["code"] == "EJ0003"
    assert document["first"]["places"][0]["line"] == 2
    page = tmp_path / "why.html"
    assert torchferry("explain", str(folder), "-f", "html", "-o", str(page)).returncode == 1
    assert "EJ0003" in page.read_text(encoding="utf-8")


def test_standard_input_and_nothing_at_all(tmp_path: Path) -> None:
    assert torchferry("explain", given=f"{CAUSE}\n").returncode == 1
    assert torchferry("explain", "-", given="all is well\n").stdout == "no failure recognized in 1 log\n"
    empty = torchferry("explain", "-", given="")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "empty" in empty.stderr


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_pages_show_what_the_command_prints(lang: str) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / lang / "explaining.md").read_text(encoding="utf-8")
    shown = page.partition("```console\n")[2].partition("\n```")[0].split("\n")[1:]
    printed = list(report.lines(explained(root / "examples" / "failed-job"), lang))
    relative = [re.sub("\ufdd0.*?\ufdd1", "", line.replace(f"{root}/", "")) for line in printed]
    assert relative == shown
    readme = (root / ("README.md" if lang == "en" else "README.zh-CN.md")).read_text(encoding="utf-8")
    block = readme.partition("$ torchferry explain examples/failed-job")[2].partition("\n```")[0].split("\n")[1:]
    assert len(block) > 15
    assert block[:-1] == shown[: len(block) - 1]


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("step 1\n[rank3]: MyError: the gear broke\n", "MyError", 2),
        (
            "MyError     Traceback (most recent call last)\nCell In[4], line 5\n\nMyError: the gear broke\n",
            "MyError",
            4,
        ),
        ('ok\nTraceback (most recent call last):\n  File "/a/train.py", line 3, in main\n    x = f', "Traceback", 2),
        ("2026-01-01 10:00:00,5 INFO ValueError: caught, once more\nall is well\n" + "step\n" * 50, "", 0),
        ("Error: bad option\nRuntimeWarning: slow\n", "", 0),
    ],
)
def test_how_a_log_ends_is_seen_without_a_whole_traceback(text: str, kind: str, line: int, tmp_path: Path) -> None:
    diagnosis = explained(logs(tmp_path, {"a.log": text}))
    assert answer(diagnosis) == kind
    assert (diagnosis.raised.line if diagnosis.raised is not None else 0) == line
    shown = "\n".join(report.lines(diagnosis, "en"))
    assert ("ends within a traceback" in shown) == (kind == "Traceback")


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = logs(tmp_path, {"a.log": f"{CAUSE}\n", "locked/b.log": "x\n"})
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    diagnosis = explained(top)
    assert [(Path(each.name).name, "Permission denied" in str(each.reason)) for each in diagnosis.not_read] == [
        ("locked", True)
    ]


@pytest.mark.parametrize(
    ("link", "complete"), [("rank_0.log", True), (".", True), ("../outside.log", False), ("gone.log", False)]
)
def test_no_failure_is_no_success_where_something_was_not_read(link: str, complete: bool, tmp_path: Path) -> None:
    """A link to what is read at its own place leaves nothing out; one that leads elsewhere does."""
    (tmp_path / "logs").mkdir()
    folder = logs(tmp_path / "logs", {"rank_0.log": "step 1\n"})
    (tmp_path / "outside.log").write_text(f"{CAUSE}\n", encoding="utf-8")
    (folder / "latest").symlink_to(link)
    diagnosis = explained(folder)
    assert (diagnosis.failed, diagnosis.is_unknown) == (False, not complete)
    done = torchferry("explain", str(folder))
    assert done.returncode == (0 if complete else 1)
    assert done.stdout.startswith("no failure recognized" if complete else "not known: ")
    assert json.loads(torchferry("explain", str(folder), "-f", "json").stdout)["complete"] is complete


SEGFAULT = "common/segmentation-fault"
CHECKPOINT = "common/checkpoint-damaged"
NEIGHBOURS = {
    # a failed import that somebody caught says what is absent; the same words by themselves end a program
    "WARNING 06-16 15:10:59 [ops.py:21] Failed to import from vllm._C with ImportError('libcudart.so.12: cannot "
    "open shared object file: No such file or directory')": "",
    "{'available': False, 'unavailable_reason': \"ImportError: No module named 'triton'\", 'capabilities': []}": "",
    "UserWarning: xformers is not available: ModuleNotFoundError: No module named 'xformers'": "",
    "INFO: flash_attn not found (No module named 'flash_attn'), falling back to sdpa": "",
    "ModuleNotFoundError: No module named 'triton'": "common/module-missing",
    "[rank1]: ImportError: libcudart.so.12: cannot open shared object file: x": "common/cuda-library-missing",
    "ERROR 11-26 10:00:00 [core.py:1] ModuleNotFoundError: No module named 'triton'": "common/module-missing",
    # the words of other versions and of other parts
    "safetensors_rust.SafetensorError: Error while deserializing header: invalid JSON in header: EOF": CHECKPOINT,
    "safetensors_rust.SafetensorError: Error while deserializing header: header too large": CHECKPOINT,
    "socket.gaierror: [Errno -2] Name or service not known": "common/name-not-resolved",
    "socket.gaierror: [Errno -3] Temporary failure in name resolution": "common/name-not-resolved",
    "csrc/a.cpp:3:10: fatal error: cublas_v2.h: No such file or directory": "common/cuda-header-missing",
    "csrc/a.cpp:3:10: fatal error: Python.h: No such file or directory": "",
    "./run.sh: line 7:  4711 Killed                  python train.py": "common/exit-killed",
    "./run.sh: line 7:  4711 Aborted                 (core dumped) python train.py": "common/exit-aborted",
    "./run.sh: line 7:  4711 Segmentation fault      (core dumped) python train.py": "common/segmentation-fault",
    "Killed": "common/exit-killed",
    "Killed the idle workers of the pool": "",
    "OSError: Can't load tokenizer for '/data/qwen'. If you were trying to load it from": "common/model-not-there",
    "OSError: /data/qwen does not appear to have a file named config.json.": "common/model-file-missing",
    "ValueError: device musa:0 not in ['cuda', 'cpu']": "common/device-not-in-list",
    "Using device npu": "",
    "RuntimeError: Numpy is not available": "common/numpy-unavailable",
    "EE1001: The argument is invalid.Reason: coreDim=70000 can't be greater than UINT16_MAX.": "npu/grid-too-large",
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError": "common/ranks-missing",
    # what the machine and the image lack
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.": "common/no-compiler",
    "/bin/sh: 1: g++: not found": "common/no-compiler",
    "checking for gcc... gcc": "",
    "RuntimeError: can't start new thread": "common/threads-limit",
    "bash: fork: retry: Resource temporarily unavailable": "common/threads-limit",
    "zmq.error.Again: Resource temporarily unavailable": "",
    "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data'": "common/file-system-gone",
    "ImportError: libgthread-2.0.so.0: cannot open shared object file: No such file": "common/system-library-missing",
    "OSError: libsndfile.so.1: cannot open shared object file: No such file": "common/system-library-missing",
    "OSError: libwhatever.so.1: cannot open shared object file: No such file": "common/library-missing",
    "UserWarning: no audio: ImportError: libsndfile.so.1: cannot open shared object file: x": "",
    "TypeError: Descriptors cannot be created directly.": "common/protobuf",
    "ERROR: a-2.1.0-cp310-cp310-linux_aarch64.whl is not a supported wheel on this platform.": "common/no-wheel",
    "AttributeError: module 'torch_npu.npu' has no attribute 'current_device'": "npu/plugin-parts",
    "AttributeError: module 'torch' has no attribute 'npu'": "common/torch-attribute",
    "ModuleNotFoundError: No module named 'vllm.attention.backends.registry'": "common/module-part-missing",
    "ModuleNotFoundError: No module named 'torch_npu._C'": "npu/plugin-source-folder",
    "ModuleNotFoundError: No module named 'tbe.common'": "npu/toolkit-python",
    "train.py: error: unrecognized arguments: --local-rank=0": "common/arguments-unknown",
    "[2026-08-05 07:11:08,188 E 17 17] logging.cc:501: *** SIGSEGV received at time=1 on cpu 1 ***": SEGFAULT,
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "common/kernel-image",
    "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect": "common/ray-actor-died",
    "UnicodeDecodeError: 'gbk' codec can't decode byte 0x80 in position 7": "common/data-unreadable",
    # compilers and linkers, and what versions that do not belong together make of names
    "bishengir-compile: for the --target option: Cannot "
    "find option named 'Ascend910B4-1'!": "npu/triton-target-unknown",
    "[TritonToLinalg] encounters error:": "npu/triton-compile-failed",
    "triton.compiler.errors.MLIRCompilationError: ": "npu/triton-compile-failed",
    "/usr/bin/ld: cannot find -lascendcl: No such file or directory": "common/linker-library-missing",
    "ld.lld: error: unable to find library -lmusart": "common/linker-library-missing",
    "subprocess.CalledProcessError: Command '['ninja', '-v']' "
    "returned non-zero exit status 1.": "common/compiler-ended",
    "subprocess.CalledProcessError: Command '['git', 'pull']' returned non-zero exit status 1.": "",
    "AttributeError: module 'pkgutil' has no attribute 'ImpImporter'": "common/module-attribute",
    "AttributeError: partially initialized module 'datasets' has no attribute 'load'": "common/module-attribute",
    "UserWarning: not loaded: KeyError: 'blocks.0.attn.weight'": "",
    "UserWarning: no fp8: AttributeError: module 'te' has no attribute 'fp8'": "",
    "AttributeError: 'Trainer' object has no attribute 'tokenizer'": "",
    "AttributeError: Can't get attribute 'Collate' on <module '__main__' (built-in)>": "common/pickled-class-missing",
    "KeyError: 'model.embed_tokens.weight'": "common/weight-name-missing",
    "KeyError: 'layers.0.mlp.gate_gate_up_proj.deq_scale'": "common/weight-name-missing",
    "KeyError: 'data.root'": "",
    "KeyError: 'weight'": "",
    "OSError: libdcmi.so: cannot open shared object file: No such file or directory": "npu/dcmi-library-missing",
    "RuntimeError: 'weight' must be 2-D": "common/weight-partitioned",
}
"""Lines like those of reports that were answered wrongly, in part or not at all at first, and the entry of each."""


@pytest.mark.parametrize(("line", "entry"), NEIGHBOURS.items())
def test_lines_of_a_kind_have_the_entry_of_the_kind(line: str, entry: str, tmp_path: Path) -> None:
    first = explained(logs(tmp_path, {"a.log": f"step 1\n{line}\n"})).first
    assert (first.entry.key if first is not None else "") == entry
