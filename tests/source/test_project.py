"""What a name of the project's own modules really is."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile


def test_packages_that_import_everything_of_each_other_are_each_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [f"m{number}" for number in range(12)]
    everything = "".join(f"from pkg.{module} import *\n" for module in modules)
    paths = ["pkg/__init__.py", *(f"pkg/{module}.py" for module in modules)]
    for path in paths:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(everything, encoding="utf-8")
    project = Project(tmp_path, paths)
    asked: list[str] = []
    words_passed_on = Project._words_passed_on

    def counted(self: Project, path: str) -> frozenset[str]:
        asked.append(path)
        return words_passed_on(self, path)

    monkeypatch.setattr(Project, "_words_passed_on", counted)
    assert project.canonical("pkg.anything", "main.py") == "pkg.anything"
    assert sorted(asked) == sorted(paths)


def test_a_name_is_found_behind_modules_that_import_everything(tmp_path: Path) -> None:
    files = {
        "a.py": "from b import *\n",
        "b.py": "from a import *\nfrom c import *\n",
        "c.py": "from torch import cuda\n",
    }
    for path, text in files.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert Project(tmp_path, list(files)).canonical("a.cuda", "main.py") == "torch.cuda"


@pytest.mark.parametrize(
    ("text", "name", "is_parsed"),
    [
        ("def made():\n    pass\n", "made", True),
        ("class made:\n    pass\n", "made", True),
        ("async  def \\\n  made(): pass\n", "made", True),
        ("class\tmade: pass\n", "made", True),
        ("def ｍade(): pass\n", "made", True),  # the same name to Python
        ("made = print\n", "made", False),
        ("from other import made\n", "made", False),
        ("def making(): made\n", "made", False),
    ],
)
def test_a_file_is_parsed_for_a_definition_that_its_text_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str, is_parsed: bool
) -> None:
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    project = Project(tmp_path, ["m.py", "main.py"])
    parsed: list[str] = []
    file = Project.file

    def watched(self: Project, path: str) -> tuple[PythonFile, Names] | None:
        parsed.append(path)
        return file(self, path)

    monkeypatch.setattr(Project, "file", watched)
    assert (project.definition(f"m.{name}", "main.py") is not None) == is_parsed
    assert parsed == ["m.py"] * is_parsed


def test_a_file_that_is_at_hand_is_asked_itself(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def made(): pass\n", encoding="utf-8")
    project = Project(tmp_path, ["m.py"])
    assert project.file("m.py") is not None
    (tmp_path / "m.py").write_text("", encoding="utf-8")
    assert project.definition("m.made", "main.py") is not None
