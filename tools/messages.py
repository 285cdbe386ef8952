"""Collect the messages of the code into the catalogues, and compile these.

In `src/torchferry/locale/zh/LC_MESSAGES`, `torchferry.po` has what torchferry says and the help of its commands,
`rules.po` the pages of the rules. `tools/locale/docs.po` has the words of the generated documents; only the tool that
writes them reads it, so it is not compiled. A new message is added without a translation, one that the code no longer
says is removed. `--check` writes nothing, and fails when a catalogue is not as the code needs it, or a translation is
missing.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from torchferry.report.pages import parts as docstring_parts

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "torchferry"
FOLDER = SOURCE / "locale" / "zh" / "LC_MESSAGES"

KEYWORDS = ("say", "_say", "say_plural", "_say_plural", "say_in", "translatable", "help_text", "unknown_name")
"""Functions that take a message: their first argument is its text, of some the second belongs to it."""

_REMARK = "# translators: "
"""How a comment begins that is meant for translators; it stands in the lines above the message."""

_HOMES = ("torchferry.core.messages", "torchferry.cli.help_text")
"""Modules that the functions of `KEYWORDS` come from."""

Key = tuple[str, str | tuple[str, str] | None]
"""A message in its catalogue: the context, and the English text, or both forms of a message that counts."""


class Found(NamedTuple):
    """A message as the code has it."""

    id: str | tuple[str, str]
    path: str
    line: int
    comments: tuple[str, ...] = ()
    context: str | None = None


class _Catalog(Catalog):
    """A catalogue whose header has nothing that changes by itself, such as dates and versions."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Project-Id-Version", "torchferry"),
            ("Language", "zh"),
            ("Plural-Forms", self.plural_forms),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ]

    @mime_headers.setter
    def mime_headers(self, headers: object) -> None:
        """Take nothing over from the header of a file."""


def messages() -> Iterator[Found]:
    """Yield what the code says, and what its commands say of themselves."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if path.parent == SOURCE / "cli" or name.endswith("core/env.py"):
            yield from helps(path)
        text = path.read_text(encoding="utf-8")
        if path.name != "messages.py" and not any(f"{module} import" in text for module in _HOMES):
            continue  # what it calls `say` is something else
        lines = text.split("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
                texts = [str(item.value) if isinstance(item, ast.Constant) else "" for item in node.args[:2]]
                line = node.lineno
                if not texts or not texts[0]:  # the text is marked elsewhere
                    continue
                if node.func.id.endswith("say_plural"):
                    yield Found((texts[0], texts[1]), name, line, _remarks(lines, line))
                elif node.func.id == "say_in":
                    yield Found(texts[1], name, line, _remarks(lines, line), texts[0])
                else:
                    yield Found(texts[0], name, line, _remarks(lines, line))


def _remarks(lines: list[str], number: int) -> tuple[str, ...]:
    """Return what the comment above a line says to translators."""
    remarks: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#"):
            return ()
        remarks.insert(0, line.strip())
        if remarks[0].startswith(_REMARK):
            return (" ".join(remark.removeprefix(_REMARK).removeprefix("# ") for remark in remarks),)
    return ()


_LISTS = ("_COMMANDS", "_EXIT_CODES", "VARIABLES")
"""Tables of names and what is said of them in a help."""
_HEADINGS = ("Environment", "Exit codes")
"""Sections of the help; click's own are among its words."""


def helps(path: Path) -> Iterator[Found]:
    """Yield the help of a module's commands and options: docstrings, lists, and `help=` where it is plain text."""
    name = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value in _HEADINGS:
            yield Found(node.value, name, node.lineno)
        elif isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            yield Found(str(node.value.value), name, node.value.lineno)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            if isinstance(node.targets[0], ast.Name) and node.targets[0].id in _LISTS:
                for value in node.value.values:
                    yield Found(ast.literal_eval(value), name, value.lineno)
        elif isinstance(node, ast.FunctionDef) and any(map(_is_command, node.decorator_list)):
            text = ast.get_docstring(node)
            if text:
                unwrapped = ("Lines after \\b stay as they are.",) if "\b" in text else ()
                # click's mark is a control character, which a catalogue spells out
                yield Found(text.replace("\b", "\\b"), name, node.lineno, ("Help of a command.", *unwrapped))


def _is_command(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in ("command", "group")
    )


def pages() -> Iterator[Found]:
    """Yield the page of each rule: the text at the head of its module."""
    for path in sorted((SOURCE / "rules").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        codes = [
            str(statement.value.value)
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for statement in node.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
            if isinstance(statement.targets[0], ast.Name) and statement.targets[0].id == "CODE"
        ]
        text = ast.get_docstring(tree)
        if text and any(re.fullmatch("[A-Z]{3}[0-9]{3}", code) for code in codes):
            name, parts = path.relative_to(ROOT).as_posix(), docstring_parts(text)
            yield Found(
                parts.explanation, name, 1, (f"The page of {', '.join(codes)}: a title, a blank line, the text.",)
            )
            if parts.why:
                yield Found(
                    parts.why, name, 1, (f"The page of {', '.join(codes)}: why the code is bad on the target.",)
                )


def headings() -> Iterator[Found]:
    """Yield the words of the generated documents, each with what it heads as its context."""
    path = ROOT / "tools" / "generate_docs.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "HEADS":
            assert isinstance(node.value, ast.Dict)
            for name, text in zip(node.value.keys, node.value.values, strict=True):
                assert name is not None
                yield Found(
                    ast.literal_eval(text), "tools/generate_docs.py", text.lineno, context=ast.literal_eval(name)
                )


CATALOGUES = {
    FOLDER / "torchferry.po": messages,
    FOLDER / "rules.po": pages,
    ROOT / "tools" / "locale" / "docs.po": headings,
}
"""Where the catalogues are, and what finds their messages."""


def compiled_of(path: Path) -> Path | None:
    """Return the compiled form of a catalogue that torchferry reads; None for one that a tool reads."""
    return path.with_suffix(".mo") if path.parent == FOLDER else None


def catalogue(found: Iterable[Found], chinese: Mapping[Key, str]) -> Catalog:
    """Return the catalogue of what was found, with the Chinese that there is."""
    built = _Catalog(locale="zh", project="torchferry", fuzzy=False, header_comment="# Chinese for torchferry.")
    for item in found:
        plural = isinstance(item.id, tuple)
        text = chinese.get(key(item.context, item.id), "")
        if isinstance(item.id, tuple) and not text:  # it was written without a form for one thing
            text = chinese.get((item.context or "", item.id[1]), "")
        if item.context and not text:  # it had no context before
            text = chinese.get(("", item.id), "")
        entry = built.add(
            item.id,
            (text,) if plural else text,
            locations=[(item.path, item.line)],
            auto_comments=item.comments,
            context=item.context,
        )
        entry.flags.clear()  # its guesses take `100 % of` for a format
    return built


def key(context: str | None, text: str | tuple[str, ...] | list[str] | None) -> Key:
    """Return by what a message is found again when the code around it has changed."""
    return context or "", text if text is None or isinstance(text, str) else (text[0], text[1])


def chinese_of(catalog: Catalog) -> dict[Key, str]:
    """Return the translations that a catalogue holds, without those that are marked as doubtful."""
    table: dict[Key, str] = {}
    for entry in catalog:
        text = _chinese(entry)
        if entry.id and text and not entry.fuzzy:
            table[key(entry.context, entry.id)] = str(text)
    return table


def read(path: Path) -> Catalog:
    """Return a catalogue as it is written; an empty one where there is none."""
    if not path.is_file():
        return Catalog(locale="zh")
    with path.open("rb") as file:
        return read_po(file, locale="zh")


def po(catalog: Catalog) -> bytes:
    """Return a catalogue as text."""
    buffer = io.BytesIO()
    write_po(buffer, catalog, width=110, sort_by_file=True)
    return buffer.getvalue()


def mo(catalog: Catalog) -> bytes:
    """Return a catalogue as `gettext` reads it; what has no translation is left out."""
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def write() -> None:
    """Bring the catalogues up to date."""
    for path, find in CATALOGUES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        built = catalogue(find(), chinese_of(read(path)))
        path.write_bytes(po(built))
        compiled = compiled_of(path)
        if compiled is not None:
            compiled.write_bytes(mo(built))
        for entry in _untranslated(built):
            print(f"{path.relative_to(ROOT)}: no Chinese for {entry.id!r}")


def problems() -> Iterator[str]:
    """Yield what is wrong with the catalogues."""
    for path, find in CATALOGUES.items():
        name = path.relative_to(ROOT)
        written = read(path)
        built = catalogue(find(), chinese_of(written))
        yield from (f"{name}: no Chinese for {entry.id!r}" for entry in _untranslated(built))
        yield from (f"{name}: {entry.id!r} is marked as fuzzy" for entry in written if entry.id and entry.fuzzy)
        yield from (f"{name}: {text!r} is obsolete" for text in written.obsolete)
        ours, theirs = _content(built), _content(written)
        yield from (f"{name}: {text!r} is not what the code says" for text in sorted({*ours} ^ {*theirs}))
        yield from (
            f"{name}: {text!r} has other source files or comments"
            for text in sorted({*ours} & {*theirs})
            if ours[text] != theirs[text]
        )
        compiled = compiled_of(path)
        if compiled is not None and (not compiled.is_file() or compiled.read_bytes() != mo(built)):
            yield f"{compiled.relative_to(ROOT)} is not what {path.name} makes"


def _untranslated(catalog: Catalog) -> list[Entry]:
    return [entry for entry in catalog if entry.id and not _chinese(entry)]


def _chinese(entry: Entry) -> str:
    """Return what stands for a message; Chinese has one form for all numbers."""
    text = entry.string
    return str(text if isinstance(text, str) else text[0]) if text else ""


def _content(catalog: Catalog) -> dict[tuple[str, str], object]:
    """Return what a catalogue says of each message; lines of source are left out, since they move with any change."""
    return {
        (entry.context or "", str(entry.id)): (sorted({path for path, _ in entry.locations}), entry.auto_comments)
        for entry in catalog
        if entry.id
    }


def main() -> int:
    """Write the catalogues, or check them."""
    if "--check" not in sys.argv[1:]:
        write()
        return 0
    found = list(problems())
    print("\n".join(found) if found else "the catalogues are as the code needs them")
    if found:
        print("run `make messages`, and fill in what has no Chinese")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
