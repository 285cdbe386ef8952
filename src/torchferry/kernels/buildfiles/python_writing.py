"""How the changes of a Python build script are written: in place of what was there, or beside it under a switch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from torchferry.backends.build_facts import BuildFacts
from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.buildfiles.model import BuildSettings, disjoint
from torchferry.kernels.buildfiles.python_changes import BUILDERS, ChangeForm, ScriptChange, ScriptChanges
from torchferry.source.text import apply_edits

_MOST_LINES = 120
"""Lines of an arm of a condition that gets a twin; in a longer one, each expression becomes conditional."""

_BEHIND_ELEMENT = lazy_regex(r"\s*,[ \t]*")
_BEFORE_ELEMENT = lazy_regex(r",\s*\Z")


class Arm(NamedTuple):
    """An arm of a condition that sets up everything for CUDA, and so gets a twin for the target.

    Attributes:
        start: Where its `if` or `elif` begins.
        chain: The span of the whole condition with all of its arms: none of the others is for the target.
        body: Where the first line of its body begins.
        end: Where its body ends.
        keyword: `if` or `elif`.
        indent: What precedes that keyword.
        body_indent: What precedes its statements.
    """

    start: int
    chain: tuple[int, int]
    body: int
    end: int
    keyword: str
    indent: str
    body_indent: str


def script_edits(found: ScriptChanges, settings: BuildSettings) -> list[Edit]:
    """Return the edits of a script, in the style of the settings."""
    if not found.changes and not found.imports:
        return []
    return _replacing(found) if settings.style == "replace" else _beside(found)


# in place of what was there


def _replacing(found: ScriptChanges) -> list[Edit]:
    """Return the edits in place of what was there.

    Of a condition with an arm for CUDA only that arm changes: the others build for the CPU or for other makers' cards,
    from the sources that stay beside the port.
    """
    text = found.file.source.text
    arms = _arms(found, most_lines=len(text))
    changes = [
        change
        for change in found.changes
        if not any(
            arm.chain[0] <= change.start < arm.chain[1] and not arm.start <= change.start < arm.end for arm in arms
        )
    ]
    edits = [_plain(text, change) for change in changes]
    replaced: set[str] = set()
    for statement, aliases in _from_imports(found).items():
        new = [found.ported(f"{BUILDERS}.{alias.name}") for alias in aliases]
        kept = [alias for alias in statement.names if alias not in aliases]
        lines = []
        if kept:
            names = ", ".join(f"{each.name} as {each.asname}" if each.asname else each.name for each in kept)
            lines.append(f"from {statement.module} import {names}")
        lines += _import_lines(new)
        start, end = found.file.span(statement)
        edits.append(Edit(start, end, f"\n{_indent(text, start)}".join(lines)))
        replaced.update(new)
    needed = {change.imports for change in changes if change.imports} - replaced
    facts = found.facts
    begin = []
    if facts.arch_macro and found.makes_extensions() and edits:
        needed.add(f"{facts.arch_module}.{facts.arch_function}")
        begin = ["import os"]
    if needed:
        at, indent = _top(found)
        lines = [*begin, *_import_lines(needed), *([_architecture(facts)] if begin else [])]
        edits.append(Edit(at, at, "".join(f"{line}\n{indent}" for line in lines)))
    for arm in arms:
        if (replaced or needed) and (arm.chain[0] < arm.start or arm.end < arm.chain[1]):
            found.review.add(
                arm.start,
                "build-other-arms",
                say(
                    "the other branches of this condition stay as they are, and the script imports {modules} for "
                    "all branches",
                    modules=", ".join(sorted({name.rpartition(".")[0] for name in (*replaced, *needed)})),
                ),
            )
    return edits


def _plain(text: str, change: ScriptChange) -> Edit:
    if change.form is ChangeForm.CALL:
        return Edit(change.start, change.end, "pass")
    if change.form is ChangeForm.ELEMENTS and not change.text:
        return Edit(*_whole_element(text, change.start, change.end), "")
    if change.form is ChangeForm.KEYWORD:
        assert isinstance(change.node, ast.keyword)
        assert change.node.arg
        return Edit(change.start, change.start + len(change.node.arg), change.text.partition("=")[0].rstrip())
    return Edit(change.start, change.end, change.text)


def _whole_element(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of elements with the comma that goes with them, and with their lines if they fill them."""
    behind = _BEHIND_ELEMENT.match(text, end)
    if behind is None:
        before = _BEFORE_ELEMENT.search(text, 0, start)
        return (before.start() if before else start), end
    end = behind.end()
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and text[end : end + 1] in ("\n", "\r"):
        return line, end + (2 if text.startswith("\r\n", end) else 1)
    return start, end


# beside what was there


def _beside(found: ScriptChanges) -> list[Edit]:
    text = found.file.source.text
    flag = found.facts.switch
    arms = _arms(found)
    outside = [
        change for change in found.changes if not any(arm.chain[0] <= change.start < arm.chain[1] for arm in arms)
    ]
    imported = _from_imports(found)
    rebound = {
        (alias.asname or alias.name): found.ported(f"{BUILDERS}.{alias.name}")
        for aliases in imported.values()
        for alias in aliases
    }
    edits: list[Edit] = []
    used: set[str] = set()
    needed: set[str] = set()
    for first, last, inside in _runs(found, outside):
        plain = apply_edits(text, disjoint(_plain(text, change) for change in inside))
        grown = len(plain) - len(text)
        new = plain[first : last + grown]
        edits.append(Edit(first, last, f"*([{new}] if {flag} else [{text[first:last]}])"))
        outside = [change for change in outside if change not in inside]
    for change in outside:
        if isinstance(change.node, ast.Name) and rebound.get(change.node.id) == change.name != "":
            used.add(change.node.id)
            continue
        edits += _conditional(text, change, flag)
        if change.imports:
            needed.add(change.imports)
    edits += [_twin(found, arm, flag) for arm in arms]
    for statement, aliases in imported.items():
        bound = [alias.asname or alias.name for alias in aliases]
        lines = _import_lines(
            (rebound[each] for each in bound if each in used), {rebound[each]: each for each in bound}
        )
        if lines:
            indent = _indent(text, found.file.span(statement)[0])
            end = found.file.span(statement)[1]
            block = "".join(f"\n{indent}    {line}" for line in lines)
            edits.append(Edit(end, end, f"\n{indent}if {flag}:{block}"))
    if edits:
        sets = found.makes_extensions() and not any(_sets_architecture(found, arm) for arm in arms)
        edits.append(_switch(found, flag, needed, min(edit.start for edit in edits), sets_architecture=sets))
    return edits


def _runs(found: ScriptChanges, changes: list[ScriptChange]) -> list[tuple[int, int, list[ScriptChange]]]:
    """Return runs of two or more strings of one list that change, as spans with their changes.

    One condition for all of them reads better than one for each.
    """
    by_element = {change.node: change for change in changes if change.form is ChangeForm.EXPRESSION and not change.name}
    runs: list[tuple[int, int, list[ScriptChange]]] = []
    for node in ast.walk(found.file.tree):
        if isinstance(node, ast.List):
            run: list[ScriptChange] = []
            for element in (*node.elts, None):
                change = by_element.get(element) if element is not None else None
                if change is not None:
                    run.append(change)
                    continue
                if len(run) > 1:
                    runs.append((run[0].start, run[-1].end, run))
                run = []
    return runs


def _conditional(text: str, change: ScriptChange, flag: str) -> list[Edit]:
    """Return what a change becomes where the target's words are next to CUDA's."""
    start, end, new, form = change.start, change.end, change.text, change.form
    old = text[start:end]
    if form is ChangeForm.EXPRESSION:
        written = f"{new} if {flag} else {old}"
        return [Edit(start, end, written if change.bare else f"({written})")]
    if form is ChangeForm.ALSO:
        written = f"{flag} or {old}"
        return [Edit(start, end, written if change.bare else f"({written})")]
    if form is ChangeForm.ELEMENTS:
        return [Edit(start, end, f"*([{new}] if {flag} else [{old}])")]
    if form is ChangeForm.INSERT:
        return [Edit(start, end, f"*([{new.rstrip(', ')}] if {flag} else []){', ' if new.endswith(' ') else ''}")]
    if form is ChangeForm.CALL:
        return [Edit(start, end, f"{flag} or {old}")]
    assert isinstance(change.node, ast.keyword)
    assert change.node.arg
    name = new.partition("=")[0].rstrip()
    value = start + old.index("=") + 1
    return [Edit(start, value, f'**{{"{name}" if {flag} else "{change.node.arg}": '), Edit(end, end, "}")]


def _arms(found: ScriptChanges, most_lines: int = _MOST_LINES) -> list[Arm]:
    """Return the outermost arms of fewer lines that ask for CUDA and set up an extension."""
    arms: list[Arm] = []
    text, file = found.file.source.text, found.file
    names = {change.node: change for change in found.changes}
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.If) or not node.test:
            continue
        start = file.span(node)[0]
        if any(arm.chain[0] <= start < arm.chain[1] for arm in arms):
            continue
        asks = any(
            names[each].form is ChangeForm.ALSO or found.facts.switch in names[each].text
            for each in ast.walk(node.test)
            if each in names
        )
        sets = any(
            each in names and names[each].name == found.ported(f"{BUILDERS}.CUDAExtension")
            for statement in node.body
            for each in ast.walk(statement)
        )
        first = file.span(node.body[0])[0]
        body = text.rfind("\n", 0, first) + 1
        end = file.span(node.body[-1])[1]
        indent = _indent(text, start)
        line = text.rfind("\n", 0, start) + 1
        if (
            asks
            and sets
            and body > start
            and text[line:start] == indent
            and end - body
            and text.count("\n", body, end) < most_lines
        ):
            keyword = "elif" if text.startswith("elif", start) else "if"
            arms.append(Arm(start, _chain(found, node), body, end, keyword, indent, _indent(text, first)))
    return arms


def _chain(found: ScriptChanges, node: ast.If) -> tuple[int, int]:
    """Return the span of a condition with the arms before and behind one of them."""
    file = found.file
    while isinstance(parent := file.parents.get(node), ast.If) and parent.orelse == [node]:
        if not file.source.text.startswith("elif", file.span(node)[0]):
            break
        node = parent
    return file.span(node)


def _twin(found: ScriptChanges, arm: Arm, flag: str) -> Edit:
    """Return the edit that writes an arm for the target before CUDA's."""
    text = found.file.source.text
    inside = [change for change in found.changes if arm.body <= change.start < arm.end]
    edits = [_plain(text, change) for change in inside]
    shifted = (Edit(edit.start - arm.body, edit.end - arm.body, edit.text) for edit in edits)
    body = apply_edits(text[arm.body : arm.end], disjoint(shifted))
    facts = found.facts
    lines = _import_lines({change.imports for change in inside if change.imports})
    if any(change.name == f"{facts.arch_module}.{facts.arch_function}" for change in inside):
        lines.append(_architecture(facts))
    begin = "".join(f"{arm.body_indent}{line}\n" for line in lines)
    written = f"{arm.keyword} {flag}:\n{begin}{body}\n{arm.indent}elif"
    return Edit(arm.start, arm.start + len(arm.keyword), written)


def _sets_architecture(found: ScriptChanges, arm: Arm) -> bool:
    """Whether the twin of an arm says for which generation of cards is compiled."""
    name = f"{found.facts.arch_module}.{found.facts.arch_function}"
    return any(change.name == name for change in found.changes if arm.body <= change.start < arm.end)


def _architecture(facts: BuildFacts) -> str:
    """Return the statement that tells the target's builder for which generation of cards it compiles."""
    return f'os.environ["{facts.arch_macro}"] = str({facts.arch_function}())'


def _switch(
    found: ScriptChanges, flag: str, needed: Iterable[str], before: int, *, sets_architecture: bool = False
) -> Edit:
    """Return the edit that defines the switch, imports what conditional expressions need, and names the generation."""
    text = found.file.source.text
    at, indent = _top(found)
    begin = "import os\n\n"
    for statement in found.file.tree.body:
        start, end = found.file.span(statement)
        if start >= before:
            break
        if isinstance(statement, ast.Import) and any(each.name == "os" and not each.asname for each in statement.names):
            at, begin = end, ""
            break
    lines = [f'{flag} = os.getenv("{flag}", "0") == "1"']
    facts = found.facts
    sets_architecture = sets_architecture and bool(facts.arch_macro)
    imports = _import_lines({*needed, f"{facts.arch_module}.{facts.arch_function}"} if sets_architecture else needed)
    if sets_architecture:
        imports += ["", _architecture(facts)]
    if imports:
        lines += [f"if {flag}:", *(f"    {line}" if line else "" for line in imports)]
    block = "\n".join(lines)
    if not begin:
        return Edit(at, at, f"\n\n{block}\n" if text[at : at + 1] in ("\n", "\r") else f"; {lines[0]}")
    return Edit(at, at, f"{begin}{block}\n\n{indent}")


# parts of both


def _from_imports(found: ScriptChanges) -> dict[ast.ImportFrom, list[ast.alias]]:
    """Return the statements that import builders by their names, with those that the target replaces."""
    statements: dict[ast.ImportFrom, list[ast.alias]] = {}
    for reference in found.imports:
        statement = found.file.parents.get(reference.node)
        use = found.ported(reference.name)
        if (
            isinstance(reference.node, ast.alias)
            and isinstance(statement, ast.ImportFrom)
            and statement.module == BUILDERS
            and use not in ("", reference.name)
        ):
            statements.setdefault(statement, []).append(reference.node)
    return statements


def _import_lines(names: Iterable[str], bound: Mapping[str, str] = {}) -> list[str]:
    """Return import statements for dotted names, one a module; `bound` has those that get another name."""
    by_module: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        module, _, last = name.rpartition(".")
        local = bound.get(name, last)
        by_module.setdefault(module, []).append(last if local == last else f"{last} as {local}")
    return [f"from {module} import {', '.join(each)}" for module, each in by_module.items()]


def _top(found: ScriptChanges) -> tuple[int, str]:
    """Return where the first statement behind the documentation and `__future__` begins, and its indentation."""
    for index, statement in enumerate(found.file.tree.body):
        is_text = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            return found.file.span(statement)[0], ""
    return len(found.file.source.text), ""


def _indent(text: str, offset: int) -> str:
    """Return the white space that the line of an offset begins with."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip())]
