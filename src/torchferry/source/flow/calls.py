"""A value as an argument of a call: what the called function does with it."""

from __future__ import annotations

import ast

from torchferry.core.messages import say
from torchferry.source.flow.assembled import begun_by
from torchferry.source.flow.conditions import compared_with
from torchferry.source.flow.containers import as_key, asked_for, under_name
from torchferry.source.flow.storage import as_parameter, assigned_to
from torchferry.source.flow.syntax import LOOKUPS, STRING_METHODS, last_name, string_value
from torchferry.source.flow.trace import Path, Trace, TraceResult, no, undecided, yes
from torchferry.source.flow.tracer import Tracer
from torchferry.source.names import assigned_value

_PASSING_CALLS = frozenset({"str", "tuple", "list", "set", "frozenset", "sorted", "dict", "cycle", "repr"})
_MESSAGE_CALLS = frozenset(
    {"print", "pprint", "echo", "secho", "log", "debug", "info", "warning", "warn", "error", "critical", "exception"}
)
_MESSAGE_OWNERS = ("log", "warn", "console", "print", "click", "typer", "tqdm", "accelerator", "st")
_OPTION_CALLS = frozenset(
    {"add_argument", "add_option", "option", "argument", "Option", "Argument", "DEFINE_string", "DEFINE_enum", "arg"}
)
_PATH_CALLS = frozenset(
    {"open", "Path", "import_module", "glob", "exists", "isdir", "isfile", "makedirs", "mkdir", "__import__"}
)
_NAME_CALLS = frozenset({"isinstance", "TypeVar", "NewType", "namedtuple", "compile"})
_FIELD_CALLS = frozenset({"field", "Field", "HfArg", "attrib", "ib"})
_MOST_FUNCTIONS = 20
"""How many expressions are looked at for what a call may mean."""

_TEXT_KEYWORDS = frozenset({"help", "description", "desc", "msg", "message", "title", "label", "metadata"})
_NAME_KEYWORDS = frozenset({"dest", "name", "flags", "metavar"})


def in_keyword(flow: Tracer, node: ast.AST, keyword: ast.AST, path: Path) -> Trace:
    """Judge a keyword argument by its name, else by the parameter of that name."""
    assert isinstance(keyword, ast.keyword)
    call = flow.file.parents[keyword]
    whole = begun_by(flow.file, node)
    if whole is not None:
        return flow.follow(whole, path)
    name = keyword.arg
    if name is None or not isinstance(call, ast.Call):
        return undecided()
    callee = last_name(call.func)
    if callee in _OPTION_CALLS and name in ("default", "choices", "const", "type"):
        return _option(flow, call, path)
    if callee in _FIELD_CALLS and name in ("default", "default_factory"):
        return flow.follow(call, path)
    if name in _TEXT_KEYWORDS:
        return no(say("help text"))
    if name in _NAME_KEYWORDS:
        return no(say("the name of an option"))
    if flow.lexicon.names(name):
        return yes(say("argument `{name}`", name=name))
    return _parameter(flow, call, name, path)


def in_call(flow: Tracer, node: ast.AST, call: ast.AST, path: Path) -> Trace:
    """Judge a positional argument by the function that takes it."""
    assert isinstance(call, ast.Call)
    if node not in call.args:
        return undecided()
    whole = begun_by(flow.file, node)
    if whole is not None:
        return flow.follow(whole, path)
    position = call.args.index(node)
    callee = last_name(call.func)
    qualified = flow.names.qualified(call.func)
    parameters = flow.lexicon.parameters
    if qualified is not None and parameters.get(qualified) == position:
        return yes(say("argument of `{name}`", name=qualified))
    for name, place in _functions(flow, call, position):
        if parameters.get(name) == place:
            return yes(say("argument of `{name}`", name=name))
    if isinstance(call.func, ast.Attribute):
        if parameters.get(f".{callee}") == position:
            return yes(say("argument of `.{name}()`", name=callee))
        if callee in STRING_METHODS:
            return compared_with(flow, call.func.value)
    if callee in ("getattr", "hasattr", "setattr", "delattr") and isinstance(call.func, ast.Name):
        return _attribute_call(flow, call, position, path)
    if callee in _OPTION_CALLS:
        if callee.startswith("DEFINE") and position == 1:
            return _option(flow, call, path)
        if position == 0 and _fills_parameter(flow, call):
            return _option(flow, call, path)
        return no(say("the name of an option"))
    if callee in LOOKUPS:
        return _lookup(flow, call, position, path)
    if callee == "parametrize" and position == 1:
        return under_name(flow, call.args[0])
    if callee == "param" or callee in _PASSING_CALLS or (callee in _FIELD_CALLS and position == 0):
        return flow.follow(call, path)
    if callee in _MESSAGE_CALLS and _writes_message(call):
        return no(say("a message"))
    if callee.endswith(("Error", "Exception", "Warning")):
        # translators: why a text is not a device: it is logged or raised
        return no(say("a message"))
    if callee in _PATH_CALLS or (callee == "join" and "path" in ast.unparse(call.func)):
        return no(say("a path or the name of a module"))
    if callee in _NAME_CALLS:
        # translators: why a text is not a device
        return no(say("a name"))
    trace = _parameter(flow, call, position, path)
    if trace.result is not TraceResult.YES and position == 0 and isinstance(call.func, ast.Attribute):
        return asked_for(flow, call.func.value) or trace  # `REGISTRY.add("cuda", run)`, and `REGISTRY[device.type]`
    return trace


def _functions(flow: Tracer, call: ast.Call, position: int) -> list[tuple[str, int]]:
    """Return the functions that a call may mean, with the position that an argument has there.

    Of `scope = autocast if wanted else nullcontext` both are meant by `scope("cuda")`, and `partial(autocast, "cuda")`
    hands its second argument on as the first.
    """
    functions: list[tuple[str, int]] = []
    waiting = [(call.func, position)]
    seen: set[ast.AST] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        func, place = waiting.pop()
        if func in seen:
            continue
        seen.add(func)
        name = flow.names.qualified(func)
        if name == "functools.partial" and func is call.func and place and call.args:
            waiting.append((call.args[0], place - 1))
        elif name is not None:
            functions.append((name, place))
        if isinstance(func, ast.IfExp):
            waiting += [(func.body, place), (func.orelse, place)]
        elif isinstance(func, ast.BoolOp):
            waiting += [(value, place) for value in func.values]
        elif isinstance(func, ast.Name):
            values = [assigned_value(flow.file, binding) for binding in flow.names.bindings(func)]
            waiting += [(value, place) for value in values if value is not None]
        elif isinstance(func, ast.Attribute) and last_name(func.value) in ("self", "cls"):
            own = flow.file.enclosing_class(func)
            for store in flow.file.attributes.get(func.attr, ()):
                if isinstance(store.ctx, ast.Store) and flow.file.enclosing_class(store) is own:
                    value = assigned_value(flow.file, store)
                    waiting += [(value, place)] if value is not None else []
    return functions


def _writes_message(call: ast.Call) -> bool:
    """Whether a call by a name such as `log` or `info` writes a message."""
    if not isinstance(call.func, ast.Attribute):
        return True
    owner = last_name(call.func.value).lower()
    return any(word in owner for word in _MESSAGE_OWNERS)


def _attribute_call(flow: Tracer, call: ast.Call, position: int, path: Path) -> Trace:
    """`getattr(args, "device", "cuda")`: the default is what the named attribute would hold."""
    if position == 1:
        # `getattr(torch, os.getenv("KIND", "cuda"))`: a part of the name alone
        is_part = not isinstance(call.args[1], (ast.Constant, ast.Name))
        is_of_torch = flow.names.qualified(call.args[0]) == "torch"
        return undecided() if is_part and is_of_torch else no(say("the name of an attribute"))
    name = string_value(call.args[1]) if len(call.args) > 1 else None
    if position == 2 and name is not None and flow.lexicon.names(name):
        return yes(say("attribute `{name}`", name=name))
    if position == 2 and last_name(call.func) == "getattr":
        return flow.follow(call, path)
    return undecided()


def _lookup(flow: Tracer, call: ast.Call, position: int, path: Path) -> Trace:
    """`os.environ.get("DEVICE", "cuda")`: the default is what the key would give."""
    if position == 0:
        # translators: why a text is not a device: the key of a dictionary
        return as_key(flow, call.func.value) if isinstance(call.func, ast.Attribute) else no(say("a key"))
    key = string_value(call.args[0])
    if key is not None and flow.lexicon.names(key):
        return yes(say("value of `{name}`", name=key))
    return flow.follow(call, path)


def _option(flow: Tracer, call: ast.Call, path: Path) -> Trace:
    """A default or choice of a command-line option: what the option's name, its other values or its uses say."""
    fills_parameter = _fills_parameter(flow, call)
    flags = [flag for flag in map(string_value, call.args[fills_parameter:]) if flag is not None]
    for keyword in call.keywords:
        if keyword.arg == "dest" and (dest := string_value(keyword.value)):
            flags.append(dest)
        if keyword.arg == "type" and flow.names.qualified(keyword.value) == "torch.device":
            return yes(say("option of type `torch.device`"))
    identifiers = [flag.lstrip("-").replace("-", "_") for flag in flags]
    for identifier in identifiers:
        if flow.lexicon.names(identifier):
            return yes(say("option `{name}`", name=identifier))
    if fills_parameter:
        return flow.follow(call, path)
    for keyword in call.keywords:
        if keyword.arg in ("default", "choices"):
            if flow.values.has_peer(keyword.value):
                return yes(say("next to other devices"))
            stranger = flow.values.stranger(keyword.value)
            if stranger:
                return no(say("one of several words, such as `{word}`", word=stranger), certain=True)
    uses = [
        attribute
        for identifier in identifiers
        for attribute in flow.file.attributes.get(identifier, ())
        if isinstance(attribute.ctx, ast.Load)
    ]
    return flow.any_use(uses, path, say("an option whose use could not be followed to the end"))


def _fills_parameter(flow: Tracer, call: ast.Call) -> bool:
    """Whether an option is as the default of a parameter, `def main(device: str = typer.Option("cuda"))`.

    Its own default is its first argument then, and what it is read by is the parameter.
    """
    around = flow.file.parents.get(call)
    return isinstance(around, ast.arguments) and last_name(call.func) in ("Option", "Argument")


def _parameter(flow: Tracer, call: ast.Call, which: int | str, path: Path) -> Trace:
    """An argument that no name gives away: what the called function of the project does with it."""
    callee = ast.unparse(call.func)
    unseen = say("passed to `{name}`, which could not be examined", name=callee)
    target = _callee(flow, call.func)
    if target is None:
        if flow.lexicon.names(last_name(call.func)):
            return yes(say("argument of `{name}`", name=callee))
        return undecided(unseen)
    inner, definition = target
    if isinstance(definition, ast.ClassDef):
        constructor = next(
            (item for item in definition.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None
        )
        if constructor is None:
            return _record_field(inner, definition, which, path) or undecided(unseen)
        parameter = _find_parameter(constructor, which, 1)
    else:
        bound = isinstance(call.func, ast.Attribute) and _takes_self(inner, definition)
        parameter = _find_parameter(definition, which, 1 if bound else 0)
    return undecided(unseen) if parameter is None else as_parameter(inner, parameter, path)


def _record_field(flow: Tracer, definition: ast.ClassDef, which: int | str, path: Path) -> Trace | None:
    """The field that a constructor made by `dataclass` or `NamedTuple` fills."""
    fields = [
        statement.target
        for statement in definition.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    for index, field in enumerate(fields):
        if which in (index, field.id):
            return assigned_to(flow, field, path)
    return None


def _find_parameter(
    definition: ast.FunctionDef | ast.AsyncFunctionDef, which: int | str, filled: int
) -> ast.arg | None:
    """Return the parameter that takes an argument; the first `filled` ones are filled by the call itself."""
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if isinstance(which, int):
        return positional[which + filled] if which + filled < len(positional) else None
    return next((argument for argument in (*positional, *arguments.kwonlyargs) if argument.arg == which), None)


def _callee(
    flow: Tracer, func: ast.expr
) -> tuple[Tracer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] | None:
    """Return the project's function or class that a call means, with a flow for its file."""
    if isinstance(func, ast.Name):
        for binding in flow.names.bindings(func):
            if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return flow, binding
    if isinstance(func, ast.Attribute):
        method = _method(flow, func)
        if method is not None:
            return flow, method
    qualified = flow.names.qualified(func)
    if qualified is None or flow.project is None:
        return None
    located = flow.project.definition(qualified, flow.file.path)
    if located is None:
        return None
    file, names, definition = located
    return flow.of(file, names), definition


def _method(flow: Tracer, func: ast.Attribute) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the method that a call means, when the file has just one of that name."""
    if flow.names.qualified(func) is not None:
        return None
    methods = [
        function
        for function in flow.file.functions
        if function.name == func.attr and isinstance(flow.file.parents.get(function), ast.ClassDef)
    ]
    if isinstance(func.value, ast.Name) and func.value.id in ("self", "cls"):
        own = flow.file.enclosing_class(func)
        methods = [method for method in methods if flow.file.parents[method] is own] or methods
    return methods[0] if len(methods) == 1 else None


def _takes_self(flow: Tracer, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a method whose first parameter is filled by the call itself."""
    if not isinstance(flow.file.parents.get(function), ast.ClassDef):
        return False
    return not any(last_name(decorator) == "staticmethod" for decorator in function.decorator_list)
