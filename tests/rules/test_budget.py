"""A file that takes more than its budget is reported, counts as not examined, and costs the ready in every form."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.migration.trees import snapshot
from torchferry.backends.target import Target
from torchferry.cli import cli
from torchferry.core import budget
from torchferry.core.budget import DEEPEST, KeptWork, TooCostlyError, budget_for_file, refuse_nesting, spend
from torchferry.rules import engine
from torchferry.rules.engine import Engine
from torchferry.rules.parallel import examine_all
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.project import Project
from torchferry.source.settings import settings
from torchferry.source.tree import Entry

DEEP = {
    "a.json": '{"device": "cpu", "cuda": ' + "[" * 600 + "]" * 600 + "}",
    "b.json": '{"cuda": ' + '{"a": ' * 600 + "1" + "}" * 601,
    "a.yaml": "cuda: " + "[" * 600 + "]" * 600 + "\n",
    "b.yaml": "cuda: " + "{a: " * 600 + "}" * 600 + "\n",
    "a.toml": "cuda = " + "[" * 600 + "]" * 600 + "\n",
    "b.toml": "cuda = " + "{a = " * 600 + "1" + "}" * 600 + "\n",
    "c.toml": "[" + ".".join("a" * 600) + ']\ndevice = "cuda"\n',
    "many.py": "import torch\n" + "x = torch.ones(1).cuda()  " + "# torchferry: ignore[DST]" * 600 + "\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_costly_costs_the_ready(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "budget_for_file", lambda: budget_for_file(200_000))  # all of it takes seconds
    root = tmp_path / "project"
    root.mkdir()
    (root / name).write_text(DEEP[name])
    (root / "main.py").write_text("import torch\nprint(torch.ones(1))\n")
    result = CliRunner().invoke(cli, ["scan", str(root), "-t", "npu", "-f", "json"])
    report = json.loads(result.stdout)
    assert [finding["code"] for finding in report["findings"] if finding["path"] == name] == ["FIL108"]
    assert report["verdict"] == "incomplete"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "silenced", ['ignore = ["FIL"]', 'select = ["DEV"]', 'per-file-ignores = { "*" = ["FIL108"] }']
)
def test_settings_that_come_with_a_tree_do_not_silence_it(silenced: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DEEP["a.yaml"])
    (tmp_path / "main.py").write_text("import torch\nprint(torch.ones(1))\n")
    (tmp_path / "torchferry.toml").write_text(silenced + "\n")
    result = CliRunner().invoke(cli, ["scan", str(tmp_path), "-t", "npu", "-f", "json"])
    assert json.loads(result.stdout)["verdict"] == "incomplete"
    assert result.exit_code == 1


@pytest.mark.parametrize("form", ["text", "sarif", "html", "csv", "github"])
def test_every_form_of_a_report_says_it(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DEEP["a.yaml"])
    shown = CliRunner().invoke(cli, ["scan", str(tmp_path), "-t", "npu", "-f", form])
    assert shown.exit_code == 1
    assert "too costly, not examined" in shown.output
    assert "Ready for" not in shown.output


def test_steps_are_those_of_the_file_that_is_examined() -> None:
    spend(10**9)  # none is examined
    refuse_nesting()
    with budget_for_file(10):
        spend(10)
        with pytest.raises(TooCostlyError):
            spend()
        with pytest.raises(TooCostlyError):
            refuse_nesting()
    with budget_for_file(10):
        spend(10)


@pytest.mark.parametrize("depth", [DEEPEST - 2, DEEPEST + 2])
@pytest.mark.parametrize(
    ("kind", "opening", "closing"), [(Kind.JSON, "[", "]"), (Kind.YAML, "[", "]"), (Kind.TOML, "[", "]")]
)
def test_nesting_is_read_to_the_limit(kind: Kind, opening: str, closing: str, depth: int) -> None:
    before = {Kind.JSON: "", Kind.YAML: "a: ", Kind.TOML: "a = "}[kind]
    text = before + opening * depth + '"cuda"' + closing * depth
    with budget_for_file():
        if depth < DEEPEST:
            assert [setting.value for setting in settings(kind, text)] == ["cuda"]
        else:
            with pytest.raises(TooCostlyError):
                list(settings(kind, text))


USES_DEVICE = "import torch\n{0}\nif __name__ == '__main__':\n    print(torch.ones(1).cuda())\n"


@pytest.fixture
def with_costly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a file above its budget, a program that imports it and one that does not."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "costly.py").write_text(DEEP["many.py"].replace("# torchferry: ignore[DST]" * 500, ""))
    (root / "importing.py").write_text(USES_DEVICE.format("import costly"))
    (root / "apart.py").write_text(USES_DEVICE.format(""))
    monkeypatch.setattr(engine, "budget_for_file", lambda: budget_for_file(5_000))
    return root


@pytest.mark.parametrize("way", [[], ["--check"], ["--diff"], ["--out"], ["--suffix", "npu"]], ids=" ".join)
def test_a_migration_does_not_claim_a_file_above_its_budget(way: list[str], with_costly: Path) -> None:
    before = snapshot(with_costly)
    folder = with_costly.parent / "copy" if way == ["--out"] else with_costly
    arguments = [*way, str(folder)] if way == ["--out"] else way
    done = CliRunner().invoke(cli, ["migrate", str(with_costly), "-t", "npu", "--lang", "en", *arguments])
    assert done.exit_code == 1
    assert "one file could not be examined" in done.output
    printed = done.stderr if way == ["--diff"] else done.stdout
    assert "too costly, not examined" in printed
    assert "costly.py" in printed
    assert not [claim for claim in ("Ready for", "Nothing remains", "nothing has to change") if claim in done.output]
    after = snapshot(folder)
    assert after["costly.py"] == before["costly.py"]
    assert {path for path in before if after[path][0] != before[path][0]} == (
        {"apart.py", "importing.py"} if way in ([], ["--out"]) else set()
    )
    assert set(after) - set(before) == ({"apartnpu.py", "importingnpu.py"} if "--suffix" in way else set())
    assert ("+    print(torch.ones(1).npu())" in done.stdout) is (way == ["--diff"])


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_only_programs_that_reach_it_are_not_judged(jobs: str, with_costly: Path) -> None:
    for number in range(30):  # enough files for a second process
        (with_costly / f"part{number}.py").write_text(f"import torch\nx{number} = torch.ones(1).cuda()\n")
    shown = CliRunner().invoke(cli, ["scan", str(with_costly), "-t", "npu", "-f", "json", "-j", jobs])
    report = json.loads(shown.stdout)
    verdicts = {program["path"]: program["verdict"] for program in report["programs"]}
    assert verdicts["apart.py"] == "fixes"
    assert verdicts["importing.py"] == "not judged"
    assert report["verdict"] == "incomplete"
    assert shown.exit_code == 1


def test_kept_work_is_spent_by_each_file_once() -> None:
    work = KeptWork()
    with budget_for_file(10):
        work.spend(6)
        work.ask()
        spend(4)
    for _ in range(2):
        with budget_for_file(10):
            work.ask()
            work.ask()
            spend(4)
            with pytest.raises(TooCostlyError):
                spend()
    with budget_for_file(5), pytest.raises(TooCostlyError):
        work.ask()
    work.ask()  # no file is examined


def test_the_steps_of_a_file_are_the_same_whoever_examines_it_and_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(20):  # each passes its device on to the next one, which keeps what it was asked
        root.joinpath(f"part{number:02}.py").write_text(
            f"import torch\nfrom part{(number + 1) % 20:02} import place as further\ntorch.cuda.init()\n"
            "def place(x, device):\n    where = device\n    for where in [where, device]:\n"
            "        x = further(x, where)\n    return x.to(where)\n"
            f"a = b = torch.cuda\nb.synchronize()\nplace(torch.ones(1), 'cuda:{number}')\n"
        )
    root.joinpath("a.yaml").write_text("cuda: [cuda, {device: cuda}]\n")
    root.joinpath("a.sh").write_text("python part00.py --device cuda  # torchferry: ignore[DST]\n")
    entries = [Entry(f"part{number:02}.py", Kind.PYTHON) for number in range(20)]
    entries += [Entry("a.yaml", Kind.YAML), Entry("a.sh", Kind.SHELL)]
    log = tmp_path / "steps"

    @contextmanager
    def recorded() -> Iterator[None]:
        with budget_for_file(1_000_000):
            yield
            current = budget._current.get()
            assert current is not None
            with log.open("a") as file:  # processes that are forked write it, too
                file.write(f"{examining[0]} {1_000_000 - current.left}\n")

    examining: list[str] = []
    examine = Engine.examine

    def named(self: Engine, entry: Entry, rewrite: bool = False) -> object:
        examining[:] = [entry.path]
        return examine(self, entry, rewrite=rewrite)

    monkeypatch.setattr(engine, "budget_for_file", recorded)
    monkeypatch.setattr(Engine, "examine", named)

    def steps(listed: list[Entry], jobs: int, times: int = 1) -> dict[str, set[str]]:
        log.write_text("")
        project = Project(root, [entry.path for entry in entries if entry.kind is Kind.PYTHON])
        examiner = Engine(root, Target.named("npu"), rules(), project=project, account=True)
        for _ in range(times):
            assert [done.failure for done in examine_all(examiner, listed, False, jobs)] == [None] * len(listed)
        found: dict[str, set[str]] = defaultdict(set)
        for line in log.read_text().splitlines():
            path, count = line.split()
            found[path].add(count)
        return found

    alone = {path: counts for entry in entries for path, counts in steps([entry], 1).items()}
    assert all(len(counts) == 1 for counts in alone.values())
    assert "0" not in alone["part00.py"]
    assert steps(entries, 1) == alone
    assert steps(entries[::-1], 1) == alone
    assert steps(entries, 2) == alone
    assert steps(entries, 1, times=2) == alone
