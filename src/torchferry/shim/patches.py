"""The patches of one redirect: what was put where, and how each thing goes back.

Patches are made once, at start. What a patch replaced is put back in the opposite order; a name that somebody else
has replaced since is left to them, and said.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

from torchferry.core.messages import say
from torchferry.shim.caller_policy import CallerPolicy

ABSENT: Any = object()
"""What stood at a name that the owner did not have itself (it may have inherited it)."""


_VIEWED = "ViewedModule"
_US = "torchferry."


class Patches:
    """What was replaced, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.names: list[str] = []
        self._replaced_since: list[str] = []

    def set(self, owner: Any, name: str, value: Any, shown: str = "") -> None:
        """Put `value` in place of attribute `name` of a module or class.

        Args:
            owner: The module or class.
            name: The attribute.
            value: What is there from now on.
            shown: The full name, for people; without it, made of the owner's.
        """
        before = vars(owner).get(name, ABSENT)
        _name(value, owner, name)
        shown = shown or f"{_name_of(owner)}.{name}"
        setattr(owner, name, value)
        self.names.append(shown)

        def undo() -> None:
            if vars(owner).get(name, ABSENT) is not value:
                self._replaced_since.append(shown)
            elif before is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)

    def set_view(self, module: ModuleType, name: str, value: Any, policy: CallerPolicy) -> None:
        """Let the program find `value` at a name of a module, where those who see the card go on to find what is there.

        A property of the module's class comes before the module's own dictionary, and knows who asks.
        """
        if type(module).__name__ != _VIEWED:
            before = type(module)
            module.__class__ = type(_VIEWED, (before,), {})

            def undo() -> None:
                module.__class__ = before

            self._undo.append(undo)
        original = vars(module).get(name, ABSENT)

        def find(module: Any) -> Any:
            if original is ABSENT or not policy.sees_card():
                if value is ABSENT:
                    raise AttributeError(name)
                return value
            return vars(module)[name]

        def replace(module: Any, new: Any) -> None:
            if not policy.sees_card():  # a plugin that puts its own there changes what those see who see the card
                delattr(type(module), name)
            vars(module)[name] = new

        setattr(type(module), name, property(find, replace))
        self.names.append(f"{module.__name__}.{name}")

    def hide(self, module: ModuleType, name: str, policy: CallerPolicy) -> None:
        """Let a name of a module be absent for the program, and for those who see the card what it is."""
        self.set_view(module, name, ABSENT, policy)

    def set_item(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Put `value` under `key` of a dictionary."""
        before = mapping.get(key, ABSENT)
        mapping[key] = value

        def undo() -> None:
            if before is ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = before

        self._undo.append(undo)

    def when_imported(self, name: str, step: Callable[[ModuleType], None]) -> None:
        """Run `step` on a module now, or as soon as it is imported; importing it just for this would cost time."""
        if name in sys.modules:
            step(sys.modules[name])
            return
        watcher = _Watcher(name, step)
        sys.meta_path.insert(0, watcher)

        def undo() -> None:
            if watcher in sys.meta_path:
                sys.meta_path.remove(watcher)

        self._undo.append(undo)

    def at_end(self, step: Callable[[], None]) -> None:
        """Run `step` when the patches are taken back, at its place in the order."""
        self._undo.append(step)

    def restore(self) -> None:
        """Take everything back, the last patch first; can be called again."""
        while self._undo:
            self._undo.pop()()
        if self._replaced_since:
            text = say(
                "{names} was replaced by other code after the redirect began, and is not restored",
                names=", ".join(sorted(self._replaced_since)),
            )
            warnings.warn(f"torchferry: {text}", RuntimeWarning, stacklevel=3)
            self._replaced_since.clear()


class _Watcher(MetaPathFinder):
    """Finds one module as Python would, and runs a step after it."""

    def __init__(self, name: str, step: Callable[[ModuleType], None]) -> None:
        self._name, self._step = name, step

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Stepped(spec.loader, self._step)
        return spec


class _Stepped(Loader):
    """A loader that runs a step after the module's own code."""

    def __init__(self, loader: Any, step: Callable[[ModuleType], None]) -> None:
        self._loader, self._step = loader, step

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._step(module)


def _name(value: Any, owner: Any, name: str) -> None:
    """Give one of our functions and classes the name under which it stands, by which pickle looks for it."""
    if isinstance(value, FunctionType):
        is_ours = value.__globals__.get("__name__", "").startswith(_US)
    else:
        is_ours = isinstance(value, type) and type(value).__module__.startswith(_US)
    module = owner.__module__ if isinstance(owner, type) else owner.__name__
    path = f"{owner.__qualname__}.{name}" if isinstance(owner, type) else name
    if is_ours and _value_at(value.__module__, value.__qualname__) is not value:
        value.__module__, value.__qualname__, value.__name__ = module, path, name  # torch.fx writes it by its name


def _value_at(module: str, path: str) -> Any:
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def _name_of(owner: Any) -> str:
    module = getattr(owner, "__module__", "")
    return f"{module}.{owner.__qualname__}" if isinstance(owner, type) else str(getattr(owner, "__name__", owner))
