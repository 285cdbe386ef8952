"""The command line of deployments: what needs no server, and a survey of this machine, which changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.in_terminal import in_terminal
from tests.progress_line import drawn_at_once
from tests.warm_python import ferry
from torchferry.core.errors import TorchferryError
from torchferry.core.importable import is_importable
from torchferry.deploy import playing
from torchferry.deploy.inventory import PlayOptions, hidden_texts
from torchferry.deploy.plan import make_plan, project_folder
from torchferry.deploy.playing import HostOutcome, StepOutcome, _Events
from torchferry.deploy.records import EventLog, RunRecord, read_records, record_file, write_record
from torchferry.deploy.report import table_lines


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TORCHFERRY_LANG": "en", "NO_COLOR": "1"}
    done = subprocess.run(
        [ferry(), "-m", "torchferry", "deploy", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_bundle_is_made_checked_and_planned_with(tmp_path: Path) -> None:
    status, _, errors = run(tmp_path, "bundle", "-t", "ptex", "-o", "b")
    assert status == 2
    assert "the bundle needs installer" in errors
    (tmp_path / "x.run").write_text("#!/bin/sh\n", encoding="utf-8")
    status, text, errors = run(tmp_path, "bundle", "-t", "ptex", "-o", "b", "--file", "installer=x.run")
    assert status == 0, errors
    assert "not in the bundle: debs" in text
    assert run(tmp_path, "bundle", "-t", "ptex", "-o", "b", "--check")[0] == 0
    status, text, _ = run(tmp_path, "plan", "-t", "ptex", "-b", "b", "--set", "container=mine")
    assert status == 0
    assert "export CONTAINER=mine" in text
    assert '"$INSTALLER" -y -C torch-gcu' in text
    (tmp_path / "b" / "files" / "installer").write_text("#!/bin/bad", encoding="utf-8")
    status, text, _ = run(tmp_path, "bundle", "-t", "ptex", "-o", "b", "--check")
    assert (status, text) == (
        1,
        "installer does not match the manifest\ncopy these files again, or make the bundle again\n",
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("-t", "ptex@1.3.20"), 0, "ptex 1.3.20 belongs to torch==1.10.0: beside torch_gcu"),
        (("-t", "ptex", "--version", "2.1.0+torch1.11.0"), 0, "belongs to torch==1.11.0"),
        (("-t", "ptex", "--version", "2.1.0"), 0, "ptex 2.1.0 belongs to torch==1.11.0"),
        (("-t", "ptex", "--version", "9.9"), 0, "unknown which torch belongs to ptex 9.9: it is in no table"),
        (("-t", "ptex@1.3.20", "--version", "9.9"), 2, "two versions of the plugin were given: 9.9 and 1.3.20"),
        (("-t", "ptex", "--version", "new"), 2, "`new` in target `ptex@new` is not a version"),
        (("-t", "ptex", "--set", "contaner=x"), 2, "contaner"),
    ],
)
def test_the_version_of_the_plugin_travels_with_the_bundle(
    words: tuple[str, ...], status: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "x.run").write_text("#!/bin/sh\n", encoding="utf-8")
    done = run(tmp_path, "bundle", *words, "-o", "b", "--file", "installer=x.run")
    assert (done[0], said in done[1] + done[2]) == (status, True), done
    if status == 0:
        text = run(tmp_path, "plan", "-t", "ptex", "-b", "b")[1]
        assert "[verify] plugin-version" in text


def test_a_run_without_a_file_says_how_to_make_a_bundle_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("node1\n", encoding="utf-8")
    status, _, errors = run(tmp_path, "run", "-t", "ptex", "-i", "hosts.ini")
    assert status == 2
    assert "torchferry deploy bundle -t ptex -o FOLDER --file installer=PATH" in errors


def test_a_plan_names_the_hosts_of_an_inventory_and_who_sends_to_whom(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("a ansible_host=198.51.100.7\nb\nc\n", encoding="utf-8")
    where = ("-t", "ptex", "-i", "hosts.ini")
    status, text, errors = run(tmp_path, "plan", *where, "--tree-above", "2", "--tree-width", "1")
    assert (status, errors) == (0, "")
    lines = ["3 hosts: a, b, c", "  this machine sends to a", "  a sends to b", "  b sends to c"]
    assert text.splitlines()[:4] == lines
    assert "198.51.100.7" not in text
    assert run(tmp_path, "plan", *where, "--limit", "b")[1].startswith("1 host: b\n\n")
    assert run(tmp_path, "plan", "-t", "ptex", "--limit", "b")[0] == 2


def test_a_survey_of_this_machine(tmp_path: Path) -> None:
    """The whole way through Ansible, with a connection that is none, and an inventory with secrets."""
    if shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") is None:
        pytest.skip("ansible-playbook is not installed: pip install 'torchferry[deploy]'")
    if not is_importable("ansible_runner"):
        pytest.skip("ansible-runner is not installed")
    variables = "ansible_connection=local ansible_become=false ansible_host=198.51.100.7 ansible_password=hunter2222"
    variables += f" ansible_python_interpreter={sys.executable}"
    (tmp_path / "hosts.ini").write_text(f"here {variables}\n", encoding="utf-8")
    words = ("-t", "ptex", "-i", "hosts.ini", "-f", "json", "--only", "driver")
    status, text, errors = run(tmp_path, "check", *words, "--set", "installer_args=--peermem")
    document = json.loads(text)
    assert status == 1, errors
    assert "here: ofed" in document["obstacles"]
    assert document["hosts"]["here"]["steps"]["architecture"] in ("ok", "todo")
    assert "198.51.100.7" not in text + errors
    assert "hunter2222" not in text + errors
    assert not (tmp_path / "state").exists(), "to look is not recorded"


def test_what_hosts_print_is_text_without_secrets() -> None:
    outcomes: list[StepOutcome] = []
    variables = {"ansible_host": "198.51.100.7", "ansible_become_password": "hunter2222"}
    hidden = hidden_texts({"node": variables}, PlayOptions(Path("hosts.ini"), passwords={"ssh": "typed1111"}))
    events = _Events(make_plan("ptex", None, {}), ["node"], hidden, outcomes.append)
    result = {"stdout": "to 198.51.100.7 with hunter2222 typed1111\x1b[31m red\a", "changed": False}
    data = {"host": "node", "task": "image", "res": result, "duration": 2}
    events.take({"event": "runner_on_failed", "event_data": data})
    assert outcomes == [StepOutcome("node", "image", "failed", 2.0, "to node with *** ***?[31m red?")]
    events.take({"event": "runner_on_failed", "event_data": {**data, "host": "another"}})
    assert len(outcomes) == 1


def test_an_answer_that_got_lost_is_a_failure() -> None:
    """Ansible's answers are files of this machine; where its disk is full they do not come, and nobody says so."""
    answered = {"stdout": "0 architecture 0 \n2 driver 1 \n", "changed": False}
    for mode, unknown in (("survey", "tools"), ("run", "driver"), ("commit", "commit")):
        events = _Events(make_plan("gcu", None, {}), ["node", "silent"], [], lambda outcome: None)
        events._names = ["architecture", "copy-installer", "driver"] if mode == "run" else events._names
        events._copies = frozenset({"copy-installer"})
        events.take({"event": "runner_on_ok", "event_data": {"host": "node", "task": "survey", "res": answered}})
        events.end(mode)
        for host in events.outcomes().values():
            assert host.failed is not None, (mode, host)
        failed = events.outcomes()["node"].failed
        assert failed is not None
        assert unknown in failed.output, mode
        heads, row, *_ = table_lines(make_plan("gcu", None, {}), {"silent": events.outcomes()["silent"]}, "en")
        assert (heads.split()[0], row.split()) == ("survey", ["silent", "x"]), "it is seen where nothing is known"


def test_a_sample_counts_where_it_ran_again_and_nowhere_else() -> None:
    """That it passed once, in the run, says nothing of today: `verify` runs it, on hosts where all else holds."""
    steps = ("architecture", "base", "sample")
    answers = {"node": "0 0 0", "half": "0 1 0", "failing": "0 0 0", "lost": "0 0 0"}
    events = _Events(make_plan("ptex", None, {}), answers, [], lambda outcome: None)
    events._names, events._samples = list(steps), frozenset({"sample"})
    for host, answer in answers.items():
        rows = "".join(f"{at} {step} {rc} \n" for at, (step, rc) in enumerate(zip(steps, answer.split(), strict=True)))
        result = {"stdout": rows, "changed": False}
        events.take({"event": "runner_on_ok", "event_data": {"host": host, "task": "survey", "res": result}})
    for host, kind in (("node", "ok"), ("failing", "failed")):
        data = {"host": host, "task": "sample", "res": {"stdout": "the progress bar did not move"}, "duration": 3}
        events.take({"event": f"runner_on_{kind}", "event_data": data})
    events.end("verify")
    hosts = events.outcomes()
    found = {name: (host.steps["sample"].status, host.failed and host.failed.step) for name, host in hosts.items()}
    assert found == {
        "node": ("ok", None),
        "half": ("todo", None),
        "failing": ("failed", "sample"),
        "lost": ("ok", "survey"),
    }
    assert "no answer came of sample" in hosts["lost"].steps["survey"].output


def test_a_copy_that_another_began_first_is_looked_at_again(tmp_path: Path) -> None:
    """Two runs may both find nothing of a file before either sends: the second must not fail, and not send twice."""
    whole = bytes(range(256)) * 4096
    (tmp_path / "file").write_bytes(whole)
    early = tmp_path / "early"  # answers the first look as it was before the other one began
    early.write_text('#!/bin/sh\ntest -e "$0.asked" || { : > "$0.asked"; echo 0; exit 0; }\nexec sh -c "$1"\n', "utf-8")
    early.chmod(0o755)
    for there in (len(whole), 1000):
        (tmp_path / "part").write_bytes(whole[:there])
        (tmp_path / "early.asked").unlink(missing_ok=True)
        command = ["bash", *map(str, (project_folder() / "send.sh", tmp_path / "file", tmp_path / "part", early))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"sent {len(whole) - there} of {len(whole)} bytes, from byte {there}\n"
        assert (tmp_path / "part").read_bytes() == whole


def test_steps_are_said_as_they_end_to_a_file_or_a_pipe_that_is_read(tmp_path: Path) -> None:
    outcome = StepOutcome("node", "driver", "failed", 1.0, "why")
    events = EventLog(tmp_path / "events", "run", "ptex")
    events.step(outcome)
    events.end({"node": HostOutcome("node", {"driver": outcome})})
    rows = [json.loads(line) for line in (tmp_path / "events").read_text(encoding="utf-8").splitlines()]
    assert [row["event"] for row in rows] == ["begin", "step", "end"]
    assert (rows[1]["step"], rows[1]["output"], rows[2]["hosts"]) == ("driver", "why", {"node": False})
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(TorchferryError, match="cannot write"):
            EventLog(path, "run", "ptex")
    full = EventLog(Path("/dev/null"), "run", "ptex")
    full._file = os.open("/dev/full", os.O_WRONLY)
    full.step(outcome)  # the run goes on
    with pytest.raises(TorchferryError, match="No space left"):
        full.end({})


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        '{"action": "run", "target": "ptex", "begun": 1e18, "ended": 1e18, "hosts": {}}',
        '{"action": "run", "target": "ptex", "begun": NaN, "ended": 1, "hosts": {}}',
        '{"action": "run", "target": "ptex", "begun": 1, "ended": 1, "hosts": {"a": {"steps": [{"step": "x",'
        ' "status": "ok", "seconds": Infinity, "output": ""}], "changed": []}}}',
    ],
)
def test_a_line_of_a_record_that_is_none_is_left_out(line: str, tmp_path: Path) -> None:
    good = '{"action": "run", "target": "ptex", "begun": 1, "ended": 2, "hosts": {}}'
    (tmp_path / "r.jsonl").write_text(f"{good}\r\n{line}\r\n", encoding="utf-8")
    assert [record.ended for record in read_records(tmp_path / "r.jsonl")] == [2.0]


def test_a_row_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for begun in (1.0, 2.0):
        write_record(path, RunRecord("run", "ptex", begun, 9.0, {}))
        with path.open("ab") as file:
            file.write(b'{"schema": 1, "act')
    assert [record.begun for record in read_records(path)] == [1.0, 2.0]


def test_a_run_is_a_page_that_loads_nothing(tmp_path: Path) -> None:
    hosts = {
        "node1": [
            ("architecture", "ok", 0.0, ""),
            ("copy-installer", "changed", 4.0, ""),
            ("driver", "changed", 6.0, ""),
        ],
        "<node2>": [("driver", "failed", 3.0, "ERROR: Kernel headers for 5.4 not found <script>")],
        "node3": [("survey", "unreachable", 1.0, "Failed to connect to the host via ssh")],
    }
    outcomes = {
        name: HostOutcome(name, {row[0]: StepOutcome(name, *row) for row in steps}) for name, steps in hosts.items()
    }
    (tmp_path / "hosts.ini").write_text("", encoding="utf-8")
    path = tmp_path / "state" / "torchferry" / "deploy" / record_file("ptex", tmp_path / "hosts.ini").name
    write_record(path, RunRecord("run", "ptex", 0.0, 30.0, outcomes))
    status, text, errors = run(tmp_path, "report", "-t", "ptex", "-i", "hosts.ini", "-f", "html")
    assert (status, errors) == (1, "")
    assert "<script>" not in text
    assert "&lt;node2&gt;: driver failed: install the driver" in text
    assert "install linux-headers" in text, "the hint stands on the page"
    assert '<td class="changed">changed<br>10 s</td>' in text, "a copy counts to the stage that needs it"
    assert "3 hosts, 2 failed." in text
    assert "http:" not in text
    assert "src=" not in text
    status, chinese, _ = run(tmp_path, "report", "-t", "ptex", "-i", "hosts.ini", "-f", "html", "--lang", "zh")
    assert 'lang="zh"' in chinese


def test_a_terminal_shows_that_ansible_starts_and_then_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = StepOutcome("node7", "architecture", "ok", 1.0)

    def play(plan: object, options: object, mode: str, take: Callable[[StepOutcome], None]) -> dict[str, HostOutcome]:
        take(outcome)
        return {"node7": HostOutcome("node7", {"architecture": outcome})}

    drawn_at_once(monkeypatch)
    monkeypatch.setattr(playing, "play", play)
    (tmp_path / "hosts.ini").write_text("node7\n", encoding="utf-8")
    words = ("deploy", "check", "-t", "ptex", "-i", "hosts.ini", "-f", "json")
    _, shown, printed = in_terminal(*words, cwd=tmp_path, piped=True)
    first, _, table = shown.decode().partition("node7")
    assert "\rstarting Ansible\r" in first
    assert "Ansible" not in table
    assert "passed" in table
    assert json.loads(printed)["hosts"].keys() == {"node7"}
    _, shown, printed = in_terminal(*words, cwd=tmp_path, apart=True)
    assert shown == b""
    assert printed.startswith(b"node7  architecture: nothing to do (1 s)\n{")
