"""What it would take to judge a gate that was not judged: a setting of the accept file, another run, or an option."""

from __future__ import annotations

from torchferry.acceptance.gates import Gate
from torchferry.acceptance.trends import LEAST_STEPS
from torchferry.core.messages import Message, say


def what_it_takes(gate: Gate, *, is_left_out: bool = False, is_of_a_part: bool = False) -> Message:
    """Return what has to be done so that a gate can be judged.

    Args:
        gate: The gate.
        is_left_out: Whether the accept file leaves its stage out.
        is_of_a_part: Whether it was judged by a run that did not end well.
    """
    if is_left_out:
        return say("take `{stage}` out of [gates.not-judged]", stage=gate.stage)
    if is_of_a_part:
        return say("a run that ends by itself with 0: see the gate `runs`")
    _, _, part = gate.name.partition(".")
    return _OF_GATES.get(gate.name) or _OF_PARTS[gate.stage, bool(part)]


_STEPS = say(
    "steps of an optimizer or calls of a model in one run, at least: {least}; on a device that tells its memory; with "
    "more of them the interval is narrower",
    least=LEAST_STEPS,
)
_RUN = say("a command in [runs.target], and for --rehearse in [runs.rehearsal], that runs the model")

_OF_GATES: dict[str, Message] = {
    "memory.peak": say("a limit: `peak` in [gates.memory], and a device that tells its memory"),
    "loads.weights": say("nothing, where no weights are to be loaded; else load them with load_state_dict"),
    "runs.device": say("a program that steps an optimizer of torch's or calls a model of torch's"),
    "runs": say("a program that prints no traceback, or none that it goes on after"),
    "numbers.curve": say(
        "the log of the CUDA run: `log` in [baseline]; and this run among the `runs` of [gates.curve]"
    ),
    "stability.run": say("a log with values of a loss, one a line or more"),
    "stability.soak": say("--soak TIME on the card's machine, such as --soak 2h, with a command in [runs.target]"),
    "documents.source": say("these entries of the accept file, filled in"),
    "documents.commands": say("`commands` in [gates.documents]: those of the README that can be run in a clean copy"),
    "migration.files": say("a migration that `torchferry migrate` recorded here, or a git history with its commit"),
    "migration.paths": say("a table `paths` in torchferry.toml, where the project has paths of its old machines"),
}
"""By the whole name of a gate."""

_OF_PARTS: dict[tuple[str, bool], Message] = {
    ("environment", False): say("a machine on which `torchferry doctor` can examine the target"),
    ("migration", False): say("a project in which `torchferry scan` can be run"),
    ("migration", True): say("a project in which `torchferry scan` can be run"),
    ("syntax", False): say("a Python file in the folder of the accept file"),
    ("loads", False): _RUN,
    ("runs", False): _RUN,
    ("numbers", False): say(
        "a value of the CUDA run in [[baseline.metrics]], or a curve in [gates.curve]; `torchferry accept init --log` "
        "proposes them from its log"
    ),
    ("numbers", True): say("this run among the `runs` of the metric, or an accept run of a kind that is among them"),
    ("outputs", False): say("a folder of results and one of the CUDA run's, in [[gates.outputs]]"),
    ("outputs", True): say("the files of the CUDA run in the reference folder, each readable and not empty"),
    ("memory", False): _STEPS,
    ("memory", True): _STEPS,
    ("speed", False): say(
        "`torchferry accept` on the card's machine, without --rehearse, with `metric` or `seconds-per-step` in "
        "[gates.speed], and steps enough for an interval"
    ),
    ("stability", False): say("a log with values of a loss, one a line or more"),
    ("errors", False): say(
        "--rehearse on the simulated plugin, with a command whose operators run on the device (`--plugin simulated`)"
    ),
    ("logs", False): say("the lines that a log has to have: `lines` in [gates.logs]"),
    ("documents", False): say("the files that the project must have: `required` in [gates.documents]"),
}
"""By stage, and whether it is one of several gates of the stage."""
