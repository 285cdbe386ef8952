"""The same thing has the same option in `nan` and in `compare`, and the old names go on meaning it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from torchferry.cli import cli
from torchferry.numerics.framework.launcher import ToolSettings

NAN, CPU, RECORD = ("nan",), ("compare", "cpu"), ("compare", "record", "-o", "there")


class AskedError(Exception):
    """Carries what the tool was asked for, in place of a run."""

    def __init__(self, settings: ToolSettings) -> None:
        self.settings = settings


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> ToolSettings:
    """Return what a command asks of its tool."""

    def run(command: list[str], settings: ToolSettings, folder: Path) -> Any:
        raise AskedError(settings)

    for module in ("nan", "compare_cpu", "compare_record"):
        monkeypatch.setattr(importlib.import_module(f"torchferry.cli.{module}"), "run", run)
    outcome = CliRunner().invoke(cli, [*words, "--", "python", "train.py"])
    assert isinstance(outcome.exception, AskedError), outcome.output
    return outcome.exception.settings


@pytest.mark.parametrize(
    ("command", "new", "old"),
    [
        (NAN, ("--skip-op", "mm", "--skip-op", "add"), ("--white-list", "mm", "--white-list", "add")),
        (CPU, ("--skip-op", "mm", "--skip-op", "add"), ("--white-list", "mm", "--white-list", "add")),
        (NAN, ("--rank", "1", "--rank", "3"), ("--enable-ranks", "1", "--enable-ranks", "3")),
        (CPU, ("--rank", "1", "--rank", "3"), ("--enable-ranks", "1", "--enable-ranks", "3")),
        (RECORD, ("--rank", "1", "--rank", "3"), ("--ranks", "1,3")),
    ],
)
def test_an_old_name_of_an_option_means_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
    new: tuple[str, ...],
    old: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(monkeypatch, *command, *new) == asked(monkeypatch, *command, *old)
    assert asked(monkeypatch, *command, *new) != asked(monkeypatch, *command)


@pytest.mark.parametrize("command", [NAN, CPU])
def test_what_is_asked_for_reaches_the_tool(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    settings = asked(
        monkeypatch, *command, "--skip-op", "mm", "--target-op", "add", "--rank", "2", "--check-ranks", "5"
    )
    assert settings.options["white_list"] == ["mm"]
    assert settings.options["target_op"] == ["add"]
    assert (settings.ranks, settings.check_ranks) == ((2,), 5)


def test_a_dump_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    compared = asked(monkeypatch, *CPU, "--dump", "calls", "--output-dir", "logs").options
    assert (compared["dump"], compared["output_dir"]) == (str(tmp_path / "calls"), str(tmp_path / "logs"))
    assert (compared["dump_error_data"], compared["should_log_to_file"]) == (False, True)
    alone = asked(monkeypatch, *CPU, "--dump", "calls").options
    assert (alone["dump"], alone["should_log_to_file"]) == (str(tmp_path / "calls"), False)
    assert asked(monkeypatch, *NAN, "--dump", "calls").options["output_dir"] == str(tmp_path / "calls")


@pytest.mark.parametrize("command", [NAN, CPU, RECORD[:2]])
def test_help_shows_the_new_names_alone(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*command, "--help"]).output
    assert "--rank " in shown
    for old in ("--white-list", "--enable-ranks", "--dump-error-data", "--ranks "):
        assert old not in shown
