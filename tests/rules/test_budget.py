"""A file that takes more than its budget is reported, counts as not examined, and costs the ready in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.cli import cli
from torchferry.core.budget import DEEPEST, TooCostlyError, budget_for_file, refuse_nesting, spend
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

DEEP = {
    "a.json": '{"device": "cpu", "cuda": ' + "[" * 600 + "]" * 600 + "}",
    "b.json": '{"cuda": ' + '{"a": ' * 600 + "1" + "}" * 601,
    "a.yaml": "cuda: " + "[" * 600 + "]" * 600 + "\n",
    "b.yaml": "cuda: " + "{a: " * 600 + "}" * 600 + "\n",
    "a.toml": "cuda = " + "[" * 600 + "]" * 600 + "\n",
    "b.toml": "cuda = " + "{a = " * 600 + "1" + "}" * 600 + "\n",
    "c.toml": "[" + ".".join("a" * 600) + ']\ndevice = "cuda"\n',
    "many.py": "import torch\n" + "x = torch.ones(1).cuda()  " + "# torchferry: ignore[DST]" * 3000 + "\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_costly_costs_the_ready(name: str, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / name).write_text(DEEP[name])
    (root / "main.py").write_text("import torch\nprint(torch.ones(1))\n")
    result = CliRunner().invoke(cli, ["scan", str(root), "-t", "npu", "-f", "json"])
    report = json.loads(result.stdout)
    assert [finding["code"] for finding in report["findings"] if finding["path"] == name] == ["FIL108"]
    assert report["verdict"] == "incomplete"
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
