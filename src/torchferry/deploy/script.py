"""The scripts that hosts run: one for each step, and one that looks at all of them at once.

A script is text that bash reads from its input, so that nothing has to be on the host beforehand. Values are in it
quoted, as variables; no command is put together from them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torchferry.backends.deployment import DeployStep

_FRAME = Path(__file__).with_name("step.sh")

BUSY = "TORCHFERRY failed: a process uses a card"
"""What a step says that would touch the driver of a card in use."""

_LOOK = """\
look() { # NUMBER STEP TEXT
  output=$({ test ! -e "$STATE/begun.$2" || { echo "the step began and did not end"; exit 1; }
    timeout -k 10 180 bash -c "$SETTINGS
$3" "$2" </dev/null; } 2>&1 | tail -c 2000 | base64 | tr -d '\\n'; exit "${PIPESTATUS[0]}")
  printf '%s %s %s %s\\n' "$1" "$2" "$?" "$output"
}
export PYTHONDONTWRITEBYTECODE=1
"""
"""Prints a line for each step: its number, its name, 0 when there is nothing to do, what the check said in base64."""


class ScriptSettings:
    """What scripts see: variables, and lists of words.

    Args:
        values: Variables by name.
        lists: Arrays of bash by name.
    """

    def __init__(self, values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
        self.values = dict(values)
        self.lists = {name: tuple(words) for name, words in lists.items()}

    def text(self) -> str:
        """Return them as lines of bash."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.values.items()]
        lines += [f"{name}=({' '.join(map(shlex.quote, words))})" for name, words in self.lists.items()]
        return "\n".join(lines)


def step_script(step: DeployStep, settings: ScriptSettings, busy: str, timeout: int) -> str:
    """Return the script of one step, which takes `check`, `run`, `again` or `undo` as its argument.

    Args:
        step: The step.
        settings: What its commands see.
        busy: The command that ends with 0 when a process uses a card; only a step that refuses then has it.
        timeout: Seconds for its command.
    """
    state, logs = settings.values["STATE"], settings.values["LOGS"]
    lines = [
        "{",
        f"STEP={step.id} TIMEOUT={timeout} RETRIES={step.verify_retries}",
        f"OK_RC={shlex.quote(' '.join(map(str, step.ok_rc)))} STATE={shlex.quote(state)} LOGS={shlex.quote(logs)}",
        _held("SETTINGS", settings.text()),
        _held("CHECK", step.check),
        _held("RUN", step.run),
        _held("UNDO", step.undo or _no_way_back(step)),
        _held("BUSY", busy if step.refuse_busy else ""),
        _FRAME.read_text(encoding="utf-8"),
        "exit 0; }",  # bash has read all of it before the first command runs, which could take its input away
    ]
    return "\n".join(lines) + "\n"


def survey_script(
    steps: Iterable[tuple[int, DeployStep]], settings: ScriptSettings, busy: str, engine: str, container: str
) -> str:
    """Return a script that looks at all steps of a host and of its container, and changes nothing.

    Args:
        steps: The steps with their numbers.
        settings: What their commands see.
        busy: As for `step_script`: where a step that refuses then is not complete, it says so.
        engine: The program of the container engine.
        container: The name of the container.
    """
    on_host: list[tuple[int, DeployStep]] = []
    inside: list[tuple[int, DeployStep]] = []
    for number, step in steps:
        (inside if step.in_container else on_host).append((number, step))
    lines = ["{", f"STATE={shlex.quote(settings.values['STATE'])}", _held("SETTINGS", settings.text()), _LOOK]
    host = "\n".join([*lines, *(_looked_at(number, step, busy) for number, step in on_host)])
    host += "\nsed 's/^/changed /' \"$STATE/changed\" 2>/dev/null\n"
    if inside:
        script = "\n".join([*lines, *(_looked_at(number, step, busy) for number, step in inside), "exit 0; }\n"])
        absent = "".join(f"{number} {step.id} 255 \n" for number, step in inside)
        host += (
            f"printf '%s' {shlex.quote(script)} | timeout 900 {shlex.quote(engine)} exec -i {shlex.quote(container)}"
            f" bash -s 2>/dev/null || printf '%s' {shlex.quote(absent)}\n"
        )
    return host + "exit 0; }\n"


def _looked_at(number: int, step: DeployStep, busy: str) -> str:
    check = step.check
    if step.refuse_busy and busy:
        check = f"(\n{check}\n) || {{ (\n{busy}\n) >/dev/null 2>&1 && echo {shlex.quote(BUSY)}; exit 1; }}"
    return f"look {number} {step.id} {shlex.quote(check)}"


def _held(name: str, text: str) -> str:
    return f"{name}={shlex.quote(text)}"


def _no_way_back(step: DeployStep) -> str:
    note = step.undo_note.en or "no way to undo it is known"
    return f"printf '%s\\n' {shlex.quote(note)}\nexit 1"
