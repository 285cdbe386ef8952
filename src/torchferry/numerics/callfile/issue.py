"""A replayed call as the text of an issue, ready to be pasted into a vendor's tracker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchferry.core.messages import Message
from torchferry.numerics.callfile.judging import FAIL, Judgement
from torchferry.numerics.callfile.reading import Call


def issue(
    call: Call,
    folder: Path,
    judgements: list[Judgement],
    here: dict[str, Any],
    device: str,
    standard: str,
    failure: str = "",
) -> str:
    """Return Markdown. It is English, as the trackers are.

    Args:
        call: The call.
        folder: Its directory, which is to be attached.
        judgements: What was judged of it.
        here: The environment in which it was replayed.
        device: Where it was replayed.
        standard: What it was judged by; empty where only NaN and Inf were looked for.
        failure: What the operator raised, where it did.
    """
    document = call.document
    name = _name(call)
    wrong = [judgement for judgement in judgements if judgement.status == FAIL]
    state = f"raises on {device}" if failure else f"wrong on {device}" if wrong else f"replayed on {device}"
    lines = [f"# `{name}`: {state}", ""]
    if failure:
        lines += ["```text", failure.strip(), "```", ""]
    if judgements:
        lines += ["| result | verdict | found |", "|---|---|---|"]
        lines += [
            f"| {_cell(judgement.what)} | {judgement.status} | {_cell(judgement.why)} |" for judgement in judgements
        ]
        lines.append("")
    lines += ["## The call", "", "```text", f"{document.get('schema', name)}", "", *arguments(call), "```", ""]
    where = document.get("where") or {}
    if where.get("module") or where.get("phase"):
        step = "" if where.get("step") is None else f", step {where['step']}"
        source = f" of `{where['source']}`" if where.get("source") else ""
        lines += [f"Met in `{where.get('module') or 'no module'}` ({where.get('phase')}{source}{step}).", ""]
    lines += ["## Environment", "", *_table(here, document.get("environment") or {}), ""]
    lines += ["## Reproduce", ""]
    lines += [f"Attach the folder `{folder.name}`; it needs torch and pytest, nothing else:", "", "```bash"]
    test = next(iter(sorted(path.name for path in folder.glob("test_*.py"))), "test_*.py")
    libraries = f"IMPORT={','.join(document['libraries'])} " if document.get("libraries") else ""
    lines += [f"{libraries}DEVICE={device} pytest -s {folder.name}/{test}", "```", ""]
    lines.append(
        f"Judged by the standard `{standard}`: the truth is the CPU's result in higher precision."
        if standard
        else "Judged by whether the results hold NaN or Inf that no argument holds."
    )
    if document.get("observed"):
        lines += ["", "<details><summary>Observed when it was met</summary>", "", "```json"]
        lines += [json.dumps(document["observed"], indent=1, ensure_ascii=False), "```", "", "</details>"]
    return "\n".join(lines) + "\n"


def _name(call: Call) -> str:
    return f"{call.name}.{call.overload}".rstrip(".").replace("::", ".")


def arguments(call: Call) -> list[str]:
    """Return the arguments, one a line: `0: float32[64, 128], stride [128, 1], npu:0`."""
    document = call.document
    lines = [f"{index}: {_shown(call, node)}" for index, node in enumerate(document["args"])]
    return lines + [f"{key}: {_shown(call, node)}" for key, node in document["kwargs"].items()]


def _shown(call: Call, node: Any) -> str:
    if isinstance(node, list):
        shown = [_shown(call, part) for part in node[:8]]
        more = [f"... {len(node)} in all"] if len(node) > 8 else []
        return "[" + ", ".join(shown + more) + "]"
    if isinstance(node, dict) and len(node) == 1:
        ((tag, content),) = node.items()
        tensors = call.document["tensors"]
        if tag == "tensor" and type(content) is int and 0 <= content < len(tensors):
            row = tensors[content]
            is_made = "made" in call.document["storages"][row["storage"]]
            return f"{row['dtype']}{row['shape']}, stride {row['stride']}, offset {row['offset']}, {row['device']}" + (
                " (random values with the statistics of the real ones)" if is_made else ""
            )
        return str(content)
    return repr(node)


def _table(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    keys = dict.fromkeys([*there, *here])
    rows = [f"| {_cell(key)} | {_cell(there.get(key, ''))} | {_cell(here.get(key, ''))} |" for key in keys]
    return ["| | where it was met | where it was replayed |", "|---|---|---|", *rows]


def _cell(value: Any) -> str:
    text = value.render("en") if isinstance(value, Message) else str(value)
    return " ".join(text.replace("|", "\\|").split())
