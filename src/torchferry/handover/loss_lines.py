"""Where a program prints its loss, and the line for the zoo's logger that goes there.

The line is an unsafe fix: which value is the loss, and what a batch is, is judged by names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from torchferry.backends.handover_forms import ZooLogger
from torchferry.core.finding import Edit
from torchferry.core.record import NamedTuple
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_LOSS = re.compile(r"loss", re.IGNORECASE)
_PRINTING = frozenset({"print", "info", "write", "set_description", "set_postfix", "log", "debug", "desc"})
_VALIDATING = re.compile(
    r"(?:^|_)(?:val|valid|validate|validation|eval|evaluate|test)(?:$|_)|eval_?loss|val_?loss", re.I
)
_EPOCH = re.compile(r"(?:^|_)(?:epoch|ep)\Z", re.IGNORECASE)
_COUNTERS = re.compile(r"(?:^|_)(?:step|iter|iteration|itr|it|i|batch_idx|batch_i|idx|global_step|batch_id)\Z")


class LogLine(NamedTuple):
    """A line for the logger.

    Attributes:
        path: The file.
        line: The line of the print that it follows.
        stage: `train` or `val`.
        code: The line.
        edits: What has to change in the file for it, without the import.
    """

    path: str
    line: int
    stage: str
    code: str
    edits: tuple[Edit, ...]


def loss_lines(paths: Iterable[str], project: Project, logger: ZooLogger) -> list[LogLine]:
    """Return the lines that log the losses of a program, at most one for training and one for validation.

    Args:
        paths: The program's file, then the files that it imports.
        project: The project.
        logger: The zoo's logger.
    """
    lines: dict[str, LogLine] = {}
    for path in paths:
        loaded = project.file(path)
        if loaded is None or logger.module in loaded[0].source.text:
            continue
        for line in _candidates(loaded[0], logger):
            lines.setdefault(line.stage, line)
    return list(lines.values())


def import_edit(file: PythonFile, logger: ZooLogger) -> Edit:
    """Return the edit that imports the logger behind the imports at the top of a file."""
    last = 0
    for number, statement in enumerate(file.tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or (number == 0 and is_text):
            last = statement.end_lineno or last
        elif not is_text:
            break
    starts = file.source.starts
    at = starts[last] if last < len(starts) else len(file.source.text)
    newline = file.source.newline
    before = newline if at and not file.source.text[:at].endswith("\n") else ""
    return Edit(at, at, f"{before}{logger.import_line}{newline}")


def _candidates(file: PythonFile, logger: ZooLogger) -> Iterator[LogLine]:
    """Yield the lines of a file, those in the loop that trains first."""
    trained = [node for node in file.attributes.get("backward", ()) if isinstance(file.parents.get(node), ast.Call)]
    loops = {id(loop) for node in trained for loop in _loops(file, node)[:1]}
    functions = {id(file.enclosing_function(node)) for node in trained}
    found: list[tuple[int, LogLine]] = []
    for statement in ast.walk(file.tree):
        if not isinstance(statement, ast.Expr):
            continue
        around = _loops(file, statement)
        value = _printed_loss(statement, _backward_loss(around[0]) if around else None)
        if isinstance(value, ast.Starred):  # several figures, of which one cannot be chosen: what goes backward is one
            value = _backward_loss(around[0]) if around else None
        if value is None or not _stands_alone(file, statement):
            continue
        function = file.enclosing_function(statement)
        name = "" if function is None else function.name
        if any(id(loop) in loops for loop in around[:1]):
            order, stage = 0, "train"
        elif _VALIDATING.search(name) or _VALIDATING.search(ast.unparse(value)):
            order, stage = 1, "val"
        elif trained and id(function) in functions:
            order, stage = 2, "train"
            training = next((node for node in trained if id(file.enclosing_function(node)) == id(function)), None)
            inside = _in_training(file, training) if training is not None else None
            if inside is not None:  # the zoo wants the steps, and their speed: the print stands behind them
                anchor, value, around = inside
                found.append((order, _line(file, anchor, value, stage, around, logger)))
                continue
        else:
            continue
        found.append((order, _line(file, statement, value, stage, around, logger)))
    for _, line in sorted(found, key=lambda pair: (pair[0], pair[1].line)):
        yield line


def _in_training(
    file: PythonFile, backward: ast.AST
) -> tuple[ast.stmt, ast.expr, list[ast.For | ast.While | ast.AsyncFor]] | None:
    """Return the last statement of each step, the step's loss, and the loops around it; None where no line fits in."""
    loops = _loops(file, backward)
    owner = _backward_loss(loops[0]) if loops else None
    anchor = loops[0].body[-1] if loops else None
    is_plain = isinstance(anchor, (ast.Expr, ast.Assign, ast.AugAssign))
    if anchor is None or owner is None or not is_plain or not _stands_alone(file, anchor):
        return None
    return anchor, ast.parse(f"{ast.unparse(owner)}.item()", mode="eval").body, loops


def _backward_loss(loop: ast.For | ast.While | ast.AsyncFor) -> ast.expr | None:
    """Return what goes backward in a loop: `loss.backward()`, `scaler.scale(loss).backward()`."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            owner: ast.expr = node.func.value
            if isinstance(owner, ast.Call) and len(owner.args) == 1:
                owner = owner.args[0]
            return owner if isinstance(owner, (ast.Name, ast.Attribute)) else None
    return None


def _printed_loss(statement: ast.Expr, backward: ast.expr | None) -> ast.expr | None:
    """Return the loss that a statement prints, `*losses` where it prints several; None where it prints none.

    Args:
        statement: The statement.
        backward: What goes backward in the loop around it, which is a loss whatever its name is.
    """
    call = statement.value
    if not isinstance(call, ast.Call):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in _PRINTING:
        return None
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        for value in _values(argument):
            if any(_LOSS.search(word) for word in _words(value)) or _is_of(value, backward):
                return value
    return None


def _is_of(value: ast.expr, backward: ast.expr | None) -> bool:
    """Whether a value is what goes backward, or a number of it: `l`, `l.item()`, `float(l)`."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and not value.args:
            value = value.func.value
        elif getattr(value.func, "id", "") == "float" and len(value.args) == 1:
            value = value.args[0]
        else:
            return False
    return backward is not None and ast.dump(value) == ast.dump(backward)


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the values that an argument shows: those in an f-string, behind `%`, in `.format()`, or the argument."""
    if isinstance(node, ast.JoinedStr):
        yield from (part.value for part in node.values if isinstance(part, ast.FormattedValue))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.Add)):
        yield from _values(node.left)
        yield from _values(node.right)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (inner for element in node.elts for inner in _values(element))
    elif isinstance(node, ast.Dict):
        yield from (inner for element in node.values for inner in _values(element))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from (inner for element in node.args for inner in _values(element))
        yield from (inner for keyword in node.keywords for inner in _values(keyword.value))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        yield from _values(node.args[0])
    elif not isinstance(node, ast.Constant):
        yield node


def _words(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _stands_alone(file: PythonFile, statement: ast.stmt) -> bool:
    """Whether nothing else is on the lines of a statement, so that a line can follow it."""
    text, starts = file.source.text, file.source.starts
    begin = file.source.offset(statement.lineno, statement.col_offset)
    end = file.source.offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    rest = text[end : starts[statement.end_lineno or 0] if (statement.end_lineno or 0) < len(starts) else len(text)]
    before = text[starts[statement.lineno - 1] : begin]
    return not before.strip() and (not rest.strip() or rest.strip().startswith("#"))


def _loops(file: PythonFile, node: ast.AST) -> list[ast.For | ast.While | ast.AsyncFor]:
    """Return the loops around a node within its function, the innermost first."""
    loops: list[ast.For | ast.While | ast.AsyncFor] = []
    inner = node
    while (parent := file.parents.get(inner)) is not None and not isinstance(
        inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    ):
        if isinstance(parent, (ast.For, ast.While, ast.AsyncFor)) and inner in parent.body:
            loops.append(parent)
        inner = parent
    return loops


def _line(
    file: PythonFile,
    statement: ast.stmt,
    value: ast.expr,
    stage: str,
    loops: list[ast.For | ast.While | ast.AsyncFor],
    logger: ZooLogger,
) -> LogLine:
    step, batch = _step_and_batch(loops[0]) if loops else ("", "")
    step = step or (_counter(loops[0]) if loops else "")
    batch = batch or (_model_input(file, loops[0]) if loops else "")
    if not step and loops and not any(each is statement for each in _in_loop(loops[0].body)):
        batch = ""  # the logger counts its calls in place of steps, and not every step makes one
    template = logger.train if stage == "train" else logger.val
    epoch = _epoch(file, statement, loops)
    code = template.format(epoch=epoch, step=step or "None", loss=ast.unparse(value), batch=batch or "None")
    starts, text = file.source.starts, file.source.text
    end = statement.end_lineno or statement.lineno
    indent = text[starts[statement.lineno - 1] : file.source.offset(statement.lineno, statement.col_offset)]
    at = starts[end] if end < len(starts) else len(text)
    newline = file.source.newline
    before = "" if text[:at].endswith(("\n", "\r")) else newline
    edits = [Edit(at, at, f"{before}{indent}{code}{newline}")]
    if epoch == "None" and stage == "train" and loops and logger.begin:
        start = starts[loops[0].lineno - 1]
        around = text[start : file.source.offset(loops[0].lineno, loops[0].col_offset)]
        if not around.strip():
            edits.insert(0, Edit(start, start, f"{around}{logger.begin}{newline}"))
    return LogLine(file.path, statement.lineno, stage, code, tuple(edits))


def _step_and_batch(loop: ast.For | ast.While | ast.AsyncFor) -> tuple[str, str]:
    """Return the names of a loop's counter and of the inputs in a batch; empty where there are none."""
    if isinstance(loop, ast.While):
        return "", ""
    target = loop.target
    called = _counting_call(loop.iter)
    function = called.func.id if called is not None and isinstance(called.func, ast.Name) else ""
    if function == "range":
        return (target.id, "") if isinstance(target, ast.Name) else ("", "")
    elements = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    counted = len(elements) == 2 and isinstance(elements[0], ast.Name)
    if counted and (function == "enumerate" or _COUNTERS.search(getattr(elements[0], "id", ""))):
        return getattr(elements[0], "id", ""), _first_name(elements[1])
    return "", _first_name(target)


def _counting_call(node: ast.expr) -> ast.Call | None:
    """Return the `range(...)` or `enumerate(...)` that a loop runs over, also through a progress bar around it."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("range", "enumerate"):
            return node
        if not node.args:
            return None
        node = node.args[0]
    return None


def _counter(loop: ast.For | ast.While | ast.AsyncFor) -> str:
    """Return what a loop counts by itself, `step += 1` or `self.step = self.step + 1`; empty where it counts nothing.

    Of several counters the one with a usual name is taken, else the first.
    """
    counted: list[str] = []
    for statement in _in_loop(loop.body):
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add) and _is_one(statement.value):
            counted.append(ast.unparse(statement.target))
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name, value = ast.unparse(statement.targets[0]), statement.value
            is_sum = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and _is_one(value.right)
            if is_sum and ast.unparse(value.left) == name:  # type: ignore[attr-defined]
                counted.append(name)
    usual = (name for name in counted if _COUNTERS.search(name.rpartition(".")[2]))
    return next(usual, next((name for name in counted if not _EPOCH.search(name.rpartition(".")[2])), ""))


def _in_loop(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that each turn of a loop runs: none behind a condition, and none of a loop inside."""
    for statement in body:
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
            yield from _in_loop(statement.body)
        else:
            yield statement


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and not isinstance(node.value, bool)


def _first_name(node: ast.expr) -> str:
    if isinstance(node, (ast.Tuple, ast.List)):
        return _first_name(node.elts[0]) if node.elts else ""
    return node.id if isinstance(node, ast.Name) else ""


_MODEL = re.compile(r"model|net\Z|net_|module|backbone|encoder|generator|transformer|(?:^|_)m\Z", re.IGNORECASE)


def _model_input(file: PythonFile, loop: ast.For | ast.While | ast.AsyncFor) -> str:
    """Return the name of what a model is called with in each turn of a loop; empty where no call is named so."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if _MODEL.search(name) and _loops(file, node)[:1] == [loop]:
                return node.args[0].id
    return ""


def _epoch(file: PythonFile, node: ast.AST, loops: list[ast.For | ast.While | ast.AsyncFor]) -> str:
    """Return the epoch at a place: a variable, 0 where there is one loop alone, None where the logger has to count."""
    counted = [loop.target.id for loop in loops if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)]
    for name in counted:
        if _EPOCH.search(name):
            return name
    function = file.enclosing_function(node)
    names = [] if function is None else [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    named = next((name for name in names if _EPOCH.search(name)), "")
    if named:
        return named
    inner = (ast.For, ast.While, ast.AsyncFor)
    is_around = bool(loops) and any(isinstance(each, inner) for each in ast.walk(loops[0]) if each is not loops[0])
    epochs = loops if is_around else loops[1:]  # a loop with a loop inside is one of epochs
    outer = [loop for loop in epochs if isinstance(loop, ast.For) and _counting_call(loop.iter) is not None]
    target = outer[-1].target if outer else None
    if isinstance(target, ast.Name) and target.id != "_":
        return target.id
    return "0" if len(loops) < 2 and function is None else "None"
