"""What changes in a Python build script, found by its syntax tree; how it is written is `python_writing.py`'s.

Every change is one expression, or a run of elements of a list, with what is there on the target. So the same
changes can be written in place of what was there, or beside it under a switch.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from enum import Enum

from torchferry.backends.build_facts import BuildRow
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.buildfiles.model import BuildSettings, Renaming, ReviewList, folder_in
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names, Reference
from torchferry.source.python import PythonFile

BUILDERS = "torch.utils.cpp_extension"
"""The module of torch that builds extensions."""

_CUDA_WORD = lazy_regex(r"(?i)cuda|nvcc|cublas|cudnn|\bsm_[0-9]|gencode")
_QUOTED = lazy_regex(r"(?i)(?:[rbu]|f|fr|rf)?('''|\"\"\"|'|\")")
_MACRO_FLAG = lazy_regex(r"[-/][DU]([A-Za-z_]\w*)(=.*)?\Z")
_LINKED = lazy_regex(r"-l(\w+)\Z")

_NAMING = frozenset({"name", "packages", "py_modules", "package_data", "exclude_package_data"})
"""Arguments of `setup` and of an extension that hold names of what is installed."""


_NAME_VARIABLE = lazy_regex(r"(?i)(?:^|_)(?:name|module|ext|extension|pkg|package|lib|library)\Z")
"""Variables that hold what is imported, and no path."""

_TAKING_PATHS = frozenset(
    {
        *("glob", "iglob", "rglob", "listdir", "walk", "scandir", "abspath", "realpath", "relpath", "exists", "isdir"),
        *("isfile", "append", "extend", "insert", "Path", "PurePath", "join", "joinpath", "dirname", "find_sources"),
        *("copytree", "rmtree", "makedirs", "mkdir", "fspath", "str", "add"),
    }
)
"""Functions whose arguments are paths, or are kept as they are."""


class ChangeForm(Enum):
    """How a change is written beside what was there."""

    EXPRESSION = "expression"
    """One expression, which becomes another one."""
    ELEMENTS = "elements"
    """Elements of a list or tuple, which become others, or none."""
    ALSO = "also"
    """A condition that holds on the target too."""
    CALL = "call"
    """A call that is left out on the target."""
    INSERT = "insert"
    """An element at the beginning of a list, with its comma."""
    KEYWORD = "keyword"
    """An argument of a call, which gets another name."""


class ScriptChange(NamedTuple):
    """One place of a script and what is there on the target.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        text: What is there on the target.
        form: How it is written beside what was there.
        bare: Whether a conditional expression needs no parentheses there.
        name: The dotted name that the text uses; empty for none.
        imports: What is imported for that: the name itself, or the module that has it.
        node: The expression, or the first one.
    """

    start: int
    end: int
    text: str
    form: ChangeForm
    bare: bool
    name: str
    imports: str
    node: ast.AST


class ScriptChanges:
    """All changes of one Python file; places that need a person go to the review list."""

    def __init__(self, file: PythonFile, settings: BuildSettings, review: ReviewList) -> None:
        self.file = file
        self.names = Names(file)
        self.settings = settings
        self.facts = settings.facts
        self.review = review
        self.renaming = Renaming(settings, file.path)
        self.changes: list[ScriptChange] = []
        self.imports: list[Reference] = []
        self._left: set[str] = set()

    def find(self) -> None:
        """Fill `changes` and `imports`."""
        self._references()
        strings = set[ast.AST]()
        for node in ast.walk(self.file.tree):
            if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
                strings.update(self._elements(node))
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.Call) and last_name(node) in ("join", "joinpath", "Path"):
                strings.update(self._joined(list(node.args)))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                strings.update(self._joined(_divided(node)))
        for node in self._strings():
            if node not in strings:
                self._string(node)

    def makes_extensions(self) -> bool:
        """Whether the file uses one of torch's builders that compile CUDA."""
        compiling = {self.ported(f"{BUILDERS}.{each}") for each in ("CUDAExtension", "load", "load_inline")}
        return any(change.name in compiling for change in self.changes if change.name)

    # names

    def ported(self, name: str) -> str:
        """Return the dotted name that replaces one of torch's; empty where nothing is known."""
        if name == f"{BUILDERS}.CUDAExtension" and self.facts.extension:
            return self.facts.extension
        if name == f"{BUILDERS}.BuildExtension" and self.facts.builder:
            return self.facts.builder
        known = self.facts.uses("name").get(name)
        return known if known is not None else self.settings.target.api(name).use

    def _references(self) -> None:
        for reference in self.names.references("torch"):
            name = reference.name
            if name.startswith(f"{BUILDERS}."):
                if reference.is_import:
                    self.imports.append(reference)
                else:
                    self._builder(reference)
            elif reference.is_import:
                continue
            elif name == "torch.cuda.is_available":
                call = self.file.parents.get(reference.node)
                if isinstance(call, ast.Call):
                    start, end = self.file.span(call)
                    use = self.settings.target.api(name).use or "True"
                    text = f"{use}()" if use != "True" else use
                    self._add(start, end, text, ChangeForm.ALSO, call)
            elif name.startswith(("torch.cuda.", "torch.version.cuda", "torch.backends.cud")):
                self.review.add(
                    self.file.span(reference.node)[0],
                    "build-condition",
                    say(
                        "`{name}` asks about CUDA while the extension is built: write the condition for the target",
                        name=name,
                    ),
                )

    def _builder(self, reference: Reference) -> None:
        """Note the use of one of torch's builders that the target replaces."""
        node = reference.node
        depth = reference.name[len(BUILDERS) + 1 :].count(".")
        for _ in range(depth):  # a method of the class: BuildExtension.with_options
            if isinstance(node, ast.Attribute):
                node = node.value
        base = ".".join(reference.name.split(".")[:4])
        use = self.ported(base)
        if not isinstance(node, (ast.Name, ast.Attribute)) or not use or use == base:
            return
        start, end = self.file.span(node)
        module, _, last = use.rpartition(".")
        if isinstance(node, ast.Name):
            if not any(isinstance(binding, ast.alias) for binding in self.names.bindings(node)):
                return  # a variable that was set to the builder
            self._add(start, end, last, ChangeForm.EXPRESSION, node, name=use)
        else:
            text = f"{module.rpartition('.')[2]}.{last}"
            self._add(start, end, text, ChangeForm.EXPRESSION, node, name=use, imports=module)
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            self._keywords(parent)

    def _keywords(self, call: ast.Call) -> None:
        """Note arguments of a builder that have another name on the target."""
        names = self.facts.uses("keyword")
        for keyword in call.keywords:
            if keyword.arg in names:
                start, end = self.file.span(keyword)
                value = self.file.span(keyword.value)[0]
                old = self.file.source.text[start:value]
                self._add(start, end, names[keyword.arg] + old[len(keyword.arg) :], ChangeForm.KEYWORD, keyword)
                if keyword.arg == "cuda_sources":
                    message = say(
                        "CUDA C++ in strings is compiled when the program runs: port the text of `{name}` too",
                        name=keyword.arg,
                    )
                    self.review.add(start, "build-jit", message)

    # lists of flags, macros and libraries

    def _elements(self, node: ast.List | ast.Tuple | ast.Set) -> Iterator[ast.AST]:
        """Note what changes among the elements of a list; yield the strings that are done with."""
        parent = self.file.parents.get(node)
        if isinstance(node, ast.Tuple) and not isinstance(parent, (ast.List, ast.Tuple, ast.Call, ast.keyword)):
            return
        run: list[ast.expr] = []
        is_value = False  # of the flag in front
        for element in node.elts:
            flag = self._dropped_flag(element)
            if flag is not None or is_value:
                run.append(element)
                if flag is not None:
                    self._tell(element, flag)
                is_value = flag is not None and flag.value and _leading_text(element).strip() == flag.cuda
                yield from ast.walk(element)
                continue
            self._drop(run)
            run = []
            if isinstance(element, ast.Tuple):
                yield from self._macro(element)
        self._drop(run)
        if self.settings.half_sources and self.facts.compile_host and self._is_for(node, "cxx"):
            at = self.file.span(node)[0] + 1
            comma = ", " if node.elts else ""
            self._add(at, at, f'"{self.facts.compile_host}"{comma}', ChangeForm.INSERT, node)

    def _is_for(self, node: ast.AST, key: str) -> bool:
        """Whether a list is what a key of compiler arguments is set to: `{"cxx": [...]}`, `args["cxx"] = [...]`."""
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Dict):
            written = self.file.keys_of(parent).get(node)
            return isinstance(written, ast.Constant) and written.value == key
        if isinstance(parent, ast.Assign) and isinstance(target := parent.targets[0], ast.Subscript):
            return isinstance(target.slice, ast.Constant) and target.slice.value == key
        return False

    def _dropped_flag(self, element: ast.AST) -> BuildRow | None:
        """Return the row of a flag that only CUDA's compiler understands; None for what is none."""
        text = _leading_text(element).strip()
        if not text.startswith("-") and not text.startswith("arch="):
            return None
        for flag, row in self.facts.rows.get("flag", {}).items():
            if row.use or not text.startswith(flag):
                continue
            rest = text[len(flag) :]
            if not rest or (not row.exact and (rest[0] in "= ," or flag[-1] in "-=_")):
                return row
        return None

    def _tell(self, element: ast.AST, flag: BuildRow) -> None:
        """Tell of a flag that is left out, where results or the build depend on it."""
        if flag.reported:
            message = say("`{flag}` is left out: the target's compiler is not known to have it", flag=flag.cuda)
            self.review.add(self.file.span(element)[0], "build-flag", noted(message, flag.note))

    def _drop(self, run: list[ast.expr]) -> None:
        if run:
            start, end = self.file.span(run[0])[0], self.file.span(run[-1])[1]
            self._add(start, end, "", ChangeForm.ELEMENTS, run[0])

    def _macro(self, pair: ast.Tuple) -> Iterator[ast.AST]:
        """Note a macro that is defined, `("WITH_CUDA", None)`, if the port has renamed it."""
        if len(pair.elts) != 2 or not isinstance(pair.elts[0], ast.Constant):
            return
        constant = pair.elts[0]
        name = constant.value
        if not isinstance(name, str) or not _CUDA_WORD.search(name):
            return
        yield constant
        start, end = self.file.span(pair)
        use = self.renaming.macros.get(name)
        if use is None:
            message = say(
                "the macro `{name}` stays: whether the target needs its own macro depends on how the sources use it",
                name=name,
            )
            self.review.add(start, "build-macro", message)
            return
        at, behind = self.file.span(constant)
        text = self.file.source.text
        written = text[start:at] + text[at:behind].replace(name, use) + text[behind:end]
        facts = self.facts
        if facts.arch_macro and _is_none(pair.elts[1]):
            quote = text[at : at + 1]
            written += f", ({quote}{facts.arch_macro}{quote}, str({facts.arch_function}()))"
            name = f"{facts.arch_module}.{facts.arch_function}"
            self._add(start, end, written, ChangeForm.ELEMENTS, pair, name=name)
        else:
            self._add(start, end, written, ChangeForm.ELEMENTS, pair)

    # paths that are put together

    def _joined(self, parts: list[ast.expr]) -> Iterator[ast.AST]:
        """Note a ported folder among the parts of a path; yield the strings that are done with."""
        run: list[ast.Constant] = []
        for part in (*parts, None):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                run.append(part)
                continue
            if self.renaming.is_ignored("/".join(str(each.value) for each in run)):
                yield from run
                run = []
                continue
            for folder, output in self.renaming.folders.items():
                changed = self._in_run(run, folder, output)
                if changed is not None:
                    yield changed
                    break
            run = []

    def _in_run(self, run: list[ast.Constant], folder: str, output: str) -> ast.AST | None:
        """Note the string that holds the end of a folder's path, if the path is there."""
        texts = [str(part.value) for part in run]
        found = folder_in("/".join(texts), folder)
        if found is None or posixpath.dirname(folder) != posixpath.dirname(output):
            return None
        at = 0
        for part, text in zip(run, texts, strict=True):
            if at + len(text) >= found[1]:
                start = max(found[1] - len(posixpath.basename(folder)) - at, 0)
                new = text[:start] + posixpath.basename(output) + text[found[1] - at :]
                self._write_string(part, self.renaming.ported_name(new))
                return part
            at += len(text) + 1
        return None

    # strings

    def _strings(self) -> Iterator[ast.Constant | ast.JoinedStr]:
        """Yield string literals that are values: no documentation, and an f-string as a whole."""
        stack: list[ast.AST] = [self.file.tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.JoinedStr):
                yield node
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if not isinstance(self.file.parents.get(node), ast.Expr):
                    yield node
                continue
            stack += reversed(list(ast.iter_child_nodes(node)))

    def _string(self, node: ast.Constant | ast.JoinedStr) -> None:
        """Note what a string becomes, or that a person has to look at it."""
        value = _leading_text(node) if isinstance(node, ast.JoinedStr) else str(node.value)
        tail = _trailing_text(node)
        flag = self._dropped_flag(node)
        if flag is not None:
            self._dropped_call(node, flag)
            return
        if any(character.isspace() for character in value.strip()) and not value.strip().startswith("-"):
            return
        new = self._new_value(node, value)
        if new is not None:
            if new != value:
                self._write_string(node, new)
        elif isinstance(node, ast.JoinedStr) and (text := self._new_fstring(node, value, tail)) is not None:
            self._change_string(node, text)
        elif _CUDA_WORD.search(value) and not self._is_harmless(node):
            self._leave(node, value)

    def _new_value(self, node: ast.AST, value: str) -> str | None:
        """Return what a plain string becomes; None where it stays."""
        if isinstance(node, ast.JoinedStr):
            return None
        if value in self.renaming.macros:
            return self.renaming.macros[value]
        macro = _MACRO_FLAG.match(value)
        if macro and macro[1] in self.renaming.macros:
            return value[:2] + self.renaming.macros[macro[1]] + (macro[2] or "")
        if self._is_key(node) and self.facts.uses("compiler").get(value):
            return self.facts.uses("compiler")[value]
        if self._is_variable(node) and self.facts.uses("variable").get(value):
            use = self.facts.uses("variable")[value]
            note = self.facts.rows["variable"][value].note
            parent = self.file.parents.get(node)
            if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
                message = say("`{old}` is set for CUDA here; the target's variable is `{new}`", old=value, new=use)
                self.review.add(self.file.span(node)[0], "build-variable", noted(message, note if note.en else None))
                return value
            return use
        libraries = self.facts.uses("library")
        linked = _LINKED.match(value)
        if linked and libraries.get(linked[1]):
            return f"-l{libraries[linked[1]]}"
        if self._in_libraries(node) and libraries.get(value):
            return libraries[value]
        if value in self.renaming.folders and self._names_package(node):
            return None  # a package is imported by its name, also where its folder is that of the sources
        ported = self.renaming.ported_name(value)
        return ported if ported != value else None

    def _names_package(self, node: ast.AST) -> bool:
        """Whether a string is what `setup` or an extension calls the distribution, a package or a module."""
        child, parent = node, self.file.parents.get(node)
        while isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.IfExp, ast.Starred)):
            child, parent = parent, self.file.parents.get(parent)
        if isinstance(parent, ast.Call) and child is node and child in parent.args:
            called = last_name(parent)
            if child is parent.args[0] and (called.endswith("Extension") or called in ("load", "load_inline", "setup")):
                return True
            if called not in _TAKING_PATHS:
                message = say(
                    "`{text}` stays: it may be a name to import, or the folder of the sources, whose port is `{use}`",
                    text=getattr(node, "value", ""),
                    use=self.renaming.ported_name(str(getattr(node, "value", ""))),
                )
                self.review.add(self.file.span(node)[0], "build-by-hand", message)
                return True
        if isinstance(parent, ast.Assign) and child is node:
            targets = [target.id for target in parent.targets if isinstance(target, ast.Name)]
            return any(_NAME_VARIABLE.search(target) for target in targets)
        return isinstance(parent, ast.keyword) and parent.arg in _NAMING

    def _new_fstring(self, node: ast.JoinedStr, value: str, tail: str) -> str | None:
        """Return an f-string with the folder that it begins with and the ending of its source; None where it stays."""
        old = text = self.file.text(node)
        begin = self.renaming.ported_name(value)
        if begin != value and value in text:
            text = text.replace(value, begin, 1)
        if self.renaming.is_source(tail) and tail in text:
            at = text.rfind(tail)
            text = text[:at] + self.renaming.ported_name(tail) + text[at + len(tail) :]
        return text if text != old else None

    def _leave(self, node: ast.AST, value: str) -> None:
        """Tell of a string with a word of CUDA that stays: once for each value."""
        if value in self._left:
            return
        self._left.add(value)
        kind, message = (
            ("build-variable", say("the environment variable `{name}` is for CUDA and stays as it is", name=value))
            if self._is_variable(node)
            else ("build-by-hand", say("`{text}` stays: decide what it means on the target", text=value[:80]))
        )
        self.review.add(self.file.span(node)[0], kind, message)

    def _is_harmless(self, node: ast.AST) -> bool:
        """Whether a string only tells people something, or names the package."""
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Call):
            return last_name(parent) in ("print", "warn", "RuntimeError", "ValueError", "Exception", "info", "warning")
        return isinstance(parent, ast.keyword) and parent.arg in ("description", "name", "url", "keywords", "author")

    def _is_key(self, node: ast.AST) -> bool:
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Subscript):
            return parent.slice is node
        if isinstance(parent, ast.Dict):
            return node in parent.keys
        if isinstance(parent, ast.Call):
            return last_name(parent) in ("get", "setdefault", "pop") and parent.args[:1] == [node]
        return isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.In, ast.NotIn))

    def _is_variable(self, node: ast.AST) -> bool:
        """Whether a string names a variable of the environment."""
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Call):
            named = self.names.qualified(parent.func) or ""
            return named.startswith("os.") and parent.args[:1] == [node]
        if isinstance(parent, ast.Subscript):
            return (self.names.qualified(parent.value) or "") == "os.environ"
        return isinstance(parent, ast.Compare) and any(
            (self.names.qualified(each) or "") == "os.environ" for each in parent.comparators
        )

    def _in_libraries(self, node: ast.AST) -> bool:
        """Whether a string is an element of a list of libraries."""
        statement = self.file.parents.get(self.file.parents.get(node, node))
        if isinstance(statement, ast.keyword):
            return statement.arg == "libraries"
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return any(isinstance(target, ast.Name) and "librar" in target.id.lower() for target in targets)
        return False

    def _dropped_call(self, node: ast.AST, flag: BuildRow) -> None:
        """Note a flag that is added to a list by its own call."""
        call = self.file.parents.get(node)
        statement = self.file.parents.get(call) if call is not None else None
        start = self.file.span(node)[0]
        if isinstance(call, ast.Call) and isinstance(statement, ast.Expr) and last_name(call) == "append":
            self._add(*self.file.span(call), "", ChangeForm.CALL, call)
            self._tell(node, flag)
        else:
            message = say("`{flag}` is a flag of CUDA's compiler: leave it out", flag=_leading_text(node)[:60])
            self.review.add(start, "build-flag", message)

    # writing

    def _write_string(self, node: ast.Constant | ast.JoinedStr, value: str) -> None:
        """Note that a string literal gets another value; quotes and prefix stay."""
        text = self.file.text(node)
        quoted = _QUOTED.match(text)
        old = str(node.value) if isinstance(node, ast.Constant) else ""
        if quoted is None or text[quoted.end() : -len(quoted[1])] != old or "\\" in value:
            message = say(
                "this string should become `{text}`, but it is written in a way that cannot be changed automatically",
                text=value,
            )
            self.review.add(self.file.span(node)[0], "build-by-hand", message)
            return
        self._change_string(node, text[: quoted.end()] + value + quoted[1])

    def _change_string(self, node: ast.AST, text: str) -> None:
        self._add(*self.file.span(node), text, ChangeForm.EXPRESSION, node)

    def _add(
        self, start: int, end: int, text: str, form: ChangeForm, node: ast.AST, *, name: str = "", imports: str = ""
    ) -> None:
        parent = self.file.parents.get(node)
        bare = (
            (isinstance(parent, ast.Call) and node in parent.args)
            or (isinstance(parent, ast.ClassDef) and node in parent.bases)
            or (form is ChangeForm.ALSO and isinstance(parent, (ast.If, ast.IfExp)) and parent.test is node)
            or (form is ChangeForm.ALSO and isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.Or))
            or isinstance(parent, (ast.List, ast.Tuple, ast.keyword))
            or (isinstance(parent, ast.Subscript) and parent.slice is node)
            or (isinstance(parent, ast.Dict) and node in parent.keys)
            or (isinstance(parent, ast.Assign) and parent.value is node)
        )
        self.changes.append(ScriptChange(start, end, text, form, bare, name, imports or name, node))


def _leading_text(node: ast.AST) -> str:
    """Return the constant text that a string or f-string begins with."""
    if isinstance(node, ast.JoinedStr):
        return _leading_text(node.values[0]) if node.values else ""
    if isinstance(node, ast.BinOp):
        return _leading_text(node.left)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _trailing_text(node: ast.AST) -> str:
    """Return the constant text that a string or f-string ends with."""
    if isinstance(node, ast.JoinedStr):
        return _trailing_text(node.values[-1]) if node.values else ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _divided(node: ast.BinOp) -> list[ast.expr]:
    """Return the parts of a path that is put together by `/`."""
    parts: list[ast.expr] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div):
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]
