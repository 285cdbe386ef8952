"""What is asked on a terminal, and what happens when nobody is there or somebody interrupts."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import HANGS
from torchferry.core.errors import UsageError
from torchferry.deploy.engine import ansible


class Terminal:
    """A command of `torchferry deploy` on a terminal of its own; its standard output goes elsewhere."""

    def __init__(self, folder: Path, *words: str) -> None:
        ours, theirs = pty.openpty()
        self.ours = ours
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder), "NO_COLOR": "1"}
        environment |= {"TORCHFERRY_LANG": "en", "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torchferry", "deploy", *words],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=folder,
            env=environment,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""

    def wait_for(self, text: str) -> None:
        """Read until a text has been said."""
        end = time.monotonic() + HANGS
        while text not in self.said:
            assert time.monotonic() < end, self.said
            if select.select([self.ours], [], [], 0.2)[0]:
                self.said += os.read(self.ours, 4096).decode()
        self.said = self.said.partition(text)[2]

    def answer(self, text: str) -> None:
        """Type a line."""
        os.write(self.ours, f"{text}\n".encode())

    def end(self) -> tuple[int, str]:
        """Return how the command ended, and its standard output."""
        output, _ = self.process.communicate(timeout=HANGS)
        os.close(self.ours)
        return self.process.returncode, output


def test_what_is_not_public_is_asked_for_until_an_answer_fits(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "plan", "-t", "npu")
    terminal.wait_for("image (")
    terminal.answer("")
    terminal.wait_for("image (")
    terminal.answer("x; rm -rf /")
    terminal.wait_for("is not allowed for image")
    terminal.wait_for("image (")
    terminal.answer("registry.example/cann:8")
    status, output = terminal.end()
    assert status == 0
    assert "export IMAGE=registry.example/cann:8" in output
    assert output.startswith("Ascend"), "a question is no result"


def test_without_a_terminal_the_question_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchferry", "deploy", "plan", "-t", "npu", "--lang", "en"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "has not published these settings: image" in done.stderr
    assert "--set image=" in done.stderr


def test_an_interruption_ends_ansible_and_leaves_no_folder(tmp_path: Path) -> None:
    try:
        ansible("ansible-playbook")
    except UsageError:
        pytest.skip("Ansible is not installed: pip install 'torchferry[deploy]'")
    (tmp_path / "python").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/asked\nsleep 600\n", encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    variables = f"ansible_connection=local ansible_become=false ansible_python_interpreter={tmp_path}/python"
    (tmp_path / "hosts.ini").write_text(f"here {variables}\n", encoding="utf-8")
    terminal = Terminal(tmp_path, "check", "-t", "ptex", "-i", "hosts.ini")
    end = time.monotonic() + HANGS
    while not (tmp_path / "asked").exists():
        assert time.monotonic() < end, "Ansible did not begin"
        time.sleep(0.1)
    playbooks = working_in(tmp_path)
    assert playbooks, "the play of this folder runs"
    terminal.process.send_signal(signal.SIGINT)
    status, output = terminal.end()
    assert status not in (0, 1), output
    assert list(tmp_path.glob("torchferry-deploy-*")) == []
    end = time.monotonic() + HANGS
    while playbooks & working_in(tmp_path):
        assert time.monotonic() < end, f"Ansible goes on: {playbooks}"
        time.sleep(0.1)


def working_in(folder: Path) -> set[int]:
    """Return the processes that work in folders for the time of a command."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if os.readlink(path).startswith(f"{folder}/torchferry-deploy-"):
                found.add(int(path.parent.name))
    return found
