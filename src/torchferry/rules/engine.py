"""Examine one file with every rule that may have something to say, and rewrite it when asked to."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.budget import TooCostlyError, budget_for_file
from torchferry.core.files import read_regular
from torchferry.core.finding import Edit, Finding
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say, say_plural
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.rules.decisions import carried_over
from torchferry.rules.file.invalid_notebook import InvalidNotebook
from torchferry.rules.file.oversized_file import OversizedFile
from torchferry.rules.file.problems import FileProblem
from torchferry.rules.file.too_costly_file import TooCostlyFile
from torchferry.rules.file.undecodable_file import UndecodableFile
from torchferry.rules.file.unparsable_file import UnparsableFile
from torchferry.rules.file.unreadable_file import UnreadableFile
from torchferry.rules.file_result import Afterwards, FileResult, InternalFailure, Selection
from torchferry.rules.groups import without_overlaps
from torchferry.rules.imports.plugin_import import device_findings, needs_plugin
from torchferry.rules.mentions import account_of, speaks_of_cuda
from torchferry.rules.pipeline import Circumstances, run_pipeline
from torchferry.rules.references import api_means_cuda
from torchferry.rules.registry import rule_facts
from torchferry.rules.words import BETWEEN_NAMES, Interests, names_in
from torchferry.rules.written_files import with_written_files
from torchferry.source.document import Document
from torchferry.source.insertion import behind_path_changes, binds_by, binds_module, import_edit
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind
from torchferry.source.names import Names, bound_name
from torchferry.source.nodes import nodes_in
from torchferry.source.notebook import holds_files
from torchferry.source.outline import Outline, outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.reparse import reparsed
from torchferry.source.roles import mains, work_at_top
from torchferry.source.text import UndecodableError
from torchferry.source.tree import Entry

_PICTURE = lazy_regex(rb"""(["']image/[a-z+]+["']: *["']|base64,)[A-Za-z0-9+/=\\]+""")
"""A picture in a notebook: nine tenths of its bytes, and no word of it means anything."""

_PASSES = 5
"""How often a file may be rewritten until nothing changes; more means that two rules undo each other."""


class Engine:
    """Runs the rules over files of one project for one target."""

    def __init__(
        self,
        root: Path,
        target: Target,
        rules: Sequence[Rule],
        *,
        options: Options = Options(),  # noqa: B008 - immutable
        selection: Selection = Selection(),  # noqa: B008 - immutable
        project: Project | None = None,
        account: bool = False,
        redirected: bool = False,
        afterwards: Afterwards | None = None,
        finish: Callable[[FileResult], FileResult] | None = None,
    ) -> None:
        self.root = root
        self.target = target
        self.options = options
        self.selection = selection
        self.project = project
        self.account = account
        self.redirected = redirected
        self.afterwards = afterwards
        self._finish = finish
        self._binding = frozenset(rule.CODE for rule in rules if rule.BINDS)
        self._words, self._modules = Interests.of(rules, target, options)

    def examine(
        self, entry: Entry, *, rewrite: bool = False, whole: bool = False, data: bytes | None = None
    ) -> FileResult:
        """Examine a file.

        Args:
            entry: The file.
            rewrite: Whether to apply the chosen fixes (in memory) until nothing is left to apply.
            whole: Whether to show it to every rule, also to those whose words it does not hold.
            data: Its bytes as they are to be, such as in an editor; None for those on the disk.
        """
        try:
            with budget_for_file():
                examined = self._examine(entry, rewrite, whole, data)
                return examined if self._finish is None else self._finish(examined)
        except TooCostlyError as error:
            return self.not_examined(entry, error.message)
        except RecursionError:
            message = say("too costly, not examined: it is nested more deeply than Python can follow")
            return self.not_examined(entry, message)
        except Exception:
            # A fault of one rule on one file must not end the run; it is reported and exits with 2.
            import traceback  # imported late: our faults are rare

            return FileResult(entry.path, entry.kind, failure=InternalFailure(entry.path, traceback.format_exc()))

    def _examine(self, entry: Entry, rewrite: bool, whole: bool, data: bytes | None) -> FileResult:
        try:
            data = read_regular(self.root / entry.path) if data is None else data
        except OSError as error:
            return self._problem(entry, UnreadableFile, say("cannot be read: {e}", e=error.strerror))
        examined = FileResult(entry.path, entry.kind)
        if entry.kind is Kind.PYTHON:
            examined = examined._replace(outline=outline(entry.path, data))
        names = names_in(data) if entry.kind is Kind.PYTHON else None
        is_too_large = len(data) > self.options.max_file_size
        rules = self.interested(entry.kind, None if whole else data, examined.outline, names, only_whether=is_too_large)
        writes = entry.kind is Kind.NOTEBOOK and holds_files(data)
        if not rules and not writes and not (self.account and speaks_of_cuda(data)):
            if self.afterwards is not None:
                examined = examined._replace(noted=self.afterwards.glance(entry.kind, data, names))
            return examined
        if is_too_large:
            message = say_plural(
                "{count} byte is above the limit of {limit}; it names CUDA: read it yourself, or raise max-file-size",
                "{count} bytes are above the limit of {limit}; it names CUDA: read it yourself, or raise max-file-size",
                count=len(data),
                limit=self.options.max_file_size,
            )
            return self._problem(entry, OversizedFile, message)
        try:
            document = Document.read(entry.path, entry.kind, data)
            context = self.context(document)
            if entry.kind is Kind.PYTHON and isinstance(context, PythonContext) and self.project is not None:
                self.project.add(context.file, context.names)
        except UndecodableError as error:
            return self._problem(entry, UndecodableFile, error.message)
        except UnparsableError as error:
            return self._problem(entry, UnparsableFile, error.message, error.line)
        except NotJsonError as error:
            message = say("is not JSON: {error} (at offset {offset})", error=error, offset=error.offset)
            return self._problem(entry, InvalidNotebook, message)
        reported = self.check(context, rules)
        findings = _placed(document, reported)
        examined = examined._replace(findings=findings, remaining=findings)
        if self.account:
            words = account_of(context, reported, lambda code: rule_facts(code).unresolved)
            mentions = (mention._replace(location=document.placed(mention.location)) for mention in words.staying)
            examined = examined._replace(words=words._replace(staying=tuple(mentions)))
        if self.afterwards is not None:
            examined = examined._replace(noted=self.afterwards.note(data, names, document, context))
        if isinstance(context, PythonContext):
            native = self.check(context, rules, redirected=False) if self.redirected else findings
            examined = examined._replace(
                parsed=True,
                uses_device=bool(device_findings(native)),
                needs_plugin=bool(device_findings(native)) if self.redirected else needs_plugin(native),
                main_uses_device=_main_uses_device(context, device_findings(native)),
                works=work_at_top(context.file, context.names) is not None,
                exports=_exports(context),
            )
            if document.notebook is not None:
                examined = examined._replace(
                    outline=outline(entry.path, document.notebook.script.encode("utf-8", "replace"))
                )
        if rewrite:
            examined = self._rewrite(entry, data, document, context, reported, examined, rules)
        return self._with_written_files(examined, document, rewrite) if writes else examined

    def _with_written_files(self, examined: FileResult, document: Document, rewrite: bool) -> FileResult:
        """Add to a notebook what is found in the files that its cells write, each a text of its own."""

        def of_file(path: str, kind: Kind, data: bytes) -> FileResult:
            inner = self._examine(Entry(path, kind), rewrite, False, data)
            inner = inner._replace(before=data)
            ready = None if self._finish is None or not inner.needs_plugin else self._finish(inner).importing
            return inner if ready is None else ready

        return with_written_files(examined, document, of_file)

    def not_examined(self, entry: Entry, message: Message) -> FileResult:
        """Return the result of a file whose examination did not reach its end."""
        return self._problem(entry, TooCostlyFile, message)

    def _problem(self, entry: Entry, problem: type[FileProblem], message: Message, line: int = 0) -> FileResult:
        """Return the result of a file that was not examined; what leaves the verdict open cannot be silenced."""
        is_wanted = problem.LEAVES_VERDICT_OPEN or self.selection.wants(problem.CODE, entry.path)
        findings = (problem.at(entry.path, message, line),) if is_wanted else ()
        return FileResult(entry.path, entry.kind, findings, remaining=findings)

    def interested(
        self,
        kind: Kind,
        data: bytes | None,
        imports: Outline | None = None,
        names: bytes | None = None,
        only_whether: bool = False,
    ) -> list[Rule]:
        """Return the rules that have a word in `data` or a module in `imports`, in order of their codes.

        For None as `data`, all rules of the kind. `names` are those of `data`, where they are known. With
        `only_whether` some may be missing where there are others.
        """
        if data is not None and data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            data = data.decode("utf-16", "replace").encode()
        if data is not None and kind is Kind.NOTEBOOK and (b"image/" in data or b"base64," in data):
            data = _PICTURE.sub(rb"\1", data)
        kinds = (Kind.PYTHON, Kind.SHELL) if kind is Kind.NOTEBOOK else (kind,)
        by_code: dict[str, Rule] = {}
        for words in (self._words[of_cells] for of_cells in kinds if of_cells in self._words):
            met = words.rules() if data is None else words.rules_in(data, names, only_whether)
            by_code |= {rule.CODE: rule for rule in met}
        for top in self._tops(kind, data, imports):
            by_code |= {rule.CODE: rule for rule in self._modules.get(top, ())}
        return [by_code[code] for code in sorted(by_code)]

    def _tops(self, kind: Kind, data: bytes | None, imports: Outline | None) -> Iterable[str]:
        """Return the top-level modules that a file may import; of one that imports by names, those it speaks of."""
        if kind not in (Kind.PYTHON, Kind.NOTEBOOK):
            return ()
        if data is None:
            return self._modules
        if kind is Kind.NOTEBOOK or (imports is not None and imports.is_dynamic):
            names = set(data.replace(b"\\n", b" ").translate(BETWEEN_NAMES).split())
            return [top for top in self._modules if top.encode() in names]
        return imports.packages if imports is not None else ()

    def context(self, document: Document, tree: ast.Module | None = None) -> Context:
        """Return a document as rules see it.

        Args:
            document: The document.
            tree: The syntax tree of a Python file, where it is known.

        Raises:
            UnparsableError: the text of a Python file does not parse.
        """
        target = self.target.at(document.path)
        if document.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
            context = Context(document.path, document.kind, document.source, target, self.options)
            context.project = self.project
            return context
        parsed = None if self.project is None else self.project.parsed(document.path, document.source)
        if parsed is None:
            file = PythonFile(document.path, document.source, tree)
            parsed = file, Names(file, self.project)
        file, names = parsed
        python = PythonContext(file, names, target, self.options, self.project)
        if document.notebook is not None:
            shell = document.notebook.shell
            python.shell = Context(document.path, Kind.SHELL, shell, target, self.options)
            python.shell.project = self.project
            python.script = document.notebook.script
        return python

    def check(self, context: Context, rules: Iterable[Rule], redirected: bool | None = None) -> tuple[Finding, ...]:
        """Return what the rules find, groups settled and suppressed findings left out, in order of position.

        Args:
            context: The file.
            rules: The rules.
            redirected: Whether the redirect is in force; None for what the engine was made with.
        """
        findings: list[Finding] = []
        for rule in rules:
            if not isinstance(context, PythonContext):
                findings += rule.check(context)
                continue
            if Kind.PYTHON in rule.KINDS:
                findings += rule.check_python(context)
            if context.shell is not None and Kind.SHELL in rule.KINDS:
                findings += rule.check(context.shell)
        if isinstance(context, PythonContext):
            findings += [late for rule in rules for late in rule.check_rest(context, findings)]
        in_force = self.redirected if redirected is None else redirected
        return run_pipeline(context, findings, Circumstances(self.target, self.selection, self._binding, in_force))

    def _rewrite(
        self,
        entry: Entry,
        data: bytes,
        document: Document,
        context: Context,
        remaining: tuple[Finding, ...],
        examined: FileResult,
        rules: list[Rule],
    ) -> FileResult:
        """Apply the chosen fixes until there are none; the last look proves that a second run changes nothing."""
        fixed: list[Finding] = []
        original = document
        for _ in range(_PASSES):
            chosen = without_overlaps(finding for finding in remaining if self.selection.applies(finding))
            if not chosen:
                break
            fixed += _placed(document, chosen)
            edits = all_edits(chosen, document, self.target)
            before, document = document, document.edited(edits)
            try:
                after = document.data()
            except UnicodeEncodeError as error:
                message = say("the new text has characters that {encoding} lacks", encoding=error.encoding)
                return self._problem(entry, UndecodableFile, message)
            tree = None
            if entry.kind is Kind.PYTHON and isinstance(context, PythonContext):
                tree = reparsed(context.file.tree, before.source, document.source, edits)
            try:
                if entry.kind is Kind.PYTHON:  # words do not span lines: only changed lines can hold new ones
                    lines = _changed_lines(document.source.text, edits).encode("utf-8", "surrogatepass")
                    new = self.interested(entry.kind, lines, outline(entry.path, lines))
                    rules = sorted({*rules, *new}, key=lambda rule: rule.CODE)
                else:
                    rules = self.interested(entry.kind, after)
                old, context = context, self.context(document, tree)
                left = self.check(context, rules)
            except UnparsableError as error:
                codes = ", ".join(finding.code for finding in chosen)
                raise RuntimeError(f"the fixes of {codes} would leave a file that does not parse: {error}") from None
            remaining = tuple(carried_over(remaining, left, edits, old, context))
        else:
            codes = ", ".join(finding.code for finding in remaining if self.selection.applies(finding))
            raise RuntimeError(f"the fixes of {codes} undo each other")
        if not fixed:
            return examined
        remaining = tuple(
            finding if finding.origin is None else finding._replace(origin=original.placed(finding.origin))
            for finding in _placed(document, remaining)
        )
        return examined._replace(fixed=tuple(fixed), remaining=remaining, before=data, after=document.data())


def _changed_lines(text: str, edits: Iterable[Edit]) -> str:
    """Return the lines of an edited text that the edits, which are counted in the text before, have touched, once."""
    lines: list[str] = []
    shift = done = 0
    for edit in sorted(edits):
        start = edit.start + shift
        shift += len(edit.text) - (edit.end - edit.start)
        if 0 < edit.end + shift <= done:
            continue
        end = text.find("\n", edit.end + shift)
        end = end if end >= 0 else len(text)
        lines.append(text[max(text.rfind("\n", 0, start) + 1, done) : end])
        done = end
    return "\n".join(lines)


def _placed(document: Document, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with their locations as users count them."""
    if document.notebook is None:
        return tuple(findings)
    return tuple(finding._replace(location=document.placed(finding.location)) for finding in findings)


def all_edits(findings: Iterable[Finding], document: Document, target: Target) -> list[Edit]:
    """Return the edits of some findings and the one that imports the modules these need."""
    edits: list[Edit] = []
    modules: list[str] = []
    uses: list[int] = []
    for finding in findings:
        edits += finding.edits
        uses += [edit.start for edit in finding.edits if finding.imports]
        modules += [module for module in finding.imports if module not in modules]
    source = document.source
    statements = [target.at(document.path).import_statement(module) for module in modules]
    absent = [
        statement
        for module, statement in zip(modules, statements, strict=True)
        if not (binds_module(source.text, module) or binds_by(source.text, statement))
    ]
    if absent and document.kind in (Kind.PYTHON, Kind.NOTEBOOK):
        behind = behind_path_changes(source.text) if target.needs_path(document.path) else 0
        insertion = import_edit(source.text, absent, source.newline, behind=behind, uses=uses)
        if insertion is not None:
            edits.append(insertion)
    return list(dict.fromkeys(edits))


def _main_uses_device(context: PythonContext, findings: list[Finding]) -> bool:
    """Whether the part below `if __name__ == "__main__"` has, or leads to, one of some findings.

    What it calls is followed within the file. A name from elsewhere may lead anywhere, except those of torch and of the
    standard library. A question such as `x.is_cuda` uses no device.
    """
    tree = context.file.tree
    started = mains(tree)
    if not started:
        return True
    lines = {finding.location.line for finding in findings if rule_facts(finding.code).runs_on_device}
    defined = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    todo: list[ast.stmt] = [*started]
    seen: set[str] = set()
    while todo:
        node = todo.pop()
        if any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines):
            return True
        for name in (inner for inner in nodes_in(node) if isinstance(inner, ast.Name)):
            origin = context.names.origin(name) or ""
            project = context.project
            if (
                project is not None
                and origin
                and project.module_path(origin.rpartition(".")[0] or origin, context.path)
            ):
                return True
            if name.id in defined and name.id not in seen:
                seen.add(name.id)
                todo.append(defined[name.id])
    return False


def _exports(context: PythonContext) -> tuple[str, ...]:
    """Return the names that a module binds in its own scope to names of `torch.cuda`."""
    return tuple(
        sorted(
            {
                bound_name(alias)
                for statement in context.file.imports
                if context.file.parents.get(statement) is context.file.tree
                for alias in statement.names
                if api_means_cuda(context.names.binding_origin(alias) or "")
            }
        )
    )
