"""A decision is shown, recorded, undone, and asked again when its code changes."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.process import torchferry
from torchferry.cli import decide, scan
from torchferry.cli.choices import Choices
from torchferry.cli.settings import RunSettings
from torchferry.core import toml
from torchferry.core.errors import UsageError
from torchferry.core.finding import Anchor
from torchferry.core.recorded_decisions import (
    CHOICES,
    FILE,
    DecidedPlace,
    RecordedDecision,
    decisions_text,
    read_decisions,
    with_decision,
)
from torchferry.report.model import Report

PROGRAM = """import torch


def main():
    major, minor = torch.cuda.get_device_capability()
    name = "cuda"
    unknown(name)
    print(torch.ones(3, device="cuda").sum(), major)


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    return folder


def _open(project: Path, target: str = "npu") -> list[str]:
    document = json.loads(torchferry("scan", ".", "-t", target, "-f", "json", cwd=project).stdout)
    return [each["id"] for each in document["decisions"]]


def test_from_the_report_to_the_record_and_back(project: Path) -> None:
    capability, fix = _open(project)
    shown = torchferry("show", capability, ".", "-t", "npu", cwd=project)
    assert shown.returncode == 0, shown.stderr
    assert ">     5 |     major, minor = torch.cuda.get_device_capability()" in shown.stdout
    assert f"torchferry decide {capability} accept . -t npu --why REASON" in shown.stdout
    assert json.loads(torchferry("show", fix, ".", "-t", "npu", "-f", "json", cwd=project).stdout)["fix"]
    why = ["--by", "A. Person", "--why", "only printed"]
    assert torchferry("decide", capability, "accept", ".", "-t", "npu", *why, cwd=project).returncode == 0
    assert _open(project) == [fix]
    assert _open(project, "musa") != []  # it was decided for one target
    done = torchferry("decide", fix, "fix", ".", "-t", "npu", "--by", "B. Person", cwd=project)
    assert (done.returncode, "took the edit of one place, made in train.py" in done.stdout) == (0, True), done.stderr
    changed = PROGRAM.replace('name = "cuda"', 'name = "npu"')
    assert (project / "train.py").read_text(encoding="utf-8") == changed  # nothing else, and no import
    assert _open(project) == []
    assert (
        "A. Person accepted its places as they are (only printed)"
        in torchferry("show", capability, ".", "-t", "npu", cwd=project).stdout
    )
    scanned = torchferry("scan", ".", "-t", "npu", cwd=project).stdout
    assert scanned.startswith("Ready for Huawei Ascend after 3 safe fixes, with one place accepted by A. Person.")
    assert torchferry("migrate", ".", "-t", "npu", cwd=project).returncode == 0
    assert 'name = "npu"' in (project / "train.py").read_text(encoding="utf-8")
    after = torchferry("scan", ".", "-t", "npu", cwd=project)
    assert after.stdout.startswith("Ready for Huawei Ascend, with one place accepted by A. Person.")
    (program,) = json.loads(torchferry("scan", ".", "-t", "npu", "-f", "json", cwd=project).stdout)["programs"]
    assert program["summary"] == "ready, with one place accepted by A. Person"
    assert after.returncode == 0
    assert torchferry("undo", ".", "--all", cwd=project).returncode == 0
    assert {path.name for path in project.iterdir()} == {"train.py"}
    assert (project / "train.py").read_text(encoding="utf-8") == PROGRAM


def test_a_place_that_changed_is_asked_about_again(project: Path) -> None:
    capability = _open(project)[0]
    torchferry("decide", capability, "accept", ".", "-t", "npu", "--by", "A. Person", cwd=project)
    changed = PROGRAM.replace(
        "major, minor = torch.cuda.get_device_capability()", "major = torch.cuda.get_device_capability()[0]"
    )
    (project / "train.py").write_text(changed, encoding="utf-8")
    scanned = torchferry("scan", ".", "-t", "npu", cwd=project)
    assert "has changed or is gone; the decision no longer applies to it" in scanned.stderr
    assert "accepted" not in scanned.stdout.split("\n", 1)[0]


def _by_hand(project: Path, decision: str, choice: str, by: str) -> None:
    """Write an answer into the file of decisions, as `show` prints it, with who decides."""
    shown = torchferry("show", decision, ".", "-t", "npu", cwd=project).stdout
    entries = re.findall(r"^\[\[decision\]\]\n(?:.*\n)*?\]\n", shown, re.MULTILINE)
    (entry,) = (each for each in entries if f'choice = "{choice}"' in each)
    with (project / FILE).open("a", encoding="utf-8") as file:
        file.write(entry.replace('by = ""', f'by = "{by}"'))


def test_an_answer_by_hand_is_what_show_prints_with_a_name(project: Path) -> None:
    (project / "more files").mkdir()
    (project / "more files" / "caf\u00e9.py").write_text(PROGRAM, encoding="utf-8")
    capability, fix = _open(project)
    _by_hand(project, capability, "accept", by="")
    refused = torchferry("scan", ".", "-t", "npu", cwd=project)
    assert (refused.returncode, "decision 1 does not say who decided" in refused.stderr) == (2, True)
    (project / FILE).unlink()
    _by_hand(project, capability, "accept", by="A. Person")
    _by_hand(project, fix, "fix", by="B. Person")
    assert _open(project) == []
    by_hand = (project / FILE).read_text(encoding="utf-8")
    (project / FILE).unlink()
    for decision, choice, by in ((capability, "accept", "A. Person"), (fix, "fix", "B. Person")):
        assert torchferry("decide", decision, choice, ".", "-t", "npu", "--by", by, cwd=project).returncode == 0
    commanded = toml.loads((project / FILE).read_text(encoding="utf-8"))
    assert sorted(map(str, toml.loads(by_hand)["decision"])) == sorted(map(str, commanded["decision"]))
    (project / FILE).write_text(by_hand, encoding="utf-8")
    changed = PROGRAM.replace("torch.cuda.get_device_capability()", "torch.cuda.get_device_capability(0)")
    (project / "train.py").write_text(changed, encoding="utf-8")
    assert _open(project)  # the place that changed is asked about again


GROUPED = """import torch


def cards(profiles):
    if not torch.cuda.is_available():
        return []
    return [each for each in profiles if each[0].type != "cuda"]


def pinned(x):
    return x.to("cuda")
"""


def ferry(command: click.Command, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, [*words, "-t", "npu"])
    return done.exit_code, done.output + str(done.exception or "")


def test_an_edit_takes_what_changes_with_it_and_is_recorded_where_others_are(tmp_path: Path) -> None:
    inner = tmp_path / "pkg"
    inner.mkdir()
    (inner / "cards.py").write_text(GROUPED, encoding="utf-8")
    (tmp_path / "torchferry.toml").write_text("", encoding="utf-8")
    other = RecordedDecision("X", "npu", "accept", "Ada", "", frozenset({DecidedPlace("b.py", "CUD110", Anchor())}))
    (tmp_path / FILE).write_text(decisions_text([other]), encoding="utf-8")
    status, said = ferry(decide.command, "DEV102", "fix", str(inner), "--by", "Bob")
    assert (status, "next: torchferry migrate" in said) == (0, True), said
    text = (inner / "cards.py").read_text(encoding="utf-8")
    assert 'type != "npu"' in text
    assert 'x.to("cuda")' in text  # a safe fix of its own is left to migrate
    assert not (inner / FILE).exists()
    recorded = read_decisions(tmp_path)
    assert {place.path for each in recorded for place in each.places} == {"b.py", "pkg/cards.py"}
    assert torchferry("undo", str(tmp_path), cwd=tmp_path).returncode == 0
    assert (inner / "cards.py").read_text(encoding="utf-8") == GROUPED
    assert read_decisions(tmp_path) == (other,)


def test_an_answer_that_somebody_gave_meanwhile_is_not_replaced(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    capability = _open(project)[0]

    def scanned(setting: RunSettings, choices: Choices) -> Report:
        report = scan.scanned(setting, choices)
        monkeypatch.setattr(decide, "scanned", scan.scanned)
        assert ferry(decide.command, capability, "accept", ".", "--by", "Ada")[0] == 0
        return report

    monkeypatch.setattr(decide, "scanned", scanned)
    status, said = ferry(decide.command, capability, "accept", ".", "--by", "Bob")
    assert (status != 0, f"Ada has just decided `{capability}`: accept" in said) == (True, True), said
    assert [each.by for each in read_decisions(project)] == ["Ada"]


def test_uncommitted_changes_are_not_written_over(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *words], cwd=project, check=True)
    monkeypatch.chdir(project)
    status, said = ferry(decide.command, "DEV102", "fix", ".", "--by", "Bob")
    assert (status != 0, "not committed" in said, (project / FILE).exists()) == (True, True, False), said
    assert ferry(decide.command, "DEV102", "fix", ".", "--by", "Bob", "--allow-dirty")[0] == 0


WRONG = {
    "an id that does not exist": (("show", "CUD110-0000", "."), "unknown decision `CUD110-0000`"),
    "a fix where there is none": (("decide", "CUD110", "fix", "."), "has no edit that torchferry could make"),
    "standard input": (
        ("decide", "CUD110", "accept", "-", "--stdin-filename", "a.py"),
        "a decision belongs to a project",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_decided_is_refused(project: Path, case: str) -> None:
    arguments, said = WRONG[case]
    capability = _open(project)[0]
    words = [capability if word == "CUD110" else word for word in arguments]
    done = torchferry(*words, "-t", "npu", cwd=project, given="" if "-" in words else None)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (project / FILE).exists()


UNACCEPTABLE = {
    "what the target lacks": (
        {"train.py": "import torch\nimport xformers.ops\nxformers.ops.memory_efficient_attention()\n"},
        "accepting it would not make it work on the target",
    ),
    "a file that does not parse": (
        {"train.py": "import torch\nimport steps\n", "steps.py": "def step(:\n    torch.cuda.synchronize()\n"},
        "it is a file that could not be examined",
    ),
    "a file that is no text": (
        {"train.py": "import torch\n", "steps.py": "import torch  # \udcff\ntorch.cuda.synchronize()\n"},
        "could not be examined",
    ),
}


@pytest.mark.parametrize("case", UNACCEPTABLE)
def test_what_cannot_be_accepted_is_refused(tmp_path: Path, case: str) -> None:
    files, said = UNACCEPTABLE[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    (wanted,) = _open(tmp_path)
    assert "accept" not in torchferry("show", wanted, ".", "-t", "npu", cwd=tmp_path).stdout
    done = torchferry("decide", wanted, "accept", ".", "-t", "npu", "--by", "A", cwd=tmp_path)
    assert (done.returncode, f"`{wanted}` cannot be accepted" in done.stderr, said in done.stderr) == (2, True, True)
    assert f"`torchferry show {wanted} . -t npu` says what can be done" in done.stderr
    assert not (tmp_path / FILE).exists()


def test_a_kernel_that_no_program_needs_is_accepted_until_one_needs_it(tmp_path: Path) -> None:
    setup = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        'setup(ext_modules=[CUDAExtension("fast._C", ["fast/k.cu"])], cmdclass={"build_ext": BuildExtension})\n'
    )
    program = "import torch\n{imported}\nif __name__ == '__main__':\n    print(torch.ones(3))\n"
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast" / "k.cu").write_text("__global__ void k(float* x) {}\n")
    (tmp_path / "fast" / "__init__.py").write_text("from fast import _C\n")
    (tmp_path / "setup.py").write_text(setup)
    (tmp_path / "train.py").write_text(program.format(imported=""))
    for wanted in _open(tmp_path):
        assert torchferry("decide", wanted, "accept", ".", "-t", "npu", "--by", "A", cwd=tmp_path).returncode == 0
    scanned = torchferry("scan", ".", "-t", "npu", cwd=tmp_path)
    assert (scanned.returncode, _open(tmp_path)) == (0, []), scanned.stdout
    assert "2 places accepted by A" in scanned.stdout.split("\n", 1)[0]
    migrated = torchferry("migrate", ".", "-t", "npu", cwd=tmp_path)
    assert (migrated.returncode, "settled by the fixes" in migrated.stdout) == (0, False), migrated.stdout
    assert "Nothing remains for you to do" in migrated.stdout
    assert "Accepted as they are: 2" in migrated.stdout
    (tmp_path / "train.py").write_text(program.format(imported="import fast"))
    assert torchferry("scan", ".", "-t", "npu", cwd=tmp_path).stdout.startswith("Blocked")


ANCHORS = st.builds(Anchor, st.text(max_size=8), st.text("0123456789abcdef", max_size=12), st.integers(1, 9))
DECISIONS = st.builds(
    RecordedDecision,
    st.text(max_size=8),
    st.sampled_from(("npu", "musa")),
    st.sampled_from(CHOICES),
    st.text(min_size=1, max_size=8).filter(str.strip),
    st.text(max_size=20),
    st.frozensets(st.builds(DecidedPlace, st.text(max_size=8), st.just("CUD110"), ANCHORS), min_size=1, max_size=3),
)


@given(st.lists(DECISIONS, max_size=5))
def test_the_file_says_what_was_decided(
    tmp_path_factory: pytest.TempPathFactory, decisions: list[RecordedDecision]
) -> None:
    made: tuple[RecordedDecision, ...] = ()
    for each in decisions:
        made = with_decision(made, each)
    folder = tmp_path_factory.mktemp("decided")
    text = decisions_text(made)
    (folder / FILE).write_bytes(text.encode("utf-8", "surrogatepass"))
    read = read_decisions(folder)
    assert Counter(read) == Counter(made)
    assert decisions_text(read) == text


BROKEN = {
    "a conflict of git": "<<<<<<< HEAD\n",
    "another table": "[other]\n",
    "no places": '[[decision]]\nid = "a"\ntarget = "npu"\nchoice = "accept"\nby = "A"\nwhy = ""\n',
    "another choice": '[[decision]]\nid = "a"\ntarget = "npu"\nchoice = "burn"\nby = "A"\nwhy = ""\nplaces = []\n',
    "nobody": '[[decision]]\nid = "a"\ntarget = "npu"\nchoice = "fix"\nby = " "\nwhy = ""\nplaces = []\n',
    "a place of another form": (
        '[[decision]]\nid = "a"\ntarget = "npu"\nchoice = "fix"\nby = "A"\nwhy = ""\nplaces = [["a.py", "CUD110", 1]]\n'
    ),
    "two who contradict each other": "".join(
        f'[[decision]]\nid = "a"\ntarget = "npu"\nchoice = "{choice}"\nby = "{by}"\nwhy = ""\n'
        'places = [["a.py", "CUD110", "", "00", 1]]\n'
        for choice, by in (("accept", "A"), ("fix", "B"))
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_said(tmp_path: Path, case: str) -> None:
    (tmp_path / FILE).write_text(BROKEN[case], encoding="utf-8")
    with pytest.raises(UsageError, match=FILE):
        read_decisions(tmp_path)
