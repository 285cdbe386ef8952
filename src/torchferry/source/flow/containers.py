"""A value in a list, a dictionary or an item of one: what it is next to, and what asks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.source.flow.assembled import begun_by
from torchferry.source.flow.storage import as_parameter, assigned_to, under_key
from torchferry.source.flow.syntax import LOOKUPS, last_name, string_value
from torchferry.source.flow.trace import Path, Trace, TraceResult, no, undecided, yes
from torchferry.source.flow.tracer import Tracer
from torchferry.source.names import assigned_value


def in_container(flow: Tracer, node: ast.AST, container: ast.AST, path: Path) -> Trace:
    """Judge an item by the items beside it, else by what is done with the list."""
    assert isinstance(container, (ast.Tuple, ast.List, ast.Set))
    if flow.values.has_peer(container):
        return yes(say("next to other devices"))
    whole = begun_by(flow.file, node)
    if whole is not None:
        return flow.follow(whole, path)
    parent = flow.file.parents.get(container)
    if isinstance(container, ast.Tuple) and isinstance(parent, ast.Assign):
        for target in parent.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(container.elts):
                return assigned_to(flow, target.elts[container.elts.index(node)], path)  # type: ignore[arg-type]
    if isinstance(parent, ast.Call) and last_name(parent.func) in _PARSERS and container in parent.args:
        return _word_of_option(flow, container.elts, container.elts.index(node))  # type: ignore[arg-type]
    trace = flow.follow(container, path)
    stranger = flow.values.stranger(container)
    if stranger and trace.result is not TraceResult.YES:
        return no(say("one of several words, such as `{word}`", word=stranger), certain=True)
    return trace


_PARSERS = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})


def _word_of_option(flow: Tracer, words: list[ast.expr], place: int) -> Trace:
    """Judge a word that a parser is given by the option ahead of it: `parse_args(["--device", "cuda"])`."""
    option = string_value(words[place - 1]) if place else None
    identifier = option.lstrip("-").replace("-", "_") if option is not None and option.startswith("-") else ""
    if identifier and flow.lexicon.names(identifier):
        return yes(say("option `{name}`", name=identifier))
    return undecided()


def in_dictionary(flow: Tracer, node: ast.AST, dictionary: ast.AST, path: Path) -> Trace:
    """Judge a value by its key, and a key by the other keys."""
    assert isinstance(dictionary, ast.Dict)
    keys = flow.file.keys_of(dictionary)
    if node not in keys:
        return as_key(flow, dictionary)
    key = keys[node]
    whole = begun_by(flow.file, node)
    if whole is not None:
        return flow.follow(whole, path)
    if key is None:  # another dictionary is unpacked there
        return flow.follow(dictionary, path)
    parent = flow.file.parents.get(dictionary)
    if isinstance(parent, ast.keyword) and parent.arg and flow.lexicon.names(parent.arg):
        return yes(say("argument `{name}`", name=parent.arg))
    if flow.values.are_collectives(dictionary):
        return yes(say("next to other devices"))
    return under_key(flow, key, path)


def under_name(flow: Tracer, name: ast.expr) -> Trace:
    """Judge a value stored under a name that is a string, such as a pytest parameter."""
    names = name.elts if isinstance(name, (ast.Tuple, ast.List)) else [name]
    for text in map(string_value, names):
        if text is not None and any(flow.lexicon.names(part) for part in text.split(",")):
            return yes(say("value of `{name}`", name=text))
    return undecided()


def as_key(flow: Tracer, container: ast.expr) -> Trace:
    """Judge a key: of the kind when the other keys are, or when the dictionary is asked with such a value."""
    parent = flow.file.parents.get(container)
    if isinstance(parent, ast.keyword) and parent.arg == "map_location":
        return no(say("names the device inside the checkpoint"))
    if isinstance(container, ast.Dict):
        if flow.values.has_peer_key(container):
            return yes(say("key next to other devices"))
        asked = key_asked(flow, container)
        if asked is not None and flow.values.holds(asked):
            return yes(say("key asked for with `{expression}`", expression=ast.unparse(asked)))
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            return _asked(flow, parent.targets[0])
        return no(say("the key of a dictionary"))
    return _asked(flow, container)


def _asked(flow: Tracer, container: ast.expr) -> Trace:
    """Whether the project asks the dictionary in a variable with a value of the kind: `streams[device.type]`."""
    asked = asked_for(flow, container)
    if asked is not None:
        return asked
    if any(_has_device_keys(flow, value) for value in _held_by(flow, container)):
        return yes(say("key next to other devices"))
    return no(say("the key of a dictionary"))


def _has_device_keys(flow: Tracer, value: ast.expr) -> bool:
    """Whether a dictionary has devices for keys, as it is written or made: `{d: f(d) for d in ("cpu", "cuda")}`."""
    if isinstance(value, ast.Dict):
        return flow.values.has_peer_key(value)
    if isinstance(value, ast.DictComp):
        return flow.values.holds(value.key)
    if not isinstance(value, ast.Call) or not value.args:
        return False
    keys: ast.expr | None = value.args[0]
    maker = last_name(value.func)
    if maker == "dict" and isinstance(keys, (ast.GeneratorExp, ast.ListComp)):
        return isinstance(keys.elt, ast.Tuple) and bool(keys.elt.elts) and flow.values.holds(keys.elt.elts[0])
    if maker == "dict" and isinstance(keys, ast.Call):
        keys = keys.args[0] if last_name(keys.func) == "zip" and keys.args else None
    elif maker != "fromkeys":
        return False
    return isinstance(keys, (ast.Tuple, ast.List, ast.Set)) and flow.values.has_peer(keys)


def key_asked(flow: Tracer, container: ast.expr) -> ast.expr | None:
    """Return what a dictionary is asked for where it stands: `x[key]`, `x.get(key)`, `key in x`."""
    parent = flow.file.parents.get(container)
    if isinstance(parent, ast.Subscript) and parent.value is container:
        return parent.slice
    if isinstance(parent, ast.Attribute) and parent.attr in _ASKING:
        call = flow.file.parents.get(parent)
        return call.args[0] if isinstance(call, ast.Call) and call.func is parent and call.args else None
    is_sought = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.In, ast.NotIn))
    return parent.left if is_sought and parent.comparators == [container] else None  # type: ignore[union-attr]


class KeyAsked(NamedTuple):
    """What a container is asked for, and the tracer of the file that asks."""

    flow: Tracer
    asked: ast.expr


def questions(flow: Tracer, container: ast.expr) -> Iterator[KeyAsked]:
    """Yield what a container is asked for: right there, by the variable that holds it, and by those who import that."""
    places = [(flow, container)]
    statement = flow.file.parents.get(container)
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    variable = container if isinstance(container, ast.Name) else next(iter(targets), None)
    for inner, place in (*places, *(_uses(flow, variable) if isinstance(variable, ast.Name) else ())):
        asked = key_asked(inner, place)
        if asked is not None:
            yield KeyAsked(inner, asked)


def asked_for(flow: Tracer, container: ast.expr) -> Trace | None:
    """Return the answer that a container in a variable is asked with a value of the kind; None where none is seen."""
    for inner, asked in questions(flow, container) if isinstance(container, ast.Name) else ():
        if string_value(asked) is None and inner.values.holds(asked):
            return yes(say("key asked for with `{expression}`", expression=ast.unparse(asked)))
    return None


def _uses(flow: Tracer, variable: ast.Name) -> Iterator[tuple[Tracer, ast.expr]]:
    """Yield the uses of a variable, also of one of another file, in every file that has it."""
    yield from ((flow, use) for use in flow.names.uses_of(variable))
    if flow.project is None:
        return
    path, member = flow.file.path, variable.id
    if flow.names.variable_scope(member, flow.file.scope(variable)) is not flow.file.tree:
        return
    module, _, imported = (flow.names.qualified(variable) or "").rpartition(".")
    origin = flow.project.module_path(module, path) if module.strip(".") else None
    if origin is not None:
        path, member = origin, imported
    for file, names, use in flow.project.users(path, member):
        yield flow.of(file, names), use
    own = flow.project.file(path) if path != flow.file.path else None
    if own is not None:
        file, names = own
        yield from ((flow.of(file, names), use) for use in names.uses(member, file.tree))


_ASKING = LOOKUPS | {"__getitem__", "__contains__", "has_key"}
"""Methods of a dictionary whose first argument is a key."""


def _held_by(flow: Tracer, container: ast.expr) -> Iterator[ast.expr]:
    """Yield what is assigned to a variable or an attribute: the keys of a dictionary change with what asks for them."""
    bindings: Iterable[ast.AST] = ()
    if isinstance(container, ast.Name):
        bindings = flow.names.bindings(container)
    elif isinstance(container, ast.Attribute):
        stores = flow.file.attributes.get(container.attr, ())
        bindings = (store for store in stores if isinstance(store.ctx, ast.Store))
    for binding in bindings:
        value = assigned_value(flow.file, binding)
        if value is not None:
            yield value


def in_item(flow: Tracer, node: ast.AST, subscript: ast.AST, path: Path) -> Trace:
    """Judge the index of an item as a key, and the object of one by what is done with the item."""
    assert isinstance(subscript, ast.Subscript)
    if node is subscript.value:
        return flow.follow(subscript, path)
    if last_name(subscript.value) == "Literal":
        return _annotated(flow, subscript, path)
    return as_key(flow, subscript.value)


def _annotated(flow: Tracer, annotation: ast.expr, path: Path) -> Trace:
    """A value of a `Literal[...]` annotation: what the annotated name is."""
    if flow.values.has_peer(annotation):
        return yes(say("next to other devices"))
    parent = flow.file.parents.get(annotation)
    while isinstance(parent, (ast.Subscript, ast.BinOp, ast.Tuple)):
        parent = flow.file.parents.get(parent)
    if isinstance(parent, ast.arg):
        return as_parameter(flow, parent, path)
    if isinstance(parent, ast.AnnAssign):
        return assigned_to(flow, parent.target, path)
    return undecided()


def in_loop(flow: Tracer, node: ast.AST, loop: ast.AST, path: Path) -> Trace:
    """Judge what a loop runs over by the variable that takes the items."""
    assert isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension))
    if node is loop.iter and isinstance(loop.target, ast.Name):
        return assigned_to(flow, loop.target, path)
    return undecided()
