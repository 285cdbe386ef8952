"""CUDA C++ of a project: read, ported to a target's kernel language, and what a person has to look at.

Everything here works on files, and nothing imports torch::

    from torchferry.kernels import port

    ported = port("mmcv/ops/csrc", "musa", ignore=["pytorch/npu"])
    for item in ported.items:
        print(item.path, item.line, item.kind, item.message)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchferry.kernels.ported_tree import PortedTree

__all__ = ["port"]


def port(
    path: str | os.PathLike[str],
    target: str,
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    ignore: Iterable[str] = (),
    rules: Mapping[str, str] | None = None,
    drop_default_map: bool = False,
    unsafe: bool = False,
    builds: Iterable[str | os.PathLike[str]] = (),
    build_style: str = "branch",
    tests: Iterable[str | os.PathLike[str]] = (),
) -> PortedTree:
    """Port the CUDA C++ of a tree, write the result as `torchferry port` does, and return what was done.

    Args:
        path: The folder, or one file.
        target: Such as `musa`.
        out: Where to; by default the folder with the name of the device behind it: `csrc_musa`.
        in_place: Whether to write into the tree itself.
        ignore: Folders and files to leave out, each with all below it.
        rules: Your own rules, by what they replace, as `--map` takes them.
        drop_default_map: Whether your rules alone are applied.
        unsafe: Whether rules are applied that change more than names.
        builds: Build files outside of the tree that change with it.
        build_style: `branch` writes the target's build beside CUDA's, `replace` in its place.
        tests: Tests, and folders of them, whose lists of devices get the target.

    Raises:
        TorchferryError: the output exists and was not written by torchferry, or was edited; something cannot be read
            or written.
        UsageError: the target or a folder does not exist.
    """
    from torchferry.backends.target import Target  # imported late, as below: reading tokens needs none of it
    from torchferry.kernels.planning import plan_port

    planned = plan_port(
        Path(path),
        Target.requested(target),
        out=Path(out) if out is not None else None,
        in_place=in_place,
        ignore=ignore,
        rules=rules,
        drop_default_map=drop_default_map,
        unsafe=unsafe,
        builds=[Path(file) for file in builds],
        build_style=build_style,
        tests=[Path(file) for file in tests],
    )
    planned.write()
    return planned.ported
