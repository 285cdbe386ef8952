"""What was found of a bad step, in lines for people. Made from the document, so that a file can be told again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchferry.core.messages import Message, say, say_in, say_plural

_PHASES = {
    "forward": say_in("phase of a step", "forward"),
    "backward": say_in("phase of a step", "backward"),
    "recompute": say_in("phase of a step", "recompute"),
    "optimizer": say_in("phase of a step", "optimizer"),
    # translators: where a finding is: what a GradScaler does between backward and the optimizer
    "gradient scaling": say("gradient scaling"),
}


def told(finding: dict[str, Any], notes: Sequence[Message | str] = (), lang: str | None = None) -> list[str]:
    """Return the lines for one bad step."""
    lines = []
    step, origins = finding["step"], finding["origins"]
    if origins:
        first = origins[0]
        lines.append(
            "[WARNING] "
            + say(
                "step {step}: {kind} first came from {operator}, in {place}",
                step=step,
                kind=first["kind"],
                operator=first["operator"],
                place=place(first, lang),
            ).render(lang)
        )
        lines += _details(first, lang)
        if len(origins) > 1:
            lines.append(
                "  "
                + say_plural(
                    "{count} more call produced NaN or infinity from good inputs:",
                    "{count} more calls produced NaN or infinity from good inputs:",
                    count=len(origins) - 1,
                ).render(lang)
            )
            lines += [f"    {origin['operator']} ({origin['kind']}), {place(origin, lang)}" for origin in origins[1:]]
    else:
        lines.append("[WARNING] " + say("step {step} was not finite; the call was not found", step=step).render(lang))
    lines += ["  " + (note.render(lang) if isinstance(note, Message) else note) for note in (notes or finding["notes"])]
    if "dump" in finding:
        lines.append(
            "  " + say("the call was written to {path}; `torchferry replay` runs it", path=finding["dump"]).render(lang)
        )
    return lines


def place(origin: dict[str, Any], lang: str | None = None) -> str:
    """Return where a call belongs: `GPT.blocks.0.mlp (backward of aten.gelu)`."""
    module = origin["module"] or say("no module").render(lang)
    phase: Message = _PHASES.get(origin["phase"], Message(origin["phase"]))
    if origin["source"]:
        phase = say("{phase} of {source}", phase=phase, source=origin["source"])
    return f"{module} ({phase.render(lang)})"


def _details(origin: dict[str, Any], lang: str | None) -> list[str]:
    lines = []
    if origin["line"]:
        lines.append(f"  {origin['line']}")
    for number, given in enumerate(origin["inputs"]):
        # translators: a tensor that an operator received
        lines.append(f"  {say('input').render(lang)} {number}: {_tensor(given)}")
    if origin["constants"]:
        lines.append(f"  {say('other arguments').render(lang)}: {', '.join(origin['constants'])}")
    # translators: a tensor that an operator returned
    lines += [f"  {say('output').render(lang)}: {_tensor(output)}" for output in origin["outputs"]]
    return lines


def _tensor(tensor: dict[str, Any]) -> str:
    text = f"{tensor['dtype']}{tensor['shape']} {tensor['device']}"
    if tensor["least"] is not None:
        text += f", {tensor['least']:.4g} .. {tensor['greatest']:.4g}, mean {tensor['mean']:.4g}"
    for kind in ("nan", "inf"):
        if tensor[kind]:
            text += f", {tensor[kind]} {kind}"
    return text
