"""What an operator does to numbers, asked of its schema and its tags: computes, moves, views, draws, communicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchferry.numerics.framework.kinds import OpKind, listed

_SPACES = {
    "c10d": OpKind.COMMUNICATE,
    "_c10d_functional": OpKind.COMMUNICATE,
    "_c10d_functional_autograd": OpKind.COMMUNICATE,
    "symm_mem": OpKind.COMMUNICATE,
    "fsdp": OpKind.COMMUNICATE,
    "profiler": OpKind.BOOKKEEP,
    "prim": OpKind.BOOKKEEP,
    "prims": OpKind.COMPUTE,
    "streams": OpKind.BOOKKEEP,
    "inductor": OpKind.BOOKKEEP,
    "debugprims": OpKind.BOOKKEEP,
}
"""Kinds of whole namespaces."""

HIGHER_ORDER = "higher_order"
"""What represents the namespace of operators that call others, such as torch.cond."""

_WRITES = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ((3, "running_mean"), (4, "running_var"))
)
"""Arguments that operators write to and whose schema does not say so."""

_DROPOUT = ("dropout_p", "dropout")
"""Arguments of operators that draw numbers only where this is not 0."""


@dataclass(frozen=True, eq=False)
class Operator:
    """The known facts about one overload.

    Attributes:
        overload: torch's own object.
        name: `aten.addmm`, with the overload where it is not the default one: `aten.sum.dim_IntList`.
        base: `addmm`; of `aten.add_` it is `add_`.
        space: `aten`.
        kind: What it does to numbers; of one that draws only with dropout, what it does without.
        written: Position and name of each argument that it writes to.
        fresh: Whether a result is its own tensor, and not one of the arguments.
        may_share: Whether a result may be a new tensor or a view, as of `reshape`; only the call shows it.
        dropout: Position and name of the argument that makes it random where it is not 0.
    """

    overload: torch._ops.OpOverload
    name: str
    base: str
    space: str
    kind: OpKind
    written: tuple[tuple[int, str], ...]
    fresh: bool
    dropout: tuple[int, str] | None
    may_share: bool = False

    def draws(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether this call takes random numbers."""
        if self.dropout is None:
            return self.kind is OpKind.RANDOM
        return bool(argument(self.dropout, args, kwargs, 0.0))

    def results(self, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Iterator[Tensor]:
        """Yield the tensors whose values the call made: arguments that it wrote to, then results of their own."""
        for _, tensor in self.numbered(args, kwargs, out):
            yield tensor

    def numbered(self, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Iterator[tuple[int, Tensor]]:
        """Yield the same tensors with their numbers, which those that are left out have too.

        A backward gives no gradient of what needs none: its place is empty, and the gradient behind it is no other.
        """
        written = [tensor for place in self.written for tensor in tensors(argument(place, args, kwargs, None))]
        yield from enumerate(written)
        if self.fresh:
            for number, made in enumerate(_places(out), len(written)):
                if made is not None:
                    yield number, made

    def is_view(self, args: Sequence[Any], out: Any) -> bool:
        """Whether a call that may give a view or a new tensor gave a view."""
        return self.may_share and any(_shares(tensor, given) for tensor in tensors(out) for given in tensors(args))


def _shares(tensor: Tensor, other: Tensor) -> bool:
    if tensor.layout is not torch.strided or other.layout is not torch.strided:
        return tensor is other
    return bool(tensor.untyped_storage()._cdata == other.untyped_storage()._cdata)


def argument(place: tuple[int, str], args: Sequence[Any], kwargs: dict[str, Any], default: Any) -> Any:
    """Return an argument, given by position or by name."""
    index, name = place
    return args[index] if index < len(args) else kwargs.get(name, default)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in a value: a tensor, or lists of them at any depth."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


def _places(value: Any) -> Iterator[Tensor | None]:
    """Yield the tensors in a value, and None for each that is left out."""
    if value is None or isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _places(part)


_MASKS = ("output_mask", "grad_input_mask")


def unasked(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> frozenset[int] | None:
    """Return the numbers of the results that a call was told to leave out; None where its schema has no such mask."""
    for index, item in enumerate(operator.overload._schema.arguments):
        if item.name in _MASKS:
            mask = argument((index, item.name), args, kwargs, ())
            return frozenset(number for number, asked in enumerate(mask) if not asked)
    return None


_KNOWN: dict[int, Operator] = {}
"""By the identity of the overload, which is kept in the known facts about it: its hash is a function of Python's."""


def operator(overload: torch._ops.OpOverload) -> Operator:
    """Return the known facts about an overload."""
    described = _KNOWN.get(id(overload))
    if described is None:
        described = _KNOWN[id(overload)] = _described(overload)
    return described


def _described(overload: torch._ops.OpOverload) -> Operator:
    if isinstance(overload, torch._ops.HigherOrderOperator):  # it has no schema, and calls what it is given
        base = overload.name()
        return Operator(
            overload, f"{HIGHER_ORDER}.{base}", base, HIGHER_ORDER, OpKind.COMPUTE, (), fresh=True, dropout=None
        )
    schema = overload._schema
    space, _, base = schema.name.partition("::")
    name = f"{space}.{base}"
    if overload._overloadname != "default":
        name += f".{overload._overloadname}"
    written = tuple(
        (index, item.name)
        for index, item in enumerate(schema.arguments)
        if item.alias_info is not None and item.alias_info.is_write
    ) or _WRITES.get(base, ())
    aliases = [item.alias_info for item in schema.returns]
    dropout = next(
        ((index, item.name) for index, item in enumerate(schema.arguments) if item.name in _DROPOUT),
        None,
    )
    random = torch.Tag.nondeterministic_seeded in overload.tags
    shared = not written and any(alias is not None and not alias.is_write for alias in aliases)
    kind = _kind(space, base, overload._overloadname, bool(written), aliases, random and dropout is None)
    may_share = shared and kind in (OpKind.MOVE, OpKind.COMPUTE)
    return Operator(
        overload,
        name,
        base,
        space,
        kind,
        written,
        fresh=any(alias is None for alias in aliases) or may_share,
        dropout=dropout if random else None,
        may_share=may_share,
    )


def _kind(space: str, base: str, overload: str, writes: bool, aliases: list[Any], random: bool) -> OpKind:
    if space in _SPACES:
        return _SPACES[space]
    if random:
        return OpKind.RANDOM
    table = listed()
    named = table.get(f"{base}.{overload}") or table.get(base)
    if named is not None:
        return named
    if not writes and aliases and any(alias is not None and not alias.is_write for alias in aliases):
        return OpKind.VIEW
    if not aliases and not writes:
        return OpKind.BOOKKEEP  # nothing comes of it
    return OpKind.COMPUTE


# Which operators are meant by names, as `target_op` and `skip_op` give them.


class OperatorFilter:
    """Operators by name: `torch.ops.aten.addmm`, `aten.addmm`, `addmm`, or an overload, `aten.add.Tensor`.

    Args:
        target: The only ones that are examined; all where it is None.
        skipped: Those that are never examined.
    """

    def __init__(self, target: Iterable[str] | None = None, skipped: Iterable[str] = ()) -> None:
        self._target = None if target is None else frozenset(map(_bare, target))
        self._skipped = frozenset(map(_bare, skipped))
        self._known: dict[Operator, bool] = {}
        self._met: set[str] = set()

    def unmet(self) -> list[str]:
        """Return the names that no operator had which was asked about."""
        return sorted(((self._target or frozenset()) | self._skipped) - self._met)

    def __contains__(self, operator: Operator) -> bool:
        contained = self._known.get(operator)
        if contained is None:
            names = {operator.name, operator.base, f"{operator.space}.{operator.base}"}
            contained = not names & self._skipped and (self._target is None or bool(names & self._target))
            self._known[operator] = contained
            self._met |= names
        return contained


def _bare(name: str) -> str:
    return name.removeprefix("torch.ops.").removesuffix(".default")
