"""What the texts of a hand-over say: figures from the evidence, and a gap for each that is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.handover.arguments import ArgumentForm
from torchferry.handover.evidence import AcceptEvidence
from torchferry.handover.request import HandoverFacts, HandoverRequest
from torchferry.handover.run_scripts import script_values, shell_arguments
from torchferry.handover.templates import gap

_SPEED = re.compile(r"ips|fps|throughput|samples|imgs?/|speed|tokens|time|second|s/step", re.IGNORECASE)


def template_values(request: HandoverRequest, facts: HandoverFacts) -> dict[str, str]:
    """Return all values that templates may name; what is not known is a gap.

    Raises:
        UsageError: the user gives a value that no template has.
    """
    form, lang, evidence = request.form, request.lang, request.evidence

    def known(text: str, missing: Message) -> str:
        return _plain(text) or gap(missing, lang)

    def asked(name: str, missing: Message) -> str:
        return gap(say("{missing}: --set {name}=VALUE", missing=missing, name=name), lang)

    source: Mapping[str, str] = {} if evidence is None else evidence.source
    data: Mapping[str, str] = {} if evidence is None else evidence.data
    card = say("model of the card: `torchferry accept` on the card")
    values = {
        "model": facts.model,
        "model_id": facts.model_id,
        "folder": facts.folder,
        "domain": request.domain,
        "program": request.program,
        "plugin": "torch" if request.target is None else request.target.backend.PLUGIN,
        "target_title": "-" if request.target is None else request.target.title.render(lang),
        "processes": str(form.processes if facts.is_distributed else 1),
        "date": request.today,
        "overview": facts.overview or asked("overview", say("what the model is")),
        "team": gap(say("name of the team: --team"), lang),
        "dataset": known(data.get("name", ""), say("name of the data set: --dataset")),
        "data_where": _plain(data.get("where", "")) or asked("data_where", say("how to get the data and prepare it")),
        "source_url": known(source.get("url", ""), say("address of the source: --source-url")),
        "source_commit": known(source.get("commit", ""), say("commit of the source: --commit")),
        "licence": known(source.get("licence", "") or ", ".join(facts.licence), say("the source has no licence file")),
        "self_test": asked("self_test", say("who ran the training with README.md alone, and whether it worked")),
        "baseline_device": known(
            "" if evidence is None else evidence.baseline_device,
            say("the CUDA card: `baseline.device` of torchferry.accept.toml"),
        ),
        "card": known("" if evidence is None or evidence.rehearsal else evidence.card, card),
        "target_command": known(
            "" if evidence is None else evidence.command, say("command of the run on the card: `torchferry accept`")
        ),
        "versions": _versions(evidence) or gap(say("versions on the card: `torchferry accept` on the card"), lang),
        "run_time": _seconds(evidence) or gap(say("run time on the card: `torchferry accept` on the card"), lang),
        "results_rows": "\n".join(_results(evidence, lang)),
        "changed_rows": "\n".join(f"- `{_plain(path)}`" for path in facts.changed)
        or gap(say("which files were changed: --original DIR"), lang),
        "addresses": "yes" if facts.addresses else "",
        "address_rows": "\n".join(_addresses(request, facts)),
        **_levels(evidence, lang),
        **_commands(request, facts),
        **script_values(form, facts.parameters, lang),
        "description_literal": repr(f"{facts.model}: {request.program}"),
        "model_literal": repr(facts.model),
        "program_parts": repr(request.program.split("/")),
    }
    for name, text in request.said.items():
        if name not in values:
            raise UsageError(
                say("--set {name}: the form has no text of this name", name=name),
                say("known: {names}", names=", ".join(sorted(values))),
            )
        if text:
            values[name] = _plain(text)
    return values


def _plain(text: str) -> str:
    """Return a text that is not trusted on one line, and without what closes a table or a template."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return shown.replace("{{", "{ {")


def _commands(request: HandoverRequest, facts: HandoverFacts) -> dict[str, str]:
    """Return the commands that start the model, by the arguments that the program has."""
    taken, form = facts.parameters.taken, request.form
    device = "" if request.target is None else request.target.backend.DEVICE_TYPE
    argument = taken.get("device")
    # the program says itself that it knows the device; a number of a card, or another word, would be a guess
    takes_device = argument is not None and bool(device) and device in (*argument.choices, *_words(argument.default))
    data = next((name for name in ("dataset_path", "data_path") if name in taken), "")

    def started(more: str, place: str) -> str:
        words = [f"python run_{facts.model_id}.py", f"--model_name {shlex.quote(facts.model)}", more]
        words += [f"--device {device}"] if takes_device else []
        words += [f"--dataset_path {place}"] if data else []
        words += [f"--{name} True" for name in ("autocast", "grad_scale") if name in taken]
        return " ".join(word for word in words if word)

    cards = form.processes if facts.is_distributed else 1
    two = f"--nnode 2 --node_rank {{0 | 1}} --master_addr <ip_address> --nproc_per_node {4 * cards}"
    given = {"device": device} if takes_device else {}
    short = {"step": '"${STEPS:-100}"'} if "step" in taken else {"epoch": "1"}
    if "autocast" in taken and taken["autocast"].form is not ArgumentForm.VALUE:
        given["autocast"] = ""
    return {
        "takes_data": "yes" if data else "",
        "distributed": "yes" if facts.is_distributed else "",
        "data_argument": " --data_path=<DIR>" if data else "",
        "run_one_card": started(f"--nproc_per_node {cards}", "<dataset_path>"),
        "run_eight_cards": started(f"--nproc_per_node {8 * cards}", "<dataset_path>"),
        "run_two_machines": started(two, "<dataset_path>"),
        "run_test": started(f"--nproc_per_node {cards}", '"$DATASET_PATH"'),
        "program_shell": shlex.quote(request.program),
        "shell_arguments": shell_arguments(facts.parameters, {**given, **({data: '"$data_path"'} if data else {})}),
        "shell_short": shell_arguments(facts.parameters, short),
    }


def _words(default: str) -> list[str]:
    return re.findall(r"\w+", default)


def _versions(evidence: AcceptEvidence | None) -> str:
    if evidence is None or not evidence.versions:
        return ""
    return "\n".join(f"- {_plain(name)} {_plain(version)}" for name, version in evidence.versions.items())


def _seconds(evidence: AcceptEvidence | None) -> str:
    return "" if evidence is None or evidence.seconds is None else f"{evidence.seconds:.0f} s"


def _results(evidence: AcceptEvidence | None, lang: str) -> Iterator[str]:
    """Yield the rows of the table of results: what, CUDA's figure, the card's."""
    cuda = gap(say("figure of CUDA: `baseline.metrics` of torchferry.accept.toml"), lang)
    card = gap(say("figure of the card: `torchferry accept` on the card"), lang)
    metrics = () if evidence is None else evidence.metrics
    for metric in metrics:
        yield f"| {_cell(metric.name)} | {_cell(metric.baseline) or cuda} | {_cell(metric.measured) or card} |"
    if not metrics:
        yield f"| {gap(say('metric of the model'), lang)} | {cuda} | {card} |"
    if not any(_SPEED.search(metric.name) for metric in metrics):
        step = None if evidence is None else evidence.seconds_per_step
        yield f"| {say('seconds per step').render(lang)} | {cuda} | {card if step is None else f'{step:.4g}'} |"
    if evidence is not None and evidence.seconds is not None:
        yield f"| {say('run time').render(lang)} | - | {_seconds(evidence)} |"
    if evidence is not None and evidence.peak_memory is not None:
        yield f"| {say('peak memory').render(lang)} | - | {evidence.peak_memory / 2**20:.0f} MiB |"


def _cell(text: str) -> str:
    return _plain(text).replace("|", r"\|")


def _levels(evidence: AcceptEvidence | None, lang: str) -> dict[str, str]:
    """Return the states of a model that a zoo may want, as far as the evidence says something of them."""
    on_card = evidence is not None and not evidence.rehearsal
    has_baseline = evidence is not None and any(metric.baseline for metric in evidence.metrics)
    accepted = on_card and evidence is not None and evidence.verdict == "accepted"
    needs_card = gap(say("`torchferry accept` on the card, or --set"), lang)
    person = gap(say("--set level_migration, level_tuning, level_speed"), lang)
    return {
        "level_gpu": "OK"
        if has_baseline
        else gap(say("figure of CUDA: `baseline.metrics` of torchferry.accept.toml"), lang),
        "level_migration": person,
        "level_function": "OK" if on_card and evidence is not None and evidence.seconds is not None else needs_card,
        "level_precision": "OK" if accepted and any(each.measured for each in evidence.metrics) else needs_card,  # type: ignore[union-attr]
        "level_tuning": person,
        "level_speed": person,
    }


def _addresses(request: HandoverRequest, facts: HandoverFacts) -> Iterator[str]:
    lang = request.lang
    url = "" if request.evidence is None else request.evidence.source.get("url", "")
    commit = "" if request.evidence is None else request.evidence.source.get("commit", "")
    url, commit = request.said.get("source_url") or url, request.said.get("source_commit") or commit
    for address in facts.addresses:
        missing = gap(say("address of this file in the source"), lang)
        place = f"{url.removesuffix('.git')}/blob/{commit}/{address.path}" if url and commit else missing
        used = say("in a comment") if address.in_comment else say("in the code")
        kind = say("from the source").render(lang)
        file = f"{facts.model}/{address.path}"
        yield f"| {kind} | {place} | {_cell(file)} | {_cell(address.address)} | {used.render(lang)} |"
