"""A result that cannot be written is told before the work for it: of each command, each option that names one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from torchferry.cli import cli
from torchferry.core.errors import TorchferryError
from torchferry.core.files import require_creatable, write_whole

READ = {
    "accept --file",
    "deploy check --bundle",
    "deploy commit --bundle",
    "deploy plan --bundle",
    "deploy report --inventory",
    "deploy rollback --bundle",
    "deploy run --bundle",
    "deploy verify --bundle",
    "doctor --env-file",
    "migrate --config",
    "migrate --python",
    "decide --config",
    "decide --seen",
    "decide --stdin-filename",
    "migrate --seen",
    "migrate --stdin-filename",
    "scan --config",
    "scan --python",
    "scan --seen",
    "scan --stdin-filename",
    "show --config",
    "show --seen",
    "show --stdin-filename",
    "sync --config",
    "sync --seen",
    "sync --stdin-filename",
}
"""Options that name what is read and may be missing, or what is changed only after it was shown."""


def _path_options(command: click.Command, context: click.Context, name: str) -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and isinstance(parameter.type, click.Path) and not parameter.type.exists:
            yield f"{name} {max(parameter.opts, key=len)}", parameter
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _path_options(found, click.Context(found, parent=context), f"{name} {each}".strip())


OPTIONS = dict(_path_options(cli, click.Context(cli), ""))


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_it_is_told_first(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    option = OPTIONS[name]
    context = click.Context(click.Command("any"))
    for place in ("file/result", "file/folder/result"):
        if name in READ:
            option.process_value(context, tmp_path / place)
        else:
            with pytest.raises(TorchferryError, match=r"cannot write .*result: Not a directory"):
                option.process_value(context, tmp_path / place)


def test_what_is_made_with_its_folders_needs_none_of_them(tmp_path: Path) -> None:
    require_creatable(tmp_path / "a" / "b" / "c")
    require_creatable(Path("new-folder") / "new")
    (tmp_path / "link").symlink_to("absent")
    with pytest.raises(OSError, match="No such file"):
        require_creatable(tmp_path / "link" / "folder")


def test_what_cannot_be_written_whole_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("old", encoding="utf-8")
    old.chmod(0o640)
    link.symlink_to(old)
    write_whole(link, b"new")
    assert (link.is_symlink(), old.read_text(), old.stat().st_mode & 0o777) == (True, "new", 0o640)
    (tmp_path / "twin").hardlink_to(old)
    write_whole(old, b"newer")
    assert (tmp_path / "twin").read_text() == "newer"
    monkeypatch.chdir(tmp_path)
    write_whole(Path("made"), b"made")
    done = subprocess.run(
        [
            sys.executable, "-c",
            "import resource; from pathlib import Path; from torchferry.core.files import write_whole\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)); write_whole(Path('made'), b'longer than four')",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "made", "old", "twin"]
    assert Path("made").read_text() == "made"
