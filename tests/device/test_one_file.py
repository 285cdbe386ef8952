"""The single file: for Python 3.8, without torchferry, clean by itself, and known again."""

from __future__ import annotations

import ast
import builtins
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from torchferry import __version__
from torchferry.backends import registry
from torchferry.core.vendored import untouched
from torchferry.device import one_file as maker
from torchferry.device.one_file import one_file

NAME = "device_utils.py"
CONFIGURATION = Path(__file__).parent.parent.parent / "pyproject.toml"


@pytest.fixture(scope="module")
def text() -> str:
    return one_file(NAME)


def test_it_is_python_of_3_8(text: str) -> None:
    ast.parse(text, feature_version=(3, 8))


def test_it_imports_the_standard_library_and_torch_alone(text: str) -> None:
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    assert modules - set(sys.stdlib_module_names) == {"torch"}


def test_every_name_that_it_uses_is_defined(text: str) -> None:
    """What a definition taken from elsewhere needs comes with it."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins)) | {"__file__"}
    for node in ast.walk(tree):
        bound |= {alias.asname or alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)}
        bound |= {str(getattr(node, field)) for field in ("name", "arg") if getattr(node, field, None)}
    assert {node.id for node in names if isinstance(node.ctx, ast.Load)} - bound == set()


def test_it_says_what_wrote_it_and_how_to_write_it_anew(text: str) -> None:
    first = text.splitlines()[0]
    assert __version__ in first
    assert "torchferry device vendor DIR" in first
    assert "Apache-2.0" in text[:800]


def test_it_is_the_same_every_time(text: str) -> None:
    assert one_file(NAME) == text


def test_it_has_the_chinese_of_every_message(text: str) -> None:
    tree = ast.parse(text)
    said = {
        node.args[-1].value  # of a message that counts, the form for several things
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("say", "say_plural")
        and isinstance(node.args[-1], ast.Constant)
    }
    table = next(
        node.value for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "_CHINESE"
    )  # fmt: skip
    assert said == set(ast.literal_eval(table))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda text: text, True),
        (lambda text: text + "\n", False),
        (lambda text: text.replace("seeded", "sown", 1), False),
        (lambda text: text.replace(__version__, "9.9", 1), False),
        (lambda text: text.partition("\n")[2], None),
        (lambda text: "", None),
        (lambda text: "import torch\n", None),
    ],
)
def test_an_edit_is_seen(text: str, edit: object, expected: bool | None) -> None:
    assert untouched(edit(text)) is expected  # type: ignore[operator]


def test_a_module_that_needs_more_than_the_file_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "extra.py").write_text('"""Extra."""\n\nfrom torchferry.core.toml import load\n', encoding="utf-8")
    monkeypatch.setattr(maker, "_HERE", tmp_path)
    monkeypatch.setattr(maker, "MODULES", ("extra",))
    with pytest.raises(ValueError, match=r"`load` of torchferry\.core\.toml is not in the single file"):
        one_file(NAME)


def test_a_name_that_two_modules_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text('"""Extra."""\n\n\ndef same() -> None:\n    pass\n', encoding="utf-8")
    monkeypatch.setattr(maker, "_HERE", tmp_path)
    monkeypatch.setattr(maker, "MODULES", ("one", "two"))
    with pytest.raises(ValueError, match="two modules define `same`"):
        one_file(NAME)


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "--config", str(CONFIGURATION), "--target-version", "py38", "--no-cache"),
        ("ruff", "check", "--isolated", "--line-length", "120", "--target-version", "py38", "--no-cache"),
        ("ruff", "format", "--check", "--config", str(CONFIGURATION), "--no-cache"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_it_is_clean_by_itself(text: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    program = shutil.which(command[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"needs {command[0]}")
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    done = subprocess.run([program, *command[1:], NAME], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", registry.built_in())
def test_a_migration_leaves_it_as_it_is(text: str, tmp_path: Path, target: str) -> None:
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    (tmp_path / "train.py").write_text('import torch\nx = torch.ones(2).to("cuda")\n', encoding="utf-8")
    torchferry("migrate", tmp_path, "--target", target, "--unsafe-fixes")
    assert '"cuda"' not in (tmp_path / "train.py").read_text(encoding="utf-8")
    assert untouched((tmp_path / NAME).read_text(encoding="utf-8"))
    scanned = torchferry("scan", tmp_path, "--target", target)
    assert "device_utils" not in scanned.stdout


def vendor(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return torchferry("device", "vendor", folder, *options)


def test_it_is_written_and_then_up_to_date(tmp_path: Path, text: str) -> None:
    first = vendor(tmp_path)
    assert first.returncode == 0, first.stderr
    assert "is written" in first.stdout
    assert (tmp_path / NAME).read_text(encoding="utf-8") == text
    before = (tmp_path / NAME).stat()
    assert "is up to date" in vendor(tmp_path).stdout
    assert (tmp_path / NAME).stat() == before
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_an_older_one_is_replaced_and_keeps_its_mode(tmp_path: Path, text: str) -> None:
    older = text.replace(f"Written by torchferry {__version__}", "Written by torchferry 0.0.1", 1)
    lines = older.splitlines(keepends=True)
    (tmp_path / NAME).write_text(maker.sealed(lines[0] + "".join(lines[2:])), encoding="utf-8")
    (tmp_path / NAME).chmod(0o600)
    done = vendor(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / NAME).read_text(encoding="utf-8") == text
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "reason"),
    [("# mine\n", "torchferry did not write it"), (None, "was edited since"), ("", "torchferry did not write it")],
)
def test_somebodys_work_stays(tmp_path: Path, text: str, content: str | None, reason: str) -> None:
    mine = text + "# mine\n" if content is None else content
    (tmp_path / NAME).write_text(mine, encoding="utf-8")
    done = vendor(tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / NAME).read_text(encoding="utf-8") == mine
    assert vendor(tmp_path, "--force").returncode == 0
    assert (tmp_path / NAME).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_no_link_is_followed(tmp_path: Path, options: tuple[str, ...], there: bool) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.py"
    project.mkdir()
    if there:
        outside.write_text("# outside\n", encoding="utf-8")
    (project / NAME).symlink_to(outside)
    done = vendor(project, *options)
    assert done.returncode == 2
    assert "is a link" in done.stderr
    assert outside.exists() is there
    assert [path.name for path in project.iterdir()] == [NAME]


def test_a_hard_link_elsewhere_keeps_its_content(tmp_path: Path, text: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.py"
    project.mkdir()
    outside.write_text("# outside\n", encoding="utf-8")
    os.link(outside, project / NAME)
    assert vendor(project, "--force").returncode == 0
    assert outside.read_text(encoding="utf-8") == "# outside\n"
    assert (project / NAME).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["../up.py", "sub/in.py", "/abs.py", "device_utils", "a-b.py", ".py", "..", "x.pyc"])
def test_a_name_that_is_no_modules_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    done = vendor(tmp_path / "project", "--name", name)
    assert done.returncode == 2
    assert "is not a valid module name" in done.stderr
    assert [path.name for path in tmp_path.rglob("*.py*")] == []


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    for name in (NAME, "pipe.py"):
        done = vendor(tmp_path, "--name", name, "--force")
        assert done.returncode == 2
        assert "is not a file" in done.stderr
    assert vendor(tmp_path / "absent").returncode == 2


def test_another_name_stands_in_the_text(tmp_path: Path) -> None:
    assert vendor(tmp_path, "--name", "devices.py").returncode == 0
    assert "from devices import DeviceManager" in (tmp_path / "devices.py").read_text(encoding="utf-8")


def test_it_is_written_in_chinese(tmp_path: Path) -> None:
    assert "已写入" in vendor(tmp_path, "--lang", "zh").stdout
