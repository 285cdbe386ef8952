"""A Triton kernel of which nobody knows yet whether it compiles for the target.

What the text of a kernel says is compared with what the target's compiler is known to take. What is left shows when the
kernel is compiled: whether its tiles fit into the memory of a core, which depends on the sizes that it is launched
with, and parts that no table speaks of. Where the vendor's front end is public, `torchferry triton check` compiles
kernels with it, without the card. A kernel with a part that is refused has a finding of its own at that part.

Why: A kernel that does not compile ends the program when it is launched first.

References:
- table triton
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.triton_front_end import front_end_of
from torchferry.backends.triton_target import TABLE
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.triton.kernels import TritonKernel, entries_of, kernels_of

_MOST = 3
"""So many unknown parts are named."""


class UncompiledKernel(Rule):
    """Finds kernels that nothing is known against."""

    CODE = "TRI102"
    EFFECT = Effect.UNKNOWN
    ANSWERS = (say("compile the kernel (`torchferry triton check`)"), say("replace the kernel"))
    MODULES = ("triton",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each kernel, also for those that others call: any may be launched by another file."""
        triton = context.target.backend.TRITON
        if not isinstance(triton, str):
            return
        for kernel in kernels_of(context):
            if exemption_reason(context, kernel.function) is not None:
                continue
            reason = _reason(context, kernel, triton)
            if reason is not None:
                if front_end_of(context.target.backend) is not None and not kernel.is_of_unknown_language:
                    reason = say("{reason}; `torchferry triton check` compiles it without the card", reason=reason)
                start = context.file.span(kernel.function)[0]
                line_end = context.text.find("\n", start)
                yield self.finding(
                    context, (start, line_end if line_end >= 0 else len(context.text)), reason, Grade.MANUAL
                )


def _reason(context: PythonContext, kernel: TritonKernel, triton: str) -> Message | None:
    """Return what is not known of a kernel; None where it is known to be refused."""
    name = kernel.function.name
    if kernel.is_of_unknown_language:
        return say(
            "the kernel `{kernel}` is written in a language that {package} may not have", kernel=name, package=triton
        )
    unknown = list(kernel.unread)
    for entry in entries_of(context, kernel):
        if entry.is_refused:
            return None
        part = entry.construct.name
        if entry.row.status == "unknown" and (entry.row.source or not part.endswith(")")):
            unknown.append(part.replace("triton.language.", "tl."))
    if not _is_described(context):
        return say(
            "the kernel `{kernel}` must be compiled with {package}: nobody has verified what it takes",
            kernel=name,
            package=triton,
        )
    if unknown:
        return say(
            "the kernel `{kernel}` has parts of which nobody has verified whether {package} takes them: {lines}",
            kernel=name,
            package=triton,
            lines=", ".join(dict.fromkeys(unknown[:_MOST])) + (", ..." if len(unknown) > _MOST else ""),
        )
    return say(
        "the kernel `{kernel}` must be compiled with {package} for the sizes that it is launched with: nothing in it "
        "is known to be refused, and whether its tiles fit on the chip shows only then",
        kernel=name,
        package=triton,
    )


def _is_described(context: PythonContext) -> bool:
    """Whether the table says which functions of the language the target has."""
    return context.target.row(TABLE, "triton.language.load").status != "unknown"
