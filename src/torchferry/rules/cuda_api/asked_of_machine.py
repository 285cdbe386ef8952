"""A question for CUDA that is not asked of torch: `os.path.exists("/dev/nvidia0")`, `os.environ.get("CUDA_HOME")`.

Device nodes, programs, variables and folders of NVIDIA's are not there on the target, nor are the functions and the
marks of a torch that was built for CUDA (`hasattr(torch._C, "_cuda_init")`, `"+cu" in torch.__version__`). What is
behind such a question is skipped, and the program goes on on the CPU. Ask torch whether there is a device. The same
holds for what libraries answer about CUDA (`numba.cuda.is_available()`), and for an import of what the target does not
have where its failure chooses a device or a dtype.

Why: The answer is no on the target, and the program goes on on the CPU without a word.

References:
- page migrating
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.budget import spend
from torchferry.core.finding import LINK, Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.attempts import choosing_attempts
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.conditions import condition_of, followers, stored_uses
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.machine_questions import library_questions, machine_question
from torchferry.source.flow.syntax import string_value

_NODES = ("/dev/nvidia", "/proc/driver/nvidia")
"""Where only a card of NVIDIA's is."""


class AskedOfMachine(Rule):
    """Finds questions for CUDA that are asked of the machine, or of the build of torch."""

    CODE = "CUD116"
    EFFECT = Effect.WRONG
    BINDS = True
    RUNS_ON_DEVICE = False
    UNDER_REDIRECT = UnderRedirect.ALL
    WORDS = (
        "/dev/nvidia", "/proc/driver/nvidia", "nvidia-smi", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "/cuda", "_cuda",
        '"cu', "'cu", '"+cu', "'+cu", "libcuda", "libnvidia", "nvidia-cuda", '"nvidia', "'nvidia", "lspci", "lshw",
        "lsmod", "._C", "import _C",
    )  # fmt: skip

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The words of questions, and the last parts of what libraries are asked."""
        return (*self.WORDS, *sorted({name.rpartition(".")[2] for name in cuda.asked_of_libraries()}))

    def modules(self, target: Target) -> tuple[str, ...]:
        """What the target does not have: its absence may choose."""
        modules = (module for package in cuda.packages().values() for module in package.modules)
        return tuple(sorted({module.partition(".")[0] for module in modules if target.has_module(module) is False}))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield nothing: what is behind a question is known when all rules were asked."""
        return ()

    def check_rest(self, context: PythonContext, findings: Sequence[Finding]) -> Iterable[Finding]:
        """Yield a finding for each question behind which is code for the card, or that only NVIDIA's can answer."""
        changed = sorted(
            (*context.source.span(finding.location), finding.grade.value) for finding in findings if finding.edits
        )
        starts = [start for start, _, _ in changed]
        reported: set[ast.AST] = set()
        for question, text in _questions(context):
            if question in reported or exemption_reason(context, question) is not None:
                continue
            start, end = context.file.span(text)
            place = bisect_left(starts, start)
            is_changed = place < len(changed) and changed[place][1] <= end  # to a program or variable of the target's
            is_node = (string_value(text) or "").startswith(_NODES)
            if not is_node and not any(_holds(context, part, starts) for part in _guarded(context, question)):
                continue
            reported.add(question)
            message = LINK if is_changed else self._skipped(context)
            grade = Grade(changed[place][2]) if is_changed else Grade.MANUAL
            yield self.finding(context, context.file.span(question), message, grade)
        for attempt in choosing_attempts(context):
            if attempt.chooses in reported or exemption_reason(context, attempt.chooses) is not None:
                continue
            message = self._skipped(context)
            if attempt.module:
                message = say(
                    "{target} does not have `{module}`, so the program takes another device or dtype here; "
                    "decide which of the two is right",
                    target=context.target.title,
                    module=attempt.module,
                )
            yield self.finding(context, context.file.span(attempt.chooses), message, Grade.MANUAL)

    def _skipped(self, context: PythonContext) -> Message:
        return say(
            "asks whether CUDA is there, but does not ask torch: on {target} the answer is no, and "
            "the code that depends on it is skipped; ask torch for the device",
            target=context.target.title,
        )


def _questions(context: PythonContext) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the questions of a file, each with the text or name that makes it one."""
    for text in context.file.strings:
        question = machine_question(context, text)
        if question is not None:
            yield question, text
    for node in library_questions(context):
        yield node, node


def _guarded(context: PythonContext, question: ast.expr) -> Iterator[ast.AST]:
    """Yield what runs only where a question is answered with yes, also by the names that the answer is kept under."""
    waiting: list[tuple[ast.expr, bool]] = [(question, True)]
    met: set[tuple[ast.expr, bool]] = set()
    while waiting:
        state = waiting.pop()
        if state in met:
            continue
        spend()
        met.add(state)
        node, positive = state
        condition = condition_of(context, node, answer=True)
        if condition is None:
            continue
        positive = positive == condition.positive
        yield from followers(context.file, condition.top, positive)
        waiting += [(use, positive) for use in stored_uses(context, condition.top)]


def _holds(context: PythonContext, node: ast.AST, starts: list[int]) -> bool:
    start, end = context.file.span(node)
    place = bisect_left(starts, start)
    return place < len(starts) and starts[place] < end
