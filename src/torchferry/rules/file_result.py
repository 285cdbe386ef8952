"""The known facts about a file after it was examined, and which findings the user wants."""

from __future__ import annotations

from collections.abc import Callable

from torchferry.core.finding import Anchor, Finding, Grade
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import RecordedDecision
from torchferry.rules.base import Context
from torchferry.rules.mentions import WordAccount
from torchferry.source.document import Document
from torchferry.source.kinds import Kind
from torchferry.source.outline import Outline


class Selection(NamedTuple):
    """Which findings are reported and which fixes are applied.

    Attributes:
        select: Codes or families to keep; empty for all.
        ignore: Codes or families to leave out.
        unsafe: Whether unsafe fixes are applied too.
        per_file: For each pattern of paths, codes or families to leave out there.
        decided: What people decided about places, on the target.
        only: What the findings are known by whose fixes alone are applied, as `Finding.key` has it; None for all.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool = False
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    decided: tuple[RecordedDecision, ...] = ()
    only: frozenset[tuple[str, str, Anchor]] | None = None

    def wants(self, code: str, path: str) -> bool:
        """Whether findings with this code are reported for this file."""
        if (self.select and not code.startswith(self.select)) or (self.ignore and code.startswith(self.ignore)):
            return False
        if self.per_file:
            from fnmatch import fnmatchcase  # imported late: few configurations have such a table

            return not any(fnmatchcase(path, pattern) and code.startswith(codes) for pattern, codes in self.per_file)
        return True

    def applies(self, finding: Finding) -> bool:
        """Whether the finding's fix is applied."""
        if self.only is not None and finding.key not in self.only:
            return False
        return bool(finding.edits) and (finding.grade is Grade.SAFE or (self.unsafe and finding.grade is Grade.UNSAFE))


class InternalFailure(NamedTuple):
    """A fault of torchferry itself on one file; the file is left alone and the run goes on."""

    path: str
    what: str


class Afterwards(NamedTuple):
    """What is done with the files once they were examined, for which they are looked at again.

    Attributes:
        asks: Whether a file is likely to be looked at again, by its path.
        note: What to keep of a file, in numbers and texts, while it is at hand: its bytes, the names in them where it
            is Python, as `names_in` has them, the document, and that as rules see it.
        glance: The same of a file that no rule asks for, of which there are its kind, its bytes and the names.
    """

    asks: Callable[[str], bool]
    note: Callable[[bytes, bytes | None, Document, Context], object]
    glance: Callable[[Kind, bytes, bytes | None], object] = lambda kind, data, names: None


class FileResult(NamedTuple):
    """One file after it was examined, and after it was rewritten if that was asked.

    Attributes:
        path: Path relative to the root.
        kind: What the file is.
        findings: What was found in the file as it was, in order of position.
        fixed: The findings whose fixes were applied.
        remaining: What is found in the file as it is to be written; `findings` when nothing was applied.
        before: The file's bytes; None when nothing was applied.
        after: Its new bytes; None when nothing was applied.
        failure: A fault of torchferry's own, or None.
        parsed: Whether it was parsed as Python, for which it had to speak of something that is looked for.
        outline: What a Python file imports; None for other files.
        uses_device: Whether a Python file will use the target's device.
        needs_plugin: Whether that takes the plugin, or the redirect; not where a fix leaves the device out.
        main_uses_device: Whether the part below `if __name__ == "__main__"` may use it, by what it calls in the file.
        works: Whether a Python file does work at its top level, as a program does; None where it was not parsed.
        exports: Names of `torch.cuda` that a Python file binds in its own scope.
        words: What becomes of its words of CUDA, where an account was asked for.
        noted: What `Afterwards.note` said of it; None where nobody asked, or the file was not read as a document.
        importing: The same with the plugin's import, where it has a place for it; made ready for likely programs.
    """

    path: str
    kind: Kind
    findings: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    remaining: tuple[Finding, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    failure: InternalFailure | None = None
    parsed: bool = False
    outline: Outline | None = None
    uses_device: bool = False
    needs_plugin: bool = False
    main_uses_device: bool = True
    works: bool | None = None
    exports: tuple[str, ...] = ()
    words: WordAccount = WordAccount()
    noted: object = None
    importing: FileResult | None = None
