"""Port the text of one file: names, headers and words in context renamed; what no renaming settles, listed.

Only whole identifiers and names of headers change, never a comment or a string, and none is added or removed: the
result has as many tokens as the original.

Where the target's kernels are written in a language of their own, the same is done with what runs on the host, and
each kernel is its own item: it has to be rewritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.kernels.account import LIBRARY_NAMESPACE, UNKNOWN, Unexplained
from torchferry.kernels.cuda_namespace import cuda_word
from torchferry.kernels.declarations import is_declared, is_declared_by_macro
from torchferry.kernels.device_code import DeviceCode, Kernel, Launch, device_code, function_name
from torchferry.kernels.device_macros import DeviceMacro
from torchferry.kernels.hazards import CAPABILITY_ATTRIBUTES, TILES, hazards
from torchferry.kernels.headers import header_use
from torchferry.kernels.ptx import FunctionPtx, PtxUse, ptx_use
from torchferry.kernels.receivers import has_no_such_method, type_before
from torchferry.kernels.review import ReviewItem
from torchferry.kernels.tokens import (
    Directive,
    SourceTokens,
    TokenKind,
    before,
    encode,
    is_word,
    last_word,
    readable,
    words_of,
)
from torchferry.kernels.words import LIBRARIES, MASKS, WordJudge, WordMeaning
from torchferry.source.text import apply_edits

_KEY_OWNERS = ("DispatchKey", "DeviceType", "Backend")
_PROPERTIES = lazy_regex(r"DevicePropert|DeviceProp\b|deviceProp")
_CALL = lazy_regex(r"\s*\(")
_COMPARED = lazy_regex(r"__CUDA_ARCH__\s*(?:\)\s*)?[<>=!]|[<>=]\s*(?:\(\s*)?__CUDA_ARCH__|__CUDA_ARCH__\s*[/*%+-]")
_CUDA_STRING = lazy_regex(r'"cuda(?::\d+)?"')
_MODEL_LOAD = lazy_regex(r"\bjit\s*::\s*load\s*\(")
_SPLIT = lazy_regex(r"\\\r?\n")
_TRIGRAPH = lazy_regex(r"\?\?/(?=\r?\n)|^[ \t]*\?\?=", 8)
_PASTE = lazy_regex(r"\b(?=\w+\s*##)\w*(?:cuda|CUDA|cublas|cudnn)\w*\s*##|##\s*\w*(?:cuda|CUDA|Cuda)\w*")
_OF_THE_DEVICE = ("device-runtime", "float64", "device-clock")
"""Kinds that are of no consequence on the host."""

_PROSE = frozenset({"pragma", "error", "warning"})
"""Lines of the preprocessor whose words are no names: a compiler leaves out, or prints, what it does not know there."""

_FEATURES = frozenset(
    {
        *("warp-intrinsic", "warp-size", "cooperative-groups", "tensor-core", "texture", "launch-bounds", "cluster"),
        *("async-copy", "cache-hint", "integer-dot", "managed-memory", "device-clock", "kernel-parameter"),
    }
)
"""Kinds of which one place of a file is an item, and of which each place counts for the kernel that it is in."""

_DEVICE_MARKS = ("__device__", "__global__", "__host__", "__CUDA", "cuda")
_OF_THE_HOST = lazy_regex(
    r"(?:\s|volatile\b|__volatile__\b|inline\b|goto\b)*\(\s*\"(?!\s*(?:[{@]|[a-z]\w*\.\w)|[^\"\n]*\b[a-z]\w*\.[a-z]\w*)"
)
"""The start of an assembler instruction that is none of PTX, whose instructions have types behind a point."""


@dataclass
class PortedText:
    """What became of one file.

    Attributes:
        text: The result.
        replacements: What was written, in order.
        items: What a person has to look at, in order.
        kernels: Its kernels.
        launches: Where it starts kernels.
        macros: Those that it defines and that represent a kernel or a launch.
        unexplained: Names that nothing here explains; one that a file of the tree declares is the project's own.
        own: Names of the project with CUDA in them, with how often each is used.
        guards: Those of them that a condition of the preprocessor asks for, with the lines; those that a file of the
            tree declares are none, and may be missing.
        libraries: The libraries of CUDA that it calls.
        functions: Its kernels and functions for the device, with the assembler of each.
        further: Lines and kinds of further places like an item's, that count for the function that they are in.
    """

    text: str
    replacements: list[Edit] = field(default_factory=list)
    items: list[ReviewItem] = field(default_factory=list)
    kernels: tuple[Kernel, ...] = ()
    launches: tuple[Launch, ...] = ()
    macros: tuple[DeviceMacro, ...] = ()
    unexplained: dict[str, Unexplained] = field(default_factory=dict)
    own: Counter[str] = field(default_factory=Counter)
    guards: dict[str, list[int]] = field(default_factory=dict)
    libraries: set[str] = field(default_factory=set)
    further: list[tuple[int, str]] = field(default_factory=list)
    functions: tuple[FunctionPtx, ...] = ()


def port_text(
    path: str,
    text: str,
    judge: WordJudge,
    files: Container[str],
    shared_limit: int | None = None,
    known_words: set[bytes] | None = None,
    macros: Mapping[str, DeviceMacro] | None = None,
    declared: set[str] | None = None,
) -> PortedText:
    """Port the text of one file.

    Args:
        path: Of the file, relative to the tree, with `/`.
        text: As `tokens.decode` returns it.
        judge: What its words mean.
        files: The paths of the tree, among which a local header is looked for.
        shared_limit: Bytes of shared memory that a block has on the card; None where it is not known.
        known_words: What `tokens.words_of` returns for it, where the judge has learnt them already.
        macros: Those of the tree that are used and represent a kernel or a launch, where they are known.
        declared: Names of the project that a file of the tree declares; those that this one declares are added.
    """
    if known_words is None:
        known_words = words_of(encode(text))
        judge.learn(known_words)
    words = judge.of_interest(known_words)
    if not (words or macros or _starts_kernels(text) or any(tile.encode() in known_words for tile in TILES)):
        return PortedText(text)
    source = SourceTokens(text, known_words)
    declared = set() if declared is None else declared
    return _FilePort(path, source, judge, files, shared_limit, macros or {}, declared).run(words)


class _FilePort:
    """The port of one file."""

    def __init__(
        self,
        path: str,
        source: SourceTokens,
        judge: WordJudge,
        files: Container[str],
        shared_limit: int | None,
        macros: Mapping[str, DeviceMacro],
        declared: set[str],
    ) -> None:
        self.path = path
        self.declared = declared
        self.macros = macros
        self.source = source
        self.text = source.text
        self.judge = judge
        self.files = files
        self.shared_limit = shared_limit
        self.result = PortedText(self.text)
        self.renamed: list[Edit] = []
        self.ptx: list[PtxUse] = []
        self.stays: set[int] = set()  # where a name stays though its word is renamed elsewhere
        self.has_warp_words = False

    def run(self, words: list[str]) -> PortedText:
        result = self.result
        meanings = self.judge.meanings
        self.source.expect(len(words))
        places = {meanings[word].place for word in words}
        self.has_warp_words = any(meanings[word].kind == "warp-intrinsic" and word not in MASKS for word in words)
        for word in words:
            self._word(word, meanings[word])
        if places & {"header", "cuda"}:
            self._headers()
        code = DeviceCode()
        marks = "kernel" in places or "shared" in places or self.macros or self.source.may_have("__device__")
        if marks or _starts_kernels(self.text):
            code = device_code(self.path, self.source, self.shared_limit, self.macros)
            result.kernels, result.launches, result.macros = code.kernels, code.launches, code.macros
            result.items += code.items
        self._hazards(code, words)
        if code.bodies and self.judge.table.takes_cuda_syntax:
            result.functions = tuple(self._functions(code))
        result.items = [item for item in result.items if item.kind not in _OF_THE_DEVICE or code.holds_line(item.line)]
        result.kernels = _with_uses(code.kernels, result.items, result.further)
        doubles = [item for item in result.items if item.kind == "float64"]
        result.items = [item for item in result.items if item.kind != "float64" or item is doubles[0]]
        result.further += [(item.line, item.kind) for item in doubles[1:]]
        if not self.judge.table.takes_cuda_syntax:
            self._leave_kernels(code)
        else:
            self.renamed += [Edit(start, end, self.text[start] * 3) for start, end in code.loose]
        self._odd_places()
        if self.stays:
            self.renamed = [edit for edit in self.renamed if edit.start not in self.stays]
        if self.renamed:
            result.replacements = sorted(self.renamed)
            result.text = apply_edits(self.text, result.replacements)
        result.items.sort(key=lambda item: (item.line, item.column, item.kind))
        lines = {(item.line, item.kind, item.message): item for item in reversed(result.items)}  # one for each line
        result.items = list(reversed(lines.values()))
        return result

    def _leave_kernels(self, code: DeviceCode) -> None:
        """Take what is in code for the device off the list: it is written anew, and each kernel is an item."""
        result = self.result
        requested = {line for each in result.kernels for line in range(each.line, each.last_line + 1)}
        result.items = [item for item in result.items if item.line not in requested]
        result.items += map(self._to_rewrite, result.kernels)
        for name, each in tuple(result.unexplained.items()):
            offsets = tuple(at for at in each.offsets if not code.holds_line(self.source.position(at)[0]))
            if offsets:
                result.unexplained[name] = each._replace(offsets=offsets)
            else:
                del result.unexplained[name]

    def _hazards(self, code: DeviceCode, words: list[str]) -> None:
        """Add what device code, or a branch by an architecture, takes for granted without a name that says so."""
        names = [word for word in words if self.judge.meanings[word].place == "number"]
        if not (code.bodies or names or any(map(self.source.may_have, (*TILES, *CAPABILITY_ATTRIBUTES)))):
            return
        sizes = self._warps()
        offsets: dict[tuple[str, Message], None] = {}
        for hazard in hazards(self.source, code, names, sizes):
            if (hazard.kind, hazard.message) in offsets:
                self.result.further.append((self.source.position(hazard.offset)[0], hazard.kind))
                continue
            offsets[hazard.kind, hazard.message] = None
            self.result.items.append(self._item(hazard.offset, hazard.kind, hazard.message))

    def _to_rewrite(self, kernel: Kernel) -> ReviewItem:
        table = self.judge.table
        message = say(
            "the kernel `{name}` has to be rewritten in {language}", name=kernel.name, language=table.language
        )
        excerpt = readable(kernel.signature)[:160]
        return ReviewItem(self.path, kernel.line, 1, "kernel-rewrite", noted(message, table.note), excerpt)

    def _item(self, offset: int, kind: str, message: Message) -> ReviewItem:
        line, column = self.source.position(offset)
        return ReviewItem(self.path, line, column, kind, message, self.source.line_text(offset))

    def _word(self, word: str, meaning: WordMeaning) -> None:
        if meaning.place == "header":
            if not meaning.owner:
                return
        elif meaning.place in ("kernel", "shared", "number"):
            return
        elif meaning.place:
            getattr(self, f"_place_{meaning.place.replace('-', '_')}")(word)
            return
        places = list(self.source.places(word))
        if not places:
            return
        if meaning.use:
            length = len(word)
            self.renamed += [Edit(at, at + length, meaning.use) for at in places]
        if meaning.owner:
            self._owned(word, meaning, places)
        elif meaning.kind:
            self._reviewed(word, meaning, places)

    def _owned(self, word: str, meaning: WordMeaning, places: list[int]) -> None:
        """Note a name that is in no table: whether the file declares it, and where it is used."""
        result = self.result
        if meaning.owner != "device":
            result.own[word] += len(places)
        if word in self.declared:
            return
        left = []
        guards = []
        for at in places:
            directive = self.source.directive_at(at)
            if self._is_declaration(at, at + len(word), directive):
                self.declared.add(word)
                return
            if directive is None or directive.word not in _PROSE:
                left.append(at)
            asks = directive is not None and directive.word in ("if", "ifdef", "ifndef", "elif")
            if asks and not word.startswith("__"):  # such names are the compiler's
                guards.append(self.source.position(at)[0])
        if guards:
            result.guards.setdefault(word, []).extend(guards)
        if left:
            self._unexplained(word, word, "device-function" if meaning.owner == "device" else UNKNOWN, left)

    def _unexplained(self, name: str, declared_as: str, kind: str, places: list[int]) -> None:
        each = Unexplained(name, declared_as, kind, tuple(places), len(places), self.source)
        self.result.unexplained[name] = each

    def _reviewed(self, word: str, meaning: WordMeaning, places: list[int]) -> None:
        kind = meaning.kind
        if kind == "version-guard":
            self._version(word, places)
            return
        if kind == "atomic":
            return  # one item for each type: `hazards`
        if kind in ("texture", "float64") and word in ("texture", "surface"):
            places = [at for at in places if self.text[at + len(word) :].lstrip()[:1] == "<"]
        if kind == "tensor-core" and word == "wmma":
            places = [at for at in places if self.text[at + 4 : at + 6] == "::" or self.text[at - 2 : at] == "::"]
        if kind == "inline-assembly":
            places = [
                at for at in places if self.text[at + len(word) : at + len(word) + 40].lstrip()[:1] in ("(", "v", "_")
            ]
            if not any(mark in self.text for mark in _DEVICE_MARKS):
                places = [at for at in places if not _OF_THE_HOST.match(self.text, at + len(word))]
        if word in MASKS and not self.has_warp_words:
            return
        if kind == "inline-assembly":
            self._assembly(places)
            return
        listed = places if meaning.every or kind in _OF_THE_DEVICE else places[:1]
        for at in listed:
            self.result.items.append(self._item(at, kind, self._message(kind, word, meaning, len(places))))
        if kind in _FEATURES:
            self.result.further += [(self.source.position(at)[0], kind) for at in places[len(listed) :]]
        if kind == "library-call":
            self.result.libraries.add(_library(word))

    def _assembly(self, places: list[int]) -> None:
        """List each assembler instruction with what replaces it."""
        for at in places:
            use = ptx_use(self.source, at)
            self.ptx.append(use)
            self.result.items.append(self._item(at, "inline-assembly", use.message()))

    def _functions(self, code: DeviceCode) -> Iterator[FunctionPtx]:
        """Yield the kernels and functions for the device, each with its PTX."""
        text = self.source.code
        kernels = {kernel.body: kernel for kernel in code.kernels}
        for body in dict.fromkeys(code.bodies):
            kernel = kernels.get(body)
            name = kernel.name if kernel is not None else function_name(text, body[0])
            uses = tuple(use for use in self.ptx if body[0] <= use.offset < body[1])
            if name:
                yield FunctionPtx(name, uses, text, body)

    def _warps(self) -> str:
        """Return how many threads a warp has on the target's cards, in words; empty where that is not known."""
        sizes: dict[int, list[str]] = {}
        for limit in self.judge.table.limits:
            if limit.warp:
                sizes.setdefault(limit.warp, []).append(limit.architecture)
        return ", ".join(f"{', '.join(names)}: {warp}" for warp, names in sorted(sizes.items()))

    def _message(self, kind: str, word: str, meaning: WordMeaning, count: int) -> Message:
        times = str(count)
        if kind in ("warp-size", "warp-intrinsic"):
            return self._about_warps(word, times)
        row = self.judge.table.names.get(word)
        if kind == "no-counterpart":
            return noted(say("`{name}` stays as it is (uses: {count})", name=word, count=times), row and row.note)
        if kind == "library-call":
            if not meaning.use:
                return say(
                    "`{name}` has no counterpart in the table of the target (uses: {count})", name=word, count=times
                )
            return say(
                "`{name}` is renamed to `{use}` (uses: {count}): check that the target's library has it",
                name=word,
                use=meaning.use,
                count=times,
            )
        if kind == "dispatch":
            return say("`{name}` keeps its dtypes (uses: {count})", name=word, count=times)
        if meaning.use:
            return say("`{name}` is renamed to `{use}` (uses: {count})", name=word, use=meaning.use, count=times)
        return say("`{name}` (uses: {count})", name=word, count=times)

    def _about_warps(self, word: str, count: str) -> Message:
        """Say how many threads a warp has on the target's cards, where that is known."""
        known = self._warps()
        if not known:
            return say("`{name}` (uses: {count})", name=word, count=count)
        return say("`{name}` (uses: {count}); threads of a warp: {known}", name=word, count=count, known=known)

    def _version(self, word: str, places: list[int]) -> None:
        for at in places:
            self.result.items.append(
                self._item(
                    at, "version-guard", say("`{name}` is left as it is: its value is a CUDA version", name=word)
                )
            )

    # --- words whose place decides ---

    def _place_cuda(self, word: str) -> None:
        found = cuda_word(self.source, self.judge)
        self.renamed += found.renamed
        self.stays |= found.stays
        self.result.items += [self._item(*item) for item in found.items]
        if found.arguments:
            self.result.own[word] += found.arguments
        if found.unclear:
            self._unexplained(LIBRARY_NAMESPACE, word, UNKNOWN, found.unclear)
        if found.others:
            self._owned(word, WordMeaning(owner="project"), found.others)
        for name, places in found.undeclared.items():
            self._unexplained(name, name.rpartition("::")[2], "no-counterpart", places)

    def _place_key(self, word: str) -> None:
        contexts = self.judge.contexts
        for at in self.source.places(word):
            ahead, behind = before(self.text, at), self.text[at + len(word) : at + len(word) + 200].lstrip()[:1]
            row = None
            if ahead == "::":
                owner = last_word(self.text[max(0, at - 120) : self.text.rindex("::", 0, at)].rstrip())
                if owner in _KEY_OWNERS:
                    row = contexts.get(("device", word)) or contexts.get(("key", word))
            elif ahead == "," and behind == ",":
                row = contexts.get(("key", word))
            if row is not None:
                self.renamed.append(Edit(at, at + len(word), row.use))
            else:
                message = say("no rule says what `{name}` means here", name=word)
                self.result.items.append(self._item(at, "torch-device", message))

    def _place_method(self, word: str) -> None:
        contexts = self.judge.contexts
        row, of_type = contexts.get(("method", word)), contexts.get(("type", "type"))
        others = []
        for at in self.source.places(word):
            is_called = _CALL.match(self.text, at + len(word)) is not None
            if not is_called or before(self.text, at) not in (".", "->"):
                others.append(at)
                continue
            if row is None:
                message = say("`is_cuda()` returns false for the target's tensors")
                self.result.items.append(self._item(at, "torch-device", message))
                continue
            kind = type_before(self.source.code, at)
            if kind is not None and of_type is not None:
                self.renamed.append(Edit(kind, kind + len("type"), of_type.use))
            elif kind is not None or has_no_such_method(self.source, at):
                message = say(
                    "`{name}()` of a type stays: a type has no `{use}()`; ask the tensor, or its device",
                    name=word,
                    use=row.use,
                )
                self.result.items.append(self._item(at, "no-counterpart", message))
                continue
            self.renamed.append(Edit(at, at + len(word), row.use))
        if others:
            self._owned(word, WordMeaning(owner="project"), others)

    def _place_capability(self, word: str) -> None:
        """Report the numbers of a card's architecture, where the file requests a card's properties."""
        if not _PROPERTIES.search(self.text):
            return
        for at in self.source.places(word):
            if before(self.text, at) in (".", "->") and _CALL.match(self.text, at + len(word)) is None:
                message = say("`{name}` is a number of NVIDIA's architectures", name=word)
                self.result.items.append(self._item(at, "capability", message))

    def _place_arch(self, word: str) -> None:
        """Rename `__CUDA_ARCH__` where it only asks for device code; report where its value counts."""
        use = self.judge.own.get(word, "")
        row = self.judge.table.macros.get(word) if self.judge.default else None
        use = use or (row.use if row is not None else "")
        for at in self.source.places(word):
            directive = self.source.directive_at(at)
            line = self.text[directive.start : directive.end] if directive is not None else ""
            asked = directive is not None and directive.word in ("ifdef", "ifndef", "if", "elif")
            if asked and not _COMPARED.search(line) and use:
                self.renamed.append(Edit(at, at + len(word), use))
                continue
            message = say("`{name}` is left as it is: its value is an NVIDIA architecture", name=word)
            self.result.items.append(self._item(at, "version-guard", message))

    def _place_device_runtime(self, word: str) -> None:
        for at in self.source.places(word):
            if _CALL.match(self.text, at + len(word)) is not None and before(self.text, at) not in (".", "->"):
                message = say("`{name}` on the device needs support by the runtime", name=word)
                self.result.items.append(self._item(at, "device-runtime", message))

    def _is_declaration(self, start: int, end: int, directive: Directive | None) -> bool:
        """Whether a name is declared at a place, as far as the tokens around it tell."""
        code = self.source.code
        if directive is not None:
            return directive.word == "define" and is_declared_by_macro(code, directive.body, start, end)
        return is_declared(code, start, end)

    # --- headers, strings, and what has no name ---

    def _headers(self) -> None:
        for token in self.source.opaque:
            if token.kind is not TokenKind.HEADER:
                continue
            written = self.text[token.start : token.end]
            outcome = header_use(written, self.path, self.judge, self.files)
            if outcome.use != written:
                self.renamed.append(Edit(token.start, token.end, outcome.use))
            if outcome.message is not None:
                self.result.items.append(self._item(token.start, outcome.kind, outcome.message))

    def _code_in_texts(self) -> Iterator[ReviewItem]:
        """Yield the texts that hold device code, as a compiler at run time is given it."""
        for token in self.source.opaque:
            inside = self.text[token.start : token.end]
            if token.kind in (TokenKind.STRING, TokenKind.RAW_STRING) and (
                "__global__" in inside or "__device__" in inside
            ):
                yield self._item(token.start, "string", say("a text holds device code, which is not ported"))

    def _odd_places(self) -> None:
        text, items = self.text, self.result.items
        for token in self.source.unclosed:
            items.append(self._item(token.start, "unclosed", say("a {kind} is not closed", kind=token.kind.value)))
        if self.source.may_have("cuda") and '"cuda' in text:
            for match in _CUDA_STRING.finditer(text):
                if self._is_string(match.start()):
                    message = say("the string {text} names the device", text=match.group())
                    items.append(self._item(match.start(), "string", message))
        if "__global__" in text or "__device__" in text:
            items += self._code_in_texts()
        if self.source.may_have("jit"):
            items += self._nameless_load()
        if self.source.is_divided:
            items += self._split_names()
        if self.source.may_have("define") and "##" in text:
            for match in _PASTE.finditer(text):
                if self.source.is_code(match.start()):
                    message = say("`##` joins `{name}` to another token", name=match.group().strip())
                    items.append(self._item(match.start(), "built-name", message))
        if "?" in text and "??" in text:
            for match in _TRIGRAPH.finditer(text):
                message = say("a trigraph continues the line only with `-trigraphs`")
                if match.group().endswith("="):
                    message = say("a trigraph is a `#` only with `-trigraphs`: the line was not read as a directive")
                items.append(self._item(match.start(), "built-name", message))

    def _nameless_load(self) -> Iterator[ReviewItem]:
        """Yield the first load of a TorchScript file, if nothing here registers the name of the device."""
        row = self.judge.table.names.get("kCUDA")
        if row is None or row.use != "kPrivateUse1" or "register_privateuse1_backend" in self.text:
            return
        for match in _MODEL_LOAD.finditer(self.text):
            if self.source.is_code(match.start()):
                yield self._item(
                    match.start(),
                    "device-name",
                    say("no device name is registered in this file before the model is loaded"),
                )
                return

    def _is_string(self, offset: int) -> bool:
        token = self.source.opaque_at(offset)
        return token is not None and token.start == offset and token.kind is TokenKind.STRING

    def _split_names(self) -> Iterator[ReviewItem]:
        for match in _SPLIT.finditer(self.text):
            start, end = match.span()
            if not (is_word(self.text[start - 1 : start]) and is_word(self.text[end : end + 1])):
                continue
            if not self.source.is_code(start - 1):
                continue
            while start and (self.text[start - 1].isalnum() or self.text[start - 1] == "_"):
                start -= 1
            while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
                end += 1
            name = self.text[start:end].replace("\\\r\n", "").replace("\\\n", "")
            words = {name.encode("latin-1")}
            self.judge.learn(words)
            if self.judge.of_interest(words):
                yield self._item(start, "built-name", say("a line break splits `{name}`", name=name))


def _with_uses(
    kernels: Iterable[Kernel], items: Iterable[ReviewItem], further: Iterable[tuple[int, str]]
) -> tuple[Kernel, ...]:
    """Return the kernels with what each has that a person has to look at, by kind."""
    places = sorted([*((item.line, item.kind) for item in items), *further])
    found = []
    for kernel in kernels:
        inside = places[bisect_left(places, (kernel.line, "")) : bisect_left(places, (kernel.last_line + 1, ""))]
        found.append(kernel._replace(uses=tuple(sorted(Counter(kind for _, kind in inside).items()))))
    return tuple(found)


def _starts_kernels(text: str) -> bool:
    """Whether a text may start a kernel, be it with blanks inside of `<<<`."""
    return "<<" in text and any(opening in text for opening in ("<<<", "<< <", "< <<"))


def _library(word: str) -> str:
    return next(filter(word.startswith, LIBRARIES), "")
