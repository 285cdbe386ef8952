"""The text of a request for operators: a vendor's own sections, or an issue for its tracker. Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchferry.backends.requests import RequestFacts
from torchferry.core.messages import Message, say, say_in, say_plural, translatable
from torchferry.core.record import NamedTuple
from torchferry.ops.lists import OperatorList
from torchferry.ops.request import LACKING, OperatorTime, Requested, RequestItem

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

_TO_FILL = translatable("(to be filled in)")

_KIND = {"missing": translatable("interface missing"), "extended": translatable("function extended")}

_DEFINED = "https://github.com/pytorch/pytorch/blob/v{version}/aten/src/ATen/native/native_functions.yaml"


class RequestText(NamedTuple):
    """What a request is written from.

    Attributes:
        requested: What is asked for.
        known: What the plugin registers.
        facts: How the vendor wants to be asked.
        lang: Language of the text.
        title: What the target is called.
        device: Type of its device.
    """

    requested: Requested
    known: OperatorList
    facts: RequestFacts
    lang: str
    title: str
    device: str

    def render(self, message: Message) -> str:
        """Return a message in the language of the text."""
        return message.render(self.lang)


def request_text(text: RequestText) -> str:
    """Return the request."""
    lines = _sections(text) if text.facts.form == "sections" else _issue(text)
    return "\n".join(lines) + "\n"


def _plain(value: str) -> str:
    """Return a text of a file that is not trusted, on one line and without what a terminal would obey."""
    return _CONTROL.sub(" ", value)


def _cell(value: str) -> str:
    return _plain(value).replace("|", r"\|")


def _title(text: RequestText) -> str:
    items = text.requested.items
    names = ", ".join(f"`{item.need.name}`" for item in items[:3]) + (", ..." if len(items) > 3 else "")
    return text.render(
        say_plural("{count} operator for {target}: {names}", "{count} operators for {target}: {names}",
                   count=len(items), target=text.title, names=names)
    )  # fmt: skip


def _sections(text: RequestText) -> Iterator[str]:
    render = text.render
    yield f"# {_title(text)}"
    yield from ("", f"## {render(say('1. Background'))}", "")
    yield from _background(text)
    yield from ("", f"## {render(say('2. Summary'))}", "")
    yield from _summary(text)
    yield from ("", f"## {render(say('3. Operators'))}")
    for number, item in enumerate(text.requested.items, 1):
        yield from ("", f"### 3.{number} `{item.need.name}`")
        yield from ("", f"#### {render(say('Interface'))}", "")
        yield from _interface(text, item)
        yield from ("", f"#### {render(say('Precision baseline'))}", "")
        yield from _baseline(text, item)
        yield from ("", f"#### {render(say('Model information'))}", "")
        yield from _model(text, item)
    yield from ("", f"## {render(say('4. Contact'))}", "", render(say(_TO_FILL)))


def _issue(text: RequestText) -> Iterator[str]:
    render = text.render
    yield f"# {_title(text)}"
    if text.facts.label:
        yield from ("", render(say("label: {label}", label=text.facts.label)))
    yield ""
    yield from _background(text)
    yield ""
    yield from _summary(text)
    for item in text.requested.items:
        yield from ("", f"## `{item.need.name}`", "")
        yield from _interface(text, item)
        yield ""
        yield from _model(text, item)
        yield ""
        yield from _baseline(text, item)
    yield from ("", f"## {render(say_in('phase', 'Environment'))}", "")
    yield from _environment(text)


def _background(text: RequestText) -> Iterator[str]:
    render = text.render
    if text.requested.command:
        yield render(say("`{command}` needs these operators.", command=_plain(text.requested.command)))
    yield render(say("Source for the operators that the plugin has: {source}.", source=text.known.said()))
    if text.requested.without_card:
        yield render(say("torchferry examined the run without a card."))
    if text.requested.trace:
        first, *further = (_plain(render(each)) for each in text.requested.trace)
        yield from ("", render(say("Times are from a trace: {trace}", trace=first)))
        yield from (f"- {each}" for each in further)
    if text.facts.form == "sections":
        yield ""
        yield from _environment(text)
        yield render(say("- purpose of the model, and how urgent it is: {fill}", fill=say(_TO_FILL)))


def _environment(text: RequestText) -> Iterator[str]:
    known = text.known
    yield text.render(say("- plugin: {plugin} {version}", plugin=known.plugin, version=known.version or "?"))
    yield text.render(say("- card: {card}", card=known.card))
    yield text.render(say("- torch of the run: {version}", version=text.requested.torch or "?"))


def _summary(text: RequestText) -> Iterator[str]:
    heads = [
        say("no."), say("operator"), say("kind"), say("calls"), say("found"), say("acceptance"), say("wanted by"),
    ]  # fmt: skip
    if text.requested.trace:
        heads.insert(4, say("% of a step"))
    yield "| " + " | ".join(map(text.render, heads)) + " |"
    yield "|" + "---|" * len(heads)
    acceptance = text.facts.acceptance.render(text.lang).replace("{card}", text.known.card)
    acceptance = acceptance or text.render(say("equal to the CPU's result, see below"))
    for number, item in enumerate(text.requested.items, 1):
        cells = [
            str(number), f"`{item.need.name}`", text.render(say(_KIND[item.kind])), str(item.need.calls),
            _cell(text.render(item.found)), _cell(acceptance), text.render(say(_TO_FILL)),
        ]  # fmt: skip
        if text.requested.trace:
            cells.insert(4, _percent(item.time))
        yield "| " + " | ".join(cells) + " |"


def _interface(text: RequestText, item: RequestItem) -> Iterator[str]:
    need = item.need
    name = need.name.partition("::")[2]
    if need.schema:
        yield text.render(say("- schema: {schema}", schema=f"`{_plain(need.schema)}`"))
    if need.name.startswith("aten::") and text.requested.torch:
        yield text.render(
            say("- definition: `func: {name}` in {link}", name=name,
                link=_DEFINED.format(version=_plain(text.requested.torch)))
        )  # fmt: skip
    if need.dtypes:
        yield text.render(say("- dtypes of inputs and results: {dtypes}", dtypes=_plain(", ".join(need.dtypes))))
    constraints = list(_constraints(need.schema, need.shapes))
    if constraints:
        joined = "; ".join(text.render(each) for each in constraints)
        yield text.render(say("- must also hold: {constraints}", constraints=joined))
    if need.shapes:
        yield text.render(say("- calls in the run, with their number (strides of non-contiguous tensors in braces):"))
        yield ""
        yield "```text"
        yield from (f"{count:>7}  {_plain(shape)}" for shape, count in need.shapes.items())
        yield "```"


def _constraints(schema: str, shapes: Iterable[str]) -> Iterator[Message]:
    if "(a!)" in schema:
        yield say("it writes into an argument, which may have any strides")
    if any("{" in shape for shape in shapes):
        yield say("inputs are not contiguous")
    if "Tensor?" in schema:
        yield say("optional tensors may be absent")


def _baseline(text: RequestText, item: RequestItem) -> Iterator[str]:
    render = text.render
    version = text.requested.torch or "?"
    yield render(
        say(
            "The result that counts is that of PyTorch {version} on the CPU. Tolerance: the defaults of "
            "`torch.testing.assert_close` for the dtype of the result (float32: rtol 1.3e-6, atol 1e-5; float16: 1e-3, "
            "1e-5; bfloat16: 1.6e-2, 1e-5).",
            version=version,
        )
    )
    if item.folder:
        yield ""
        yield render(say("Attached: the folder `{folder}`; `DEVICE={device} pytest -s {folder}` repeats the call.",
                         folder=_plain(item.folder), device=text.device))  # fmt: skip
    if item.code:
        yield from ("", render(say("The most frequent call, against the CPU:")), "", "```python")
        yield item.code.rstrip()
        yield "```"


def _model(text: RequestText, item: RequestItem) -> Iterator[str]:
    need, render = item.need, text.render
    if need.modules:
        modules = ", ".join(f"`{_plain(name) or '-'}` {count}" for name, count in need.modules.items())
        yield render(say("- called in: {modules}", modules=modules))
    if need.phases:
        phases = ", ".join(f"{_plain(phase) or '-'} {count}" for phase, count in need.phases.items())
        yield render(say("- phase: {phases}", phases=phases))
    if item.places:
        yield render(say("- lines of the program: {places}", places=_plain(", ".join(item.places))))
    if need.bytes:
        yield render(
            say("- bytes of its tensors in the run, which are copied if the CPU computes it: {bytes}", bytes=need.bytes)
        )
    if item.kind == LACKING:
        yield render(say("- today: {found}", found=item.found))
    yield from (f"- {render(each)}" for each in _time(text, item))


def _time(text: RequestText, item: RequestItem) -> Iterator[Message]:
    """Yield what a trace says of the operator's time, or how it is measured."""
    measured = item.time
    if not text.requested.trace:
        yield say(
            "share of a step's time: not profiled; `torchferry profile -- COMMAND` records a trace of the program, "
            "and `ops request --trace PATH` fills this in"
        )
        return
    if measured is None:
        yield say(
            "share of a step's time: not measured, the trace has no call of it; where the trace was recorded, another "
            "operator may do its work"
        )
        return
    yield say("calls in a step: {calls}", calls=f"{measured.calls:.4g}")
    if measured.time is None or measured.share is None:
        yield say("share of a step's time: not measured, see the trace above")
    elif measured.of_host:
        yield say("share of a step's time: {share} % ({time} of {step} ms; time of the host in it and all it calls)",
                  **_figures(measured))  # fmt: skip
    else:
        yield say("share of a step's time: {share} % ({time} of {step} ms; the device's work for it and all it calls)",
                  **_figures(measured))  # fmt: skip
    if measured.shapes:
        yield say(
            "the trace has it with other shapes than the run above: {shapes}",
            shapes=_plain(", ".join(measured.shapes)),
        )


def _figures(measured: OperatorTime) -> dict[str, str]:
    return {
        "share": _percent(measured),
        "time": f"{(measured.time or 0.0) / 1e6:.3f}",
        "step": f"{measured.step / 1e6:.3f}",
    }


def _percent(measured: OperatorTime | None) -> str:
    share = None if measured is None else measured.share
    return "-" if share is None else f"{100 * share:.1f}"
