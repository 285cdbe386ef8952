"""NanInfTracker: where the first NaN or infinity came from, in a program that one writes oneself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from torch import Tensor
from torch.optim.optimizer import Optimizer

from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import say, say_plural
from torchferry.core.terminal import print_notice, visible_text
from torchferry.numerics.framework.attribution import BACKWARD, SCALING, Attribution
from torchferry.numerics.framework.dispatch import capturing, without_dispatch_modes
from torchferry.numerics.framework.launcher import is_selected_rank, known_rank, rank
from torchferry.numerics.framework.operators import OperatorFilter
from torchferry.numerics.framework.statistics import FINITE, KINDS, parts
from torchferry.numerics.framework.steps import Steps
from torchferry.numerics.nan.diagnosis import Examiner, StepDiagnosis, dump_first_call
from torchferry.numerics.nan.mode import CallResult, OperatorWatch, Origin, origins, untaken
from torchferry.numerics.nan.rerun import RootCall, differentiated, taking_part
from torchferry.numerics.nan.watch import (
    StepMemory,
    UnreadTensors,
    bad_gradients,
    bad_outputs,
    bad_tensors,
    gradients_of,
)
from torchferry.numerics.report.nan import told

# Where NanInfTracker says what it found: standard error, or a file of its rank.


class FindingLog:
    """Lines on standard error, or in `folder/nan_rank_<n>.log` where a folder is given.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stream: Any = None

    def say(self, text: str) -> None:
        """Write a line, or several; on standard error the first says which rank it is, where there are several."""
        file = self._file()
        if file is None:
            number = known_rank()
            text = text if number is None else f"rank {number}: {text}"
            print_notice(*text.split("\n"))
        else:
            file.write(visible_text(text.split("\n")))
            file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _file(self) -> Any:
        """Return the file, which is made when there is something to write: the rank may not be known before."""
        if self._stream is None and self._folder is not None:
            path = self._folder / f"nan_rank_{rank()}.log"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._stream = path.open("a", encoding="utf-8")
            except OSError as error:
                self._folder = None
                self.say(str(say("cannot write {path}: {error}", path=path, error=error.strerror or error)))
        return self._stream


LEVELS = ("watch", "operator")

PATIENCE = 20
"""Steps that a gradient scaler may leave out one after another before this counts as a failure.

GradScaler begins at 65536 and halves: after 17 steps in a row the scale is below 1, which no healthy model needs
(`init_scale`, `backoff_factor` of torch.amp.GradScaler)."""


class NotFiniteError(RuntimeError):
    """A step was not finite, and the tracker was told to stop the program then."""


class NanInfTracker:
    """Says which call made the first NaN or infinity, and what it was given.

    ::

        with NanInfTracker() as tracker:
            for batch in loader:
                train_step(batch)

    A step ends by itself when the optimizer has stepped, or a gradient scaler left the step out; `step()` says it where
    there is no optimizer. No step waits for the device but once, before the optimizer. Infinities that a gradient
    scaler expects are counted and not reported.

    Args:
        enabled: False does nothing, at no cost.
        level: `watch` looks at gradients once a step and runs a bad step again, call by call; `operator` looks at the
            results of all calls, so that it also knows what does not happen again.
        target_op: Names of the only operators to look at.
        skip_op: Names of operators not to look at.
        white_list: The same, by the name that it has in torch_musa.
        start_step: First step to look at.
        end_step: First step not to look at any more.
        verbose: Also say that a step was well.
        should_log_to_file: Write to `output_dir/nan_rank_<n>.log`, not to standard error.
        output_dir: Folder for logs and dumped calls; it is made when it is not there.
        enable_ranks: The only ranks that look; all where it is None.
        dump_error_data: Write the call to `output_dir`, for `torchferry replay`, and end the program.
        stop: End the program at the first bad step with NotFiniteError.
        target_list: Another name of `target_op`.

    Raises:
        UsageError: `level` is not one of LEVELS, or `output_dir` is missing where it is needed.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        level: Literal["watch", "operator"] = "operator",
        target_op: Iterable[str] | None = None,
        white_list: Iterable[str] | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        verbose: bool = False,
        should_log_to_file: bool = False,
        output_dir: str | os.PathLike[str] = "",
        enable_ranks: Iterable[int] | None = None,
        dump_error_data: bool = False,
        stop: bool = False,
        target_list: Iterable[str] | None = None,
        skip_op: Iterable[str] | None = None,
    ) -> None:
        if level not in LEVELS:
            # translators: the kind of a name that is unknown, as in "unknown level `x`"
            raise unknown_name("level", level, LEVELS)
        if (should_log_to_file or dump_error_data) and not output_dir:
            raise UsageError(say("a log or a dump needs `output_dir`"))
        self.level = level
        self._ranks = None if enable_ranks is None else frozenset(enable_ranks)
        self.enabled = enabled and is_selected_rank(self._ranks)
        self._start, self._end = start_step or 0, end_step
        self._verbose = verbose
        self._folder = Path(output_dir)
        self._dumps = dump_error_data
        self._stop = stop or dump_error_data
        self._log = FindingLog(self._folder if should_log_to_file else None)
        self._when_found: Callable[[dict[str, Any]], None] | None = None
        self._attribution = Attribution()
        if target_op is not None and target_list is not None:
            raise UsageError(say("`target_op` and `target_list` are two names of one option; give one"))
        self._selection = OperatorFilter(
            (target_op if target_op is not None else target_list) or None, (*(skip_op or ()), *(white_list or ()))
        )
        self._steps = Steps()
        self._mode = OperatorWatch(self._attribution, self._selection) if level == "operator" else None
        self._memory = StepMemory(self._attribution, self._mode)
        self._examiner = Examiner(self._attribution, self._selection, self._memory.omitted)
        self._running = False
        self._checked = False
        self._in_a_row = 0
        self._bad: list[int] = []
        self._overflows: list[int] = []
        self._findings: list[dict[str, Any]] = []
        self._bad_calls = 0
        """Calls of models without gradients that gave NaN or infinity."""

        self._early: list[dict[str, Any]] = []
        """Of forwards without gradients before the first step: programs that train try their models with any values.
        Of steps without an optimizer too: it is not known before the end that there is none."""
        self._early_bad: list[int] = []
        self._unaided = 0
        """Steps that ended without an optimizer of torch's, while there was none."""
        self._unread = UnreadTensors()
        self._unlooked = 0
        """Calls of outermost modules that were too many to look at, where nothing else tells whether they were well."""
        self._unlooked_results = 0

    def __enter__(self) -> NanInfTracker:
        if not self.enabled:
            return self
        if self._running:
            raise UsageError(say("this tracker is already active"))
        self._running = True
        self._attribution.start()
        self._steps.before.append(self._before_update)
        self._steps.skipped.append(self._left_out)
        self._steps.after.append(self._step_ends)
        self._steps.start()
        self._memory.when_alone = self._alone
        self._memory.when_updated = self._without_optimizer
        self._memory.when_capturing = self._capturing
        self._memory.start()
        self._set_active(self._steps.count)
        if self._mode is not None:
            self._mode.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._running:
            return
        self._memory.tape.lift()  # it lies above
        if self._mode is not None:
            self._mode.__exit__(kind, error, trace)
        self._running = False
        try:
            if error is None or not isinstance(error, NotFiniteError):
                self._rest()
        finally:
            self._last_words()
            self._memory.stop()
            self._steps.stop()
            self._attribution.stop()
            self._steps.before.clear()
            self._steps.skipped.clear()
            self._steps.after.clear()
            self._log.close()

    def _last_words(self) -> None:
        """Say what could not be said before the end, where no summary says it."""
        if self._when_found:
            return
        if self._early and not self._findings and not self._trained:
            self._log.say("\n".join(line for finding in self._early for line in told(finding)))
        for message in self._memory.omitted.messages():
            self._log.say(str(message))
        for error, count in self._memory.failures.items():
            self._log.say(
                str(
                    say_plural(
                        "the tool failed {count} time and skipped that check: {error}",
                        "the tool failed {count} times and skipped those checks: {error}",
                        count=count,
                        error=error,
                    )
                )
            )

    def step(self) -> None:
        """End a step: for programs that have no optimizer, or count their steps themselves."""
        if not self._running:
            return
        first, self._steps.by_hand = not self._steps.by_hand, True
        self._memory.when_updated = None
        if first and self._steps.count:
            return  # the optimizer has ended this step, as long as nobody had said that the program counts
        if not self._checked:
            self._guarded(lambda: self._look(None))
        self._steps.end()

    def leave_to_summary(self, when_found: Callable[[dict[str, Any]], None]) -> None:
        """Write of a finding only that there is one: somebody else tells what it is, when the process has ended.

        Args:
            when_found: Called with `document()` at each finding, in case the process does not live to its end.
        """
        self._when_found = when_found

    def rest(self) -> None:
        """Look at nothing any more: for a fork, which must not report what its parent reports."""
        self.enabled = False
        self._memory.paused = True
        if self._mode is not None:
            self._mode.active = False

    def document(self) -> dict[str, Any]:
        """Return what was found, in values that JSON has."""
        broken = {"error": self._memory.broken} if self._memory.broken else {}
        early = not self._trained
        return {
            **broken,
            "tool": "nan",
            "level": self.level,
            "steps": self._number,
            "calls": self._memory.seen,
            "bad_calls": self._bad_calls,
            "bad_steps": self._bad or (self._early_bad if early else []),
            "overflows": self._overflows,
            "untested": dict(self._mode.untested) if self._mode is not None else {},
            "unread": dict(self._unread.kinds),
            "unlooked": self._unlooked,
            "unlooked_results": self._unlooked_results,
            "captured": self._memory.captured,
            "left_out": [message.render("en") for message in self._memory.omitted.messages()],
            "failures": dict(self._memory.failures),
            "findings": self._findings or (self._early if early else []),
        }

    @property
    def _trained(self) -> bool:
        return bool(self._steps.count) and not self._steps.by_hand

    @property
    def _number(self) -> int:
        """The number of the step that is going on."""
        return self._steps.count or self._unaided

    def _active(self) -> bool:
        return self._covers(self._number)

    def _covers(self, step: int) -> bool:
        return (
            self.enabled
            and is_selected_rank(self._ranks)
            and self._start <= step
            and (self._end is None or step < self._end)
        )

    def _set_active(self, step: int) -> None:
        active = self._covers(step) and not self._memory.capturing
        self._memory.paused = not active
        if self._mode is not None:
            self._mode.active = active

    def _before_update(self, optimizer: Optimizer) -> None:
        """The one moment of a step at which the device is waited for."""
        self._memory.tape.lift()
        self._memory.when_updated = None
        if not self._active() or self._memory.paused:
            return
        if capturing():
            self._memory.captured += 1
            return
        self._guarded(lambda: self._look(optimizer))

    def _guarded(self, look: Callable[[], None]) -> bool:
        """Look, and let a fault of this tool's own cost this look, and neither the program nor the next look.

        Returns:
            Whether it could look.
        """
        try:
            look()
        except NotFiniteError:
            raise
        except Exception as error:  # whatever is wrong with the tool, the program goes on
            self._memory.failed(error)
            if self._mode is not None:
                self._mode.forget()
            return False
        return True

    def _without_optimizer(self) -> None:
        """The program is about to call a model again, after a backward whose gradients it has used by itself."""
        if not self._active():
            return
        ended = self._memory.updated()
        self._guarded(lambda: self._look(None))
        if not ended:  # too many calls to keep, in a step that goes on
            self._memory.forget()
            return
        self._step_ends()
        self._unaided += 1
        self._set_active(self._number)

    def _capturing(self) -> None:
        """The program has begun, or ended, to capture a graph: what goes into it is not computed now."""
        self._set_active(self._number)

    @without_dispatch_modes
    def _look(self, optimizer: Optimizer | None) -> None:
        self._checked = True
        self._in_a_row = 0
        if self._mode is not None:
            self._unlooked_results += self._mode.dropped
        if optimizer is None and self._memory.when_updated is None:
            self._unlooked += self._memory.dropped  # otherwise each was looked at when it returned
        deferred = self._deferred(optimizer)
        if deferred or (
            self._bad_results() if optimizer is None else bad_gradients(optimizer, self._losses(), self._unread)
        ):
            self._bad_step(optimizer, deferred)

    def _bad_results(self) -> bool:
        """Whether something is not finite in a step that no optimizer ends."""
        roots = taking_part(self._memory.roots)
        if bad_outputs(roots):
            return True
        if self._trained:
            return False  # what comes after the last step of all may be scaled, and no scaler looks at it any more
        gradients = [gradient for root in roots for gradient in _gradients(root)]
        return bad_tensors(gradients, self._losses(), self._unread)

    def _losses(self) -> list[Tensor]:
        return [loss for ones, _ in self._memory.losses for loss in ones]

    def _deferred(self, optimizer: Optimizer | None) -> list[tuple[CallResult, int]]:
        """Return the origins that the slots know of, with their kinds."""
        if self._mode is None:
            return []
        roots = [] if optimizer is not None else taking_part(self._memory.roots)
        kept = (
            gradients_of(optimizer)
            if optimizer is not None
            else [tensor for root in roots for tensor in _given_by(root)]
        )
        ends = {self._mode.maker(part) for tensor in (*kept, *self._losses()) for part in parts(tensor) or ()}
        given, gives = self._mode.given, self._mode.gives
        results, kinds = self._mode.taken()
        if all(kind == FINITE for kind in kinds):
            return []
        if optimizer is None:  # what a module makes and does not give, such as a mask that is not needed, is no end
            ends |= given
            is_followed = (
                (roots or given) and gives and not self._memory.dropped and all(root.outputs for root in roots)
            )
            ends |= {number for number in untaken(results) if not (is_followed and results[number].where.module)}
        return [(results[number], kinds[number]) for number in origins(results, kinds, ends)]

    def _left_out(self, optimizer: Optimizer) -> None:
        """A gradient scaler found infinities: expected, unless the forward was bad, or it goes on and on."""
        self._memory.when_updated = None
        if not self._active():
            return
        self._memory.tape.lift()
        if capturing():
            self._memory.captured += 1
            return
        self._guarded(lambda: self._look_at_overflow(optimizer))

    @without_dispatch_modes
    def _look_at_overflow(self, optimizer: Optimizer) -> None:
        self._checked = True
        deferred = [origin for origin in self._deferred(optimizer) if origin[0].where.phase not in {BACKWARD, SCALING}]
        self._in_a_row += 1
        if deferred or bad_outputs(differentiated(self._memory.roots)) or self._in_a_row == PATIENCE:
            self._bad_step(optimizer, deferred)
            return
        if not self._findings or self._verbose:
            diagnosis = self._examined(lambda: self._examiner.examine_overflow(self._memory.roots, self._steps.scale()))
            if diagnosis.origins:
                diagnosis.notes.append(
                    say("the gradient scaler skipped this step, but gradients are not finite without its scale either")
                )
                self._bad_step(optimizer, [], diagnosis)
                return
        if len(self._overflows) < 1000:
            self._overflows.append(self._number)

    def _alone(self, call: RootCall) -> None:
        """A forward without gradients: it is looked at when it has returned, before its arguments change."""
        if self._active():
            if self._mode is not None:
                self._mode.gave(part for output in call.outputs for part in parts(output) or ())
            self._guarded(lambda: self._look_alone(call))

    @without_dispatch_modes
    def _look_alone(self, call: RootCall) -> None:
        if not bad_outputs([call]):
            return
        self._bad_calls += 1
        self._memory.roots.append(call)
        if not self._steps.count and not self._early:
            diagnosis = self._gone_through(None)
            finding = self._finding(diagnosis, [])
            self._memory.roots = [root for root in self._memory.roots if root is not call]
            self._early.append(finding)
            if self._stop and any(origin.operator != "input" for origin in diagnosis.origins):
                self._dump(finding, diagnosis)
                raise NotFiniteError("\n".join(told(finding, diagnosis.notes)[: 1 if self._when_found else None]))

    def _step_ends(self) -> None:
        bad = self._bad or self._early_bad
        if self._verbose and self._checked and self._active() and (not bad or bad[-1] != self._number):
            # translators: verdict on a tensor: no NaN and no infinity
            self._log.say(f"step {self._number}: {say('finite')}")
        self._checked = False
        self._memory.clear()
        self._attribution.next_step()
        if self._mode is not None:
            self._mode.forget()
        self._set_active(self._steps.count + 1)

    def _rest(self) -> None:
        """What was computed after the last step, or without any."""
        if not self._active() or self._checked or not (self._memory.roots or self._mode is not None):
            return
        ended = self._memory.when_updated is not None and bool(differentiated(self._memory.roots))
        self._guarded(lambda: self._look(None))
        self._unaided += ended

    def _bad_step(
        self,
        optimizer: Optimizer | None,
        deferred: list[tuple[CallResult, int]],
        diagnosis: StepDiagnosis | None = None,
    ) -> None:
        early = optimizer is None and not self._steps.count and not self._steps.by_hand
        bad, findings = (self._early_bad, self._early) if early else (self._bad, self._findings)
        if len(bad) < 1000:
            bad.append(self._number)
        if findings and not self._verbose:
            return  # what follows the first bad step is its consequence
        if diagnosis is None:
            diagnosis = self._gone_through(optimizer)
        finding = self._finding(diagnosis, deferred)
        findings.append(finding)
        if self._stop or not early:
            self._dump(finding, diagnosis)
        if self._when_found is not None:
            self._when_found(self.document())
            if not early:
                notice = say("step {step} was not finite; the report follows when the program ends", step=self._number)
                self._log.say(f"[WARNING] {notice}")
        elif not early:
            self._log.say("\n".join(told(finding, diagnosis.notes)))
        if self._stop:
            raise NotFiniteError("\n".join(told(finding, diagnosis.notes)[: 1 if self._when_found else None]))

    def _finding(self, diagnosis: StepDiagnosis, deferred: list[tuple[CallResult, int]]) -> dict[str, Any]:
        seen = [Origin(result.operator.name, result.where, KINDS[kind]) for result, kind in deferred]
        if not diagnosis.origins and seen:
            diagnosis.origins = seen
            if diagnosis.ran:
                diagnosis.notes.append(
                    say("this did not happen again when the step ran again, so the inputs of the call are not known")
                )
        if not diagnosis.origins and not diagnosis.notes and self._mode is None:
            diagnosis.notes.append(say("no module of this step can run again; `--level operator` checks every result"))
        return {
            "step": self._number,
            "origins": [origin.document() for origin in diagnosis.origins[:8]],
            "notes": [note.render("en") for note in diagnosis.notes],
        }

    def _gone_through(self, optimizer: Optimizer | None) -> StepDiagnosis:
        memory = self._memory
        unwatched = self._number if not self._covers(self._number - 1) else None
        return self._examined(
            lambda: self._examiner.examine(memory.roots, memory.tape.calls, memory.losses, optimizer, unwatched)
        )

    def _examined(self, examine: Callable[[], StepDiagnosis]) -> StepDiagnosis:
        self._memory.paused = True
        active = self._mode is not None and self._mode.active
        if self._mode is not None:
            self._mode.active = False
        try:
            diagnosis = examine()
        except Exception as error:  # that the step is bad is known, and is said
            diagnosis = StepDiagnosis(
                notes=[say("the step could not be searched: {error}", error=f"{type(error).__name__}: {error}")]
            )
        finally:
            self._memory.paused = False
            if self._mode is not None:
                self._mode.active = active
        diagnosis.notes += self._memory.limits()
        if diagnosis.ran:
            diagnosis.notes += self._memory.omitted.messages()
        diagnosis.notes = list({note.render("en"): note for note in diagnosis.notes}.values())
        return diagnosis

    def _dump(self, finding: dict[str, Any], diagnosis: StepDiagnosis) -> None:
        """Write the call of a finding for replay, where that is asked for; that it could not be is a note."""
        if not self._dumps:
            return
        try:
            finding["dump"] = str(dump_first_call(self._folder, diagnosis, self._number))
        except Exception as error:  # a fault here must not cost the finding
            why = "; ".join(error.lines()) if isinstance(error, TorchferryError) else f"{error}"
            diagnosis.notes.append(say("the call could not be written: {error}", error=why))
        finding["notes"] = [note.render("en") for note in diagnosis.notes]


def _gradients(root: RootCall) -> list[Tensor]:
    """Return the gradients of a call's results, and those that the module's parameters have now."""
    return [
        *root.gradients.values(),
        *(parameter.grad for parameter in root.module.parameters() if parameter.grad is not None),
    ]


def _given_by(root: RootCall) -> list[Tensor]:
    """Return what a call is for."""
    return [*root.outputs, *_gradients(root)]
