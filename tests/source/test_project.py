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
    ("text", "is_parsed", "is_defined"),
    [
        ("def made():\n    pass\n", True, True),
        ("class made:\n    pass\n", True, True),
        ("async  def \\\n  made(): pass\n", True, True),
        ("class\tmade: pass\n", True, True),
        ("def ｍade(): pass\n", True, True),  # the same name to Python
        ("made = print\n", False, False),
        ("from other import made\n", True, False),
        ("def making(): made\n", False, False),
    ],
)
def test_a_file_is_parsed_for_a_definition_that_its_text_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_parsed: bool, is_defined: bool
) -> None:
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    project = Project(tmp_path, ["m.py", "main.py"])
    parsed: list[str] = []
    file = Project.file

    def watched(self: Project, path: str) -> tuple[PythonFile, Names] | None:
        parsed.append(path)
        return file(self, path)

    monkeypatch.setattr(Project, "file", watched)
    assert (project.definition("m.made", "main.py") is not None) == is_defined
    assert parsed == ["m.py"] * is_parsed


@pytest.mark.parametrize(
    ("passing", "name", "where"),
    [
        ({"pk/__init__.py": "from .inner import made\n"}, "pk.made", "pk/inner.py"),
        ({"pk/__init__.py": "from pk.inner import made as other\n"}, "pk.other", "pk/inner.py"),
        ({"pk/__init__.py": "from .inner import *\n"}, "pk.made", "pk/inner.py"),
        ({"pk/__init__.py": "from .a import made\n", "pk/a.py": "from .inner import *\n"}, "pk.made", "pk/inner.py"),
        ({"pk/__init__.py": "from .a import made\n", "pk/a.py": "from pk import made\n"}, "pk.made", None),
        (
            {"pk/__init__.py": "try:\n    from fast import made\nexcept ImportError:\n    from .inner import made\n"},
            "pk.made",
            None,
        ),
    ],
)
def test_a_definition_that_modules_pass_on(
    tmp_path: Path, passing: dict[str, str], name: str, where: str | None
) -> None:
    files = {"pk/inner.py": "def made():\n    return 1\n", "main.py": "", **passing}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    found = Project(tmp_path, list(files)).definition(name, "main.py")
    assert (None if found is None else found[0].path) == where


def test_a_file_that_is_at_hand_is_asked_itself(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def made(): pass\n", encoding="utf-8")
    project = Project(tmp_path, ["m.py"])
    assert project.file("m.py") is not None
    (tmp_path / "m.py").write_text("", encoding="utf-8")
    assert project.definition("m.made", "main.py") is not None
