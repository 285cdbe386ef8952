"""Every rule of every form is kept by a whole hand-over, and is the one that is named when it is broken."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.handover.made import FORMS, handover, ported, whole
from torchferry.backends.handover_forms import ZooRule, form_names, form_of
from torchferry.handover.checking import RuleState, check_handover
from torchferry.handover.checks import CHECKS
from torchferry.handover.handed_over import HandedOver
from torchferry.handover.record import FileOrigin


@pytest.fixture(scope="module", params=FORMS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    form: str = request.param
    return form, whole(tmp_path_factory.mktemp(form), form)


def states(folder: Path) -> dict[str, RuleState]:
    judged = check_handover(folder).rules
    return {each.rule.code: each.state for each in judged if each.state not in (RuleState.KEPT, RuleState.PERSON)}


def model(folder: Path) -> Path:
    return folder / HandedOver(folder).folder


def edit(file: Path, pattern: str, text: str) -> None:
    before = file.read_text(encoding="utf-8")
    after = re.sub(pattern, lambda _: text, before, flags=re.MULTILINE)
    assert after != before, f"{pattern} is not in {file}"
    file.write_text(after, encoding="utf-8")


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(text)


def named(folder: Path, rule: ZooRule, key: str = "file") -> Path:
    """Return the file that a rule is about."""
    name = str(rule.options[key])
    if name == "pull-request.md":
        return folder / name
    handed = HandedOver(folder)
    return folder / handed.path_of(handed.named(name)[0])


def _rename(folder: Path, name: str, level: int) -> None:
    path = model(folder).parents[level] if level >= 0 else model(folder)
    path.rename(path.with_name(name))


def _remove_header(folder: Path, rule: ZooRule) -> None:
    handed = HandedOver(folder)
    header = handed.form.own_header.split("\n")[0].partition("{year}")[0].strip()
    generated = [path for path in handed.sizes if handed.origin(path) is FileOrigin.GENERATED]
    file = next(path for path in generated if header in (handed.text(path) or ""))
    edit(folder / handed.path_of(file), re.escape(header), "nothing")


def _remove_line(folder: Path, rule: ZooRule) -> None:
    line = form_of(check_handover(folder).form).changed_line.partition("{year}")[0].strip()
    edit(model(folder) / "train.py", f"^# {re.escape(line)}.*$", "#")


def _no_word(folder: Path, rule: ZooRule) -> None:
    edit(model(folder) / "train.py", rf"\b(?:{'|'.join(rule.texts('words'))})\b", "something")


def _gap(folder: Path, rule: ZooRule) -> None:
    file = named(folder, rule)
    text = file.read_text(encoding="utf-8")
    gap = "[missing: something]"
    file.write_text(f"{text}\n{gap}\n" if file.name == "pull-request.md" else f"{gap}\n\n{text}", encoding="utf-8")


def _level(folder: Path, rule: ZooRule) -> None:
    edit(named(folder, rule), "^FuncStatus:.*", "FuncStatus:NOK")


def _wrong_verdict(folder: Path, rule: ZooRule) -> None:
    record = json.loads((folder / "handover.json").read_text(encoding="utf-8"))
    (folder / "handover.json").write_text(json.dumps({**record, "verdict": "rejected"}), encoding="utf-8")


BREAK: dict[str, Callable[[Path, ZooRule], object]] = {
    "addresses": lambda folder, rule: append(model(folder) / "train.py", "URL = 'https://another.example.org/x'\n"),
    "addresses_named": lambda folder, rule: edit(model(folder) / "README.md", "public_address_statement.md", "it"),
    "changed_line": _remove_line,
    "domain": lambda folder, rule: _rename(folder, "Elsewhere", 0),
    "files": lambda folder, rule: named(folder, rule._replace(options={"file": rule.texts("files")[0]})).unlink(),
    "folder": lambda folder, rule: (folder / "PyTorch").rename(folder / "Torch"),
    "gaps": _gap,
    "joined_paths": lambda folder, rule: append(model(folder) / "train.py", "PLACE = 'logs/' + __name__\n"),
    "levels": _level,
    "licence": lambda folder, rule: append(model(folder) / "LICENSE", "GNU GENERAL PUBLIC LICENSE\n"),
    "lines": lambda folder, rule: edit(named(folder, rule), rule.texts("patterns")[0], "nothing"),
    "logged": lambda folder, rule: edit(model(folder) / "train.py", r"^ *zoo_log\.train.*\n", ""),
    "logged_validation": lambda folder, rule: append(model(folder) / "train.py", "Digits().eval()\n"),
    "name": lambda folder, rule: _rename(folder, "other-one", -1),
    "never": lambda folder, rule: append(
        model(folder) / "train.py", "import pdb\n" if rule.texts("imports") else "exit()\n"
    ),
    "no_data": lambda folder, rule: (model(folder) / "weights.pth").write_bytes(b"0"),
    "no_downloads": lambda folder, rule: append(model(folder) / "run.sh", "gdown --id 123\n"),
    "own_header": _remove_header,
    "own_operators": lambda folder, rule: append(
        model(folder) / "train.py", "import torch.library as lib\nlib.Library('acme', 'DEF')\n"
    ),
    "parameters": lambda folder, rule: edit(named(folder, rule), "'--node_rank'", "'--other'"),
    "pull_request": lambda folder, rule: edit(
        folder / "pull-request.md", f"^{rule.options['key']}: .*", f"{rule.options['key']}: x"
    ),
    "request": lambda folder, rule: (folder / "pull-request.md").unlink(),
    "results": lambda folder, rule: edit(named(folder, rule), r"97\.4 %", "[missing: figure of the card]"),
    "sections": lambda folder, rule: edit(named(folder, rule), rf"^#+ .*(?:{rule.texts('headings')[0]}).*$", "# Else"),
    "verdict": _wrong_verdict,
    "words": _no_word,
}  # fmt: skip


def test_a_whole_hand_over_keeps_every_rule(written: tuple[str, Path]) -> None:
    form, folder = written
    assert states(folder) == {}
    done = handover("check", folder, "--lang", "en")
    assert done.exit_code == 0
    assert "0 broken" in done.output
    assert form in done.output


FIGURES = {
    "tecorigin-modelzoo": ["TZ605", "TZ607", "TZ705"],
    "ascend-modelzoo": ["AZ401", "AZ504", "AZ508", "AZ704"],
    "generic": ["GZ203", "GZ205", "GZ301"],
}
"""Rules that need figures of the card."""


@pytest.mark.parametrize("form", FORMS)
def test_the_example_lacks_nothing_but_figures_of_the_card(form: str, tmp_path: Path) -> None:
    device, options = FORMS[form]
    project, original = ported(tmp_path, device)
    out = tmp_path / "out"
    done = handover(
        project, "--for", form, "-o", out, "-t", device, "--original", original, "--model", "Digits", "--team", "team",
        "--dataset", "digits", "--set", "data_where=train.py makes them", "--set", "self_test=done by another team",
        "--source-url", "https://github.com/somebody/digits", "--commit", "0123abc", *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert list(states(out)) == FIGURES[form]
    done = handover("check", out, "--lang", "en")
    assert done.exit_code == 1
    assert "torchferry accept" in done.output


def test_each_rule_that_is_broken_is_the_one_that_is_named(written: tuple[str, Path], tmp_path: Path) -> None:
    form, folder = written
    wrong = {}
    rules = [rule for rule in form_of(form).rules if rule.level != "person"]
    assert len(rules) > 10
    for rule in rules:
        copy = tmp_path / rule.code
        shutil.copytree(folder, copy)
        BREAK[rule.check](copy, rule)
        found = states(copy)
        if list(found) != [rule.code]:
            wrong[rule.code] = sorted(found)
    assert wrong == {}


def test_every_form_is_well_formed() -> None:
    codes: list[str] = []
    for name in form_names():
        form = form_of(name)
        codes += [rule.code for rule in form.rules]
        for rule in form.rules:
            assert rule.check in CHECKS, rule.code
            assert rule.text.zh, f"{rule.code} has no Chinese"
            assert rule.level == "person" or (rule.remedy.en and rule.remedy.zh), f"{rule.code} has no remedy"
        for file in form.files:
            for lang in ("en", "zh"):
                assert form.template(file.template, lang)
    assert len(codes) == len(set(codes))
    assert set(FORMS) == set(form_names())
