"""A value that is stored: in a variable, an attribute, a parameter's default, the result of a function."""

from __future__ import annotations

import ast

from torchferry.core.messages import say
from torchferry.source.flow.syntax import PASSING_METHODS, STRING_METHODS, defaults_of, string_value
from torchferry.source.flow.trace import Path, Trace, TraceResult, best, no, undecided, yes
from torchferry.source.flow.tracer import Tracer
from torchferry.source.names import bound_name


def in_assignment(flow: Tracer, node: ast.AST, statement: ast.AST, path: Path) -> Trace:
    """Judge an assigned value by what it is assigned to."""
    assert isinstance(statement, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
    if isinstance(statement, ast.AnnAssign) and node is statement.annotation:
        # translators: why a text is not a device: it is a type annotation
        return no(say("an annotation"))
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    traces = [assigned_to(flow, target, path) for target in targets]
    if isinstance(statement, ast.NamedExpr):
        traces.append(flow.follow(statement, path))
    return best(traces)


def assigned_to(flow: Tracer, target: ast.expr, path: Path) -> Trace:
    """Judge a value by the name, attribute or item that it is stored in, else by what uses that."""
    if isinstance(target, ast.Name):
        if flow.lexicon.names(target.id):
            return yes(say("variable `{name}`", name=target.id))
        return _variable(flow, target, path)
    if isinstance(target, ast.Attribute):
        if flow.lexicon.names(target.attr):
            return yes(say("attribute `{name}`", name=target.attr))
        uses = [use for use in flow.file.attributes.get(target.attr, ()) if isinstance(use.ctx, ast.Load)]
        return flow.any_use(uses, path, say("attribute `{name}`, whose use is elsewhere", name=target.attr))
    if isinstance(target, ast.Subscript):
        return under_key(flow, target.slice, path)
    return undecided()


def _variable(flow: Tracer, target: ast.Name, path: Path) -> Trace:
    scope = flow.names.variable_scope(target.id, flow.file.scope(target))
    if scope is None:
        return undecided()
    uses: list[ast.expr] = list(flow.names.uses(target.id, scope))
    if isinstance(scope, ast.ClassDef):  # a class attribute is used as `self.name` or `Class.name`
        uses += [use for use in flow.file.attributes.get(target.id, ()) if isinstance(use.ctx, ast.Load)]
    reason = say("variable `{name}`, whose use could not be followed to the end", name=target.id)
    trace = flow.any_use(uses, path, reason)
    if trace.result is TraceResult.UNKNOWN and isinstance(scope, ast.ClassDef) and flow.values.has_peer_member(scope):
        return yes(say("next to other devices"))  # files and commands ask for it by the same word
    if trace.result is TraceResult.UNKNOWN and scope is flow.file.tree and flow.project is not None:
        for file, names, alias in flow.project.importers(flow.file.path, target.id):
            inner = flow.of(file, names)
            elsewhere = inner.any_use(names.uses(bound_name(alias), file.scope(alias)), path, reason)
            if elsewhere.result is TraceResult.YES:
                return elsewhere
    return trace


def under_key(flow: Tracer, key: ast.expr, path: Path) -> Trace:
    """Judge a value stored under a key: by the key's name, else by what the file does with that item."""
    text = string_value(key)
    if text is None:
        return undecided()
    if flow.lexicon.names(text):
        return yes(say("value of `{name}`", name=text))
    uses: list[ast.expr] = list(flow.file.item_reads(text))
    uses += [use for use in flow.file.attributes.get(text, ()) if isinstance(use.ctx, ast.Load)]
    return flow.any_use(uses, path, say("value of `{name}`, whose use is elsewhere", name=text))


def as_parameter(flow: Tracer, argument: ast.arg, path: Path) -> Trace:
    """Judge a parameter by its name, else by what the function does with it."""
    if flow.lexicon.names(argument.arg):
        return yes(say("parameter `{name}`", name=argument.arg))
    uses = flow.names.uses(argument.arg, flow.file.scope(argument))
    return flow.any_use(
        uses, path, say("parameter `{name}`, whose use could not be followed to the end", name=argument.arg)
    )


def in_default(flow: Tracer, node: ast.AST, arguments: ast.AST, path: Path) -> Trace:
    """Judge a default value by its parameter."""
    assert isinstance(arguments, ast.arguments)
    for argument, default in defaults_of(arguments):
        if default is node:
            return as_parameter(flow, argument, path)
    return undecided()


def in_result(flow: Tracer, node: ast.AST, statement: ast.AST, path: Path) -> Trace:
    """Judge a returned value by the function's name, its other results, and its callers."""
    function = flow.file.enclosing_function(statement)
    if function is None:
        return undecided()
    if flow.lexicon.names(function.name):
        return yes(say("returned by `{name}`", name=function.name))
    if function in flow.returning_peers:
        return yes(say("returned by `{name}` next to other devices", name=function.name))
    uses: list[ast.expr] = []
    for used in (*flow.file.names.get(function.name, ()), *flow.file.attributes.get(function.name, ())):
        parent = flow.file.parents.get(used)
        if isinstance(parent, ast.Call) and parent.func is used:
            uses.append(parent)
        elif isinstance(used, ast.Attribute):
            uses.append(used)  # a property
    return flow.any_use(
        uses, path, say("returned by `{name}`, whose use could not be followed to the end", name=function.name)
    )


def in_attribute(flow: Tracer, node: ast.AST, attribute: ast.AST, path: Path) -> Trace:
    """Judge the object of a method by the method's result: `"cuda:{}".format(i)`, `name.lower()`."""
    assert isinstance(attribute, ast.Attribute)
    call = flow.file.parents.get(attribute)
    if isinstance(call, ast.Call) and call.func is attribute:
        if attribute.attr in PASSING_METHODS | STRING_METHODS:
            return flow.follow(call, path)
        return undecided()
    return flow.follow(attribute, path) if attribute.attr in ("type", "index") else undecided()
