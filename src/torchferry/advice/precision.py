"""Advice on formats: the switch of float32 products, automatic mixed precision and its dtype, channels_last."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.advice.measured import lost_layout
from torchferry.advice.model import Advice, CodePlace, Figure, ProposedEdit
from torchferry.advice.question import WORTH, AdviceQuestion
from torchferry.advice.training_code import TrainingProgram, edited, nodes_of_each_step, place_of
from torchferry.core.messages import say
from torchferry.profiling.formatting import printable
from torchferry.source.flow.syntax import last_name
from torchferry.source.python import PythonFile

_MIXED = frozenset(
    {"autocast", "amp", "GradScaler", "bfloat16", "float16", "half", "bf16", "fp16", "mixed_precision", "Accelerator"}
    | {"deepspeed", "Fabric", "precision", "LightningModule", "MixedPrecision", "apex"}
)
"""Names of code that computes in a shorter dtype, or lets a framework's option decide it."""

_OF_AUTOCAST = frozenset({"autocast", "amp", "GradScaler"})
"""Of these, those of torch's own autocast, which may be switched off."""

_SHORT_FLOAT32 = frozenset(
    {"allow_tf32", "set_float32_matmul_precision", "fp32_precision", "allow_hf32", "enable_tf32", "tf32"}
)
_LAYOUTS = frozenset({"channels_last", "channels_last_3d"})
_CONVOLUTIONS = frozenset({"Conv2d", "ConvTranspose2d", "Conv3d"})
_FEW_CONVOLUTIONS = 3
"""Places with convolutions below which a model is not taken for a convolutional network."""

_TAKES_BFLOAT16_FOR_NATIVE = frozenset({"emulated", "missing"})


def _steps(program: TrainingProgram) -> tuple[CodePlace, ...]:
    return tuple(place_of(step.file, step.node) for step in program.steps)


def _float32(asked: AdviceQuestion, *, convolutions: bool = True) -> tuple[bool, Figure | None]:
    """Return whether products may be in float32, and what the trace says of them."""
    if asked.measured is None:
        return True, None
    time = asked.measured.float32_products(convolutions=convolutions)
    if time is None:
        return asked.timed is None, None
    if asked.timed is None:
        return time > 0, Figure(say("the trace has products of float32"))
    share = asked.timed.share(time)
    if share is None or share < WORTH:
        return False, None
    said = say("products and convolutions of float32") if convolutions else say("matrix products of float32")
    return True, asked.figure(time, said)


def mixed_precision(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise autocast in the dtype that the card computes natively, where all is computed in float32."""
    fact = asked.own_fact("mixed_precision")
    off = tuple(_switched_off(asked.program))
    mentioned = asked.program.says(_MIXED - _OF_AUTOCAST - _only_in_autocast(asked.program) if off else _MIXED)
    is_float32, figure = _float32(asked)
    if fact is None or not is_float32 or (mentioned and figure is None) or not (asked.program.steps or figure):
        return
    title = say("compute in mixed precision, in {dtype}", dtype=fact.use)
    if mentioned or off:
        title = say("switch mixed precision on, in {dtype}", dtype=fact.use)
    device = asked.target.backend.DEVICE_TYPE
    yield Advice(
        "mixed-precision",
        title,
        say(
            "the card multiplies {dtype} natively and faster than float32, and each tensor takes half the memory",
            dtype=fact.use,
        ),
        off or (*_autocasts(asked.program), *([] if mentioned else _steps(asked.program))),
        figure,
        asked.effect("mixed_precision"),
        (),
        say(
            'compute model and loss in `with torch.autocast("{device}", dtype=torch.{dtype}):`{scaler}; {note}',
            device=device,
            dtype=fact.use,
            scaler=say(', and scale the loss with torch.amp.GradScaler("{device}")', device=device)
            if fact.use == "float16"
            else "",
            note=fact.note,
        ),
    )


def _switched_off(program: TrainingProgram) -> Iterator[CodePlace]:
    """Yield the autocasts of a program where all of them are off by default: `enabled=False`, an option not given."""
    calls = [call for call in program.calls if call.name.rpartition(".")[2] == "autocast"]
    states = []
    for call in calls:
        given = call.keywords.get("enabled")
        if given is None and call.name.endswith("amp.autocast") and call.node.args and "torch.amp" not in call.name:
            given = call.node.args[0]  # of a device's own, the first argument is the switch
        states.append(program.value_of(call, given))
    if states and all(state is False or state == 0 for state in states if state is not None) and None not in states:
        yield from (place_of(call.file, call.node) for call in calls)


def _only_in_autocast(program: TrainingProgram) -> frozenset[str]:
    """Return the dtypes that a program names for autocast alone."""
    named = frozenset({"bfloat16", "float16"})
    elsewhere = {
        name
        for file, _ in program.files
        for name in named
        for node in file.attributes.get(name, ())
        if not isinstance(keyword := file.parents.get(node), ast.keyword)
        or last_name(file.parents.get(keyword) or keyword) != "autocast"
    }
    return named - elsewhere


def _autocasts(program: TrainingProgram) -> Iterator[CodePlace]:
    for file, _ in program.files:
        for call in file.calls_by_name("autocast"):
            yield place_of(file, call)


def mixed_dtype(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise another dtype of autocast where the card has to emulate the one that is named."""
    fact = asked.own_fact("mixed_precision")
    if fact is None:
        return
    slow = {name for name, rule in asked.target.backend.DTYPES.items() if rule in _TAKES_BFLOAT16_FOR_NATIVE}
    places: list[CodePlace] = []
    edits: list[ProposedEdit] = []
    for file, _ in asked.program.files:
        for keyword in file.keywords.get("dtype", ()):
            call = file.parents.get(keyword)
            named = last_name(keyword.value)
            if isinstance(call, ast.Call) and last_name(call) == "autocast" and named in slow and named != fact.use:
                places.append(place_of(file, keyword.value))
                edits.append(edited(file, [(*file.span(keyword.value), f"torch.{fact.use}")]))
    if places:
        yield Advice(
            "mixed-dtype",
            say("name {dtype} in autocast", dtype=fact.use),
            say("the card computes the named dtype by converting it to another one; {note}", note=fact.note),
            tuple(places),
            None,
            asked.effect("mixed_precision"),
            tuple(edits),
            say("float16 needs a gradient scaler: torch.amp.GradScaler") if fact.use == "float16" else None,
        )


def float32_switch(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise the vendor's shorter format of float32 products, where float32 is what the program computes in."""
    fact = asked.own_fact("float32_switch")
    is_float32, figure = _float32(asked, convolutions=fact is None or fact.convolutions)
    if fact is None or not is_float32 or not (asked.program.steps or figure):
        return
    program = asked.program
    if program.says(_SHORT_FLOAT32) or (program.says(_MIXED) and (figure is None or figure.share is None)):
        return
    setting, _, _ = fact.use.partition(" ")
    variable = "." not in setting
    edits = () if variable else tuple(_behind_imports(program, fact.use))
    yield Advice(
        "float32-switch",
        say("set {setting}", setting=fact.use),
        say("products of float32 then run on the card's matrix units; {note}", note=fact.note),
        _steps(program),
        figure,
        asked.effect("float32_switch"),
        edits,
        say("compare the training curve, because mantissas lose bits; with mixed precision the setting brings little"),
    )


def _behind_imports(program: TrainingProgram, line: str) -> Iterator[ProposedEdit]:
    """Yield the edit that sets something behind the imports of the file with the first step."""
    for step in program.steps[:1]:
        last = None
        binds = False
        for statement in step.file.tree.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                last = statement
                binds |= any(alias.name == "torch" and alias.asname is None for alias in statement.names)
        if last is not None and binds:
            _, end = step.file.span(last)
            text = step.file.source.text
            stop = text.find("\n", end)
            stop = len(text) if stop < 0 else stop
            yield edited(step.file, [(stop, stop, f"\n\n{line}")])


def channels_last(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise channels_last for convolutional networks, where the vendor says that it helps."""
    fact = asked.own_fact("channels_last")
    if fact is None or asked.program.says(_LAYOUTS):
        return
    figure = None
    if asked.measured is not None:
        convolving = sum(
            asked.measured.time_of(row)
            for row in asked.measured.summary.rows()
            if row.name in ("aten::convolution", "aten::convolution_backward")
        )
        share = asked.measured.share(convolving)
        if convolving == 0 or (share is not None and share < WORTH) or asked.measured.layouts.get("channels_last"):
            return
        figure = asked.figure(convolving, say("convolutions, whose inputs are in the order of NCHW,"))
    elif not asked.program.steps or not any(_is_convolutional(file) for file, _ in asked.program.files):
        return
    yield Advice(
        "channels-last",
        say("keep images in channels_last (NHWC)"),
        say("the vendor's convolutions are faster in this order; {note}", note=fact.note),
        tuple(_called_models(asked.program)) or _steps(asked.program),
        figure,
        asked.effect("channels_last"),
        (),
        say(
            "model = model.to(memory_format=torch.channels_last), and the same with each batch of images before the "
            "model is called"
        ),
    )


def _is_convolutional(file: PythonFile) -> bool:
    """Return whether a file is of a network that mostly convolves."""
    convolutions = sum(_calls(file, name) for name in _CONVOLUTIONS)
    return (
        convolutions >= _FEW_CONVOLUTIONS and convolutions >= _calls(file, "Linear") and not _calls(file, "LayerNorm")
    )


def _calls(file: PythonFile, name: str) -> int:
    return sum(1 for _ in file.calls_by_name(name))


def _called_models(program: TrainingProgram) -> Iterator[CodePlace]:
    """Yield where the steps call something that is called a model."""
    for step in program.steps:
        for node in nodes_of_each_step(step):
            if isinstance(node, ast.Call) and last_name(node.func).lower() in ("model", "net", "network", "ddp_model"):
                yield place_of(step.file, node)
                break


def layout_lost(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise another look at channels_last that only some convolutions of a step have."""
    if asked.measured is None or asked.is_of_no_use("channels_last"):
        return
    lost = lost_layout(asked.measured)
    if lost is None:
        return
    places = []
    for file, _ in asked.program.files:
        for word in sorted(_LAYOUTS):
            nodes = (*file.attributes.get(word, ()), *file.names.get(word, ()))
            places += [place_of(file, node) for node in nodes]
    yield Advice(
        "layout-lost",
        say("keep channels_last through the whole model"),
        say("an operation returns its result in another order, and the convolutions after it compute in that order"),
        tuple(dict.fromkeys(places)),
        Figure(
            say(
                "convolutions of a step with inputs in channels_last: {kept}; without: {lost}, the first of "
                "them in {module}",
                kept=f"{lost.kept:g}",
                lost=f"{lost.lost:g}",
                module=printable(lost.module) or "?",
            ),
            asked.measured.share(lost.time),
        ),
        asked.effect("channels_last"),
        (),
        say(
            "look for .contiguous(), .view(), .reshape() or einops before this module, and for parameters that were "
            "added after the model was converted"
        ),
    )
