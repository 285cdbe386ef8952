"""A question for CUDA that is not asked of torch: `os.path.exists("/dev/nvidia0")`, `os.environ.get("CUDA_HOME")`.

Device nodes, programs, variables and folders of NVIDIA's are not there on the target, nor are the functions and the
marks of a torch that was built for CUDA (`hasattr(torch._C, "_cuda_init")`, `"+cu" in torch.__version__`). What is
behind such a question is skipped, and the program goes on on the CPU. Ask torch whether there is a device. The same
holds for what libraries answer about CUDA (`numba.cuda.is_available()`), and for an import of what the target does not
have where its failure chooses a device or a dtype. The code may be in another file, and the answer may be kept in a
class, an object or a table: a migration that renames the code does not answer the question.

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
from torchferry.core.finding import LINK, Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.answers import AskedAnswer, conditions_asking, kept_from, names_card, not_all_followed
from torchferry.rules.attempts import choosing_attempts
from torchferry.rules.base import Options, PythonContext, Rule
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
    ANSWERS = (say("ask torch for the device"),)
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
            guarding = None if is_node else _first_guarding(context, question, starts)
            if not is_node and guarding is None:
                continue
            if is_changed and guarding is not None and (guarding.is_cut_off or guarding.context is not context):
                continue  # of another file nothing goes with a question that becomes the target's
            reported.add(question)
            message = LINK if is_changed else self._skipped(context, guarding)
            grade = Grade(changed[place][2]) if is_changed else Grade.MANUAL
            effect = Effect.UNKNOWN if guarding is not None and guarding.is_cut_off else None
            yield self.finding(context, context.file.span(question), message, grade, effect=effect)
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

    def _skipped(self, context: PythonContext, guarding: AskedAnswer | None = None) -> Message:
        message = say(
            "asks whether CUDA is there, but does not ask torch: on {target} the answer is no, and "
            "the code that depends on it is skipped; ask torch for the device",
            target=context.target.title,
        )
        if guarding is not None and guarding.is_cut_off:
            return not_all_followed(message, f"{guarding.context.path}:{guarding.line}")
        if guarding is None or guarding.context is context:
            return message
        return say("{message} (the code is in {path})", message=message, path=guarding.context.path)


def _questions(context: PythonContext) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the questions of a file, each with the text or name that makes it one."""
    for text in context.file.strings:
        question = machine_question(context, text)
        if question is not None:
            yield question, text
    for node in library_questions(context):
        yield node, node


def _first_guarding(context: PythonContext, question: ast.expr, starts: list[int]) -> AskedAnswer | None:
    """Return the first condition that lets code for the card run only where a question is answered with yes.

    In this file it is code that a rule changes. Code of other files is known by its words, and so is code that was
    changed before: a migration does not answer the question.
    """
    first = None
    for asked in conditions_asking(context, kept_from(context, question)):
        if asked.is_cut_off:
            return first or asked
        if asked.context is context and any(_holds(context, node, starts) for node in asked.guarded):
            return asked
        renamed = asked.context is context
        if first is None and asked.needed:
            if any(names_card(asked.context, node, renamed=renamed) for node in asked.guarded):
                first = asked
    return first


def _holds(context: PythonContext, node: ast.AST, starts: list[int]) -> bool:
    start, end = context.file.span(node)
    place = bisect_left(starts, start)
    return place < len(starts) and starts[place] < end
