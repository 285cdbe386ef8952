"""A comparison of curves for machines: JSON with every measure, CSV with every step."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any

from torchferry.numerics.curves.comparison import Compared, Comparison
from torchferry.numerics.curves.curve import shown
from torchferry.numerics.curves.measures import relative_error
from torchferry.numerics.report import curves_labels

SCHEMA = 1


def render_json(comparison: Comparison, lang: str) -> str:
    """Return the comparison as JSON; what is undefined or not finite is null there."""
    document = {
        "schema": SCHEMA,
        "kind": "torchferry compare curves",
        "met": comparison.passed,
        "complete": comparison.complete,
        "references": [str(path) for path in comparison.references],
        "targets": [str(path) for path in comparison.targets],
        "smoothing": str(comparison.smoothing),
        "notes": [note.render(lang) for note in comparison.notes],
        "metrics": [_metric(compared, lang) for compared in comparison.metrics],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def render_csv(comparison: Comparison) -> str:
    """Return one row a metric and step: both values, their difference and the relative error."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("metric", "epoch", "step", "judged", "reference", "target", "error", "relative_error"))
    for compared in comparison.metrics:
        pairing = compared.pairing
        for index, (key, reference, target) in enumerate(
            zip(pairing.keys, pairing.reference, pairing.target, strict=True)
        ):
            relative = relative_error(reference, target)
            writer.writerow(
                (
                    _cell(compared.choice.title),
                    f"{key[0]:.17g}",
                    f"{key[1]:.17g}",
                    int(index >= compared.start),
                    repr(reference),
                    repr(target),
                    repr(target - reference),
                    "" if relative is None else repr(relative),
                )
            )
    return text.getvalue()


def _metric(compared: Compared, lang: str) -> dict[str, Any]:
    form = compared.pairing.form
    verdict = compared.verdict
    measures = {
        name: (shown(value, form) if isinstance(value, tuple) else _finite(value))
        for name, value in asdict(compared.measures).items()
    }
    spread = compared.envelope
    return {
        "metric": compared.choice.reference,
        "target_metric": compared.choice.target,
        "met": verdict.met,
        "met_by_sign_alone": verdict.by_sign,
        "rule": {"name": verdict.rule.name, "title": verdict.rule.title.render(lang), "source": verdict.rule.source},
        "needs": [
            [
                {
                    "measure": checked.limit.measure,
                    "bound": curves_labels.bound(checked.limit),
                    "limit": checked.limit.value,
                    "inclusive": checked.limit.inclusive,
                    "measured": _finite(checked.measured),
                    "met": checked.met,
                }
                for checked in need
            ]
            for need in verdict.needs
        ],
        "aligned_by": form,
        "common_steps": len(compared.pairing.keys),
        "reference_values": compared.pairing.length,
        "not_covered": compared.uncovered,
        "first_step": shown(compared.pairing.keys[0], form),
        "last_step": shown(compared.pairing.keys[-1], form),
        "judged_from": shown(compared.pairing.keys[compared.start], form),
        "left_out": {"reference": compared.pairing.left_out[0], "target": compared.pairing.left_out[1]},
        "measures": measures,
        "envelope": None
        if spread is None
        else {**asdict(spread), "bias": _finite(spread.bias), "allowed": spread.allowed, "met": spread.met},
        "notes": [note.render(lang) for note in curves_labels.notes(compared)],
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    text = curves_labels.safe(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
