"""Read what a plugin shows to a program: modules, public names, signatures, members, enumerations, registrations.

`tools/compare_surface.py` starts this file with the interpreter that is examined, once with the vendor's own plugin and
once with the simulated one. Both sides write the same text for the same thing, so that texts can be compared.

python tools/plugin_surface.py shipped TARGET WHEEL OUT
python tools/plugin_surface.py simulated TARGET SURFACE.json OUT      inside `torchferry rehearse`
python tools/plugin_surface.py endings TARGET OPERATORS.json OUT      inside `torchferry rehearse`, on either side
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import os
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends.base import Backend
from torchferry.backends.registry import choose

LEFT_OUT = (".transfer_to_npu", ".dynamo.torchair", "._")
"""Modules that are not imported: they change torch, need what the card's toolkit brings, or are private."""

MODULE, VALUE, ABSENT, NOT_REHEARSED = "module", "value", "absent", "not rehearsed"

_OPAQUE = "(*args, **kwargs)"


def signature(value: object) -> str:
    """Return the parameters of a callable without annotations; `?` where Python cannot tell."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "?"
    plain = [
        parameter.replace(
            annotation=parameter.empty,
            default=parameter.default if parameter.default is parameter.empty else _Default(parameter.default),
        )
        for parameter in parameters
    ]
    return str(inspect.Signature(plain))


class _Default:
    """A default value that is written without the address of what it is."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        if isinstance(self._value, enum.Enum):
            return str(self._value)
        name = getattr(self._value, "__name__", "")
        text = name if name and callable(self._value) else repr(self._value)
        return f"<{type(self._value).__name__}>" if " at 0x" in text or text.startswith("<") else text


def member(kind: type, name: str) -> str:
    """Return what a member of a class is."""
    try:
        raw = inspect.getattr_static(kind, name)
    except AttributeError:
        return ABSENT
    if isinstance(raw, property):
        return "property"
    if is_stand_in(getattr(kind, name, None)):
        return NOT_REHEARSED
    if callable(raw) or isinstance(raw, (staticmethod, classmethod)):
        return "method " + signature(getattr(kind, name))
    return VALUE


class Reader:
    """Reads modules of one plugin.

    Attributes:
        backend: The plugin's backend.
    """

    def __init__(self, backend: type[Backend]) -> None:
        self.backend = backend
        self._homes = (f"{backend.PLUGIN}.", f"{backend.NAMESPACE}.")

    def is_own(self, value: object) -> bool:
        """Whether the plugin defines a function, class or module."""
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        return f"{name}.".startswith(self._homes)

    def described(self, value: object) -> str:
        """Return what is at a name, as one line."""
        if isinstance(value, types.ModuleType):
            return MODULE
        if isinstance(value, type) and issubclass(value, enum.Enum):
            return "enum " + " ".join(f"{member.name}={member.value!r}" for member in value)
        if isinstance(value, type):
            return "class " + (signature(value) if self.is_own(value) else "?")
        return f"callable {signature(value)}" if callable(value) else VALUE

    def names_of(self, module: types.ModuleType) -> Iterator[tuple[str, object]]:
        """Yield the public names of a module with their values, without what it imported for its own use."""
        stated = set(getattr(module, "__all__", ()))
        for name in dir(module):
            value = None if name.startswith("_") else getattr(module, name, None)
            if value is None or name == "annotations":
                continue
            if isinstance(value, types.ModuleType):
                if value.__name__ in {
                    f"{home}.{name}" for home in (module.__name__, self._import_name(module.__name__))
                }:
                    yield name, value
                continue
            if module.__name__ == self.backend.PLUGIN and name.startswith("npu_"):
                yield name, value  # operators: wrappers of torch's own make
                continue
            has_home = isinstance(value, type) or (callable(value) and hasattr(value, "__module__"))
            if name in stated or not has_home or self.is_own(value):
                yield name, value

    def _import_name(self, path: str) -> str:
        """Return the path of a module in the plugin's package, of one that is shown in torch's namespace."""
        shown = self.backend.NAMESPACE
        return self.backend.IMPORT_NAMESPACE + path[len(shown) :] if f"{path}.".startswith(f"{shown}.") else path

    def members(self, kind: type) -> Iterator[tuple[str, str]]:
        """Yield the public members that the plugin itself defines, with what each is."""
        for base in kind.__mro__ if type(kind).__name__ != "tensortype" else ():
            for name in vars(base) if self.is_own(base) else ():
                if not name.startswith("_"):
                    yield name, member(kind, name)

    def walk(self, modules: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return what stands at each public name of modules, and which of them cannot be imported here."""
        names: dict[str, str] = {}
        failed: dict[str, str] = {}
        for path in modules:
            try:
                module = importlib.import_module(path)
            except (Exception, SystemExit) as error:  # a plugin's module may raise anything
                failed[path] = f"{type(error).__name__}: {error}".splitlines()[0]
                continue
            names[path] = MODULE
            for name, value in self.names_of(module):
                names.setdefault(f"{path}.{name}", self.described(value))
                if isinstance(value, type) and self.is_own(value) and not issubclass(value, enum.Enum):
                    names.update({f"{path}.{name}:{inner}": what for inner, what in self.members(value)})
        return names, failed


def shipped(backend: type[Backend], wheel: Path) -> dict[str, Any]:
    """Return the surface of a plugin as its vendor ships it, on the simulated driver."""
    from torchferry.rehearsal.driver.looking import make_importable

    plugin = make_importable(wheel, backend)
    if plugin is None:
        raise SystemExit(f"the driver of {backend.NAME} is not simulated")
    import torch

    from torchferry.ops.registered import KEYS, registered

    before = registered(backend.DISPATCH_KEY)
    importlib.import_module(backend.PLUGIN)
    after = registered(backend.DISPATCH_KEY)
    added = {field: sorted(after[field] - before[field]) if field in after else None for field in KEYS}
    recorded = recorded_modules(Path(plugin.folder), backend.PLUGIN)
    modules = [path for path in recorded if not any(part in path for part in LEFT_OUT)]
    names, failed = Reader(backend).walk(modules)
    return {
        "version": plugin.version,
        "torch": str(torch.__version__).partition("+")[0],
        "recorded": recorded,
        "modules": modules,
        "not_importable": failed,
        "names": names,
        "registrations": added,
    }


def recorded_modules(folder: Path, plugin: str) -> list[str]:
    """Return the modules that the wheel's RECORD lists, private ones too."""
    record = next(folder.glob("*.dist-info/RECORD"))
    modules = set()
    for line in record.read_text(encoding="utf-8").splitlines():
        path = line.partition(",")[0]
        if path.endswith(".py") and path.startswith(plugin + "/"):
            modules.add(path[: -len(".py")].removesuffix("/__init__").replace("/", "."))
    return sorted(modules)


def simulated(backend: type[Backend], other: dict[str, Any]) -> dict[str, Any]:
    """Return what the simulated plugin of this rehearsal has at each name of another surface, and what it has more."""
    import torch

    reader = Reader(backend)
    names = {path: asked(reader, path, partial(importlib.import_module, path)) for path in other["modules"]}
    for path in other["names"]:
        owner, _, inner = path.partition(":")
        if inner:
            kind = resolved(owner)
            there = isinstance(kind, type) and not is_stand_in(kind)
            names[path] = member(kind, inner) if there else NOT_REHEARSED  # type: ignore[arg-type]
        elif path not in names:
            names[path] = asked(reader, path, partial(resolved, path, quiet=False))
    more = {}
    for path in other["modules"]:
        module = sys.modules.get(path)
        for name, value in reader.names_of(module) if module is not None else ():
            folder = any(each.startswith(f"{path}.{name}.") for each in other["modules"])  # one without a file
            if f"{path}.{name}" not in names and not folder and path not in other["not_importable"]:
                more[f"{path}.{name}"] = reader.described(value)
    return {"names": names, "more": more, "torch": str(torch.__version__).partition("+")[0], "lost": lost_operators()}


def resolved(path: str, *, quiet: bool = True) -> object:
    """Return what stands at a dotted path of importable modules; None where nothing does and nobody minds."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError):
        if quiet:
            return None
        raise


def is_stand_in(value: object) -> bool:
    """Whether a value stands for something that is not rehearsed."""
    return (getattr(value, "__doc__", None) or "").endswith("is not rehearsed.")


def asked(reader: Reader, path: str, ask: Callable[[], object]) -> str:
    """Return what is at a name, or how the rehearsal says that it is not there."""
    from torchferry.rehearsal import plugin_namespace

    try:
        value = ask()
    except (AttributeError, ImportError):
        target = plugin_namespace.current().target
        return NOT_REHEARSED if plugin_namespace.absence(target, path) == "not-rehearsed" else ABSENT
    if is_stand_in(value) and not isinstance(value, types.ModuleType):
        return f"{NOT_REHEARSED} {signature(value)}"
    return reader.described(value)


def lost_operators() -> list[str]:
    """Return the operators of torch that fail on the simulated device or fall back to the CPU."""
    from torchferry.rehearsal import session

    running = session.current()
    if running is None:
        return []
    return sorted(name.removeprefix("aten::") for name in running.modes.missing | running.modes.fallback)


def endings(backend: type[Backend], operators: list[str]) -> dict[str, str]:
    """Return how calls of operators end: the warning, then the error or that there was none.

    Called are those that are functions of torch and take one tensor: what others take cannot be guessed.
    """
    import torch

    importlib.import_module(backend.PLUGIN)
    result = {}
    for name in operators:
        function = getattr(torch, name, None)
        operator = getattr(getattr(torch.ops.aten, name, None), "default", None)
        if function is None or operator is None or name.startswith("_"):
            continue
        kinds = [str(each.type) for each in operator._schema.arguments if not each.has_default_value()]
        if kinds != ["Tensor"]:
            continue
        with tempfile.TemporaryFile() as file, warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            kept = os.dup(2)
            os.dup2(file.fileno(), 2)  # C++ writes there
            try:
                function(torch.eye(2, device=backend.DEVICE_TYPE))
                error = "no error"
            except Exception as reason:  # whatever it is, it is compared
                error = f"{type(reason).__name__}: {reason}".partition("\n")[0]
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            file.seek(0)
            lines = [*file.read().decode(errors="replace").splitlines(), *(str(each.message) for each in shown)]
        said = [re.sub(r"^\[.*\] Warning: | \(\w+ .*\)$", "", line.partition("\n")[0]) for line in lines]
        result[name] = " | ".join([*dict.fromkeys(text for text in said if "fall back" in text), error])
    return result


def main() -> None:
    """Write a surface as JSON."""
    side, target, source, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    backend = choose(target).backend
    if side == "shipped":
        surface = shipped(backend, Path(source))
    elif side == "endings":
        surface = endings(backend, json.loads(Path(source).read_text(encoding="utf-8")))
    else:
        surface = simulated(backend, json.loads(Path(source).read_text(encoding="utf-8")))
    Path(out).write_text(json.dumps(surface, indent=0, sort_keys=True), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # what a plugin does at its end needs a card


if __name__ == "__main__":
    main()
