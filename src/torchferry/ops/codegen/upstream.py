"""Torch's own operators, as the torchgen of the installed torch describes them.

Only the entries that a list needs are parsed, with their groups: reading all 2,600 takes most of a run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from torchferry.core import supported_torch
from torchferry.ops.codegen.document import missing_yaml


def torch_version() -> str:
    """Return the version of the installed torch, which torchgen belongs to.

    Raises:
        TorchferryError: there is none.
    """
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise supported_torch.absent("torchferry ops", sys.executable) from None


def torch_folder() -> Path:
    """Return where the installed torch is, without importing it; raises what `torch_version` does."""
    torch_version()
    specification = importlib.util.find_spec("torch")
    assert specification is not None
    assert specification.origin is not None
    return Path(specification.origin).parent


class Upstream:
    """The operators of the installed torch.

    Attributes:
        version: Of torch, as (major, minor).
        folder: Where torchgen is.
    """

    def __init__(self) -> None:
        text = torch_version()
        try:
            import yaml  # noqa: F401 - torchgen needs it, and says so less clearly
        except ImportError:
            raise missing_yaml() from None
        import torchgen

        major, minor = text.split(".")[:2]
        self.full_version = text
        self.version = (int(major), int(minor))
        self.folder = Path(str(torchgen.__file__)).parent

    @cached_property
    def names(self) -> frozenset[str]:
        """Every operator of torch's that is written in its list, or generated from what is."""
        names = set()
        for entry in _native_functions(self.folder):
            names.add(_name(entry))
            names.update(part.strip() for part in str(entry.get("autogen", "")).split(",") if part.strip())
        return frozenset(names)

    def choose(self, operators: Iterable[str]) -> ChosenOperators:
        """Return some operators with what belongs to their groups; names that do not exist are left out."""
        return ChosenOperators(self, frozenset(operators) & self.names)

    def entries_for(self, operators: Collection[str]) -> list[dict[str, Any]]:
        """Return the entries of torch's list that have these operators or others of their groups."""
        roots = {_root(name) for name in operators}
        return [entry for entry in _native_functions(self.folder) if _root(_name(entry)) in roots]


@lru_cache(maxsize=1)
def _native_functions(folder: Path) -> list[dict[str, Any]]:
    """Return torch's list of operators; torchgen copies an entry before it takes it apart."""
    import yaml
    from torchgen.gen import LineLoader

    text = (folder / "packaged" / "ATen" / "native" / "native_functions.yaml").read_bytes()
    return list(yaml.load(text, Loader=LineLoader))  # noqa: S506 - torch's own file


def _name(entry: dict[str, Any]) -> str:
    return str(entry["func"].partition("(")[0])


def _root(operator: str) -> str:
    """Return what the operators of a group have in common: `add` of `add_.Tensor` and `_foreach_add_.Scalar`."""
    base = operator.partition(".")[0]
    if base.startswith("__i") and base.endswith("__"):  # __iand__ is the in-place form of __and__
        return f"__{base[3:]}"
    return base if base.startswith("__") else base.rstrip("_").removesuffix("_functional")


class ChosenOperators:
    """Some of torch's operators, parsed.

    Attributes:
        functions: By name, as torchgen has them.
        kernels: By dispatch key: torchgen's index of torch's own kernels.
    """

    def __init__(self, upstream: Upstream, operators: frozenset[str]) -> None:
        from torchgen.gen import parse_native_yaml_struct, parse_tags_yaml

        self.upstream = upstream
        tags = parse_tags_yaml(str(upstream.folder / "packaged" / "ATen" / "native" / "tags.yaml"))
        parsed = parse_native_yaml_struct(upstream.entries_for(operators), tags)
        self.functions: dict[str, Any] = {str(function.func.name): function for function in parsed.native_functions}
        self.kernels: dict[Any, Any] = parsed.backend_indices
        self._groups: dict[str, Any] | None = None

    def group(self, operator: str) -> Any:
        """Return torchgen's group of an operator, or the function itself where it is alone."""
        if self._groups is None:
            self._groups = dict(_grouped(self.functions.values()))
        return self._groups[operator]

    def kernel(self, operator: str, key: str) -> str:
        """Return the name of torch's own kernel of an operator for a key such as `CPU`; empty where there is none."""
        from torchgen.model import DispatchKey

        metadata = self.kernels[DispatchKey.parse(key)].get_kernel(self.functions[operator])
        return str(metadata.kernel) if metadata is not None else ""

    def is_structured(self, operator: str) -> bool:
        """Whether torch itself divides the operator into preparation and calculation."""
        group = self.group(operator)
        return hasattr(group, "out") and bool(group.structured)

    def members(self, operator: str) -> list[str]:
        """Return the operators of a group: functional, in-place, out."""
        group = self.group(operator)
        functions = group.functions() if hasattr(group, "out") else [group]
        return [str(function.func.name) for function in functions]


def _grouped(functions: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    from torchgen.gen import get_grouped_native_functions

    for group in get_grouped_native_functions(list(functions)):
        for function in group.functions() if hasattr(group, "out") else [group]:
            yield str(function.func.name), group
