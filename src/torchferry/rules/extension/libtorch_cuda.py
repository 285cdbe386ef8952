"""C++ that asks libtorch for CUDA: `torch::kCUDA`, `x.is_cuda()`, `c10/cuda`, an operator registered for `CUDA`.

libtorch on another card has no CUDA device: `torch::kCUDA` raises, `is_cuda()` answers no, and what is registered for
the dispatch key `CUDA` is never called. Name the target's device, and port what is done with CUDA's streams and
kernels. What is compiled only under a switch such as `#ifdef WITH_CUDA` is a note: leave the switch off.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.extension.uses import uses, words
from torchferry.source.kinds import Kind


class LibtorchCuda(Rule):
    """Finds C++ files that ask libtorch for CUDA."""

    CODE = "EXT104"
    CHINESE = """通过 libtorch 使用 CUDA 的 C++：`torch::kCUDA`、`x.is_cuda()`、`c10/cuda`、为 `CUDA` 注册的算子。

其他卡上的 libtorch 没有 CUDA 设备：`torch::kCUDA` 会报错，`is_cuda()` 返回否，为分发键 `CUDA` 注册的算子不会被调用。
请改用目标平台的设备，并移植其中使用 CUDA 流和核函数的部分。只在 `#ifdef WITH_CUDA` 等开关下编译的部分仅作说明：
请不要打开该开关。
"""
    KINDS = (Kind.CPP,)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """What every use holds."""
        return words("torch")

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding a file, at the first use."""
        found = uses(context, "torch")
        if found is None:
            return
        backend = context.target.backend
        if found.optional:
            message = say(
                "asks libtorch for CUDA only where a switch asks for it (uses: {count}): leave the switch off on "
                "{target}",
                count=found.total,
                target=context.target.title,
            )
            yield self.finding(context, found.first, message, Grade.NOTE)
            return
        message = say(
            "asks libtorch for CUDA: on {target} the device is `{device}` and its dispatch key is `{key}`; port what "
            "uses CUDA's streams and kernels (uses: {count}; lines: {lines})",
            count=found.total,
            target=context.target.title,
            device=backend.DEVICE_TYPE,
            key=context.target.dispatch_key or "UNKNOWN",
            lines=found.lines,
        )
        yield self.finding(context, found.first, message, Grade.MANUAL)
