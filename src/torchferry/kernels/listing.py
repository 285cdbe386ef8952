"""The result of a port as text, JSON, SARIF or one page of HTML: what was done, and the list of what to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from urllib.parse import quote

from torchferry import __version__
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, display_width, say, say_plural
from torchferry.core.terminal import visible
from torchferry.kernels.gates.result import GateResult, GateState, does_not_prove, proves, state_text
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.review import ReviewItem, ReviewKind, kinds

FORMATS = ("text", "json", "sarif", "html")
_MOST_FILES = 8


def render(ported: PortedTree, form: str, lang: str, would_change: Iterable[str] | None = None) -> str:
    """Return the result in one of `FORMATS`.

    Args:
        ported: The tree.
        form: The form.
        lang: The language.
        would_change: The files that a port would write, where it is only checked; for JSON.
    """
    if form == "json":
        found = document(ported, lang)
        if would_change is not None:
            found["would_change"] = list(would_change)
        return json_text(found)
    if form == "sarif":
        return json_text(_sarif(ported, lang))
    if form == "html":
        return _html(ported, lang)
    return "\n".join((*review_lines(ported.items, lang), "", *table(ported, lang))) + "\n"


def review_lines(items: Iterable[ReviewItem], lang: str) -> Iterator[str]:
    """Yield the list as text: by kind, what blocks first, with why and what to do."""
    for kind, of_kind in by_kind(items):
        yield f"{kind.number} {kind.name} ({len(of_kind)}): {kind.why.render(lang)}"
        yield "  -> " + kind.action.render(lang)
        for item in of_kind:
            yield f"  {visible(_place(item))}  {visible(item.message.render(lang))}"
            if item.excerpt:
                yield f"      {visible(item.excerpt)}"
        yield ""


def by_kind(items: Iterable[ReviewItem]) -> Iterator[tuple[ReviewKind, list[ReviewItem]]]:
    """Yield the kinds that there are with their items, what blocks first."""
    grouped: dict[str, list[ReviewItem]] = {}
    for item in items:
        grouped.setdefault(item.kind, []).append(item)
    yield from ((kind, grouped[name]) for name, kind in kinds().items() if name in grouped)


def table(ported: PortedTree, lang: str, commands: Iterable[tuple[Message, str]] = ()) -> Iterator[str]:
    """Yield the closing table: counts, what is left, and the commands that come next."""
    counts = Counter(item.kind for item in ported.items)
    shown = ", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "0"
    hands = ported.by_hand
    rows: list[tuple[Message, str]] = [
        (say("files"), f"{len(ported.files)} ({say('C++: {count}', count=ported.sources).render(lang)})"),
        (say("kernels"), str(len(ported.kernels))),
        (say("launches"), str(sum(map(len, ported.launches.values())))),
        (say("changed tokens"), str(ported.changed)),
        (say("to look at"), shown),
        (
            say("files to edit by hand"),
            f"{len(hands)}: {visible(', '.join(hands[:_MOST_FILES]))}" + (" ..." if len(hands) > _MOST_FILES else "")
            if hands
            else "0",
        ),
    ]
    rows.append((say("names that were not understood"), visible(unknown_text(ported, lang))))
    if ported.guards:
        rows.append((say("macros that the build sets"), ", ".join(sorted(ported.guards))))
    if ported.skipped:
        reasons = "; ".join(f"{path}: {reason.render(lang)}" for path, reason in ported.skipped[:_MOST_FILES])
        rows.append((say("not read"), f"{len(ported.skipped)}: {visible(reasons)}"))
    rows += [(say("gate: {level}", level=gate.level), _gate(gate, lang)) for gate in ported.gates]
    rows += commands
    titles = [title.render(lang) for title, _ in rows]
    width = max(map(display_width, titles))
    for title, (_, value) in zip(titles, rows, strict=True):
        yield f"{title}{' ' * (width - display_width(title))}  {value}"


def unknown_text(ported: PortedTree, lang: str) -> str:
    """Return how many names were not understood, with the first of them; `0` where the account is complete."""
    names = ported.account.names
    if not names:
        return "0"
    places = say_plural("{count} place", "{count} places", count=len(ported.account.unknown)).render(lang)
    shown = ", ".join(names[:_MOST_FILES]) + (" ..." if len(names) > _MOST_FILES else "")
    return f"{len(names)} ({places}): {shown}"


def _gate(gate: GateResult, lang: str) -> str:
    """Return one gate in one line."""
    counted = say("{state}; files that passed: {count}", state=state_text(gate.state), count=gate.passed).render(lang)
    if gate.state is GateState.PASSED:
        says = say("it does not prove {what}", what=does_not_prove(gate.level)).render(lang)
    elif gate.reason is not None:
        says = gate.reason.render(lang)
    else:
        worst = [file for file in gate.files if file.state is gate.state]
        says = "; ".join(f"{file.path}: {file.problems[0].render(lang)}" for file in worst[:_MOST_FILES])
        says += " ..." if len(worst) > _MOST_FILES else ""
    return f"{counted}; {visible(says)}"


def _gate_document(gate: GateResult, lang: str) -> dict[str, Any]:
    return {
        "level": gate.level,
        "state": gate.state.value,
        "passed": gate.passed,
        "reason": gate.reason.render(lang) if gate.reason is not None else "",
        "proves": proves(gate.level).render(lang),
        "does_not_prove": does_not_prove(gate.level).render(lang),
        "notes": [note.render(lang) for note in gate.notes],
        "files": [
            {
                "path": file.path,
                "state": file.state.value,
                "problems": [problem.render(lang) for problem in file.problems],
                "seconds": round(file.seconds, 2),
            }
            for file in gate.files
        ],
    }


def document(ported: PortedTree, lang: str) -> dict[str, Any]:
    """Return the result as the object that the JSON holds."""
    return {
        "schema": 1,
        "torchferry": __version__,
        "root": str(ported.root),
        "target": str(ported.target),
        "files": len(ported.files),
        "sources": ported.sources,
        "changed_tokens": ported.changed,
        "kernels": [kernel.document() for kernel in ported.kernels],
        "launches": {path: len(launches) for path, launches in ported.launches.items()},
        "libraries": {path: sorted(names) for path, names in ported.libraries.items()},
        "by_hand": ported.by_hand,
        "guards": {
            name: [{"path": path, "line": line} for path, line in places] for name, places in ported.guards.items()
        },
        "rules": [
            {"name": rule.name, "use": rule.use, "verdict": rule.verdict.value, "reason": rule.reason.render(lang)}
            for rule in ported.rules.rules
        ],
        "account": ported.account.document(),
        "skipped": [{"path": path, "reason": reason.render(lang)} for path, reason in ported.skipped],
        "gates": [_gate_document(gate, lang) for gate in ported.gates],
        "kinds": {name: kind.document(lang) for name, kind in kinds().items()},
        "review": [item.document(lang) for item in ported.items],
    }


def _sarif(ported: PortedTree, lang: str) -> dict[str, Any]:
    explained = kinds()
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "torchferry",
                        "semanticVersion": __version__,
                        "rules": [
                            {
                                "id": name,
                                "name": kind.number,
                                "shortDescription": {"text": kind.why.render(lang)},
                                "help": {"text": kind.action.render(lang)},
                                "defaultConfiguration": {"level": "error" if kind.blocks else "warning"},
                            }
                            for name, kind in explained.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": item.kind,
                        "level": "error" if explained[item.kind].blocks else "warning",
                        "message": {"text": visible(item.message.render(lang))},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": quote(item.path, errors="surrogateescape") or "."},
                                    "region": {"startLine": item.line, "startColumn": item.column},
                                }
                            }
                        ],
                    }
                    for item in ported.items
                ],
            }
        ],
    }


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3em .6em;text-align:left;"
    "vertical-align:top}code{font:13px ui-monospace,monospace;white-space:pre-wrap}.blocks{color:#b00020}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}td,th{border-color:#333}.blocks{color:#ff8a80}}"
)


def _html(ported: PortedTree, lang: str) -> str:
    from html import escape  # imported late: it has the names of all entities

    from torchferry.core.web_page import web_page

    title = f"torchferry port: {ported.root} → {ported.target.title.render(lang)}"
    parts = [f"<pre>{escape(chr(10).join(table(ported, lang)))}</pre>"]
    for kind, items in by_kind(ported.items):
        shown = " class=blocks" if kind.blocks else ""
        parts.append(
            f"<h2{shown}>{escape(kind.number)} {escape(kind.name)} ({len(items)})</h2>"
            f"<p>{escape(kind.why.render(lang))}.</p>"
        )
        parts.append(f"<p>{escape(kind.action.render(lang))}.</p><table>")
        parts += [
            f"<tr><td><code>{escape(visible(_place(item)))}</code><td>{escape(visible(item.message.render(lang)))}"
            f"<td><code>{escape(visible(item.excerpt))}</code>"
            for item in items
        ]
        parts.append("</table>")
    return web_page(visible(title), _STYLE, ["\n".join(parts)], lang)


def check_lines(ported: PortedTree, would_change: Collection[str], lang: str) -> Iterator[str]:
    """Yield what a check found, each for itself: what would change, and what is to edit by hand whatever is written."""
    if would_change:
        text = say_plural(
            "{count} file would change: write it with the same command without --check",
            "{count} files would change: write them with the same command without --check",
            count=len(would_change),
        )
        yield text.render(lang)
    else:
        yield say("nothing would change: the port is as it would be written").render(lang)
    if ported.by_hand:
        text = say_plural(
            "{count} file to edit by hand, which no port changes",
            "{count} files to edit by hand, which no port changes",
            count=len(ported.by_hand),
        )
        yield text.render(lang)


def summary(ported: PortedTree) -> Message:
    """Return the result in one sentence."""
    kernels = say_plural("{count} kernel", "{count} kernels", count=len(ported.kernels))
    tokens = say_plural("{count} token changed", "{count} tokens changed", count=ported.changed)
    places = say_plural("{count} place to look at", "{count} places to look at", count=len(ported.items))
    return say(
        "CUDA C++ for {target}: {kernels}, {tokens}, {places}",
        target=ported.target.title,
        kernels=kernels,
        tokens=tokens,
        places=places,
    )


def _place(item: ReviewItem) -> str:
    return f"{item.path}:{item.line}:{item.column}" if item.path else "--map"
