"""Which operators are meant by names, as `target_op` and `white_list` give them."""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.numerics.framework.operators import Operator


class Selection:
    """Operators by name: `torch.ops.aten.addmm`, `aten.addmm`, `addmm`, or an overload, `aten.add.Tensor`.

    Args:
        target: The only ones that are examined; all where it is None.
        white_list: Those that are never examined.
    """

    def __init__(self, target: Iterable[str] | None = None, white_list: Iterable[str] = ()) -> None:
        self._target = None if target is None else frozenset(map(_bare, target))
        self._white_list = frozenset(map(_bare, white_list))
        self._known: dict[Operator, bool] = {}
        self._met: set[str] = set()

    def unmet(self) -> list[str]:
        """Return the names that no operator had which was asked about."""
        return sorted(((self._target or frozenset()) | self._white_list) - self._met)

    def __contains__(self, operator: Operator) -> bool:
        found = self._known.get(operator)
        if found is None:
            names = {operator.name, operator.base, f"{operator.space}.{operator.base}"}
            found = not names & self._white_list and (self._target is None or bool(names & self._target))
            self._known[operator] = found
            self._met |= names
        return found


def _bare(name: str) -> str:
    return name.removeprefix("torch.ops.").removesuffix(".default")
