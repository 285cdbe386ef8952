"""Packages that the command of a program switches on, though none of its lines imports them.

`--deepspeed config.json` is an option of transformers' own arguments, which then imports DeepSpeed; a launcher belongs
to the package that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Location
from torchferry.programs.lacks import Lack
from torchferry.programs.model import Program
from torchferry.programs.modules import Modules
from torchferry.programs.sources import Sources, import_at
from torchferry.programs.switches import said
from torchferry.rules.library.cuda_package import CudaPackage, advice

_OPTIONS = {"deepspeed": "deepspeed"}
"""Options of transformers' arguments that name a file of settings of a package, and the package."""

_TAKES_OPTIONS = frozenset({"HfArgumentParser", "TrainingArguments", "Seq2SeqTrainingArguments"})
"""What reads such options, of which each is one of its own."""

_LAUNCHERS = {"deepspeed": "deepspeed", "--use_deepspeed": "deepspeed"}
"""Words of a command in front of the program, and the package that each needs."""

_OFF = frozenset({"", "none", "null", "false", "0"})


def switched_on(
    program: Program, closure: Iterable[str], modules: Modules, sources: Sources, target: Target
) -> Iterator[Lack]:
    """Yield the packages that the target does not have and the first command of a program switches on.

    Args:
        program: The program.
        closure: The files that it reaches by imports.
        modules: The project's imports.
        sources: Its files.
        target: Where it is to run.
    """
    if not program.starts:
        return
    given = said(program.arguments)
    options = [name for name in _OPTIONS if given.get(name, "").lower() not in _OFF]
    place = _reader(closure, modules, sources) if options else None
    if place is not None:
        for name in options:
            yield from _lacking(_OPTIONS[name], place, target)
        return
    words = [word.rpartition("/")[2] for word in program.starts[0].command.split()]
    before = words[: next((number for number, word in enumerate(words) if word.endswith(".py")), len(words))]
    for word in before:
        if word in _LAUNCHERS:
            yield from _lacking(_LAUNCHERS[word], Location(program.path, 1, 1, 1, 1), target)


def _reader(closure: Iterable[str], modules: Modules, sources: Sources) -> Location | None:
    """Return the nearest import of what reads the options of transformers, or None."""
    for path in closure:
        for external in modules.externals.get(path, ()):
            if external.module.partition(".")[0] != "transformers":
                continue
            text = sources.text(path)
            if _TAKES_OPTIONS.isdisjoint(external.names) and not any(f".{name}" in text for name in _TAKES_OPTIONS):
                continue
            loaded = sources.file(path)
            statement = import_at(loaded[0], external.line) if loaded is not None else None
            if loaded is not None and statement is not None:
                return loaded[0].location(*loaded[0].span(statement))
    return None


def _lacking(name: str, place: Location, target: Target) -> Iterator[Lack]:
    row = target.row("packages", name)
    if row.status == "missing":
        yield Lack(name, CudaPackage.CODE, place, advice(target.title, name, row))
