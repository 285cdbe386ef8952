"""The line that says how far a command is: when it is there, what it says, and that nothing is left of it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.processes import HANGS
from tests.progress_line import SERVICES, drawn_at_once, lines_drawn, screen
from torchferry.backends import registry
from torchferry.core import command, progress, supported_torch, terminal
from torchferry.core.messages import Message, say
from torchferry.core.progress import Work, counted, doing, never_shown, reading
from torchferry.core.terminal import ProtectedStream, print_notice
from torchferry.rehearsal import build
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import load_driver

FILES = say("reading {path}", path="a.py")


class Terminal(io.TextIOWrapper):
    """What takes itself for a terminal, and is read at once: a real one hands on what it gets when it has time."""

    def __init__(self) -> None:
        self.read_end, write_end = os.pipe()
        super().__init__(os.fdopen(write_end, "wb"), encoding="utf-8")
        os.set_blocking(self.read_end, False)
        self.got = b""

    def isatty(self) -> bool:
        return True

    def written(self) -> bytes:
        """Return all that was written up to now."""
        with suppress(BlockingIOError):
            self.got += os.read(self.read_end, 1 << 20)
        return self.got

    def shown(self) -> str:
        """Return the last line that is shown."""
        return screen(self.written())[-1]


def set_errors(patch: pytest.MonkeyPatch, stream: object) -> None:
    """Set standard error, which pytest sets anew before each test."""
    for module in (progress, terminal):
        patch.setattr(module, "sys", SimpleNamespace(stdout=sys.stdout, stderr=stream))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    set_errors(monkeypatch, made)
    monkeypatch.setattr(terminal, "before_printing", None)
    monkeypatch.setattr(progress, "_line", progress._Line())
    monkeypatch.setattr(progress, "_chosen_language", lambda: "en")
    for name in SERVICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield made
    assert not any(thread.name == "torchferry-progress" for thread in threading.enumerate())
    made.close()
    os.close(made.read_end)


class Clock:
    """Goes on when it is told to; the thread that draws waits for ever."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        patch.setattr(progress, "monotonic", lambda: self.now)
        patch.setattr(progress, "_INTERVAL", HANGS)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and draw what is to be drawn then."""
        self.now += seconds
        progress._line.draw()


@pytest.fixture
def clock(shown: Terminal, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(monkeypatch)
    progress._line.make_way()
    return made


@pytest.mark.parametrize(
    ("work", "seconds", "text"),
    [
        (Work(say("examining files")), 0, "examining files"),
        (Work(say("examining files")), 2.9, "examining files"),
        (Work(say("examining files")), 3.9, "examining files (3 s)"),
        (Work(say("examining files"), 1204), 0, "examining files 0 of 1,204"),
        (Work(say("examining files"), 1204), 60, "examining files 0 of 1,204 (60 s)"),
        (Work(say("examining files"), 0), 0, "examining files"),
        (Work(FILES, 480_900_000, in_bytes=True), 0, "reading a.py 0 of 480 MB"),
        (Work(FILES, 900_000, in_bytes=True), 0, "reading a.py"),
        (Work(say("{text}", text="a\x1b[8m\nb\u202e")), 0, "a\\x1b[8m\\nb\\u202e"),
    ],
)
def test_the_line_has_one_form(work: Work, seconds: float, text: str) -> None:
    assert work.text(work.begun + seconds) == text


def test_the_line_says_how_far_it_is() -> None:
    work = Work(say("examining files"), 20)
    work.add()
    work.add(2)
    assert work.text(work.begun) == "examining files 3 of 20"
    work.reach(7, 37)
    assert work.text(work.begun) == "examining files 7 of 37"
    work.reach(40)
    assert work.text(work.begun) == "examining files 37 of 37", "never more than there is"
    work = Work(say("copying files"))
    work.add(1204)
    assert work.text(work.begun) == "copying files 1,204"


def test_nothing_is_shown_before_a_second_and_nothing_is_left(shown: Terminal, clock: Clock) -> None:
    with doing(say("examining files"), 3) as work:
        clock.pass_by(0.9)
        assert shown.written() == b""
        clock.pass_by(0.2)
        assert shown.shown() == "examining files 0 of 3"
        work.add()
        clock.pass_by(0.1)
        assert shown.shown() == "examining files 1 of 3"
    assert screen(shown.written()) == [""]
    assert b"\x1b" not in shown.written(), "a terminal needs to know no sequence"


def test_what_has_not_changed_is_not_written_again(shown: Terminal, clock: Clock) -> None:
    with doing(say("examining files"), 3):
        clock.pass_by(1)
        before = shown.written()
        clock.pass_by(0.1)
        assert shown.written() == before


def test_a_shorter_line_leaves_nothing_of_a_longer_one(shown: Terminal, clock: Clock) -> None:
    with doing(say("examining files"), 1_000_000) as work:
        clock.pass_by(1)
        work.reach(1, 2)
        clock.pass_by(0)
        assert screen(shown.written()) == ["examining files 1 of 2"]


def test_what_is_printed_stands_alone_and_the_line_waits(shown: Terminal, clock: Clock) -> None:
    with doing(say("examining files")):
        clock.pass_by(1)
        print_notice("a warning")
        assert screen(shown.written()) == ["a warning", ""]
        clock.pass_by(0.9)
        assert screen(shown.written()) == ["a warning", ""]
        clock.pass_by(0.2)
        assert screen(shown.written()) == ["a warning", "examining files"]
        ProtectedStream(shown).write("of Python's own\n")
        shown.flush()
        assert screen(shown.written()) == ["a warning", "of Python's own", ""]


def test_work_within_work_is_shown_in_its_place(shown: Terminal, clock: Clock) -> None:
    with doing(say("judging programs"), 2):
        clock.pass_by(1)
        with doing(say("examining files")):
            clock.pass_by(0)
            assert shown.shown() == "examining files"
        clock.pass_by(0)
        assert shown.shown() == "judging programs 0 of 2"
    with doing(say("writing files")):
        clock.pass_by(0)
        assert shown.shown() == "writing files", "the second has passed"


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def left_early() -> None:
    for item in counted(say("examining files"), "abc"):
        progress._line.draw()
        if item == "b":
            return


@pytest.mark.parametrize(
    "ending", [raising(ValueError()), raising(KeyboardInterrupt()), raising(SystemExit(1)), left_early]
)
def test_however_work_ends_nothing_is_left(ending: Callable[[], None], shown: Terminal, clock: Clock) -> None:
    clock.pass_by(1)

    def work() -> None:
        with doing(say("examining files")):
            progress._line.draw()
            assert shown.shown() == "examining files"
            ending()

    with suppress(ValueError, KeyboardInterrupt, SystemExit):
        work()
    assert screen(shown.written()) == [""]
    assert progress._line._works == []


def test_an_interruption_is_removed_with_what_the_terminal_wrote_of_it(shown: Terminal, clock: Clock) -> None:
    with doing(say("examining files")):
        clock.pass_by(1)
        os.write(shown.fileno(), b"^C")
        assert shown.shown() == "examining files^C"
    assert screen(shown.written()) == [""]


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, *({name: "true"} for name in SERVICES)])
def test_nothing_is_shown_where_nobody_looks(
    variables: dict[str, str], shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with doing(say("examining files")) as work:
        work.add()
        clock.pass_by(9)
    assert shown.written() == b""


@pytest.mark.parametrize("kind", ["pipe", "file", "none"])
def test_nothing_is_shown_but_on_a_terminal(
    kind: str, tmp_path: Path, shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe:
        with os.fdopen(write_end, "w") as other, (tmp_path / "log").open("w") as log:
            set_errors(monkeypatch, {"pipe": other, "file": log, "none": None}[kind])
            for _ in counted(say("examining files"), "abc"):
                clock.pass_by(9)
        assert pipe.read() == b""
    assert (tmp_path / "log").read_bytes() == b""
    assert shown.written() == b""


def test_nothing_is_shown_of_a_thread_or_for_another_program(shown: Terminal, clock: Clock) -> None:
    def work() -> None:
        with doing(say("examining files")):
            clock.pass_by(9)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shown.written() == b""
    never_shown()
    work()
    assert shown.written() == b""


def test_a_program_of_the_users_has_the_terminal_alone(
    shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = subprocess.Popen.wait

    def drawing(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        clock.pass_by(2)
        assert screen(shown.written()) == [""]
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", drawing)
    with doing(say("examining files")):
        clock.pass_by(1)
        assert shown.shown() == "examining files"
        assert command.run(["true"], dict(os.environ)) == 0, "also where somebody forgot that work is under way"
        clock.pass_by(1)
        assert shown.shown() == "examining files (4 s)"


def test_a_narrow_terminal_gets_one_row(shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_columns", lambda: 20)
    with doing(say("judging all of the programs"), 37):
        clock.pass_by(1)
        assert shown.shown() == "judging all of t..."
    monkeypatch.setattr(progress, "_chosen_language", lambda: "zh")
    with doing(Message("判定项目中的所有程序")):
        clock.pass_by(1)
        assert shown.shown() == "判定项目中的所有..."
    assert screen(shown.written()) == [""]


def test_a_job_in_the_background_shows_nothing(shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda number: os.getpgrp() + 1)
    with doing(say("examining files")):
        clock.pass_by(9)
    assert shown.written() == b""


def test_a_thread_draws_while_nothing_is_counted(shown: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    end = time.monotonic() + HANGS
    with doing(say("examining files")):
        while b"examining" not in shown.written():
            assert time.monotonic() < end
            time.sleep(0.001)
    assert screen(shown.written()) == [""]


def test_a_fork_has_neither_the_thread_nor_the_line(shown: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    with doing(say("examining files")):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with doing(say("writing files")):
                    progress._line.draw()
                status = threading.active_count() - 1
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert any(thread.name == "torchferry-progress" for thread in threading.enumerate())
    assert b"writing" not in shown.written()


def test_a_loop_does_not_draw(shown: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    drawings: list[str] = []
    monkeypatch.setattr(progress, "_write", drawings.append)
    clock.now += 9
    assert sum(1 for _ in counted(say("examining files"), range(10_000))) == 10_000
    assert drawings == []


def test_a_file_and_torch_say_what_they_are(tmp_path: Path, shown: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_at_once(monkeypatch)
    (tmp_path / "trace.json").write_bytes(b" " * 3_000_000)
    with reading(tmp_path / "trace.json") as work:
        work.reach(2_000_000)
    with reading(tmp_path / "gone"):
        pass
    with supported_torch.needed("torchferry replay"):
        pass
    assert lines_drawn(shown.written()) == [
        "reading trace.json 0 of 3 MB",
        "reading trace.json 2 of 3 MB",
        "reading gone",
        "importing torch",
    ]


def test_builds_say_what_they_are(tmp_path: Path, shown: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_at_once(monkeypatch)
    monkeypatch.setattr(build, "run_compiler", lambda call: "")
    driver = load_driver(registry.load("npu"))
    assert driver is not None
    building.make(driver, "cc", tmp_path)
    calls = 1 + len(driver.libraries)
    steps = [f"building the simulated driver, step {number} of {calls}" for number in range(calls + 1)]
    assert lines_drawn(shown.written()) == steps
    build._build(build.Recipe("2.13.0", tmp_path, "c++", "g++ 13", ()), tmp_path / "device.so")
    assert lines_drawn(shown.written())[len(steps) :] == ["building the library of the simulated card (about 40 s)"]
    rows = [row for row in screen(shown.written()) if "building" in row]
    assert [row.partition(":")[2].partition(":")[0] for row in rows] == [
        " building the library of the simulated card for torch 2.13.0"
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_who_started_us_reads_the_line_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    """As `torchferry mcp` does: there is no terminal, and a service keeps what is printed."""
    file = tmp_path / "progress"
    file.touch()
    monkeypatch.setenv("TORCHFERRY_PROGRESS", str(file))
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_chosen_language", lambda: lang)
    with doing(say("examining files"), 7) as work:
        work.add(3)
        end = time.monotonic() + HANGS
        while "3" not in file.read_text(encoding="utf-8") and time.monotonic() < end:
            time.sleep(0.01)
        assert "7" in file.read_text(encoding="utf-8")
    assert file.read_text(encoding="utf-8") == ""
    monkeypatch.setenv("TORCHFERRY_PROGRESS", str(tmp_path / "gone"))
    with doing(say("examining files"), 7) as work:
        time.sleep(0.15)
    assert not (tmp_path / "gone").exists()
