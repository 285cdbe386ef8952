"""C or C++ that calls CUDA itself: the runtime, the driver, cuBLAS, cuDNN, NCCL, TensorRT.

Neither the headers nor the libraries exist for another card, so it does not compile there. It is counted by the part of
CUDA that it uses; comments do not count. Port the calls to the maker's own runtime and libraries, or build the project
without them. What is compiled only under a switch such as `#ifdef WITH_CUDA` is a note: leave the switch off.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.extension.uses import uses, words
from torchferry.source.kinds import Kind


class CudaInCpp(Rule):
    """Finds C and C++ files that call CUDA itself."""

    CODE = "EXT103"
    CHINESE = """直接调用 CUDA 的 C 或 C++：运行时、驱动、cuBLAS、cuDNN、NCCL、TensorRT。

其他卡没有这些头文件和库，因此无法编译。这里按所用的 CUDA 部分计数，注释不计。请将这些调用移植到厂商自己的运行时和库，
或在构建时不包含它们。只在 `#ifdef WITH_CUDA` 等开关下编译的部分仅作说明：请不要打开该开关。
"""
    KINDS = (Kind.CPP,)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """What every use holds."""
        return words("device")

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding a file, at the first use."""
        found = uses(context, "device")
        if found is None:
            return
        target = context.target.title
        if found.optional:
            message = say(
                "uses CUDA's own API ({parts}) only where a switch asks for it: leave the switch off on {target}",
                parts=found.parts,
                target=target,
            )
            yield self.finding(context, found.first, message, Grade.NOTE)
            return
        message = say(
            "uses CUDA's own API ({parts}), which {target} does not have: port the calls to the vendor's own runtime, "
            "or build the project without this file (lines: {lines})",
            parts=found.parts,
            target=target,
            lines=found.lines,
        )
        yield self.finding(context, found.first, message, Grade.MANUAL)
