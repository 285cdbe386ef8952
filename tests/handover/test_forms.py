"""Another zoo is one more folder; a form that is malformed says what is wrong with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.handover.made import handover
from torchferry.backends import handover_forms
from torchferry.backends.handover_forms import form_names, form_of, forms_for

FORM = """
[sources]
RULES = "the rules of Zeta's zoo"

[form]
title = "Zeta"
layout = "models/{domain}/{model}"
domains = ["vision"]
source = "RULES"

[[file]]
template = "README.md"
path = "README.md"

[[rule]]
code = "ZZ1"
check = "files"
files = ["README.md"]
text = "there is a README"
text_zh = "有 README"
remedy = "write it"
remedy_zh = "请编写"
source = "RULES"
"""


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    common = tmp_path / "forms"
    shutil.copytree(handover_forms.COMMON, common)
    monkeypatch.setattr(handover_forms, "COMMON", common)
    folder = common / "zeta-zoo"
    folder.mkdir()
    (folder / "form.toml").write_text(FORM, encoding="utf-8")
    (folder / "README.md").write_text("# {{model}} for {{target_title}}\n", encoding="utf-8")
    return folder


def test_another_zoo_is_one_more_folder(zoo: Path, tmp_path: Path) -> None:
    assert "zeta-zoo" in form_names()
    project = tmp_path / "net"
    project.mkdir()
    (project / "train.py").write_text("if __name__ == '__main__':\n    loss.backward()\n", encoding="utf-8")
    out = tmp_path / "out"
    done = handover(project, "--for", "zeta-zoo", "--domain", "vision", "-o", out, "-t", "npu", "--lang", "en")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert (out / "models/vision/net/README.md").read_text(encoding="utf-8") == "# net for Huawei Ascend\n"
    assert handover("check", out).exit_code == 0
    (out / "models/vision/net/README.md").unlink()
    checked = handover("check", out, "-v", "--lang", "en")
    assert checked.exit_code == 1
    assert "README.md is missing" in checked.output
    assert "the rules of Zeta's zoo" in checked.output


def test_a_vendor_has_its_own_forms_and_others_the_general_one() -> None:
    assert forms_for("npu") == ["ascend-modelzoo"]
    assert forms_for("sdaa") == ["tecorigin-modelzoo"]
    assert forms_for("musa") == ["generic"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('source = "RULES"\n\n[[file]]', 'source = "OTHER"\n\n[[file]]', r"source `OTHER` is not in \[sources\]"),
        ("{model}", "model", "has {model}"),
        ('check = "files"\n', "", "`check` and `text` are needed"),
        ('check = "files"\n', 'check = "files"\nlevel = "maybe"\n', "`level` is one of"),
        ('path = "README.md"', 'path = "README.md"\nunknown = 1', "`unknown` is none of"),
        ("[form]", "[form", "not TOML"),
    ],
)
def test_a_form_that_is_malformed_says_so(zoo: Path, before: str, after: str, said: str) -> None:
    (zoo / "form.toml").write_text(FORM.replace(before, after), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        form_of("zeta-zoo")
