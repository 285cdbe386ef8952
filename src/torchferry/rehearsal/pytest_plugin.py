"""A project's own tests on a simulated card: `pytest --rehearse NAME`.

The device is there before the first conftest is imported. At the end the summary says what would fail on the card;
with `--rehearse-strict` that fails the run, and so does a run in which nothing used the device. Without a target
nothing of this is loaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import argparse

    from torchferry.rehearsal.aggregate import Aggregate
    from torchferry.rehearsal.driver.session import ShippedSession
    from torchferry.rehearsal.session import Session


_HINT = pytest.StashKey[str]()
"""Why the plugin that is installed is not rehearsed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("torchferry", "rehearsal on a simulated card")
    group.addoption("--rehearse", metavar="TARGET", default="", help="target to rehearse: NAME or NAME@VERSION")
    group.addoption("--rehearse-card", metavar="NAME", default="", help="which card")
    group.addoption("--rehearse-devices", metavar="N", type=int, default=0, help="how many devices, 1 to 16")
    group.addoption("--rehearse-profile", metavar="FILE", default=None, help="TOML file that changes the card")
    group.addoption(
        "--rehearse-plugin",
        metavar="PLUGIN",
        default="",
        help="the vendor's own on a simulated driver: installed, or the path of a wheel; or simulated",
    )
    group.addoption("--rehearse-races", action="store_true", help="also look for races of streams and of the host")
    group.addoption("--rehearse-strict", action="store_true", help="fail when something would fail on the card")
    parser.addini("rehearse", "target to rehearse when none is named on the command line", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest of the project is imported, as it may import torch."""
    options = early_config.known_args_namespace
    target = _target(early_config)
    if not target:
        _refuse_without_target(options)
        return
    from torchferry.core import supported_torch
    from torchferry.core.errors import TorchferryError
    from torchferry.rehearsal import begin
    from torchferry.rehearsal.config import prepare
    from torchferry.rehearsal.driver.plugin import not_taken

    profile = None if options.rehearse_profile is None else Path(options.rehearse_profile)
    try:
        rehearsal = prepare(
            target,
            options.rehearse_card,
            options.rehearse_devices,
            profile,
            (),
            options.rehearse_plugin,
            races=options.rehearse_races,
        )
        with supported_torch.needed("pytest --rehearse"):
            begin(rehearsal)
    except TorchferryError as error:
        raise pytest.UsageError("\n".join(error.lines())) from None
    hint = not_taken(rehearsal.resolved().backend, options.rehearse_plugin, target.partition("@")[2])
    if hint is not None:
        early_config.stash[_HINT] = hint.render()


def _refuse_without_target(options: argparse.Namespace) -> None:
    """A run that was meant to be a rehearsal and is none would pass in silence."""
    for name, value in vars(options).items():
        if name.startswith("rehearse_") and value:
            raise pytest.UsageError(
                f"--{name.replace('_', '-')} needs --rehearse TARGET, or `rehearse` in the ini file"
            )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say in the header that this is a rehearsal."""
    session = _session(config)
    return [] if session is None else [f"torchferry: {line}" for line in _openings(config, session)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With --rehearse-strict, fail a run of which something would fail on the card, or that used no card."""
    if _session(session.config) is None:
        return
    if _is_worker(session.config):
        _write()  # now: pytest-xdist's main process reads it before this one ends
    elif exitstatus == pytest.ExitCode.OK and _strict_failure(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Print the summary."""
    session = _session(config)
    if session is None or _is_worker(config):
        return
    from torchferry.core.messages import language
    from torchferry.rehearsal.summary import lines

    terminalreporter.section("rehearsal")
    if config.getoption("verbose") < 0:  # then there was no header
        for line in _openings(config, session):
            terminalreporter.write_line(line)
    for line in lines(session.rehearsal, _account(), language(), int(exitstatus)):
        terminalreporter.write_line(line)
    if _strict_failure(config):
        terminalreporter.write_line("--rehearse-strict fails this run", red=True)


@pytest.fixture(scope="session")
def rehearsal(pytestconfig: pytest.Config) -> Session | ShippedSession:
    """The rehearsal of this run; the test is skipped when there is none."""
    session = _session(pytestconfig)
    if session is None:
        pytest.skip("needs `pytest --rehearse TARGET`")
    return session


def _target(config: pytest.Config) -> str:
    named: str = config.known_args_namespace.rehearse
    return named or str(config.getini("rehearse") or "")


def _session(config: pytest.Config) -> Session | ShippedSession | None:
    """Return the rehearsal that this plugin started; one that a project's own conftest starts is its own affair."""
    if not _target(config):
        return None
    if not any(name in sys.modules for name in ("torchferry.rehearsal.session", "torchferry.rehearsal.driver.session")):
        return None
    from torchferry.rehearsal import current

    return current()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _openings(config: pytest.Config, session: Session | ShippedSession) -> list[str]:
    from torchferry.rehearsal.summary import opening

    return [opening(session.rehearsal).render(), *filter(None, [config.stash.get(_HINT, "")])]


def _strict_failure(config: pytest.Config) -> bool:
    if not config.getoption("--rehearse-strict"):
        return False
    aggregate = _account()
    return bool(aggregate.failures or aggregate.only_reported) or not aggregate.used


def _write() -> None:
    from torchferry.rehearsal import events

    events.recorder.write()


def _account() -> Aggregate:
    """Return what this process and its children have seen so far."""
    from torchferry.rehearsal.aggregate import collect
    from torchferry.rehearsal.config import VARIABLE

    _write()
    return collect(Path(os.environ[VARIABLE]))
