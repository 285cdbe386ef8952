"""The header that an `#include` names on the target."""

from __future__ import annotations

from collections.abc import Container

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.words import WordJudge

KEPT = ("cub/", "thrust/", "cutlass/", "cute/")
"""Folders of libraries whose headers have the same names on the target, or are the project's own copy."""


_OF_CUDA = lazy_regex(
    r"(?:THC|THCUNN|torch/csrc/cuda|ATen/cuda|c10/cuda|cuda|nvtx3|cub|thrust|cutlass|cute)/|cooperative_groups|mma\.h|nvToolsExt"
    r"|nccl\.h|(?:cuda|cublas|cudnn|cusparse|cusolver|curand|cufft|nvrtc|nvml)\w*\.(?:h|cuh)\Z|device_launch_parameters"
)
"""Headers of CUDA, of its libraries and of libtorch's CUDA side."""


class HeaderUse(NamedTuple):
    """What is written for a header, with its quotes, and what there is to say about it."""

    use: str
    kind: str = ""
    message: Message | None = None


def header_use(written: str, path: str, judge: WordJudge, files: Container[str]) -> HeaderUse:
    """Return what is written in place of a header.

    Args:
        written: The name as it stands, with its quotes or angle brackets.
        path: Of the file that includes it, relative to the tree, with `/`.
        judge: The rules of the target and of the user.
        files: The paths of the tree: a header with a kernel's suffix is renamed only where its file is there.
    """
    name, opening, closing = written[1:-1], written[0], written[-1]
    own = judge.own.get(f"#include {name}")
    if own is not None:
        return HeaderUse(own if own[:1] in '<"' else f"{opening}{own}{closing}")
    if not judge.default:
        return _local(written, path, judge, files)
    row = judge.table.headers.get(name)
    if row is not None and not (opening == '"' and _in_tree(name, path, files)):
        return HeaderUse(f'"{row.use}"' if row.quote else f"{opening}{row.use}{closing}")
    if name.startswith(KEPT) and judge.table.takes_cuda_syntax:
        return HeaderUse(written)
    folder = max((each for each in judge.table.folders if name.startswith(each)), key=len, default="")
    if folder:
        use = judge.table.folders[folder].use + _renamed(name[len(folder) :], judge)
        message = say(
            "`{name}` is renamed to `{use}` because of its folder: the target's table does not have the header itself",
            name=name,
            use=use,
        )
        return HeaderUse(f"{opening}{use}{closing}", "header", message)
    if _OF_CUDA.match(name) and not _in_tree(name, path, files):
        kind = "removed-torch" if name.startswith("THC") else "header"
        return HeaderUse(written, kind, say("the target's table does not have `{name}`: it stays as it is", name=name))
    return _local(written, path, judge, files)


def _renamed(rest: str, judge: WordJudge) -> str:
    """Return the rest of a path with the suffix and the name that the target has."""
    stem, dot, suffix = rest.rpartition(".")
    row = judge.table.suffixes.get(f".{suffix}")
    folder, slash, base = stem.rpartition("/")
    return f"{folder}{slash}{judge.table.use_of(base) or base}{row.use if row is not None else dot + suffix}"


def _local(written: str, path: str, judge: WordJudge, files: Container[str]) -> HeaderUse:
    """Rename the suffix of a header of the tree, whose file gets it too."""
    name = written[1:-1]
    stem, _, suffix = name.rpartition(".")
    row = judge.table.suffixes.get(f".{suffix}")
    if row is None or not stem:
        return HeaderUse(written)
    if _in_tree(name, path, files):
        return HeaderUse(f"{written[0]}{stem}{row.use}{written[-1]}")
    if name.startswith(KEPT):
        return HeaderUse(written)
    return HeaderUse(written, "header", say("`{name}` is not in the tree and stays as it is", name=name))


def _in_tree(name: str, path: str, files: Container[str]) -> bool:
    """Whether a header is in the tree: beside the file, or by the end of its path."""
    folder = path.rpartition("/")[0]
    parts = folder.split("/") if folder else []
    for part in name.split("/"):
        if part == "..":
            if not parts:
                parts.append("..")
            else:
                parts.pop()
        elif part != ".":
            parts.append(part)
    if "/".join(parts) in files:
        return True
    plain = name
    while plain.startswith(("../", "./")):
        plain = plain.partition("/")[2]
    return f"/{plain}" in files
