"""What a program reaches of which nothing is known: files not read, other frameworks, packages nobody verified."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from torchferry.backends.target import Target
from torchferry.core.files import read_regular
from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say, say_plural
from torchferry.programs.absent import Absent
from torchferry.programs.lacks import Lacks
from torchferry.programs.model import Unread
from torchferry.programs.modules import Modules
from torchferry.programs.reach import Reach
from torchferry.programs.sources import LONGEST, Sources, import_at
from torchferry.rules.examined import Examined
from torchferry.source.parsing import parse_fault

_BESIDE = ("torch.utils.tensorboard", "torch.utils.data")
"""Modules of torch that programs of other frameworks use too."""


class Unknown:
    """Answers what of a program's files and packages nobody knows.

    Args:
        sources: The project's files.
        modules: Their imports.
        target: Where it is to run.
        lacks: What is known of compiled modules and installed packages.
        absent: What belongs to the project and is not there.
        examined: What was found in each file.
        largest: Bytes above which a file was not examined; 0 for no limit.
    """

    def __init__(
        self,
        sources: Sources,
        modules: Modules,
        target: Target,
        lacks: Lacks,
        absent: Absent,
        examined: Mapping[str, Examined],
        largest: int,
    ) -> None:
        self._sources = sources
        self._root = sources.project.root
        self._modules = modules
        self._target = target
        self._lacks = lacks
        self._absent = absent
        self._examined = examined
        self._largest = largest
        self._faults: dict[str, Message | None] = {}

    def of(self, reach: Reach, running: Sequence[str]) -> Iterator[Unread]:
        """Yield what a program reaches and was not read, or is not known here, with the way to it."""
        other = self._other_framework(running)
        if other is not None:
            yield other
        for path in running:
            why = self._why_unread(path)
            if why is not None:
                way = reach.way_to_file(path)
                yield Unread(path, why, way.steps if way is not None else ())
            yield from self._absent_imports(reach, path)

    def _why_unread(self, path: str) -> Message | None:
        """Return why a file was not read, or None where it was."""
        item = self._examined.get(path)
        if item is None:
            return None
        if item.failure is not None:
            return say("torchferry failed on it")
        broken = [f for f in item.findings if f.code.startswith("FIL") and f.grade is Grade.MANUAL]
        if broken:
            return broken[0].message
        if path not in self._faults:
            # What holds a word that a rule asks for was parsed; other files were only searched for such words.
            self._faults[path] = None if item.findings or self._sources.is_parsed(path) else self._fault(path)
        return self._faults[path]

    def _fault(self, path: str) -> Message | None:
        if path in self._sources.notebooks:
            return None if self._sources.file(path) is not None else say("its cells could not be read")
        try:
            size = len(read_regular(self._root / path))
        except OSError as error:
            return say("cannot be read: {error}", error=error.strerror)
        if self._largest and size > self._largest:
            return say_plural(
                "{count} byte is above the limit of {limit}",
                "{count} bytes are above the limit of {limit}",
                count=size,
                limit=self._largest,
            )
        source = self._sources.project.text(path)
        if source is None:
            return say("is no text that Python reads")
        if len(source.text) > LONGEST:
            return say("is so long that no way is followed through it")
        fault = parse_fault(source.text)
        return say("does not parse: line {line}: {error}", line=fault[0], error=fault[1]) if fault is not None else None

    def _absent_imports(self, reach: Reach, path: str) -> Iterator[Unread]:
        """Yield the imports of a file that lead to what belongs to the project and was not read."""
        for external, why in self._absent.imports(path, self._modules):
            loaded = self._sources.file(path) if not self._is_known(external.module) else None
            statement = import_at(loaded[0], external.line) if loaded is not None else None
            if statement is None:
                continue
            way = reach.way(path, statement)
            if way is not None and way.may_be_taken:
                yield Unread(f"{path}:{external.line}", why, way.steps[:-1])

    def _is_known(self, module: str) -> bool:
        """Whether a table of the target or the environment answers for a module."""
        known = None if module.startswith(".") else self._target.package_of_module(module)
        return (known is not None and known[1].status != "unknown") or self._lacks.installed.is_there(module)

    def _other_framework(self, running: Sequence[str]) -> Unread | None:
        """Return where a program computes with another framework than torch, of which nothing is known here.

        It does where nothing that it reaches imports torch, or where its own file imports the other one and not torch,
        and no model of torch's is in what it reaches: torch then only loads data, or draws curves.
        """
        found: Unread | None = None
        with_torch = []
        for path in running:
            for external in self._modules.externals.get(path, ()):
                if external.module.partition(".")[0] == "torch" and not external.module.startswith(_BESIDE):
                    with_torch.append(path)
                known = self._target.package_of_module(external.module)
                if found is None and known is not None and known[0].kind == "other" and not external.indented:
                    place = f"{path}:{external.line}"
                    found = Unread(place, say("computes with {name}, which is not torch", name=known[0].name))
        if found is None or not with_torch:
            return found
        is_first = found.place.startswith(f"{running[0]}:") and running[0] not in with_torch
        return found if is_first and not any("nn.Module" in self._sources.text(path) for path in with_torch) else None

    def unverified(self, running: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the packages that nobody has verified on the target, with where each is imported first."""
        seen: set[str] = set()
        for path in running:
            for external in self._modules.externals.get(path, ()):
                top = external.module.partition(".")[0]
                if not top or top in seen or top in sys.stdlib_module_names or top in self._lacks.compiled:
                    continue
                seen.add(top)
                known = self._target.package_of_module(external.module)
                if self._lacks.installed.is_quiet(external.module) or self._lacks.installed.needs(external.module):
                    continue
                if self._absent.why(external) is not None:  # it belongs to the project
                    continue
                if known is None or known[1].status == "unknown":
                    yield known[0].name if known is not None else top, f"{path}:{external.line}"
