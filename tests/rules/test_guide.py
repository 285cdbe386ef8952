"""CONTRIBUTING's steps for a rule lead to one that every command knows; no other module lists codes of rules."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.backends.test_guide import repository, run, section, steps  # noqa: F401 - `repository` is a fixture
from torchferry.rules.registry import families, rules

SOURCE = Path(__file__).parent.parent.parent / "src" / "torchferry"
GUIDES = {"CONTRIBUTING.md": "Add a rule", "CONTRIBUTING.zh-CN.md": "新增规则"}
MAIN = 'import torch\n\nold_word = torch.ones(2).to("cuda")\nif __name__ == "__main__":\n    print(old_word)\n'


@pytest.mark.parametrize("with_title", [True, False])
def test_a_rule_in_a_new_family_is_one(repository: Path, with_title: bool) -> None:  # noqa: F811
    written = {
        step.path: step.text for step in steps(section("CONTRIBUTING.md", GUIDES["CONTRIBUTING.md"])) if step.path
    }
    assert len(written) == 2
    for path, text in written.items():
        place = repository / path
        assert place.is_relative_to(repository / "src" / "torchferry" / "rules"), path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text if with_title or place.name != "__init__.py" else '"""Samples."""\n', encoding="utf-8")
    project = repository / "project"
    project.mkdir(exist_ok=True)
    (project / "main.py").write_text(MAIN, encoding="utf-8")
    printed = {}
    for form in ("full", "json", "sarif", "html", "csv", "github"):
        done = run(f".venv/bin/torchferry scan project -t npu -f {form}", repository)
        assert (done.returncode, done.stderr) == (1, ""), form
        assert "an old name" in done.stdout, form
        printed[form] = done.stdout
    family = json.loads(printed["json"])["families"]["SMP"]
    assert family["title"] == ("samples" if with_title else "Samples")
    assert "A variable with an old name." in run(".venv/bin/torchferry rule SMP101", repository).stdout
    for style in ("native", "portable", "shim"):
        done = run(f".venv/bin/torchferry migrate project -t npu --style {style} --diff", repository)
        assert "+new_word = " in done.stdout, f"{style}: {done.stdout}{done.stderr}"


def test_both_languages_have_the_same_steps() -> None:
    english, chinese = ([*steps(section(path, title))] for path, title in GUIDES.items())
    assert [step for step in english if step.path] == [step for step in chinese if step.path]


def test_every_rule_says_what_happens_at_its_places() -> None:
    assert [type(rule).__name__ for rule in rules() if "EFFECT" not in vars(type(rule))] == []


def test_codes_of_rules_stand_in_rules_alone() -> None:
    """What is to be known of a rule is asked of `rule_facts`; a rule that is meant itself, of its class."""
    names = "|".join(families())
    code = re.compile(rf"(?:{names})(?:\d{{3}})?")
    own = {Path(module.replace(".", "/") + ".py") for module in (type(rule).__module__ for rule in rules())}
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        if relative.parts[0] == "vendors" or Path("torchferry") / relative in own:
            continue
        places += [
            f"{relative}:{node.lineno}: {node.value}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and code.fullmatch(node.value)
        ]
    assert [place for place in places if not place.endswith(OTHER_WORDS)] == []


OTHER_WORDS = (
    # instructions of a Dockerfile
    *("source/dockerfile.py:49: RUN", "source/dockerfile.py:71: RUN", "rules/shell/places.py:67: ENV"),
    "deploy/script.py:67: RUN",  # a variable of a shell script
)
"""Words that only look like families."""
