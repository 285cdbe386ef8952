"""The word `cuda` in C++: a namespace of libtorch, of Thrust or of libcu++, a method of a tensor, or the project's own.

A namespace of libtorch is renamed only where the target's plugin declares what is named in it: `at::cuda::warp_size`
becomes `at::musa::warp_size`, and what nobody declares stays, with its names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.kernels.tokens import SourceTokens, before, last_word
from torchferry.kernels.words import WordJudge

_LIBTORCH = ("at", "c10")
"""Namespaces of libtorch that hold one called `cuda`."""

_LIBCUDACXX = frozenset(
    {
        *("std", "atomic", "atomic_ref", "barrier", "pipeline", "pipeline_shared_state", "pipeline_role", "latch"),
        *("counting_semaphore", "binary_semaphore", "memcpy_async", "make_pipeline", "pipeline_consumer_wait_prior"),
        *("aligned_size_t", "annotated_ptr", "access_property", "apply_access_property", "associate_access_property"),
        *("discard_memory", "device", "ptx", "stream_ref", "proclaim_return_type", "ceil_div", "round_up", "maximum"),
        *("thread_scope", "thread_scope_thread", "thread_scope_block", "thread_scope_device", "thread_scope_system"),
        *("minimum", "get_property", "mr", "experimental", "ptr_to_shared", "atomic_thread_fence", "is_floating_point"),
    }
)
"""What libcu++ has in `cuda::` (the folder `cuda/` of CCCL); `mr` and `experimental` are namespaces of it."""

_MEMBER = lazy_regex(r"\s*::\s*([A-Za-z_]\w*)")


@dataclass
class CudaWord:
    """What the places of the word mean.

    Attributes:
        renamed: What is written in its place.
        stays: Where names begin that stay though their word is renamed elsewhere.
        items: Places of a person's: offset, kind of review item, message.
        undeclared: Names of libtorch that the target's plugin does not declare, with their places.
        unclear: Places of `cuda::` that may be libcu++ or libtorch.
        arguments: How many places are the argument of a macro.
        others: Places of the project's own.
    """

    renamed: list[Edit] = field(default_factory=list)
    stays: set[int] = field(default_factory=set)
    items: list[tuple[int, str, Message]] = field(default_factory=list)
    undeclared: dict[str, list[int]] = field(default_factory=dict)
    unclear: list[int] = field(default_factory=list)
    arguments: int = 0
    others: list[int] = field(default_factory=list)


def cuda_word(source: SourceTokens, judge: WordJudge) -> CudaWord:
    """Return what the word `cuda` means in a file, place by place."""
    return _CudaWordReader(source, judge).read()


class _CudaWordReader:
    def __init__(self, source: SourceTokens, judge: WordJudge) -> None:
        self.source = source
        self.text = source.text
        self.table = judge.table
        self.own = judge.own
        contexts = judge.contexts
        row, thrust = contexts.get(("namespace", "cuda")), contexts.get(("thrust", "cuda"))
        self.given = judge.own.get("::cuda::", "") or (row.use if row is not None and not judge.default else "")
        self.use = self.given or (row.use if row is not None else "")
        self.thrust = thrust.use if thrust is not None else ""
        self.libtorch: list[int] = []
        self.standard: list[int] = []
        self.result = CudaWord()

    def read(self) -> CudaWord:
        for at in self.source.places("cuda"):
            ahead = before(self.text, at)
            if ahead != "::" or not self._is_known_namespace(at):
                self._other(at, ahead)
        items = self.result.items
        if self.standard:
            message = say("`cuda::` is libcu++, which stays as it is (uses: {count})", count=len(self.standard))
            items.append((self.standard[0], "no-counterpart", message))
        if self.libtorch:
            count = str(len(self.libtorch))
            message = say("`{name}` is libtorch's CUDA namespace (uses: {count})", name="::cuda", count=count)
            items.append((self.libtorch[0], "torch-device", message))
        return self.result

    def _is_known_namespace(self, at: int) -> bool:
        """Whether the word is a namespace of libtorch or of Thrust; notes what it becomes."""
        result, text = self.result, self.text
        owner = last_word(text[max(0, at - 80) : text.rindex("::", 0, at)].rstrip())
        path = self._path_behind(at + 4)
        if owner in _LIBTORCH:
            if not self.use:
                self.libtorch.append(at)
            elif self.given or self._has(owner, path):
                result.renamed.append(Edit(at, at + 4, self.use))
            else:
                result.undeclared.setdefault("::".join((owner, "cuda", *(name for name, _ in path))), []).append(at)
                result.stays |= {start for _, start in path}
            return True
        if not self.use and self.table.takes_cuda_syntax:
            return False
        if owner == "torch":
            message = say("`torch::cuda` has no counterpart in libtorch for the target")
            result.items.append((at, "torch-device", message))
            result.stays |= {start for _, start in path}
            return True
        if owner in ("thrust", "system") and self.thrust:
            result.renamed.append(Edit(at, at + 4, self.thrust))
            return True
        return False

    def _other(self, at: int, ahead: str) -> None:
        """Note a place that is no namespace of libtorch or of Thrust with its owner in front."""
        result = self.result
        behind = self.text[at + 4 : at + 60].lstrip()
        if ahead in (".", "->") and behind.startswith("("):
            message = say("`.cuda()` moves a tensor to CUDA: write `.to(...)` with the target's device")
            result.items.append((at, "torch-device", message))
        elif behind.startswith("::") and ahead != "::":
            path = self._path_behind(at + 4)
            if self.use and self.table.surface is not None and self._has("at", path):
                result.renamed.append(Edit(at, at + 4, self.use))  # inside libtorch: libcu++ has no such name
            elif path and path[0][0] in _LIBCUDACXX:
                self.standard.append(at)
            else:
                result.unclear.append(at)
        elif ahead in ("(", ",") and behind[:1] in (",", ")"):
            result.arguments += 1
            message = say("`{name}` is an argument: a macro may join it to a longer name", name="cuda")
            result.items.append((at, "built-name", message))
        else:
            result.others.append(at)

    def _path_behind(self, at: int) -> list[tuple[str, int]]:
        """Return the names that `::` joins behind an offset, each with its place."""
        path = []
        while (match := _MEMBER.match(self.text, at)) is not None:
            path.append((match[1], match.start(1)))
            at = match.end()
        return path

    def _has(self, owner: str, path: list[tuple[str, int]]) -> bool:
        """Whether the target's plugin declares a name of libtorch's CUDA side, as it is renamed."""
        surface = self.table.surface
        if surface is None or not path or any(name in self.own for name, _ in path):
            return True  # what the user's rules name is the user's to know
        return surface.has((owner, self.use, *(self.table.use_of(name) or name for name, _ in path)))
