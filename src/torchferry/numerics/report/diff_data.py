"""A comparison for machines: one JSON document of stable shape, or rows of CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any

from torchferry.numerics.rundiff.comparison import Comparison


def document(result: Comparison, lang: str) -> dict[str, Any]:
    """Return the comparison as values that JSON has; what is not finite is a text: `inf`."""
    first = None
    if result.first is not None:
        first = asdict(result.first)
        first["shape"] = list(result.first.shape)
    found = {
        "tool": "diff",
        "same": result.same,
        "complete": result.coverage.complete,
        "coverage": {
            "steps_made": result.coverage.made,
            "steps_in_both": result.coverage.steps,
            "steps_recorded": result.coverage.recorded,
            "steps_compared": result.coverage.compared,
            "gaps": [message.render(lang) for message in result.coverage.gaps],
        },
        "a": _run(result, "a"),
        "b": _run(result, "b"),
        "causes": [cause.as_dict(lang) for cause in result.causes],
        "first": first,
        "earliest": result.earliest,
        "aligned": result.aligned,
        "only_a": result.only_a,
        "only_b": result.only_b,
        "modules": [
            {"module": module, "phase": phase, "error": error, "step": step}
            for (module, phase), (error, step) in result.modules.items()
        ],
        "steps": [{"step": step, "error": error} for step, error in sorted(result.steps.items())],
        "losses": [{"step": step, "a": one, "b": two} for step, (one, two) in sorted(result.losses.items())],
        "remarks": [message.render(lang) for message in result.remarks],
        "not_compared": [message.render(lang) for message in result.left_out],
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def as_json(result: Comparison, lang: str) -> str:
    """Return the document as text."""
    return json.dumps(document(result, lang), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(result: Comparison) -> str:
    """Return a row for each module and phase, the largest error first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["module", "phase", "error", "step"])
    for (module, phase), (error, step) in sorted(result.modules.items(), key=lambda item: -item[1][0]):
        writer.writerow([_text(module), phase, f"{error:.6g}", step])
    return out.getvalue()


def _run(result: Comparison, side: str) -> dict[str, Any]:
    record = result.a if side == "a" else result.b
    rank = record.ranks[0]
    return {
        "folder": str(record.folder),
        "world": record.world,
        "ranks": [one.number for one in record.ranks],
        "steps": len(rank.steps),
        "device": rank.facts.get("device", {}),
        "command": rank.facts.get("program", {}).get("command", []),
    }


def _text(value: str) -> str:
    """Keep a spreadsheet from reading a name as a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
