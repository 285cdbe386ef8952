"""The verdict is said by every command and form, also where torchferry itself failed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.process import torchferry
from tests.migration.trees import snapshot
from torchferry.cli import migrate, scan
from torchferry.core.files import read_regular
from torchferry.rules import engine
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.source.tree import Entry

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"
FORMS = ("text", "json", "sarif", "github", "csv", "html")
BLOCKED = "import tensorrt\nimport torch\nx = torch.ones(2).cuda()\n"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one file that needs no change and one on which torchferry fails."""
    examine = Engine._examine

    def failing(self: Engine, entry: Entry, rewrite: bool, whole: bool, data: bytes | None) -> FileResult:
        if entry.path == "broken.py":
            raise RuntimeError("a fault of the test")
        return examine(self, entry, rewrite, whole, data)

    monkeypatch.setattr(Engine, "_examine", failing)
    root = tmp_path / "project"
    root.mkdir()
    (root / "broken.py").write_text("x.cuda()\n")
    (root / "fine.py").write_text("x = 1\n")
    return root


def _run(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in (*arguments, "-t", "npu")])  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", [scan.command, migrate.command], ids=["scan", "migrate"])
def test_a_failure_is_in_every_form(broken: Path, command: object, form: str) -> None:
    done = _run(command, broken, "-f", form)
    assert done.exit_code == 2
    assert "broken.py" in done.stdout
    assert "Ready for" not in done.stdout
    if form == "json":
        assert json.loads(done.stdout)["verdict"] == "incomplete"
    elif form == "sarif":
        assert json.loads(done.stdout)["runs"][0]["properties"]["verdict"] == "incomplete"
    elif form != "csv":
        assert "a fault of the test" in done.stdout


@pytest.mark.parametrize("way", ["--diff", "--check", "--patch=FILE"])
def test_a_migration_that_failed_on_a_file_says_so(broken: Path, tmp_path: Path, way: str) -> None:
    before = snapshot(broken)
    done = _run(migrate.command, broken, way.replace("FILE", str(tmp_path / "x.patch")))
    assert done.exit_code == 2
    assert "torchferry failed on one file" in done.output
    assert "a fault of the test" in done.output
    assert snapshot(broken) == before


def test_a_migration_says_what_blocks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BLOCKED)
    diff = torchferry("migrate", tmp_path, "-t", "npu", "--diff")
    assert diff.stdout.startswith("diff --git")
    assert "Blocked on Huawei Ascend" in diff.stderr
    assert "train.py:1:1 LIB101" in diff.stderr
    for arguments in (("--check",), ()):
        done = torchferry("migrate", tmp_path, "-t", "npu", *arguments)
        assert done.returncode == 1
        assert "Blocked on Huawei Ascend by `tensorrt`" in done.stdout
        assert "What blocks:" in done.stdout


@pytest.mark.parametrize("device", ["cuda", "npu"])
@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_migration_names_what_could_not_be_resolved(options: tuple[str, ...], device: str, tmp_path: Path) -> None:
    """An import by a name that nobody can tell is no finding, and still not nothing."""
    (tmp_path / "train.py").write_text(
        "import importlib\nimport sys\nimport torch\nimportlib.import_module(sys.argv[1])\n"
        f"if __name__ == '__main__':\n    print(torch.ones(2, device={device!r}))\n"
    )
    migrated = torchferry("migrate", ".", "-t", "npu", "--allow-dirty", *options, cwd=tmp_path)
    assert "Nothing remains for you to do" not in migrated.stdout
    assert "What remains for you: one place could not be resolved." in migrated.stdout
    assert "imports a module by a name that could not be resolved" in migrated.stdout


def test_a_check_shows_what_would_change_and_counts_as_a_scan(tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(EXAMPLE, root)
    # the name that needs the plugin brings its import, so that the fix of IMP101 is part of another
    (root / "absorbed.py").write_text("import torch\nif __name__ == '__main__':\n    torch.ones(2).cuda()\n")
    for target in ("npu", "ptex"):
        scanned = json.loads(torchferry("scan", root, "-t", target, "-f", "json").stdout)
        checked = json.loads(torchferry("migrate", root, "-t", target, "--check", "-f", "json").stdout)
        assert checked["counts"] == scanned["counts"]
        assert checked["verdict"] == scanned["verdict"]
        assert "absorbed.py" in checked["changes"]
        assert scanned["changes"] == []
        text = torchferry("migrate", root, "-t", target, "--check").stdout
        assert f"{scanned['counts']['safe']} fixes in {len(checked['changes'])} files would be applied" in text
        assert "absorbed.py\n" in text.partition("What would change:")[2].partition("Remaining:")[0]
    annotations = torchferry("migrate", root, "-t", "npu", "--check", "-f", "github").stdout
    assert annotations.count("file=absorbed.py") >= 1


def test_files_that_gitignore_hides_are_named_where_there_is_no_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n/secret.py\n*.log\n")
    for name in ("build/lib/deep.py", "build/__pycache__/x.py", "build/a.bin", "secret.py", "x.log", "train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    text = " ".join(torchferry("scan", tmp_path, "-t", "npu").stdout.split())
    for path in ("build/lib/deep.py", "secret.py"):
        assert f" {path}: hidden by .gitignore, in a tree without git; files: 1, CUDA words: 0" in text
    for command in (("scan",), ("migrate", "--check")):
        document = json.loads(torchferry(command[0], tmp_path, "-t", "npu", *command[1:], "-f", "json").stdout)
        assert document["ignored"] == ["build/lib/deep.py", "secret.py"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert "hidden by" not in torchferry("scan", tmp_path, "-t", "npu").stdout


def test_a_folder_without_a_file_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    done = _run(scan.command, tmp_path)
    assert (done.exit_code, done.stdout.split("\n")[0]) == (
        1,
        "Not judged for Huawei Ascend: no file here is of a kind that torchferry reads.",
    )
    assert json.loads(_run(scan.command, tmp_path, "-f", "json").stdout)["verdict"] == "incomplete"
    for name, text in (("README.md", "```bash\npython train.py\n```\n"), ("config.yaml", "lr: 1\n")):
        (tmp_path / name).write_text(text)
        done = _run(scan.command, tmp_path)
        assert (done.exit_code, done.stdout.split("\n")[0]) == (
            1,
            "Not judged for Huawei Ascend: no file here holds code.",
        )
        assert _run(scan.command, tmp_path / name).exit_code == 0  # a file that is named is one of a project
    (tmp_path / "a.py").write_text("x = 1\n")
    assert _run(scan.command, tmp_path).stdout.startswith("Ready for")


def test_a_quiet_migration_says_what_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BLOCKED)
    done = torchferry("migrate", tmp_path, "-t", "npu", "--check", "-q")
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert "Blocked on Huawei Ascend" in done.stderr


UNKNOWN_WHOLE: dict[str, tuple[dict[str, bytes | str | None], str]] = {
    "the only file cannot be read": ({"gone.py": None}, "one file could not be examined."),
    "no file can be examined": (
        {"a.py": b"x.cuda()  # \xff", "b.py": b"def (x.cuda()"},
        "2 files could not be examined.",
    ),
    "one of two cannot be read": ({"gone.py": None, "a.py": b"x = 1"}, "one file could not be read; the rest needs no"),
    "one of three": (
        {"gone.py": None, "a.py": b"x = 1", "b.py": b"def (x.cuda()"},
        "one file could not be read; the rest needs one decision.",
    ),
    "a link alone": ({"a.py": "/dev/null"}, "no file here is of a kind that torchferry reads."),
}
"""Files by their bytes, None for one that nobody may read, a text for a link; and the end of the verdict."""


@pytest.mark.parametrize("title", UNKNOWN_WHOLE)
@pytest.mark.parametrize("command", [scan.command, migrate.command], ids=["scan", "migrate"])
def test_a_project_is_not_known_where_files_were_not_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object, title: str
) -> None:
    files, end = UNKNOWN_WHOLE[title]
    for name, data in files.items():
        if isinstance(data, str):
            (tmp_path / name).symlink_to(data)
        else:
            (tmp_path / name).write_bytes(data or b"")

    def read(path: Path) -> bytes:  # the tests may run as root, who may read everything
        if path.name == "gone.py":
            raise PermissionError(13, "Permission denied", str(path))
        return read_regular(path)

    monkeypatch.setattr(engine, "read_regular", read)
    arguments = (tmp_path, "--check") if command is migrate.command else (tmp_path,)
    done = _run(command, *arguments, "-j", 1)
    assert done.exit_code == 1
    assert f"Not judged for Huawei Ascend: {end}" in done.stdout
    assert "Ready for" not in done.stdout
    assert json.loads(_run(command, *arguments, "-j", 1, "-f", "json").stdout)["verdict"] == "incomplete"


def test_a_file_that_is_broken_is_work_beside_programs_that_do_not_reach_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def (x.cuda()")
    (tmp_path / "b.py").write_text("if __name__ == '__main__':\n    print(1)\n")
    assert _run(scan.command, tmp_path).stdout.startswith(
        "Ready for Huawei Ascend; one decision that no program waits for."
    )
    (tmp_path / "b.py").write_text("import a\nif __name__ == '__main__':\n    print(1)\n")
    said = _run(scan.command, tmp_path).stdout
    assert said.startswith("Not judged for Huawei Ascend: b.py reaches what was not read; to do: one decision.")
    assert "cannot parse" in said
    assert "a.py:1:" in said


def test_a_folder_with_the_plugins_name_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "torch_npu is not installed here" in _run(migrate.command, tmp_path, "--check").stdout
