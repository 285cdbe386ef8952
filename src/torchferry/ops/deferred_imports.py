"""Leaves torch's compiler, sympy and distributed tensors unimported until a prediction really needs them.

`torch.optim` imports `torch._dynamo` to call a function that does nothing where no frame is compiled, every operator of
a fake tensor imports sympy for sizes that are symbols, and the first one imports `torch.distributed.tensor` to compare
a type. Together that takes as long as torch itself. So a stand-in is put in place of each module that is not imported
yet, with the few functions that are called for tensors of plain sizes. Whatever else is asked of one takes it away and
imports the true module, as the same statement would have done without it.

A stand-in knows what torch calls, so it is used with the versions of torch whose source was read for it; with others
everything is imported as ever. The answer of a prediction does not depend on it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import Any

import torch
from torch.utils._ordered_set import OrderedSet
from torch.utils._python_dispatch import _disable_current_modes

READ = ("2.13",)
"""Versions of torch in which it was read who imports these modules, and what for."""

_COMPILER = "torch._dynamo"
_SETTINGS = "torch._dynamo.config"
"""Which is imported by itself: fake tensors read it, and it needs nothing of the rest."""

_DISABLED = "__dynamo_disable"
"""Where `torch._compile` keeps what the compiler made of a function that it is to let alone."""

_SYMBOLS = "torch.fx.experimental.symbolic_shapes"
_FUNCTIONS = "torch.utils._sympy.functions"
_DISTRIBUTED = "torch.distributed.tensor"


class _StandInModule(ModuleType):
    """A module in place of one that is imported when more is asked of it than it has."""

    def __init__(self, name: str, deferral: _Deferral, spec: ModuleSpec, content: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__spec__ = spec
        self.__file__ = spec.origin
        if spec.submodule_search_locations is not None:
            self.__path__ = list(spec.submodule_search_locations)
        vars(self).update(content)
        vars(self)["_deferral"] = deferral

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # which every import asks for, and which a module that is no package has not
            raise AttributeError(name)
        asking, content = _FOR_ONE.get(name, ("", None))
        if asking and str(sys._getframe(1).f_globals.get("__name__")).startswith(asking):
            return content
        return getattr(self._deferral.imported(self.__name__), name)


class _Deferral(MetaPathFinder):
    """The stand-ins of this process.

    Args:
        compiler_imported: Called when the compiler is imported.
    """

    def __init__(self, compiler_imported: Callable[[], None]) -> None:
        self._compiler_imported = compiler_imported
        self._undisturbed: list[Any] = []
        """Functions that the compiler was to be kept from."""
        self._stand_ins: dict[str, _StandInModule] = {}

    def begin(self) -> None:
        """Put the stand-ins in place."""
        for name, content in {
            "sympy": {"Basic": self._later("sympy", "Basic")},
            _FUNCTIONS: {"Max": self._later(_FUNCTIONS, "Max")},
            _SYMBOLS: _of_plain_sizes(self._later),
            _COMPILER: {"disable": self._disable},
            f"{_COMPILER}.source": {},
        }.items():
            spec = None if name in sys.modules else find_spec(name)
            if spec is None:
                continue
            self._stand_ins[name] = sys.modules[name] = _StandInModule(name, self, spec, content)
            package, _, last = name.rpartition(".")
            if package:
                setattr(sys.modules[package], last, sys.modules[name])
        if _COMPILER in self._stand_ins:
            importlib.import_module(_SETTINGS)
        sys.meta_path.insert(0, self)

    def imported(self, name: str) -> ModuleType:
        """Import a module that a stand-in is in place of, and take away the stand-ins of those that it needs."""
        if name.startswith(_COMPILER):
            self._take_away(list(self._stand_ins))
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                importlib.import_module(_COMPILER)
                module = importlib.import_module(name)
            self._compiler_imported()
            return module
        self._take_away([each for each in self._stand_ins if not each.startswith(_COMPILER)])
        return importlib.import_module(name)

    def leave(self) -> None:
        """Take the stand-ins away."""
        self._take_away(list(self._stand_ins))
        sys.meta_path.remove(self)

    def _take_away(self, names: Sequence[str]) -> None:
        for name in names:
            stand_in = self._stand_ins.pop(name)
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            package, _, last = name.rpartition(".")
            if vars(sys.modules.get(package, stand_in)).get(last) is stand_in:
                delattr(sys.modules[package], last)
        if _COMPILER not in self._stand_ins:
            for function in self._undisturbed:  # `torch._compile` asks the compiler for it at the next call
                delattr(function, _DISABLED)
            self._undisturbed = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Import the true package of a module below a stand-in, before the module."""
        package = name.rpartition(".")[0]
        if package not in self._stand_ins or name == _SETTINGS:
            return None
        self.imported(package)
        if name not in sys.modules:
            return None
        return spec_from_loader(name, _ImportedLoader(sys.modules.pop(name)))  # the package imported it: not again

    def _later(self, module: str, name: str) -> _NotYetImported:
        return _NotYetImported(self.imported, module, name)

    def _disable(self, fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return what the compiler lets alone: the function itself, as there is no compiler."""
        for_torch = kwargs == {"wrapping": False} and not hasattr(fn, _DISABLED)  # as `torch._compile` asks
        if not for_torch or _COMPILER not in self._stand_ins:
            return self._later(_COMPILER, "disable")(fn, *args, **kwargs)
        self._undisturbed.append(fn)
        return fn


class _ImportedLoader(Loader):
    """Gives a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _NotYetImported:
    """Something of a module that is imported when it is used.

    As a class it has no instances while its module is not imported.

    Args:
        imported: Imports the module.
        module: The module.
        name: What it is called there.
    """

    def __init__(self, imported: Callable[[str], ModuleType], module: str, name: str) -> None:
        self._imported = imported
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._true()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._true(), name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._true(),)

    def __instancecheck__(self, instance: Any) -> bool:
        return self._is_imported() and isinstance(instance, self._true())

    def __subclasscheck__(self, subclass: type) -> bool:
        return self._is_imported() and issubclass(subclass, self._true())

    def _is_imported(self) -> bool:
        content = vars(sys.modules.get(self._module, sys))
        return self._name in content and not isinstance(content[self._name], _NotYetImported)

    def _true(self) -> Any:
        return getattr(self._imported(self._module), self._name)


class _ConstantSource:
    """Where torch says a tensor comes from that nobody named. It is read for sizes that are symbols."""

    def __init__(self, source_name: str) -> None:
        self.source_name = source_name


class _RandomValueSource:
    """Where no tensor of ours comes from."""


class _SymbolError(RuntimeError):
    """What torch raises for a size that is a symbol without a value, of which there is none here."""


_FOR_ONE = {
    "ConstantSource": ("torch._subclasses.", _ConstantSource),
    "RandomValueSource": ("torch._subclasses.", _RandomValueSource),
    "GuardOnDataDependentSymNode": ("torch._subclasses.", _SymbolError),
    "graph_break": ("torch.optim.", lambda: None),
}
"""What only modules of these names get from a stand-in: others could keep it, and it is not the true one."""

_ITSELF = {
    "expect_true": bool,
    "guard_int": int,
    "guard_or_false": bool,
    "guard_or_true": bool,
    "guard_size_oblivious": None,  # none: it warns
    "guarding_hint_or_throw": int,
    "optimization_hint": int,
    "statically_known_true": bool,
}
"""Functions that give back what is no symbol, by the type for which they do."""


def _of_plain_sizes(later: Callable[[str, str], _NotYetImported]) -> dict[str, Any]:
    """Return the functions of `symbolic_shapes` that are called for any tensor.

    Each gives at once what the true one gives for values that are no symbols, and calls the true one for others.

    Args:
        later: Gives something of a module that is imported when it is used.
    """
    of_symbols = {
        name: later(_SYMBOLS, name)
        for name in (*_ITSELF, "sym_and", "sym_or", "sym_eq", "has_guarding_hint", "is_nested_int", "is_symbolic",
                     "free_unbacked_symbols", "has_free_symbols", "has_free_unbacked_symbols",
                     "_iterate_exprs", "_iterate_nodes", "compute_unbacked_bindings")
    }  # fmt: skip

    def itself(name: str, kind: Any) -> Callable[..., Any]:
        symbolic = of_symbols[name]
        return lambda value, *args, **kwargs: value if type(value) is kind else symbolic(value, *args, **kwargs)

    def joined(name: str, join: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        symbolic = of_symbols[name]

        def call(*values: Any) -> Any:
            if values and all(type(value) is bool for value in values):
                return functools.reduce(join, values)
            return symbolic(*values)

        return call

    def equal(x: Any, y: Any) -> Any:
        if type(x) is int and type(y) is int:
            return x == y
        if _are_plain(x) and _are_plain(y):
            return tuple(x) == tuple(y)
        return of_symbols["sym_eq"](x, y)

    def no_symbol(name: str, empty: Callable[[], Any]) -> Callable[[Any], Any]:
        symbolic = of_symbols[name]

        def call(value: Any) -> Any:
            return empty() if _is_plain(value) else symbolic(value)

        return call

    def bindings(shape_env: Any, *args: Any, **kwargs: Any) -> Any:
        return None if shape_env is None else of_symbols["compute_unbacked_bindings"](shape_env, *args, **kwargs)

    return {
        **of_symbols,
        **{name: itself(name, kind) for name, kind in _ITSELF.items()},
        **{name: no_symbol(name, bool) for name in ("has_free_symbols", "has_free_unbacked_symbols")},
        **{name: no_symbol(name, lambda: iter(())) for name in ("_iterate_exprs", "_iterate_nodes")},
        "free_unbacked_symbols": no_symbol("free_unbacked_symbols", OrderedSet),
        "sym_and": joined("sym_and", operator.and_),
        "sym_or": joined("sym_or", operator.or_),
        "sym_eq": equal,
        "has_guarding_hint": lambda a: type(a) is int or of_symbols["has_guarding_hint"](a),
        "is_nested_int": lambda s: type(s) is not int and of_symbols["is_nested_int"](s),
        "is_symbolic": lambda val: type(val) is not int and of_symbols["is_symbolic"](val),
        "compute_unbacked_bindings": bindings,
    }


def _is_plain(value: Any) -> bool:
    """Whether there is no symbol in a value: a number, a tensor whose sizes are numbers, or a list of such."""
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and not value._has_symbolic_sizes_strides
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (int, bool, float)


def _are_plain(values: Any) -> bool:
    """Whether it is a list of integers, none of them a symbol."""
    return isinstance(values, (tuple, list)) and all(type(value) is int for value in values)


class _Asking(torch.Tensor):
    """A tensor whose first call makes torch look whether it is a `DTensor`."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return args[0]


def _answer_for_distributed() -> None:
    """Have torch keep a class that answers whether a tensor is a `DTensor`, now and once the true one is imported."""
    if _DISTRIBUTED in sys.modules:
        return
    module = ModuleType(_DISTRIBUTED)
    vars(module)["DTensor"] = _NotYetImported(importlib.import_module, _DISTRIBUTED, "DTensor")
    sys.modules[_DISTRIBUTED] = module
    try:
        torch.ops.aten.detach.default(torch.Tensor._make_wrapper_subclass(_Asking, (0,)))
    finally:
        if sys.modules.get(_DISTRIBUTED) is module:
            del sys.modules[_DISTRIBUTED]


@contextlib.contextmanager
def deferred_imports(compiler_imported: Callable[[], None]) -> Iterator[None]:
    """Within the context, import what a prediction may not need when it does.

    Args:
        compiler_imported: Called when the compiler is imported within the context.
    """
    if not torch.__version__.startswith(tuple(f"{version}." for version in READ)):
        yield
        return
    deferral = _Deferral(compiler_imported)
    _answer_for_distributed()
    deferral.begin()
    try:
        yield
    finally:
        deferral.leave()
