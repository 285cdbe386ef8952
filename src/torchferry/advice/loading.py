"""Advice on how batches reach the device: workers of the loader, pinned memory, the size of a batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.advice.model import Advice, CodePlace, Figure, ProposedEdit
from torchferry.advice.question import WORTH, AdviceQuestion
from torchferry.advice.training_code import CodeCall, Loop, TrainingProgram, edited, place_of
from torchferry.backends.card_table import described
from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say
from torchferry.ops.report import amount

_LOADER = "torch.utils.data.DataLoader"
_POSITIONS = {"num_workers": 5, "pin_memory": 7}
_NOT_TRAINING = re.compile(
    r"(?:^|_|\b)(?:val|valid|validation|eval|test|testing|infer|inference|demo|predict|sample(?!r))", re.I
)
_WORKERS = "4"
"""Workers that an edit proposes to begin with."""

_STARVED_ON_CPU = 0.3
"""Share of a step that waits for batches of several workers, from which on a trace of a CPU says that these are slow.

The workers have no cores of their own there: clean programs waited 5 to 23 % of their steps on two busy cores. A device
goes on while a batch is handed over; in its trace such waits are idle time.
"""

_EMPTY_ENOUGH = 0.5
"""Share of the card's memory that is free before a larger batch is worth a try."""


def training_loaders(program: TrainingProgram) -> list[CodeCall]:
    """Return the loaders that feed a step: those over which it loops, else those that no name calls otherwise."""
    calls = program.calls_of(_LOADER, "torch.utils.data.dataloader.DataLoader")
    looped = _looped_over(program)
    feeding = [call for call in calls if not looped.isdisjoint(_targets(call))]
    if feeding:
        return feeding
    loaders = []
    for call in calls:
        names = list(_targets(call))
        function = call.file.enclosing_function(call.node)
        names += [function.name] if function is not None else []
        dataset = call.node.args[0] if call.node.args else call.keywords.get("dataset")
        if dataset is not None:
            names += [node.id for node in ast.walk(dataset) if isinstance(node, ast.Name)]
        if not any(_NOT_TRAINING.search(name) for name in names):
            loaders.append(call)
    return loaders


def _looped_over(program: TrainingProgram) -> set[str]:
    """Return the names over which steps loop, and the loops around them: `for batch in tqdm(train_loader)`."""
    names: set[str] = set()
    for step in program.steps:
        node: ast.AST | None = step.node
        while node is not None:
            if isinstance(node, (ast.For, ast.AsyncFor)):
                names.update(each.id for each in ast.walk(node.iter) if isinstance(each, ast.Name))
                names.update(each.attr for each in ast.walk(node.iter) if isinstance(each, ast.Attribute))
            node = step.file.parents.get(node)
    return names


def _targets(call: CodeCall) -> Iterator[str]:
    parent = call.file.parents.get(call.node)
    while parent is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.keyword) and parent.arg:
            yield parent.arg
        parent = call.file.parents.get(parent)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Attribute):
                    yield node.attr


def _argument(call: CodeCall, name: str) -> ast.expr | None:
    """Return the expression that is given for a parameter of `DataLoader`; None where nothing is."""
    position = _POSITIONS.get(name)
    if position is not None and len(call.node.args) > position:
        return call.node.args[position]
    return call.keywords.get(name)


def _with_argument(call: CodeCall, name: str, value: str) -> tuple[ProposedEdit, ...]:
    """Return the edit that gives an argument of a call another value, or adds it."""
    given = call.keywords.get(name)
    try:
        if given is not None:
            return (edited(call.file, [(*call.file.span(given), value)]),) if isinstance(given, ast.Constant) else ()
        arguments = [*call.node.args, *call.node.keywords]
        if not arguments or _argument(call, name) is not None:
            return ()
        end = max(call.file.span(argument)[1] for argument in arguments)
    except ValueError:  # it stands in an f-string
        return ()
    return (edited(call.file, [(end, end, f", {name}={value}")]),)


def loader_workers(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise workers for a loader without them, or another look at a loader that is waited for."""
    figure: Figure | None = None
    waited_for = False
    if asked.timed is not None:
        loading = asked.timed.part("data")
        share = asked.timed.share(loading)
        if share is not None and share < WORTH:
            return
        figure = asked.figure(loading, say("waits for the next batch"))
        waited_for = share is not None and (asked.timed.summary.on_device or share >= _STARVED_ON_CPU)
    loaders = training_loaders(asked.program)
    few: list[CodeCall] = []
    options: list[CodePlace] = []
    edits: list[ProposedEdit] = []
    for call in loaders:
        given = _argument(call, "num_workers")
        value = 0 if given is None and not call.is_open else asked.program.value_of(call, given)
        if isinstance(value, int) and value <= 1:
            few.append(call)
            if isinstance(given, ast.Attribute) and (option := asked.program.option(given.attr)) is not None:
                options.append(place_of(option.file, option.node))
            edits += _with_argument(call, "num_workers", _WORKERS)
    if few:
        yield Advice(
            "loader-workers",
            say("let worker processes load the data"),
            say("without workers, or with one, the step waits while a batch is read and put together"),
            (*(place_of(call.file, call.node) for call in few), *dict.fromkeys(options)),
            figure,
            asked.effect("loader_workers"),
            tuple(edits),
            say("begin with as many workers as the machine has CPU cores for each card, and measure"),
        )
    elif waited_for:
        yield Advice(
            "slow-data",
            say("load the data faster"),
            say("the step waits for the next batch although worker processes may load it"),
            tuple(place_of(call.file, call.node) for call in loaders),
            figure,
            asked.effect("loader_workers"),
            (),
            say("more workers or a larger prefetch_factor, cheaper transforms, data that is decoded already"),
        )


def pinned_memory(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise pinned memory for loaders without it, where copies from other memory were seen or nothing was measured."""
    if asked.is_of_no_use("pinned_memory"):
        return
    figure: Figure | None = None
    if asked.timed is not None:
        if not asked.timed.summary.on_device:
            return  # a run on the CPU copies nothing
        copying = asked.timed.pageable_copies
        share = asked.timed.share(copying)
        if share is None or share < WORTH / 5:
            return
        figure = asked.figure(copying, say("copies from memory that is not pinned"))
    calls = []
    for call in training_loaders(asked.program):
        given = _argument(call, "pin_memory")
        value = False if given is None and not call.is_open else asked.program.value_of(call, given)
        if value is False:
            calls.append(call)
    if calls:
        yield Advice(
            "pinned-memory",
            say("load batches into pinned memory"),
            say("copies from pinned memory are faster, and run beside the step with non_blocking=True"),
            tuple(place_of(call.file, call.node) for call in calls),
            figure,
            asked.effect("pinned_memory"),
            tuple(edit for call in calls for edit in _with_argument(call, "pin_memory", "True")),
            say("copy with .to(device, non_blocking=True)"),
        )


def persistent_workers(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise workers that live as long as the loader, where epochs start them again and again."""
    if asked.timed is not None:
        share = asked.timed.share(asked.timed.part("data"))
        if share is None or share < WORTH:
            return
    if not any(_is_repeated(asked.program)):
        return
    calls = []
    for call in training_loaders(asked.program):
        workers = asked.program.value_of(call, _argument(call, "num_workers"))
        has_workers = isinstance(workers, int) and workers > 0
        if has_workers and not call.is_open and "persistent_workers" not in call.keywords:
            calls.append(call)
    if calls:
        yield Advice(
            "persistent-workers",
            say("keep the loader's workers between epochs"),
            say("the workers are started anew in each epoch, and read everything that they need again"),
            tuple(place_of(call.file, call.node) for call in calls),
            None,
            asked.effect("persistent_workers"),
            tuple(edit for call in calls for edit in _with_argument(call, "persistent_workers", "True")),
        )


def _is_repeated(program: TrainingProgram) -> Iterator[bool]:
    """Yield for each step whether a loop over epochs is around it in the same function, or calls it."""
    for step in program.steps:
        node = step.file.parents.get(step.node)
        while node is not None:
            if isinstance(node, Loop):
                yield True
                break
            node = step.file.parents.get(node)
        else:
            function = step.file.enclosing_function(step.node.body[0])
            yield function is not None and _called_in_loop(program, function.name)


def _called_in_loop(program: TrainingProgram, name: str) -> bool:
    for file, _ in program.files:
        uses = [*file.names.get(name, ()), *file.attributes.get(name, ())]
        for use in uses:
            node: ast.AST | None = use
            while node is not None:
                if isinstance(node, Loop):
                    return True
                node = file.parents.get(node)
    return False


def batch_size(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise a larger batch where the trace shows that most of the card's memory is never taken."""
    if asked.measured is None or not asked.measured.peak:
        return
    memory = [card.memory for card in described(asked.target.backend) if not isinstance(card.memory, Unknown)]
    if not memory:
        return
    peak, least = asked.measured.peak, min(memory)
    if peak > (1 - _EMPTY_ENOUGH) * least:
        return
    yield Advice(
        "batch-size",
        say("try a larger batch"),
        say("a larger batch gives the device more work for each kernel launch; the learning rate may have to follow"),
        (),
        Figure(
            say(
                "the run took at most {peak}, and the smallest known card of the target has {memory}",
                peak=amount(peak),
                memory=amount(least),
            )
        ),
        asked.effect("batch_size"),
        (),
        say("double the batch as long as the time of a step less than doubles"),
    )
