"""Advice on operators: attention, the optimizer, compilation, what goes to the CPU, what alone takes much of a step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.advice.model import Advice, CodePlace, Figure, ProposedEdit
from torchferry.advice.question import WORTH, AdviceQuestion
from torchferry.advice.training_code import CodeCall, Function, TrainingProgram, edited, place_of
from torchferry.backends.cards import default_card
from torchferry.backends.performance import PerformanceFact
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.profiling.formatting import milliseconds, printable
from torchferry.profiling.summary import TimeRow
from torchferry.rules.attention.attention_package import ATTENTION_PACKAGES
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.python import PythonFile

_DOMINATES = 0.25
"""Share of a step from which on one operator, neither a product nor attention, is named."""

_STARVED = 0.3
"""Share of a step in which the device waits for the host, from which on fewer and larger starts are advised."""

_DEFAULT_BACKEND = "inductor"
"""What torch.compile takes where no backend is named."""

_FUSED = frozenset(
    {"scaled_dot_product_attention", "flash_attn_func", "npu_fusion_attention", "memory_efficient_attention"}
)
_FUSED_ANYWHERE = _FUSED - {"flash_attn_func", "memory_efficient_attention"}
_PRODUCTS = frozenset({"matmul", "bmm", "einsum", "baddbmm"})
_CASTS = frozenset({"to", "type", "type_as", "float", "half", "bfloat16", "contiguous"})


def attention(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise the target's fused attention where attention is computed by its formula."""
    fact = asked.own_fact("attention")
    if fact is None:
        return
    figure = None
    if asked.timed is not None:
        time = asked.timed.plain_attention
        share = asked.timed.share(time)
        if share is None or share < WORTH:
            return
        figure = asked.figure(
            time, say("softmax and batched matrix products, as in attention without a fused operator,")
        )
    places = [place for file, _ in asked.program.files for place in _plain_attention(file)]
    if not places or not asked.program.steps:
        return
    yield Advice(
        "attention",
        say("compute attention with {name}", name=fact.use),
        say("one fused operator does not write the matrix of scores into memory; {note}", note=fact.note),
        tuple(places),
        figure,
        asked.effect("attention", fact),
        (),
        say(
            "what is added to the scores becomes `attn_mask`, dropout `dropout_p` while training; a factor that is "
            "not a number is multiplied into the queries"
        ),
    )


def _plain_attention(file: PythonFile) -> Iterator[CodePlace]:
    """Yield softmaxes between two products of one function, the first with a transposed operand."""
    for function in file.functions:
        inner = list(ast.walk(function))
        if any(isinstance(node, Function) and node is not function for node in inner):
            continue
        if any(last_name(node) in _FUSED for node in inner if isinstance(node, (ast.Name, ast.Attribute))):
            continue
        products = [node for node in inner if _is_product(node)]
        softmaxes = [node for node in inner if isinstance(node, ast.Call) and last_name(node.func) == "softmax"]
        if not softmaxes and any(
            isinstance(node, ast.Call) and last_name(node.func) in ("attn_drop", "attn_dropout") for node in inner
        ):
            continue
        for softmax in softmaxes:
            before = [node for node in products if _line(node) <= softmax.lineno and _turns(node)]
            behind = [node for node in products if _line(node) >= softmax.lineno and node not in before]
            if before and any(_weighs(file, function, softmax, product) for product in behind):
                yield place_of(file, softmax)
                break


def _weighs(file: PythonFile, function: ast.AST, softmax: ast.Call, product: ast.AST) -> bool:
    """Return whether a product takes the result of a softmax as it is, but for dropout and another dtype.

    What is mixed over heads, combined with other weights or returned is nothing that an operator of torch computes.
    """
    value: ast.AST = softmax
    while isinstance(parent := file.parents.get(value), ast.Attribute):
        call = file.parents.get(parent)
        if parent.attr not in _CASTS or not isinstance(call, ast.Call):
            return False
        value = call
    if any(node is value for node in ast.walk(product)):
        return True
    statement = file.statement(softmax)
    if not (
        isinstance(statement, ast.Assign) and statement.value is value and isinstance(statement.targets[0], ast.Name)
    ):
        return False
    name = statement.targets[0].id
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if any(_is_named(part, name) for part in parts):
                return False
        if not isinstance(node, ast.Assign):
            continue
        called = last_name(node.value) if isinstance(node.value, ast.Call) else ""
        if softmax.lineno < node.lineno < _line(product) and any(_is_named(target, name) for target in node.targets):
            if "drop" not in called and called not in _CASTS:
                return False
        if node.lineno < softmax.lineno and "proj" in called and isinstance(node.value, ast.Call):
            if any(_is_named(argument, name) for argument in node.value.args):
                return False
    return any(_is_named(node, name) for node in ast.walk(product))


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _line(node: ast.AST) -> int:
    return int(node.lineno)  # type: ignore[attr-defined]


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and last_name(node.func) in _PRODUCTS


def _turns(product: ast.AST) -> bool:
    """Return whether an operand of a product is transposed in its last two dimensions, as keys are."""
    for node in _operands(product):
        if isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
            return True
        if isinstance(node, ast.Call) and last_name(node.func) in ("transpose", "permute", "swapaxes"):
            if {_number(argument) for argument in node.args[-2:]} in ({-1, -2}, {2, 3}, {1, 2}):
                return True
        if isinstance(node, ast.Call) and last_name(node.func) == "einsum":
            return True
    return False


def _operands(product: ast.AST) -> Iterator[ast.AST]:
    """Yield the content of a product, but not the content of a product or softmax inside of it."""
    yield product
    todo = list(ast.iter_child_nodes(product))
    while todo:
        node = todo.pop()
        if not (_is_product(node) or (isinstance(node, ast.Call) and last_name(node.func) == "softmax")):
            yield node
            todo.extend(ast.iter_child_nodes(node))


def _number(node: ast.expr) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return sign * value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def without_flash(asked: AdviceQuestion) -> Iterator[Advice]:
    """Say what plain attention costs where a package of CUDA's attention kernels cannot come along."""
    fact = next(iter(asked.facts_about("without_flash")), None)
    found = [finding for finding in asked.findings if _is_about_flash(finding) and _belongs(asked.program, finding)]
    if not found or asked.is_of_no_use("attention") or _has_another_way(asked.program, found):
        return
    places = dict.fromkeys(CodePlace(each.location.path, each.location.line, each.snippet) for each in found)
    attention_fact = asked.own_fact("attention")
    use = (fact.use if fact is not None else "") or (attention_fact.use if attention_fact is not None else "")
    yield Advice(
        "without-flash-attention",
        say("replace the attention kernels of CUDA by those of the target, not by matrix products and softmax"),
        say(
            "these packages do not run on the target; attention without a fused operator is slower, and "
            "its memory grows with the square of the length"
        ),
        tuple(places),
        None,
        asked.effect("without_flash", fact),
        (),
        say("use {name}", name=use or "torch.nn.functional.scaled_dot_product_attention"),
    )


def _has_another_way(program: TrainingProgram, found: Iterable[Finding]) -> bool:
    """Return whether each import is one that the code goes on without, to attention that is fused on every device."""
    imports = [finding for finding in found if finding.location.path.endswith((".py", ".ipynb"))]
    return bool(imports) and all(each.grade is Grade.NOTE for each in imports) and program.says(_FUSED_ANYWHERE)


def _is_about_flash(finding: Finding) -> bool:
    if finding.lacks:
        return finding.lacks in ATTENTION_PACKAGES
    return rule_facts(finding.code).about is Subject.REQUIREMENT and any(
        name in finding.snippet for name in ATTENTION_PACKAGES
    )


def _belongs(program: TrainingProgram, finding: Finding) -> bool:
    """Return whether a place is in a program or in the list of what it requires; an image for CUDA is of no concern."""
    path = finding.location.path
    if path.endswith((".py", ".ipynb")):
        return path in program.paths or not program.steps
    folder = path.rpartition("/")[0]
    inside = not folder or any(step.file.path.startswith(f"{folder}/") for step in program.steps)
    return inside and path.endswith((".txt", ".toml", ".cfg", ".yml", ".yaml", ".in"))


def fused_optimizer(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise the vendor's fused optimizer in place of torch's."""
    figure = None
    if asked.timed is not None:
        share = asked.timed.share(asked.timed.optimizer)
        if share is None or share < WORTH:
            return
        figure = asked.figure(asked.timed.optimizer, say("steps of the optimizer"))
    if not asked.program.steps:
        return
    used: list[PerformanceFact] = []
    calls: list[CodeCall] = []
    edits: list[ProposedEdit] = []
    refused: set[str] = set()
    for fact in asked.facts_about("fused_optimizer"):
        if fact.unless and asked.program.says(fact.unless):
            continue
        of_fact = [call for call in asked.program.calls if _plain_name(call.name) in fact.replaces]
        if of_fact:
            used.append(fact)
        for call in of_fact:
            calls.append(call)
            edits += _renamed(call, fact)
            refused.update(name for name in call.keywords if fact.arguments and name not in fact.arguments)
    if not used:
        return
    reason = say("it updates all parameters with few kernel launches")
    if used[0].note.en:
        reason = say("{reason}; {note}", reason=reason, note=used[0].note)
    todo = say("import {module}", module=used[0].use.partition(".")[0])
    if refused:
        todo = say(
            "{first}; leave out {arguments}, which it does not take", first=todo, arguments=", ".join(sorted(refused))
        )
    if any(call.is_open for call in calls):
        todo = say(
            "{first}; check the arguments that are unpacked into the call: it may not take all of them", first=todo
        )
    yield Advice(
        "fused-optimizer",
        say("use the vendor's fused optimizer: {names}", names=", ".join(fact.use for fact in used)),
        reason,
        tuple(place_of(call.file, call.node) for call in calls),
        figure,
        asked.effect("fused_optimizer", used[0]),
        tuple(edits),
        todo,
    )


def _plain_name(name: str) -> str:
    """Return the name under which torch documents an optimizer: `torch.optim.adamw.AdamW` is `torch.optim.AdamW`."""
    parts = name.split(".")
    return ".".join((*parts[:2], parts[-1])) if parts[:2] == ["torch", "optim"] else name


def _renamed(call: CodeCall, fact: PerformanceFact) -> Iterator[ProposedEdit]:
    if (
        call.is_open
        or not call.is_direct
        or (fact.arguments and any(name not in fact.arguments for name in call.keywords))
    ):
        return
    if not fact.arguments or len(call.node.args) > 2:
        return
    try:
        yield edited(call.file, [(*call.file.span(call.node.func), fact.use)])
    except ValueError:  # it stands in an f-string
        return


def optimizer_step(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise the function of a lazy device that steps the optimizer and runs the graph at once."""
    fact = asked.own_fact("optimizer_step")
    if fact is None or asked.program.says({fact.use.rpartition(".")[2]}):
        return
    places: list[CodePlace] = []
    edits: list[ProposedEdit] = []
    for step in asked.program.steps:
        for node in ast.walk(step.node):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"):
                continue
            owner = node.func.value
            if "optim" in last_name(owner).lower() and not node.args and not node.keywords:
                places.append(place_of(step.file, node))
                edits.append(edited(step.file, [(*step.file.span(node), f"{fact.use}({step.file.text(owner)})")]))
    if places:
        yield Advice(
            "optimizer-step",
            say("step the optimizer with {name}", name=fact.use),
            say("{note}", note=fact.note),
            tuple(dict.fromkeys(places)),
            None,
            asked.effect("optimizer_step", fact),
            tuple(dict.fromkeys(edits)),
        )


def compile_backend(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise the vendor's backend where torch.compile names none, or fewer starts where the device runs dry."""
    fact = asked.own_fact("compile")
    if fact is None:
        return
    calls = [call for call in asked.program.calls_of("torch.compile") if not call.is_open]
    unnamed = []
    for call in calls:
        backend = call.keywords.get("backend")
        named = _DEFAULT_BACKEND if backend is None else string_value(backend)
        if fact.use != _DEFAULT_BACKEND and named in (_DEFAULT_BACKEND, "cudagraphs"):
            unnamed.append(call)
    figure = None
    if asked.timed is not None and asked.timed.summary.on_device:
        idle = asked.timed.part("idle")
        share = asked.timed.share(idle)
        if share is not None and share >= _STARVED:
            figure = asked.figure(idle, say("times in which the device waits for the host"))
    if unnamed:
        yield Advice(
            "compile-backend",
            say("name the backend of torch.compile: {name}", name=fact.use),
            say("the default, inductor, is not the backend that the plugin brings; {note}", note=fact.note)
            if fact.note.en
            else say("the default, inductor, is not the backend that the plugin brings"),
            tuple(place_of(call.file, call.node) for call in unnamed),
            figure,
            asked.effect("compile", fact),
            tuple(_with_backend(unnamed, fact.use)),
        )
    elif figure is not None and not calls and not asked.program.says({"compile"}):
        yield Advice(
            "compile",
            say('launch fewer and larger kernels: torch.compile with backend="{name}"', name=fact.use),
            say("the device is done before the host gives it the next operator"),
            (),
            figure,
            asked.effect("compile", fact),
            (),
            say('model = torch.compile(model, backend="{name}"), or a larger batch', name=fact.use),
        )


def _with_backend(calls: list[CodeCall], name: str) -> Iterator[ProposedEdit]:
    for call in calls:
        given = call.keywords.get("backend")
        try:
            if given is not None:
                yield edited(call.file, [(*call.file.span(given), f'"{name}"')])
            elif call.node.args or call.node.keywords:
                end = max(call.file.span(argument)[1] for argument in (*call.node.args, *call.node.keywords))
                yield edited(call.file, [(end, end, f', backend="{name}"')])
        except ValueError:  # it stands in an f-string
            continue


def cpu_fallback(asked: AdviceQuestion) -> Iterator[Advice]:
    """Name the operators that went to the CPU, and where the code calls them."""
    if asked.measured is None:
        return
    summary = asked.measured.summary
    for name, calls in summary.fallbacks:
        time = asked.measured.total_of(name)
        count = say(
            "{name} ran on the CPU; calls a step: {count}",
            name=printable(name),
            count=f"{calls / asked.measured.steps:g}",
        )
        share = asked.measured.share(time)
        if share is not None:
            count = say(
                "{count}; with its copies it takes {time} ms of a step of {step} ms ({share} %)",
                count=count,
                time=milliseconds(time),
                step=milliseconds(asked.measured.step),
                share=f"{100 * share:.0f}",
            )
        yield Advice(
            "cpu-fallback",
            say("keep {name} on the card", name=printable(name)),
            say("the plugin has no kernel for it: inputs are copied to the CPU and results back, and the device waits"),
            tuple(_places(asked, name)),
            Figure(count, share),
            asked.effect("cpu_fallback"),
            (),
            say(
                "write it with operators that the plugin has, or compute it once and not in each step; `torchferry "
                "ops` says what the plugin has"
            ),
        )


def host_processor(asked: AdviceQuestion) -> Iterator[Advice]:
    """Name the operators that the card computes on its own host processor, by the lists that the vendor publishes."""
    for found in _on_host_processor(asked):
        name, card = printable(found.row.name), default_card(asked.target.backend).name
        count = say("{name} of {dtype}; calls a step: {count}", name=name, dtype=found.dtype, count=f"{found.calls:g}")
        yield Advice(
            "host-processor",
            say("compute {name} in another dtype than {dtype}", name=name, dtype=found.dtype),
            say(
                "{card} computes it on its own host processor and not on its cores ({function})",
                card=card,
                function=found.function,
            ),
            tuple(_callers(asked.program, found.row.name)),
            Figure(count, found.share),
            asked.effect("host_processor"),
            (),
            say("use float32 or half precision where the values allow it, or compute it once and not in each step"),
        )


class _HostProcessorRow(NamedTuple):
    row: TimeRow
    dtype: str
    function: str
    calls: float
    share: float | None


def _on_host_processor(asked: AdviceQuestion) -> Iterator[_HostProcessorRow]:
    """Yield what the card's host processor computes and what is worth a word, with the function of the library."""
    if asked.measured is None or asked.limits is None:
        return
    card = default_card(asked.target.backend).name
    for name, rows in asked.measured.by_dtype().items():
        slow = asked.limits.slow(name.removeprefix("aten::"), card)
        for dtype in sorted(rows.keys() & slow.keys()):
            row = rows[dtype]
            share = asked.measured.share(asked.measured.time_of(row))
            if share is None or share >= WORTH:
                yield _HostProcessorRow(row, dtype, slow[dtype], row.calls / asked.measured.steps, share)


def _places(asked: AdviceQuestion, operator: str) -> Iterator[CodePlace]:
    """Yield where the trace says that an operator was called; else where the code may call it."""
    assert asked.measured is not None
    told = asked.measured.fallback_places.get(operator, ())
    found = False
    for file, _ in asked.program.files:
        lines = file.source.text.split("\n")
        for place in told:
            name, _, line = place.rpartition(":")
            number = int(line) if line.isdecimal() and len(line) < 8 else 0
            if file.path.rpartition("/")[2] == name and 0 < number <= len(lines):
                found = True
                yield CodePlace(file.path, number, lines[number - 1].strip())
    if not found:
        yield from _callers(asked.program, operator)


def _callers(program: TrainingProgram, operator: str) -> Iterator[CodePlace]:
    """Yield where the code calls what an operator of torch is called in Python."""
    word = operator.partition("::")[2].partition(".")[0].strip("_")
    words = {word, word.removeprefix("linalg_"), word.removeprefix("special_"), word.removeprefix("fft_")}
    seen: set[CodePlace] = set()
    for file, _ in program.files:
        for name in sorted(words):
            for call in file.calls_by_name(name):
                place = place_of(file, call)
                if place not in seen:
                    seen.add(place)
                    yield place


def slow_operator(asked: AdviceQuestion) -> Iterator[Advice]:
    """Name an operator that alone takes much of a step although it computes little."""
    if asked.timed is None or asked.timed.slowest is None:
        return
    row = asked.timed.slowest
    time = asked.timed.own_time_of(row)
    share = asked.timed.share(time)
    explained = {name for name, _ in asked.timed.summary.fallbacks}
    explained |= {found.row.name for found in _on_host_processor(asked)}
    if share is None or share < _DOMINATES or row.name in explained:
        return
    yield Advice(
        "slow-operator",
        say("examine {name}", name=printable(row.name)),
        say("an operator that is neither a product nor a convolution should not take so much of a step"),
        tuple(_callers(asked.program, row.name)),
        asked.figure(time, say("calls of {name}", name=printable(row.name))),
        asked.effect("slow_operator"),
        (),
        say(
            "`torchferry profile show TRACE --by shape` says for which shapes; report it to the vendor with "
            "`torchferry ops request`"
        ),
    )
