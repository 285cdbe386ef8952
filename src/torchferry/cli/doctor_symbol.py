"""`torchferry doctor symbol`: why a library has a symbol that nothing defines, and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import click

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say, say_plural
from torchferry.core.progress import doing
from torchferry.core.terminal import print_data, print_text
from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Host
from torchferry.doctor.report import shown
from torchferry.doctor.symbols.elf import architecture_of, read_library
from torchferry.doctor.symbols.owners import TargetVersions
from torchferry.doctor.symbols.verdicts import (
    Explanation,
    SymbolSearch,
    SymbolVerdict,
    explain,
    explain_library,
    missing_library,
)

_MESSAGE = re.compile(r"(?:(?<![^\s:\"'])(?P<library>/[^\s:\"']*):\s*)?undefined symbol:\s*(?P<symbol>[\w.$@]+)")
_NOT_FOUND = re.compile(r"(?<![\w.+-])(?P<library>lib[\w.+-]{1,200}): cannot open shared object file")
_SYMBOL = re.compile(r"[A-Za-z_][\w.$@]*\Z")
_MOST_NAMES = 5


@click.command("symbol")
@click.argument("subject", metavar="LIB|MESSAGE")
@click.option(
    "--symbol", "symbols", multiple=True, metavar="NAME", help="Explain this symbol of LIB, and no other; repeatable."
)
@click.option("--sdk", multiple=True, type=click.Path(exists=True, path_type=Path), help="Folder of a toolkit.")
@click.option(
    "--sources", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sources of LIB."
)
@click.option(
    "--pytorch-src", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A checkout of PyTorch."
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.pass_obj
def command(
    choices: object,
    subject: str,
    symbols: tuple[str, ...],
    sdk: tuple[Path, ...],
    sources: tuple[Path, ...],
    pytorch_src: Path | None,
    output_format: str,
) -> None:
    """Explain "undefined symbol": who should have it, why it is missing, what to do.

    LIB is a shared library, or MESSAGE is what the loader said, such as "mine.so: undefined symbol: _ZN3c10..." or
    "libatb.so: cannot open shared object file". The library is read, not loaded or run. Ends with 1 when a symbol or a
    library is missing.

    \b
    torchferry doctor symbol build/mine.so
    torchferry doctor symbol mine.so --sources csrc --sdk /opt/toolkit --pytorch-src ../pytorch
    torchferry doctor symbol "ImportError: /x/mine.so: undefined symbol: _ZN2at4cuda..."
    """
    lang = getattr(choices, "lang", "") or language()
    message = _MESSAGE.search(subject)
    library = (message["library"] or "") if message is not None else subject
    path = Path(library if message is None or ".so" in library else "")
    wanted = [message["symbol"]] if message is not None else list(symbols)
    host = Host()
    search = _search(host, getattr(choices, "target", ""), sdk, sources, pytorch_src)
    with doing(say("looking for symbols")):
        absent = _NOT_FOUND.search(subject) if message is None else None
        explanation: Explanation | None = None
        verdicts: tuple[SymbolVerdict, ...]
        if absent is not None:
            verdicts = (missing_library(absent["library"], search),)
        elif message is not None and not path.is_file():
            verdicts = explain(wanted, search)
        elif message is None and not path.exists() and _SYMBOL.match(subject) and "." not in subject:
            verdicts = explain([subject], search)
        else:
            explanation = explain_library(read_library(path), search, wanted)
            verdicts = explanation.verdicts
            _refuse_absent(explanation, wanted)
    if output_format == "json":
        print_data(json_text(_document(explanation, verdicts, lang), indent=2))
    else:
        print_text(*_lines(explanation, verdicts, search, lang))
    wrong = verdicts or (explanation is not None and (explanation.loaded.missing or explanation.loaded.other))
    sys.exit(exitcodes.FINDINGS if wrong else exitcodes.CLEAN)


def _search(
    host: Host, target: str, sdk: Iterable[Path], sources: Iterable[Path], pytorch: Path | None
) -> SymbolSearch:
    names = [target] if target not in ("", "auto") else list(registry.built_in())
    targets = [Target.named(name) for name in names]
    contexts = [CheckContext(host, each) for each in targets]
    common = contexts[0].search_path  # the system's own libraries belong to no toolkit
    folders = [folder for each in contexts for folder in each.requirements.sdk.folders if folder not in common]
    toolkits = [Path(folder) for folder in folders if Path(folder).is_dir()]

    @cache
    def versions(target: str) -> TargetVersions:
        context = CheckContext(host, Target.named(target))
        return TargetVersions(context.driver_version[0], context.sdk_version[0], context.plugin)

    torch = next((each for each in metadata.distributions(name="torch")), None)
    return SymbolSearch(
        contexts[0].search_path,
        tuple(dict.fromkeys(str(each.backend.PLUGIN) for each in targets)),
        [*sdk, *dict.fromkeys(toolkits)],
        pytorch,
        tuple(sources),
        torch.version if torch is not None else "",
        versions,
    )


def _refuse_absent(explanation: Explanation, wanted: Iterable[str]) -> None:
    """Refuse a symbol that the library does not ask for: nothing about it could be explained."""
    asked = {*explanation.library.undefined, *explanation.library.weak}
    for symbol in wanted:
        if symbol not in asked:
            raise UsageError(
                say(
                    "`{symbol}` is not an undefined symbol of {library}",
                    library=explanation.library.path,
                    symbol=symbol,
                ),
                say("give the symbol as the loader prints it, such as _ZN3c105ErrorC1Ev"),
            )


def _lines(
    explanation: Explanation | None, verdicts: tuple[SymbolVerdict, ...], search: SymbolSearch, lang: str
) -> Iterable[str]:
    if explanation is not None:
        library = explanation.library
        count = say_plural(
            "{count} symbol that nothing defines", "{count} symbols that nothing defines", count=len(verdicts)
        )
        yield f"{shown(library.path)}: {count.render(lang)}"
        this_machine = architecture_of(Path("/proc/self/exe"))
        if this_machine and library.machine != this_machine:
            other = say(
                "the library is for {machine}, but this machine is {own}", machine=library.machine, own=this_machine
            )
            yield "  " + other.render(lang)
        for name, needed_by in explanation.loaded.missing:
            verdict = missing_library(name, search, needed_by)
            text = say("{name}: {cause}", name=name, cause=verdict.cause)
            yield "  " + shown(text.render(lang))
            yield "    " + say("next: {advice}", advice=shown(verdict.advice.render(lang))).render(lang)
        for name, file in explanation.loaded.other:
            text = say("{name} exists ({file}), but is for another architecture or damaged", name=name, file=file)
            yield "  " + shown(text.render(lang))
    groups: dict[tuple[str, str, str], list[SymbolVerdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.kind, verdict.owner, verdict.cause.render(lang)), []).append(verdict)
    for (_, _, cause), members in groups.items():
        yield ""
        for verdict in members[:_MOST_NAMES]:
            yield shown(verdict.readable[:300])
            if verdict.readable != verdict.symbol:
                yield "  " + shown(verdict.symbol[:300])
        if len(members) > _MOST_NAMES:
            yield say("... and {count} more of the same", count=len(members) - _MOST_NAMES).render(lang)
        yield "  " + say("cause: {cause}", cause=shown(cause)).render(lang)
        yield "  " + say("next: {advice}", advice=shown(members[0].advice.render(lang))).render(lang)


def _document(explanation: Explanation | None, verdicts: tuple[SymbolVerdict, ...], lang: str) -> dict[str, object]:
    library = explanation.library if explanation is not None else None
    return {
        "schema": 1,
        "library": library.path if library is not None else "",
        "machine": library.machine if library is not None else "",
        "missing": dict(explanation.loaded.missing) if explanation is not None else {},
        "unusable": dict(explanation.loaded.other) if explanation is not None else {},
        "symbols": [
            {
                "symbol": verdict.symbol,
                "readable": verdict.readable,
                "kind": verdict.kind,
                "owner": verdict.owner,
                "cause": verdict.cause.render(lang),
                "advice": verdict.advice.render(lang),
            }
            for verdict in verdicts
        ],
    }
