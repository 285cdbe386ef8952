"""Stages that need no torch, with real processes: documents, logs, the soak, speed, and their evidence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import interruptible
from tests.processes import HANGS
from tests.warm_python import ferry
from torchferry.acceptance import evidence, soak
from torchferry.acceptance.acceptfile import AcceptFile, Baseline, MemoryTerms, Metric, RunCommand, SpeedTerms
from torchferry.acceptance.gates import GateMaker
from torchferry.acceptance.initial import facts
from torchferry.acceptance.judging import loads, memory, numbers, speed
from torchferry.acceptance.metrics import find_values
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.situation import Situation
from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.handover.evidence import read_accept_evidence
from torchferry.handover.project_files import git_source

PROGRAM = """
import sys, time
for step in range(int(sys.argv[1])):
    print("step", step, "loss", "nan" if "nan" in sys.argv and step == 5 else 1 / (step + 1), flush=True)
    time.sleep(0.01)
if "restart" in sys.argv:
    print("[default]: [FAILED] Worker group default FAILED, 3/3 attempts left; will restart worker group")
sys.exit("fail" in sys.argv)
"""
FILE = """
schema = 1
[runs.target]
command = ["python", "train.py", WORDS]
[gates.logs]
lines = { loss = 'loss \\d', throughput = 'images/s' }
[gates.documents]
required = ["README.md", "LICENSE"]
commands = ["python train.py 1", "python  train.py 1 fail", "python other.py"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(PROGRAM)
    (root / "README.md").write_text("```bash\npython train.py 1\npython train.py \\\n  1 fail\n```\n")
    return root


def command(root: Path, words: tuple[str, ...], *options: str, change: tuple[str, str] = ("", "")) -> list[str]:
    text = FILE.replace("WORDS", ", ".join(json.dumps(word) for word in words)).replace(*change)
    (root / "torchferry.accept.toml").write_text(text)
    return [sys.executable, "-m", "torchferry", "accept", "-t", "npu", *options]


def accept(root: Path, words: tuple[str, ...], *options: str, **more: Any) -> tuple[dict[str, str], str, int]:
    done = subprocess.run(
        [ferry(), *command(root, words, *options, **more)[1:]], cwd=root, env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=False, timeout=HANGS,
    )  # fmt: skip
    folder = root / "evidence"
    gates = evidence.read(folder)["gates"] if (folder / "evidence.json").exists() else []
    return {gate["gate"]: gate["status"] for gate in gates}, done.stdout + done.stderr, done.returncode


def test_documents_logs_and_what_is_not_judged(project: Path) -> None:
    stages = ("--only", "logs", "--only", "documents", "--only", "speed", "--only", "outputs", "--only", "errors")
    gates, said, code = accept(project, ("3",), *stages)
    assert gates == {
        "logs.loss": "green",
        "logs.throughput": "red",
        "documents.source": "not-judged",
        "documents.README.md": "green",
        "documents.LICENSE": "red",
        "documents.command-1": "green",
        "documents.command-2": "red",  # it fails
        "documents.command-3": "red",  # the README does not have it
        "speed": "not-judged",
        "outputs": "not-judged",
        "errors": "not-judged",
    }, said
    assert code == 1
    assert "will run in a clean copy: python other.py" in said  # before anything ran
    assert said.index("will run in a clean copy") < said.index("running python train.py 3")
    assert not list(project.glob(".evidence*"))
    assert not (project / "__pycache__").exists()


def test_a_link_leads_no_command_out_of_the_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    (project / "away").symlink_to(tmp_path)
    gates, said, _ = accept(project, ("1",), "--only", "runs", change=('"1"]', '"1"]\nfolder = "away"'))
    assert gates["runs"] == "red", said
    assert not (tmp_path / "ran").exists()


def test_show_runs_nothing_and_hides_secrets(project: Path) -> None:
    _, said, code = accept(project, ("3", "--api-key", "hunter2", "--url=https://me:hunter2@example.org"), "--show")
    assert code == 0
    assert "hunter2" not in said
    assert "will run in ." in said
    assert not (project / "evidence").exists()


def test_a_secret_that_a_run_prints_is_not_kept(project: Path) -> None:
    token = "ghp_" + "k7" * 18
    printed = [f"login with {token}", "Authorization: Bearer abcdef123456", "db password=hunter2x", "epoch 1 loss 0.5"]
    (project / "train.py").write_text(f"print({chr(10).join(printed)!r})\nraise RuntimeError('bad {token}')\n")
    gates, said, _ = accept(project, ("1",), "--only", "runs", "--only", "logs")
    assert (gates["runs"], gates["logs.loss"]) == ("red", "green"), said
    kept = {path: path.read_text(encoding="utf-8") for path in (project / "evidence").rglob("*") if path.is_file()}
    found = evidence.read(project / "evidence")
    assert found["masked"] == [run["log"] for run in found["runs"]]
    for secret in (token, "abcdef123456", "hunter2x"):
        assert secret not in said
        assert not [path for path, text in kept.items() if secret in text]
    assert any("epoch 1 loss 0.5" in text for text in kept.values())


def test_nothing_of_the_project_is_imported(project: Path) -> None:
    for name in ("json.py", "click.py", "torchferry.py"):
        (project / name).write_text("raise SystemExit('imported')\n")
    words = command(project, ("1",), "--only", "migration", "--only", "syntax")[3:]
    script = Path(sys.executable).parent / "torchferry"  # as SECURITY.md says for folders that are not trusted
    done = subprocess.run(
        [script, *words], cwd=project, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {gate["gate"]: gate["status"] for gate in evidence.read(project / "evidence")["gates"]}
    assert (found["syntax"], found["migration.residue"]) == ("green", "green")


def test_nothing_is_accepted_without_an_accelerator_unless_that_was_asked(project: Path) -> None:
    gates, said, code = accept(project, ("3",), "--only", "runs", "--only", "numbers")
    assert (code, "NO ACCELERATOR WAS USED" in said) == (3, True), (said, gates)
    assert evidence.read(project / "evidence")["accelerator"] == "not seen", "it imports no torch"
    _, said, code = accept(project, ("3",), "--only", "runs", "--only", "numbers", "--allow-cpu")
    assert (code, "ACCELERATOR" in said) == (0, False), said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("10",), ""),
        (("10", "nan"), "value 6 of loss is nan"),
        (("10", "restart"), "workers were restarted"),
        (("10", "fail"), "loss 0.1"),
    ],
)
def test_a_soak(words: tuple[str, ...], reason: str, project: Path) -> None:
    gates, said, code = accept(project, words, "--only", "stability", "--soak", "1s", "--allow-cpu")
    assert gates["stability.soak"] == ("red" if reason else "green"), said
    assert reason in said
    assert code == bool(reason)


def test_a_pass_that_hangs_is_not_passed_by_the_clock(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_MOST_MORE", 0.5)
    once = "import os, time\nif os.path.exists('once'): time.sleep(99)\nopen('once', 'w'); time.sleep(0.1)\n"
    (project / "hangs.py").write_text(once)
    words = RunCommand((sys.executable, "hangs.py"), ".", 600)
    made = situation(project, [])
    made.file = replace(made.file, runs={"target": words})
    made._main, made.soak_seconds = None, 30.0
    (gate,) = soak.soak(made)
    assert (gate.status.value, "did not end" in str(gate.reason)) == ("red", True), gate


@pytest.mark.parametrize("options", [("--only", "numbers"), ("--only", "memory"), ("--baseline",)])
def test_what_a_run_reached_before_it_failed_is_not_green(options: tuple[str, ...], project: Path) -> None:
    bound = (
        '[baseline]\ndevice = "A100"\ndate = 2026-01-31\nversions = { torch = "2.1.0" }\n'
        '[[baseline.metrics]]\nname = "loss"\nvalue = 9.0\ndirection = "<="\n'
        '[runs.baseline]\ncommand = ["python", "train.py", "3", "fail"]\n'
    )
    gates, said, code = accept(project, ("3", "fail"), *options, change=("[runs.target]", bound + "[runs.target]"))
    assert (code, gates["runs"]) == (1, "red"), said
    assert gates.get("numbers.loss", "not-judged") == "not-judged", said


def test_a_traceback_that_did_not_end_the_program(project: Path) -> None:
    (project / "train.py").write_text(
        "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\n"
    )
    gates, said, _ = accept(project, (), "--only", "runs", change=("WORDS", ""))
    assert gates["runs"] == "not-judged", said
    assert "printed a traceback" in said


def test_an_appended_log_and_the_baselines_own(tmp_path: Path) -> None:
    """The run appends to a log of an earlier one without the metric: the earlier values are not the run's."""
    (tmp_path / "out.log").write_text("loss 0.1\n")
    (tmp_path / "cuda.log").write_text("loss 0.1\n")
    (tmp_path / "x.toml").write_text("")
    for text, values in (("began", []), ("loss 0.5", [0.5])):
        made = situation(tmp_path, [])
        metrics = (Metric("loss", 1.0, "<=", log="out.log"), Metric("loss", 1.0, "<=", log="cuda.log"))
        command = RunCommand((sys.executable, "-c", f"print({text!r}, file=open('out.log', 'a'))"))
        base = Baseline("A100", "2026-01-31", {"torch": "2.1.0"}, "cuda.log", metrics)
        made.file = replace(made.file, baseline=base, runs={"target": command})
        made._main = None
        run = made.main()
        assert run is not None
        assert [value.number for value in find_values(made.log_of(run, "out.log"), "loss")] == values
        with pytest.raises(UsageError, match="is the baseline"):
            made.log_of(run, "cuda.log")


def test_a_loss_that_never_moves(tmp_path: Path) -> None:
    made = situation(tmp_path, [])
    for text, status in (
        ("loss 0.5\n" * 20, "red"),
        ("loss 0.5\n", "green"),
        ("loss 0.6\n" + "loss 0.5\n" * 20, "green"),
    ):
        (tmp_path / "log").write_text(text)
        base = Baseline("A100", "2026-01-31", {"torch": "2.1.0"}, "", (Metric("loss", 1.0, "<="),))
        made.file = replace(made.file, baseline=base)
        assert numbers(made)[0].status.value == status, text


def test_documents_that_only_look_like_it(project: Path) -> None:
    (project / "LICENSE").mkdir()  # an empty folder
    (project / "README.md").write_text("```bash\npython train.py 12\nCARD=0 python train.py 1 fail  # it fails\n```\n")
    gates, said, _ = accept(project, ("1",), "--only", "documents")
    assert gates["documents.LICENSE"] == "red", said
    assert "README.md does not have this command" in said  # `train.py 1` is the beginning of `train.py 12`
    assert "document-1" not in " ".join(path.name for path in (project / "evidence").rglob("*"))
    assert (project / "evidence" / "logs" / "document-2.log").exists()


def test_an_interrupted_soak_goes_on(project: Path) -> None:
    words = command(project, ("250",), "--only", "stability", "--soak", "4s")
    process = subprocess.Popen(interruptible(words), cwd=project, env={**os.environ}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:  # the run that stability judges, then the soak
        if "running" in line:
            break
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS) == 130
    process.stderr.close()
    assert not (project / "evidence").exists()
    assert not list(project.glob(".evidence*"))
    (project / "helper.py").write_text("# changed\n", encoding="utf-8")
    done = accept(project, ("250",), "--only", "stability", "--soak", "1s")
    assert "goes on" not in done[1]  # what other code passed does not count
    (project / "helper.py").unlink()
    gates, said, code = accept(project, ("250",), "--only", "stability", "--soak", "4s", "--allow-cpu")
    assert "resuming the soak after" in said
    assert (gates["stability.soak"], code) == ("green", 0), said
    assert "2 passes" in said
    _, said, _ = accept(project, ("250",), "--only", "stability", "--soak", "1s")
    assert "goes on" not in said  # what was passed to its end is not counted again


def test_memory_is_that_of_the_worst_process(tmp_path: Path) -> None:
    made = situation(tmp_path, rows(0.01))
    assert made._main is not None
    first = made._main.processes[0]
    leaks = {**first, "samples": rows(0.01, 1e5)}
    helper = {**first, "steps": 3, "samples": rows(0.01)[:3]}
    for processes, status in (((first, leaks), "red"), ((leaks, first), "red"), ((first, helper), "green")):
        made._main = replace(made._main, processes=processes)
        assert memory(made)[1].status.value == status, len(processes)


def test_the_commit_of_the_source_is_not_that_of_the_migration(tmp_path: Path) -> None:
    def run(*words: str, root: Path = tmp_path / "clone") -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *who, *words], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    (tmp_path / "source").mkdir()
    run("init", "-q", root=tmp_path / "source")
    run("commit", "-q", "--allow-empty", "-m", "a", root=tmp_path / "source")
    run("clone", "-q", "source", "clone", root=tmp_path)
    source = run("rev-parse", "HEAD")
    assert facts(tmp_path / "clone").commit == source
    run("switch", "-q", "-c", "npu")
    run("commit", "-q", "--allow-empty", "-m", "migrated")
    assert run("rev-parse", "HEAD") != source
    assert facts(tmp_path / "clone").commit == git_source(tmp_path / "clone")[1] == source


def test_what_did_not_run_is_not_accepted() -> None:
    gates = {
        stage: GateMaker(stage).green("", say("-"), say("-")) for stage in ("syntax", "runs", "numbers", "outputs")
    }

    def verdict(*stages: str) -> str:
        return evidence.verdict([gates[stage] for stage in stages], False)

    assert verdict("syntax", "numbers") == verdict("syntax", "runs") == "incomplete"
    assert verdict("runs", "numbers") == verdict("runs", "outputs") == "accepted"
    red = GateMaker("logs").red("", say("-"), say("-"))
    assert evidence.verdict([*gates.values(), red], False) == "rejected"


def test_wrong_use(project: Path) -> None:
    for options, said in (
        (("--only", "sped"), "did you mean `speed`"),
        (("--soak", "long"), "is not a time"),
        (("--card", "910B"), "--fault need --rehearse"),
        (("--fault", "op=mm,kind=nan"), "--fault need --rehearse"),
        (("--rehearse", "--fault", "kind=warp"), "warp"),
        (("--file", "absent.toml"), "torchferry accept init"),
    ):
        _, printed, code = accept(project, ("1",), *options)
        assert code == 2
        assert said in printed


# --- the folder of evidence ---


def test_a_folder_that_is_not_ours_is_left_alone(project: Path, tmp_path: Path) -> None:
    out = project / "evidence"
    stages = ("--only", "syntax")

    def refused() -> None:
        _, said, code = accept(project, ("1",), *stages)
        assert (code, "evidence that torchferry wrote" in said) == (2, True), said

    out.write_text("x")
    refused()
    assert out.read_text() == "x"
    out.unlink()
    out.symlink_to(tmp_path)
    refused()
    out.unlink()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    refused()
    (out / "notes.txt").unlink()
    assert accept(project, ("1",), *stages)[2] == 0  # an empty folder is taken
    assert accept(project, ("1",), *stages)[2] == 0  # and evidence of ours replaced
    (out / "logs").mkdir(exist_ok=True)
    (out / "logs" / "notes.txt").write_text("mine")
    refused()
    assert (out / "logs" / "notes.txt").read_text() == "mine"


def test_a_full_disk_leaves_the_old_evidence(project: Path) -> None:
    stages = ("--only", "logs")
    assert accept(project, ("2",), *stages)[2] == 1
    before = {path: path.read_bytes() for path in (project / "evidence").rglob("*") if path.is_file()}
    done = subprocess.run(
        command(project, ("2",), *stages), cwd=project, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "could not be written whole" in done.stderr
    assert {path: path.read_bytes() for path in (project / "evidence").rglob("*") if path.is_file()} == before
    assert not list(project.glob(".evidence*"))


def test_evidence_from_others(project: Path) -> None:
    assert accept(project, ("2",), "--only", "syntax")[2] == 0
    folder = project / "evidence"
    good = json.loads((folder / "evidence.json").read_text())
    assert evidence.read(folder)["verdict"] == "incomplete"  # of some stages only
    wrong: list[tuple[str, Any]] = [
        ("kind", "other"), ("schema", 9), ("gates", {}), ("files", [{"path": "../train.py", "sha256": ""}]),
        ("files", [{"path": "/etc/passwd", "sha256": ""}]), ("files", [3]),
        ("files", [{"path": "index.html", "sha256": "0"}]),
    ]  # fmt: skip
    for key, value in wrong:
        (folder / "evidence.json").write_text(json.dumps({**good, key: value}))
        with pytest.raises(UsageError):
            evidence.read(folder)
    (folder / "evidence.json").write_text("[" * 100_000)
    with pytest.raises(UsageError):
        evidence.read(folder)


# --- what a run showed ---


def situation(root: Path, rows: list[list[float]], **terms: Any) -> Situation:
    """Return a situation whose run was made, with these samples of its steps."""
    (root / "log").write_text("step 1 loss 1\n")
    file = AcceptFile(root / "x.toml", {}, {}, {}, Baseline(), {"target": RunCommand(("true",))}, **terms)
    made = Situation(file, Target.named("npu"), None, root, lambda message: None)
    models = [{"name": "Net", "parameters": 3, "devices": ["cpu"]}]
    process = {"steps": len(rows), "kind": "step", "samples": rows, "peak": 5 << 20, "models": models, "loads": {
        "calls": 1, "keys": 5, "missing": 2, "unexpected": 0}}  # fmt: skip
    made._main = AcceptanceRun(
        "target", ("true",), ".", root, "2020-01-01T00:00:00Z", 1.0, 0, root / "log", processes=(process,)
    )
    return made


def rows(seconds: float, growth: float = 0.0) -> list[list[float]]:
    return [[step, step * seconds, 1e6 + growth * step, 1e8] for step in range(1, 301)]


@pytest.mark.parametrize(
    ("seconds", "at_least", "status"),
    [(0.010, 0.9, "green"), (0.012, 0.9, "red"), (0.012, 0.8, "green")],
)
def test_a_slower_step(seconds: float, at_least: float, status: str, tmp_path: Path) -> None:
    (gate,) = speed(situation(tmp_path, rows(seconds), speed=SpeedTerms(at_least=at_least, seconds_per_step=0.010)))
    assert gate.status.value == status
    assert gate.value == pytest.approx(0.010 / seconds)


def test_a_model_elsewhere_and_weights_that_do_not_fit(tmp_path: Path) -> None:
    device, weights = loads(situation(tmp_path, rows(0.01)))
    assert (device.status.value, weights.status.value) == ("red", "red")
    assert "strict=False" in str(weights.reason)


def test_a_hand_over_reads_what_was_judged_on_the_card(tmp_path: Path) -> None:
    bound = Metric("loss", 2.0, "<=")
    made = situation(tmp_path, rows(0.01))
    made.file = replace(made.file, baseline=Baseline("A100", "2026-01-31", {"torch": "2.1.0"}, "", (bound,)))
    made.file.path.write_text("")
    assert made._main is not None
    made._main.processes[0].update(device_type="npu", card="Ascend910B3")
    made.made = [made._main]
    (gate,) = numbers(made)
    out = tmp_path / "evidence"
    with evidence.gathered(out) as folder:
        evidence.write(folder, evidence.document(made, [gate], ["numbers"], partial=False), "", made.made)
    read = read_accept_evidence(out)
    assert (read.rehearsal, read.card, read.baseline_device, read.command) == (False, "Ascend910B3", "A100", "true")
    assert read.metrics == (("loss", "2", "1"),)
    assert (read.seconds, read.peak_memory) == (1.0, 5 << 20)
    assert read.seconds_per_step == pytest.approx(0.01)
    assert read.versions["python"]


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "evidence"
    program = f"""
import os, pathlib, signal
from torchferry.acceptance import evidence
with evidence.gathered(pathlib.Path({str(out)!r})) as folder:
    (folder / "log").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    (left,) = tmp_path.iterdir()
    others = [tmp_path / ".evidence.notes.torchferry", tmp_path / ".evidence.aaaaaaaa.torchferry"]
    for each in others:  # a name, or a mode, that is not ours
        each.mkdir(mode=0o755)
    (tmp_path / ".evidence.bbbbbbbb.torchferry").symlink_to(others[0])
    with evidence.gathered(out) as first, evidence.gathered(out) as second:
        assert not left.exists()
        assert first.exists()  # the second run is beside it, and does not take it for a killed one's
        assert second.exists()
        kept = {first.parent.name, second.parent.name, *(each.name for each in others), ".evidence.bbbbbbbb.torchferry"}
        assert {each.name for each in tmp_path.iterdir()} == kept


def test_memory_without_a_limit_is_not_green(tmp_path: Path) -> None:
    peak, growth, host = memory(situation(tmp_path, rows(0.01, 2000.0)))
    assert [gate.status.value for gate in (peak, growth, host)] == ["not-judged", "red", "green"]
    peak, growth, _ = memory(situation(tmp_path, rows(0.01)[:150], memory=MemoryTerms(peak=1 << 20)))
    assert [gate.status.value for gate in (peak, growth)] == ["red", "not-judged"]
