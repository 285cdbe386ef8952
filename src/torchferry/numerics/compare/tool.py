"""CompareWithCPU: which operator is the first to be wrong, in a program that one writes oneself."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import Message, say
from torchferry.numerics.compare.judge import Judge
from torchferry.numerics.compare.mode import CompareMode, OpPolicy
from torchferry.numerics.compare.reference import is_foreign
from torchferry.numerics.compare.results import CallLog, ResultRow, ResultTable, log_name
from torchferry.numerics.compare.sampling import CallSignature, Sampler, block_of
from torchferry.numerics.compare.shadow_run import ShadowRun
from torchferry.numerics.compare.snapshot import ComparedCall
from torchferry.numerics.compare.verdict import ResultVerdict, Status
from torchferry.numerics.compare.worker import Worker
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.attribution import Attribution, Where
from torchferry.numerics.framework.launcher import is_selected_rank, rank
from torchferry.numerics.framework.operators import OperatorFilter, operator
from torchferry.numerics.report.compare import SOURCES, STANDARDS

MEMORY = 1 << 30
"""Bytes that copies may take, unless `memory_limit` says otherwise."""

_WAITING = 4
"""What part of them may wait: the call that is compared has its reference and the differences beside its copies."""

BUDGET = 0.02
"""Share of the time that comparisons may take beyond the first ones, unless `budget` says otherwise."""


class ComparisonFailed(TorchferryError):  # noqa: N818 - the seed's users know it by this
    """An operator failed, and the program was to stop there."""


_TOOLS: weakref.WeakSet[CompareWithCPU] = weakref.WeakSet()
"""The tools of this process; in the child of a fork they rest."""


def _rest() -> None:
    for tool in list(_TOOLS):
        tool.rest()


os.register_at_fork(after_in_child=_rest)


class _Job:
    """A call on its way to its verdict."""

    def __init__(self, call: ComparedCall, policy: OpPolicy, signature: CallSignature, seconds: float) -> None:
        self.call = call
        self.policy = policy
        self.signature = signature
        self.turn = signature.taken
        self.seconds = seconds
        self.size = call.size


class CompareWithCPU:
    """Runs operators again on the CPU, in higher precision, and compares.

    Use it as a context manager around training, and call `step` at the end of each step. Calls in a step that is not
    asked for, and all calls where `enabled` is false, run as they would without it.

    Args:
        atol: Absolute tolerance; without `atol` and `rtol`, each operator and dtype has its own.
        rtol: Relative tolerance.
        verbose: Whether calls that pass are logged too.
        enabled: Whether anything is done at all.
        target_op: The only operators that are compared, such as `torch.ops.aten.addmm` or `addmm`.
        target_list: The same.
        skip_op: Operators that are not compared.
        white_list: The same, by the name that it has in torch_musa.
        start_step: The first step in which calls are compared, from 0.
        end_step: The first step in which they are compared no more.
        should_log_to_file: Write `compare_result_rank0.txt` into `output_dir`, and not to standard output.
        output_dir: Where files go; it is made when there is something to write.
        enable_ranks: The only ranks on which it is done; all where it is None.
        dump: Folder that the first call that fails is written into, for `torchferry replay`; the program stops there.
        dump_error_data: The same, into `output_dir`.
        standard: One of `report.compare.STANDARDS`; `given` is `atol` and `rtol` alone.
        every: Compare every call, and not the first of its kind and then a sample. Of large products and lists, calls
            after the first are compared by a block that moves on.
        budget: Share of the time that the sample may take.
        on_fail: Called with the row of each call that fails; or `raise` to stop the program there.
        propagate: Keep a golden run in higher precision beside the program, and say how far it has drifted from it.
        background: Compare in a thread, while the program goes on.
        memory_limit: Bytes that copies may take.
        quiet: Write no log.

    Raises:
        UsageError: an option does not exist, or two contradict each other.
    """

    def __init__(
        self,
        atol: float | None = None,
        rtol: float | None = None,
        verbose: bool = False,
        enabled: bool = True,
        target_op: Sequence[str] | None = None,
        white_list: Iterable[str] | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        should_log_to_file: bool = False,
        output_dir: str | Path = "",
        enable_ranks: Iterable[int] | None = None,
        dump_error_data: bool = False,
        *,
        target_list: Sequence[str] | None = None,
        standard: str = "ours",
        every: bool = False,
        budget: float = BUDGET,
        on_fail: Callable[[ResultRow], object] | Literal["raise"] | None = None,
        propagate: bool = False,
        background: bool = True,
        memory_limit: int = MEMORY,
        quiet: bool = False,
        skip_op: Iterable[str] | None = None,
        dump: str | Path | None = None,
    ) -> None:
        strict = standard == "given"
        if strict and atol is None and rtol is None:
            raise UsageError(say("the standard `given` needs `atol` or `rtol`"))
        if standard not in STANDARDS:
            # translators: the kind of a name that is unknown, as in "unknown standard `x`"
            raise unknown_name("standard", standard, STANDARDS)
        if standard not in ("ours", "given") and (atol is not None or rtol is not None):
            raise UsageError(
                say("`atol` and `rtol` belong to the standard `ours` or `given`, not to {name}", name=standard)
            )
        if target_op is not None and target_list is not None:
            raise UsageError(say("`target_op` and `target_list` are two names of one option; give one"))
        targets = target_op if target_op is not None else target_list
        self._ranks = None if enable_ranks is None else frozenset(enable_ranks)
        self._another = False
        """Whether the rank turned out to be none that was asked for, after the comparison began."""
        self.enabled = enabled
        self.standard = standard
        self.tolerances = (atol, rtol)
        self.step_cnt = 0
        self.off = False
        self.results = ResultTable()
        self.sampler = Sampler(every or propagate, budget)
        self.attribution = Attribution()
        self._selection = OperatorFilter(targets or None, (*(skip_op or ()), *(white_list or ())))
        self._start, self._end = start_step or 0, end_step
        self._directory = Path(output_dir)
        self._dump_folder = Path(dump) if dump else self._directory if dump_error_data else None
        self._on_fail = on_fail
        self._judge = Judge("ours" if strict else standard, atol, rtol, strict)
        head = say("standard: {name} ({source})", name=standard, source=SOURCES[standard])
        self._log = CallLog(self._log_path if should_log_to_file else None, head, verbose, quiet)
        self.verbose = verbose and not quiet
        self._waits = not background or self._dump_folder is not None or on_fail == "raise"
        self._worker: Worker[_Job] = Worker(self._work, memory_limit // _WAITING, background=True)
        self._mode = CompareMode(self, memory_limit)
        self._lock = threading.Lock()
        self._entered = 0
        self._number = 0
        self._counted = False
        self._thread = 0
        self._handles: list[Any] = []
        self.written: list[Path] = []
        """Directories of failing calls, for `torchferry replay`."""
        _TOOLS.add(self)
        self.shadow = ShadowRun() if propagate else None

    # --- life ---

    def __enter__(self) -> CompareWithCPU:
        if not is_selected_rank(self._ranks):  # asked here: the group may be younger than the tool
            self.enabled = False
        if not self.enabled:
            return self
        self._entered += 1
        if self._entered == 1:
            self._thread = threading.get_ident()
            self.attribution.start()
            self.attribution.modules.on_root.append(self._root)
            self._handles = [register_optimizer_step_post_hook(self._updated)]
            self._follow()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.enabled or self.off:
            return
        self._entered -= 1
        if self._entered:
            return
        self._pull()
        self.attribution.modules.on_root.remove(self._root)
        for handle in self._handles:
            handle.remove()
        self.attribution.stop()
        try:
            self._worker.wait()
        except ComparisonFailed:
            if kind is None:
                raise
        finally:
            self._worker.close()
            self._log.close()
        if self._another:
            self.results = ResultTable()
            self.sampler.left_out = 0

    def step(self) -> None:
        """Say that a step of training has ended.

        Raises:
            ComparisonFailed: an operator failed, and the program is to stop.
        """
        if not self.enabled or self.off:
            return
        self._counted = True
        self.step_cnt += 1
        self.attribution.next_step()
        self.sampler.choose()
        if self._entered:
            self._follow()
        if self.active:
            self._log.step(self.step_cnt)

    def wait(self) -> None:
        """Return when all that was copied has its verdict."""
        self._worker.wait()

    def rest(self) -> None:
        """Do nothing any more: for the child of a fork, whose parent goes on."""
        self.off = True
        self._worker.forget()

    @property
    def active(self) -> bool:
        """Whether calls are compared in this step."""
        return not self._another and self._start <= self.step_cnt and (self._end is None or self.step_cnt < self._end)

    @property
    def failed(self) -> bool:
        """Whether an operator failed; waits for what is under way."""
        self.wait()
        return self.results.counts[Status.FAIL] > 0

    def _log_path(self) -> Path:
        return self._directory.absolute() / f"compare_result_rank{rank()}.txt"

    def _updated(self, *_: Any) -> None:
        """Forget the graphs of earlier steps, and choose calls anew, in a program that does not call `step`."""
        if not self._counted:
            self.attribution.next_step()
            self.sampler.choose()

    def _root(self, *_: Any) -> None:
        if not self._another and not is_selected_rank(self._ranks):  # the rank is known by now
            self._another = True
            self._pull()
        if self.active and threading.get_ident() != self._thread:
            self.results.elsewhere += 1

    def _follow(self) -> None:
        """Be among the modes in steps that are asked for, and not in others."""
        if self.active:
            if self._mode not in _get_current_dispatch_mode_stack():
                self.sampler.resume()
                self._mode.__enter__()
        else:
            self._pull()

    def _pull(self) -> None:
        """Leave the modes; one that was entered later and stands still keeps us in, and calls pass through."""
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self._mode:
            self._mode.__exit__(None, None, None)
        elif self._mode in stack:
            self._taken_out(stack)

    def _taken_out(self, stack: list[Any]) -> None:
        above = stack[stack.index(self._mode) + 1 :]
        for _mode in above:
            torch_versions.pop_dispatch_mode()
        self._mode.__exit__(None, None, None)
        for mode in above:
            torch._C._push_on_torch_dispatch_stack(mode)

    # --- what the mode asks ---

    def policy(self, overload: Any) -> OpPolicy:
        """Return what is done with an operator."""
        op = operator(overload)
        return OpPolicy(op, op in self._selection)

    def log_begin(self, policy: OpPolicy, where: Where) -> None:
        """Say of a call that begins what is done with it."""
        name = log_name(where, policy.operator.name)
        if policy.skip_reason:
            self._log.skipped(name, policy.skip_reason)
        else:
            self._log.begins(name)

    def untested(self, policy: OpPolicy, signature: CallSignature, where: Where, reason: Message) -> None:
        """Note a call that could not be copied."""
        verdict = ResultVerdict(Status.UNTESTED, reason)
        signature.compared += 1
        with self._lock:
            self._number += 1
            number = self._number
        self.results.add(policy.operator.name, where, self.step_cnt, number, verdict)
        self._log.verdict(log_name(where, policy.operator.name), None, verdict, None)

    def taken(self, policy: OpPolicy, signature: CallSignature, call: ComparedCall, seconds: float) -> None:
        """Hand in a call for its verdict."""
        with self._lock:
            self._number += 1
            call.number = self._number
        call.step = self.step_cnt
        first = signature.taken == 0
        call.full = first or not (self.sampler.every or signature.brief)
        job = _Job(call, policy, signature, seconds)
        signature.taken += 1
        if not self._worker.submit(job, patient=first or self.sampler.every or self._waits):
            self.sampler.put_off(signature)
            return
        if self._waits or is_foreign(call.operator):  # what may draw from the program's generators runs alone
            self._worker.wait()

    # --- verdicts, in the thread ---

    def _work(self, job: _Job) -> None:
        begin = time.thread_time()
        call = job.call if job.call.full else block_of(job.call, job.turn)
        with torch.no_grad():
            verdict = self._judge.verdict(call)
        if call.whole:
            verdict = replace(verdict, shape=call.shape)
        self.sampler.spent(job.signature, job.seconds + time.thread_time() - begin)
        name = call.operator.name
        extent = call.extent() if verdict.status is not Status.UNTESTED else (0, call.extent()[1])
        self.results.add(name, call.where, call.step, call.number, verdict, call.drift, extent, len(call.uncompared))
        self._log.verdict(log_name(call.where, name), call, verdict, call.note)
        if verdict.status is Status.FAIL:
            self._failed(call, verdict)

    def _failed(self, call: ComparedCall, verdict: ResultVerdict) -> None:
        written: Message | None = None
        if self._dump_folder is not None and not self.written:
            written = self._write_call(self._dump_folder, call, verdict)
        if callable(self._on_fail):
            row = next((row for row in self.results.rows.values() if row.number == call.number), None)
            if row is not None:
                self._on_fail(row)
        if self._dump_folder is not None or self._on_fail == "raise":
            raise ComparisonFailed(
                say(
                    "{name} fails to pass CompareWithCPU test: {reason}",
                    name=log_name(call.where, call.operator.name),
                    reason=verdict.reason or "",
                ),
                *([written] if written is not None else []),
            )

    def _write_call(self, folder: Path, call: ComparedCall, verdict: ResultVerdict) -> Message:
        """Write the call, and return where it is, or why it is not."""
        from torchferry.numerics.replay import dump_call

        try:
            path = dump_call(folder, call, verdict, self.standard)
        except (TorchferryError, OSError, RuntimeError, MemoryError) as error:  # the device may be broken by now
            return say("the call could not be written: {error}", error=error)
        self.written.append(path)
        return say("the call was written to {path}", path=path)

    # --- what was found ---

    def document(self, lang: str | None = None) -> dict[str, Any]:
        """Return what was found so far in values that JSON has; waits for what is under way."""
        self._worker.wait()
        again = self.sampler.again()
        for policy in self._mode.policies():
            if policy.skip_reason and policy.calls:
                self.results.skip(policy.skip_reason, policy.calls)
                policy.calls = 0
        for kind, count in self._mode.passed.items():
            if count:
                self.results.skip(kind, count)
                self._mode.passed[kind] = 0
        return {
            "steps": self.step_cnt,
            "standard": self.standard,
            "source": SOURCES[self.standard],
            "unmet": self._selection.unmet(),
            "called": bool(self._mode.policies()) or self.step_cnt > 0,
            "device": self._mode.device or "cpu",
            "compiled": _compiles(),
            "not_sampled": self.sampler.left_out,
            "left_to_budget": self.sampler.left_to_budget,
            "again_within": again[0],
            "places_within": again[1],
            "replay": [str(path) for path in self.written],
            **self.results.document(lang),
        }


def _compiles() -> bool:
    """Whether the program compiles; its compiled parts ran one operator at a time."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", {})  # None stands for what only forbids compiling
    return any(backend is not None for backend in backends.values())
