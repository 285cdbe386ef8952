"""A redirect that the environment asks for: which words ask, and that no failure leaves the program on the CPU."""

from __future__ import annotations

import pytest

from tests import warm
from tests.rehearsal.child import ENVIRONMENT
from torchferry.core import env
from torchferry.core.errors import UsageError

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        *((word, True) for word in ("1", "true", "True", "yes", "ON", " 1 ")),
        *((word, False) for word in ("", "0", "false", "No", "off")),
    ],
)
def test_words_that_ask(value: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHFERRY_SHIM", value)
    assert env.shim_asked() is asked


@pytest.mark.parametrize("value", ["2", "npu", "enable"])
def test_another_word_is_an_error_that_names_those_that_are_taken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHFERRY_SHIM", value)
    with pytest.raises(UsageError, match=f"`TORCHFERRY_SHIM={value}` is neither .* 1, true, yes, on; no: 0, false"):
        env.shim_asked()


_BEGIN = """
import torch
from torchferry.shim import entry, launcher
class Broken(BaseException): ...
def begin():
    raise RAISED
launcher.begin = begin
try:
    entry.autoload()
except BaseException as error:
    print("raised", repr(error))
for ask in (torch.cuda.is_available, torch.cuda.device_count, torch.ones(1).cuda, lambda: torch.ones(1, device="cuda"),
            torch.accelerator.is_available, torch.accelerator.current_accelerator):
    try:
        print(ask())
    except RuntimeError as error:
        print(str(error).partition(": ")[2].splitlines()[0])
    except AssertionError:
        print("no CUDA")
"""


@pytest.mark.parametrize(
    ("raised", "asked", "told"),
    [
        ("RuntimeError('inside') from KeyError('deep')", "1", "the redirect did not start: RuntimeError: inside"),
        ("SystemExit('driver')", "yes", "the redirect did not start: SystemExit: driver"),
        ("Broken()", "1", "the redirect did not start: Broken: "),
        ("RuntimeError('never')", "perhaps", "`TORCHFERRY_SHIM=perhaps` is neither yes nor no"),
    ],
)
def test_whatever_keeps_it_from_beginning_refuses(raised: str, asked: str, told: str) -> None:
    environment = {**ENVIRONMENT, "TORCHFERRY_SHIM": asked, "TORCHFERRY_LANG": "en"}
    (done,) = warm.run(_BEGIN.replace("RAISED", raised), environments=[environment])
    assert done.stdout.splitlines() == [told] * 6, done.stderr
    assert done.stderr.count(f"torchferry: {told}") == 1
    assert ("<- KeyError: 'deep'" in done.stderr) == ("KeyError" in raised)


def test_an_interruption_ends_the_program() -> None:
    environment = {**ENVIRONMENT, "TORCHFERRY_SHIM": "1"}
    (done,) = warm.run(_BEGIN.replace("RAISED", "KeyboardInterrupt()"), environments=[environment])
    assert done.stdout.splitlines()[0] == "raised KeyboardInterrupt()"


def test_who_did_not_ask_notices_nothing() -> None:
    environments = [{**ENVIRONMENT, "TORCHFERRY_SHIM": value} for value in ("", "0", "off")]
    for done in warm.run(_BEGIN.replace("RAISED", "SystemExit(3)"), environments=environments):
        assert done.stdout.splitlines() == ["False", "0", "no CUDA", "no CUDA", "False", "None"], done.stderr
        assert "torchferry" not in done.stderr
