"""What a list of operators comes to, as a table: operator, kind, kernel, file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torchferry.core.json_text import json_text
from torchferry.core.messages import say, say_plural

if TYPE_CHECKING:
    from torchferry.ops.codegen.generate import CodegenOptions, Generated, RegistrationRow

SCHEMA = 1
"""Of the JSON; it counts up when a key goes or changes its meaning."""


def as_text(generated: Generated, options: CodegenOptions, lang: str) -> str:
    """Return the table for people, with what is worth knowing below it."""
    rows = [(row.operator, row.key, row.kind.value, row.kernel or "-", row.file) for row in generated.rows]
    heads = tuple(say(head).render(lang) for head in ("operator", "key", "kind", "kernel", "file"))
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(_kinds(generated.rows).items()))
    lines += ["", say_plural(
        "{count} entry: {rows} registrations ({kinds})", "{count} entries: {rows} registrations ({kinds})",
        count=generated.entries, rows=len(generated.rows), kinds=kinds,
    ).render(lang)]  # fmt: skip
    lines += [note.render(lang) for note in generated.notes]
    if generated.set_aside:
        lines.append(say_plural(
            "{count} entry is for another torch or card", "{count} entries are for another torch or card",
            count=len(generated.set_aside),
        ).render(lang))  # fmt: skip
    if generated.problems:
        lines.append(say_plural("{count} entry is left out:", "{count} entries are left out:",
                                count=len(generated.problems)).render(lang))  # fmt: skip
        lines += [f"  {problem.render(options.functions, lang)}" for problem in generated.problems]
    return "\n".join(lines)


def as_json(generated: Generated, options: CodegenOptions) -> str:
    """Return the table for programs."""
    document = {
        "schema": SCHEMA,
        "functions": str(options.functions),
        "key": options.key,
        "namespace": options.namespace,
        "files": sorted(generated.files),
        "entries": generated.entries,
        "kinds": _kinds(generated.rows),
        "skeletons": sorted(generated.skeletons),
        "operators": [{**row._asdict(), "kind": row.kind.value} for row in generated.rows],
        "set_aside": [entry.operator for entry in generated.set_aside],
        "problems": [
            {
                "line": problem.line,
                "operator": problem.operator,
                "message": problem.message.render("en"),
                "advice": problem.advice.render("en"),
            }
            for problem in generated.problems
        ],
        "notes": [note.render("en") for note in generated.notes],
    }
    return json_text(document)


def _kinds(rows: tuple[RegistrationRow, ...]) -> dict[str, int]:
    return dict(sorted(Counter(row.kind.value for row in rows).items()))
