"""Read what CANN's operator library takes: from the pages of its functions, and from the checks in its C++.

A page has a table for each function: names of parameters, dtypes, ranks. Parts for some products stand between
`<!-- npu="910b" id1 -->` and `<!-- end id1 -->`. The C++ has lists of dtypes, chosen by the product. A dtype counts as
refused where the page does not name it for the product **and** no list that the C++ could check the parameter with has
it: the pages are written by hand, and what the code takes, it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from plugin_calls import Function, closing, functions, split_arguments, without_comments

CARDS = ("910", "910b", "A3", "310p", "310b", "950")
"""Products, as the pages' marks call them: 910 (Atlas training), 910B (A2), 910_93 (A3), 310P, 310B and 950."""

DTYPES = {
    "FLOAT": "float32",
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "BF16": "bfloat16",
    "DOUBLE": "float64",
    "FLOAT64": "float64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "BOOL": "bool",
    "COMPLEX32": "complex32",
    "COMPLEX64": "complex64",
    "COMPLEX128": "complex128",
    "FLOAT8_E4M3FN": "float8_e4m3fn",
    "FLOAT8_E5M2": "float8_e5m2",
    "HIFLOAT8": "",
    "FLOAT8_E8M0": "float8_e8m0fnu",
    "FLOAT4_E2M1": "",
    "FLOAT4_E1M2": "",
    "INT4": "",
    "STRING": "",
    "QINT8": "qint8",
    "QUINT8": "quint8",
    "QINT32": "qint32",
    "QINT16": "",
    "QUINT16": "",
}
"""What CANN calls a dtype, and torch; empty for what torch has not."""

_MARK = re.compile(r"<!--\s*npu=\"(?P<cards>[^\"]*)\"\s*(?P<id>id\d+)\s*-->(?P<text>.*?)<!--\s*end\s+(?P=id)\s*-->",
                   re.DOTALL)  # fmt: skip
_TAG = re.compile(r"<[^<>]*>")
_DTYPE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")


@dataclass(frozen=True)
class Parameter:
    """What a page or the C++ says of one parameter on one card.

    Attributes:
        dtypes: torch's dtypes; None where it names none.
        rank: The highest number of dimensions; 0 where nothing general is said.
        excluded: Dtypes that the page names as such that the card does not take.
        is_for_card: Whether the C++ has a list of its own for the card.
        named: Those that are certainly taken: the page, or a check of the parameter in the C++, names them; None where
            neither names any.
    """

    dtypes: frozenset[str] | None = None
    rank: int = 0
    excluded: frozenset[str] = frozenset()
    is_for_card: bool = False
    named: frozenset[str] | None = None


@dataclass(frozen=True)
class Page:
    """What the page of a function says for one card.

    Attributes:
        names: The parameters in the order of C++.
        tensors: Those of them that are tensors, or lists of tensors.
        parameters: What is said of them.
        deterministic: Whether it computes the same each time by default; None where it is not said.
        is_there: Whether the card has it.
    """

    names: tuple[str, ...]
    tensors: frozenset[str]
    parameters: Mapping[str, Parameter]
    deterministic: bool | None = None
    is_there: bool | None = None


def for_card(text: str, card: str) -> tuple[str, list[str]]:
    """Return a page without what is for other cards, and what is for this one among others."""
    own: list[str] = []

    def choose(found: re.Match[str]) -> str:
        if card not in found["cards"].split(","):
            return ""
        own.append(found["text"])
        return found["text"]

    before = None
    while before != text:
        before = text
        text = _MARK.sub(choose, text)
    return text, own


_PROTOTYPE = re.compile(r"aclnnStatus\s+(?P<name>aclnn\w+)GetWorkspaceSize\s*\(")


def read_page(text: str, card: str) -> dict[str, Page]:
    """Return the functions on a page, as it stands for a card."""
    plain, _ = for_card(text, card)
    names = {}
    tensors = {}
    for found in _PROTOTYPE.finditer(plain):
        closed = closing(plain, found.end() - 1)
        if closed > 0:
            given = split_arguments(plain[found.end() : closed])
            names[found["name"]] = tuple(map(_last_word, given))
            tensors[found["name"]] = frozenset(_last_word(each) for each in given if "aclTensor" in each)
    is_there = _is_there(text, card)
    deterministic = _is_deterministic(plain)
    pages = {}
    for function, section in _sections(plain):
        if function in names:
            parameters = dict(_parameters(section, names[function]))
            pages[function] = Page(names[function], tensors[function], parameters, deterministic, is_there)
    return pages


def _last_word(declared: str) -> str:
    return re.split(r"[\s*&]+", declared.strip())[-1]


def _is_there(text: str, card: str) -> bool | None:
    for found in _MARK.finditer(text):
        if card in found["cards"].split(","):
            if re.search(r"</term>\s*：\s*支持\s*$", found["text"]):
                return True
            if re.search(r"</term>\s*：\s*不支持\s*$", found["text"]):
                return False
    return None


def _is_deterministic(plain: str) -> bool | None:
    said = re.findall(r"默认(?:为|采用)?(非)?确定性实现", plain)
    return None if len(set(said)) != 1 else not said[0]


def _sections(plain: str) -> Iterator[tuple[str, str]]:
    heads = [*re.finditer(r"^##\s+(?P<name>aclnn\w+?)(?P<first>GetWorkspaceSize)?\s*$", plain, re.MULTILINE)]
    for at, head in enumerate(heads):
        if head["first"]:
            end = heads[at + 1].start() if at + 1 < len(heads) else len(plain)
            yield head["name"], plain[head.end() : end]


def _parameters(section: str, names: tuple[str, ...]) -> Iterator[tuple[str, Parameter]]:
    table = re.search(r"<table.*?</table>", section, re.DOTALL)
    if table is None or "数据类型" not in table[0].partition("</tr>")[0]:
        yield from _listed(section, names)
        return
    rows = re.findall(r"<tr>(.*?)(?=<tr>|</tr>|</table>)", table[0], re.DOTALL)
    head = [_plain(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", rows[0], re.DOTALL)] if rows else []
    at_dtype = next((at for at, cell in enumerate(head) if cell.startswith("数据类型")), -1)
    at_rank = next((at for at, cell in enumerate(head) if cell.startswith("维度")), -1)
    if at_dtype < 0:
        return
    returned = section.find("返回值", table.end())
    beside = section[table.end() : returned if returned > 0 else None]
    for cells in _cells(rows[1:], len(head)):
        name = re.match(r"\w+", cells[0])
        if name is None or name[0] not in names:
            continue
        dtypes = _dtypes(cells[at_dtype])
        excluded = _excluded(name[0], names, beside)
        if dtypes is not None:
            dtypes -= excluded
        yield name[0], Parameter(dtypes, _rank(cells[at_rank]) if at_rank >= 0 else 0, excluded)


def _cells(rows: Iterable[str], width: int) -> Iterator[list[str]]:
    """Yield the cells of each row of this width; one that spans several rows is a cell of each."""
    lasting: dict[int, tuple[int, str]] = {}
    for row in rows:
        given = iter(re.findall(r"<td(?P<how>[^>]*)>(?P<text>.*?)</td>", row, re.DOTALL))
        cells = []
        for at in range(width):
            left, text = lasting.pop(at, (0, ""))
            if not left:
                how, inner = next(given, ("", None))
                if inner is None:
                    break
                text = _plain(inner)
                spans = re.search(r"rowspan=\"?(\d+)", how)
                left = int(spans[1]) if spans else 1
            if left > 1:
                lasting[at] = (left - 1, text)
            cells.append(text)
        if len(cells) == width and next(given, None) is None:
            yield cells


_ITEM = re.compile(r"^ *- *`?(?P<name>\w+)`?\s*[（(](?:const\s*)?aclTensor", re.MULTILINE)
_NAMED = re.compile(r"数据类型(?:必须)?(?:支持|为)\s*(?P<dtypes>[A-Z][A-Z0-9_\\、，, ]+)")


def _listed(section: str, names: tuple[str, ...]) -> Iterator[tuple[str, Parameter]]:
    """Yield what a section without a table names for its parameters, which nothing is refused for."""
    items = [*_ITEM.finditer(section)]
    for at, item in enumerate(items):
        end = items[at + 1].start() if at + 1 < len(items) else len(section)
        lists = [
            _dtypes(found["dtypes"]) for found in _NAMED.finditer(section[item.end() : end].partition("返回值")[0])
        ]
        if item["name"] in names and lists and all(each is not None for each in lists):
            named = frozenset[str]().union(*(each for each in lists if each is not None))
            yield item["name"], Parameter(named=named)


def _plain(cell: str) -> str:
    return re.sub(r"\s+", "", _TAG.sub("", cell))


def _dtypes(cell: str) -> frozenset[str] | None:
    """Return the dtypes that a cell lists; None for what is no list of dtypes alone."""
    words = [word for word in re.split(r"[、，,/\s（）()]+", cell.rstrip("。").replace("\\_", "_")) if word]
    if not words or any(word not in DTYPES for word in words):
        return None
    return frozenset(DTYPES[word] for word in words) - {""}


def _excluded(name: str, names: tuple[str, ...], beside: str) -> frozenset[str]:
    """Return the dtypes that the text beside the table excludes for a parameter."""
    excluded: frozenset[str] = frozenset()
    for line in beside.splitlines():
        text = re.sub(r"<term>.*?</term>", "", line)
        found = re.search(r"不支持(?P<rest>[^。；]*)", text)
        if found is None or re.search(r"当|如果|若|时|仅|场景", text):
            continue
        of = [each for each in names if re.search(rf"(?<![A-Za-z]){each}(?![A-Za-z])", text)]
        if of and name not in of:
            continue
        excluded |= {DTYPES.get(word, "") for word in _DTYPE.findall(found["rest"].replace("\\_", "_"))}
    return excluded - {""}


def _rank(cell: str) -> int:
    found = re.fullmatch(r"[012]-(?P<most>8)|(?:不超过|不大于|不高于)8维?|不支持8维以上", cell)
    return 8 if found else 0


# --- C++ ---

_LIST = re.compile(
    r"initializer_list<\s*(?:op::|ge::)?DataType\s*>&?\s*(?P<name>\w+)\s*(?:=\s*)?\{(?P<values>[^{}]*)\}"
)
_CHECK = re.compile(r"OP_CHECK_DTYPE_NOT_SUPPORT\s*\(")
_MAX_DIM = re.compile(r"OP_CHECK_MAX_DIM\(\s*(?P<name>\w+)\s*,\s*(?P<most>\w+)\s*,")
_NUMBER = re.compile(r"constexpr\s+\w+\s+(?P<name>\w+)\s*=\s*(?P<value>\d+)\s*;")
_NUMBER_2 = re.compile(r"(?:static\s+)?const\s+\w+\s+(?P<name>\w+)\s*=\s*(?P<value>\d+)\s*;")
_V = re.compile(r"GetDtypeSupportListV(?P<kind>[123])\(\s*(?P<new>\w+)\s*,\s*(?P<old>\w+)\s*\)")

_NEW = {"1": frozenset({"910b", "A3"}), "2": frozenset({"910b", "A3", "950"}),
        "3": frozenset({"910b", "A3", "950", "310p", "310b"})}  # fmt: skip
"""The cards for which `GetDtypeSupportListV1` to `V3` return their first list (common/inc/op_api/level2_base.h)."""


class Source:
    """The checks of one C++ file.

    Args:
        text: The file.
    """

    def __init__(self, text: str) -> None:
        plain = without_comments(text)
        self._lists = {found["name"]: _values(found["values"]) for found in _LIST.finditer(plain)}
        self._numbers = {found["name"]: int(found["value"]) for found in _NUMBER.finditer(plain)}
        self._numbers |= {found["name"]: int(found["value"]) for found in _NUMBER_2.finditer(plain)}
        self._functions: dict[str, Function] = {}
        for each in functions(plain):
            self._functions.setdefault(each.name, each)

    def checks(self, function: str, parameters: Iterable[str], card: str) -> dict[str, Parameter]:
        """Return what the C++ behind a function takes, for those of its parameters that it has a list for."""
        start = self._functions.get(f"{function}GetWorkspaceSize")
        if start is None:
            return {}
        wanted = {name: name for name in parameters}
        dtypes: dict[str, frozenset[str] | None] = {}
        ranks: dict[str, int] = {}
        self._for_all: set[str] = set()
        self._follow(start, {name: name for name, _ in start.parameters if name in wanted}, card, dtypes, ranks, set())
        return {
            name: Parameter(
                dtypes.get(name), ranks.get(name, 0), is_for_card=name in dtypes and name not in self._for_all
            )
            for name in wanted
            if name in dtypes or name in ranks
        }

    def _behind(self, function: str) -> Iterator[Function]:
        """Yield the functions of the file that one of the library comes to."""
        start = self._functions.get(f"{function}GetWorkspaceSize")
        met: set[str] = set()
        todo = [start] if start else []
        while todo:
            each = todo.pop()
            if each.name in met:
                continue
            met.add(each.name)
            yield each
            words = set(re.findall(r"\w+", each.body)) - met
            todo += [self._functions[word] for word in words if word in self._functions]

    def lists_behind(self, function: str) -> frozenset[str] | None:
        """Return every dtype in a list that the C++ behind a function reads; None where it reads none."""
        words = {word for each in self._behind(function) for word in re.findall(r"\w+", each.body)}
        lists = [self._lists[word] for word in words if word in self._lists]
        return frozenset[str]().union(*lists) if lists else None

    def looks_at_dtypes(self, function: str) -> bool:
        """Return whether the C++ behind a function checks the dtype of a parameter of its own against a list."""
        return any(_CHECK.search(each.body) for each in self._behind(function))

    def _follow(
        self,
        function: Function,
        names: Mapping[str, str],
        card: str,
        dtypes: dict[str, frozenset[str] | None],
        ranks: dict[str, int],
        met: set[tuple[str, tuple[tuple[str, str], ...]]],
    ) -> None:
        key = (function.name, tuple(sorted(names.items())))
        if key in met or len(met) > 200:
            return
        met.add(key)
        body = function.body
        for found in _CHECK.finditer(body):
            given = split_arguments(body[found.end() : closing(body, found.end() - 1)])
            one = re.sub(r"^\(\*(\w+)\)\[\w+\]$|^(\w+)\[\w+\]$", r"\1\2", given[0]) if given else ""
            if len(given) > 1 and one in names:
                name = names[one]
                allowed = self._named(given[1], function, card)
                if not self._chooses(given[1], function):
                    self._for_all.add(name)
                before = dtypes.get(name, frozenset())
                # a check that cannot be read may let anything pass; of several, the widest counts
                dtypes[name] = None if allowed is None or before is None else before | allowed
        for found in _MAX_DIM.finditer(body):
            most = int(found["most"]) if found["most"].isdigit() else self._numbers.get(found["most"], 0)
            if found["name"] in names and most:
                ranks[names[found["name"]]] = max(most, ranks.get(names[found["name"]], 0))
        for found in re.finditer(r"\b(?P<name>\w+)\s*\(", body):
            callee = self._functions.get(found["name"])
            closed = closing(body, found.end() - 1) if callee else -1
            if callee is None or closed < 0:
                continue
            given = split_arguments(body[found.end() : closed])
            if len(given) <= len(callee.parameters):
                pairs = zip(given, (name for name, _ in callee.parameters), strict=False)
                self._follow(callee, {to: names[one] for one, to in pairs if one in names}, card, dtypes, ranks, met)

    def _chooses(self, expression: str, function: Function) -> bool:
        """Return whether a list depends on the card."""
        if _V.search(expression):
            return True
        if called := re.fullmatch(r"(?P<name>\w+)\(.*\)", expression, re.DOTALL):
            chosen = self._functions.get(called["name"])
            return chosen is not None and len(set(re.findall(r"\w+", chosen.body)) & self._lists.keys()) > 1
        if "?" in expression:
            return True
        return any(self._chooses(value, function) for value in self._values(expression, function))

    def _named(self, expression: str, function: Function, card: str) -> frozenset[str] | None:
        """Return the dtypes of a list that a check names; None where it cannot be read."""
        if found := _V.search(expression):
            name = found["new"] if card in _NEW[found["kind"]] else found["old"]
            return self._lists.get(name)
        if expression in self._lists:
            return self._lists[expression]
        if found := re.fullmatch(r"(?P<name>\w+)\((?:.*)\)", expression, re.DOTALL):
            return self._chosen(self._functions.get(found["name"]), card)
        values = self._values(expression, function)
        lists = [self._named(value, function, card) for value in values]
        if not lists:
            return self._of_names(expression, card)
        whole: frozenset[str] = frozenset()
        for each in lists:
            if each is None:
                return None
            whole |= each
        return whole

    def _chosen(self, function: Function | None, card: str) -> frozenset[str] | None:
        if function is None:
            return None
        if found := _V.search(function.body):
            return self._lists.get(found["new"] if card in _NEW[found["kind"]] else found["old"])
        return self._of_names(function.body, card)

    @staticmethod
    def _values(expression: str, function: Function) -> list[str]:
        """Return what a variable is given in a function."""
        if re.fullmatch(r"\w+", expression) is None:
            return []
        found = re.findall(rf"(?<![\w.>]){expression}\s*=(?!=)\s*([^;]+);", function.body)
        return [value.strip() for value in found if value.strip() != expression]

    def _of_names(self, text: str, card: str) -> frozenset[str] | None:
        """Return the dtypes of the lists that a text names: of those for the card, where some are marked as such."""
        names = [name for name in dict.fromkeys(re.findall(r"\w+", text)) if name in self._lists]
        if not names:
            return None
        own = [name for name in names if _is_for(name, card)]
        own = own or [name for name in names if card == "950" or not _NEWEST.search(name)] or names
        return frozenset().union(*(self._lists[name] for name in own))


def _values(text: str) -> frozenset[str]:
    names = re.findall(r"DT_(\w+)", text)
    return frozenset(DTYPES.get({"BF16": "BFLOAT16"}.get(name, name), "") for name in names) - {""}


_NEWEST = re.compile(r"950|910_?95|910D|REG_?BASE|3510", re.IGNORECASE)


def _is_for(name: str, card: str) -> bool:
    newest = _NEWEST.search(name) is not None
    is_910b = re.search(r"910B|910_?93|2201", name, re.IGNORECASE) is not None and not newest
    if card == "950":
        return newest
    if card in ("910b", "A3"):
        return is_910b
    return not newest and not is_910b


@dataclass
class Library:
    """What is read of one repository of CANN's operators.

    Attributes:
        name: Such as `hicann/ops-math`.
        commit: What was checked out.
        pages: The text of each page, by path.
        sources: The text of each C++ file, by path.
    """

    name: str
    commit: str
    pages: Mapping[str, str]
    sources: Mapping[str, str]
    _parsed: dict[str, Source] = field(default_factory=dict)

    def source_of(self, function: str, page: str) -> tuple[str, Source] | None:
        """Return the C++ file that defines a function: in the folder of its page, else the only one that does."""
        folder = page.rpartition("/docs/")[0]
        head = f"{function}GetWorkspaceSize("
        having = [
            path
            for path, text in self.sources.items()
            if head in text and path.endswith(".cpp") and "/tests/" not in path and "/ut/" not in path
        ]
        near = [path for path in having if path.startswith(folder + "/")] or having
        near = [path for path in near if "experimental" not in path] or near
        if len(near) != 1:
            return None
        if near[0] not in self._parsed:
            self._parsed[near[0]] = Source(self.sources[near[0]])
        return near[0], self._parsed[near[0]]


_CAST_TO = re.compile(r"l0op::Cast\([^;]*DT_")
_CAST = re.compile(r"l0op::Cast\((?![^;]*\b[oO]ut\w*->GetDataType\(\))")
_ON_HOST = re.compile(r"ADD_TO_LAUNCHER_LIST_AICPU|CREAT\w*AICPU|AiCpu", re.IGNORECASE)


def slow_dtypes(library: Library, page: str, dtypes: frozenset[str], card: str, aclnn: str) -> frozenset[str]:
    """Return those of a function's dtypes that the card computes on its host processor (AI CPU).

    They are the ones that the list of the AI Core lacks, in the kernel beside the function, where that has a way to the
    host processor and the function casts to no dtype of its own choice before.

    Args:
        library: Where the function is.
        page: The path of its page.
        dtypes: What it takes.
        card: The card.
        aclnn: The path of its C++.
    """
    folder = page.rpartition("/docs/")[0] + "/op_api/"
    if _CAST_TO.search(library.sources[aclnn]):
        return frozenset()
    kernels = [
        text
        for path, text in library.sources.items()
        if path.startswith(folder) and "/aclnn_" not in path and path.endswith(".cpp") and _ON_HOST.search(text)
    ]
    if len(kernels) != 1:
        return frozenset()
    lists = {found["name"]: _values(found["values"]) for found in _LIST.finditer(without_comments(kernels[0]))}
    core = {name: values for name, values in lists.items() if "AICORE" in name.replace("_", "").upper()}
    own = [values for name, values in core.items() if _is_for(name, card)]
    if not own:
        return frozenset()
    slow = dtypes - frozenset[str]().union(*own) - {"bool"}
    # whole numbers may become others on the way, where there is a cast to a dtype that the C++ works out
    return slow & _STAY if _CAST.search(library.sources[aclnn]) else slow


_STAY = frozenset({"float64", "complex64", "complex128"})
"""Dtypes that no rule of promotion leads to the AI Core's."""


def limits_of(page: Page, source: Source | None, function: str, card: str) -> dict[str, Parameter]:
    """Return what a function takes on a card, by parameter: what its page names, and what its C++ lets pass."""
    of_source = source.checks(function, page.names, card) if source else {}
    behind = source.lists_behind(function) if source else None
    limits = {}
    for name in page.names:
        said, checked = page.parameters.get(name, Parameter()), of_source.get(name)
        has_row = name in page.parameters and said.named is None
        if not has_row and checked is not None and (checked.dtypes is not None or checked.rank):
            # the page has no table: the C++ alone says what is refused
            named = None if checked.dtypes is None else checked.dtypes | (said.named or frozenset())
            limits[name] = replace(checked, dtypes=named, named=named if named is not None else said.named)
            continue
        dtypes = said.dtypes
        of_code = checked.dtypes if checked is not None else None
        sure = [each for each in (said.dtypes, said.named, of_code) if each is not None]
        if dtypes is not None:
            if source is None:
                dtypes = None
            elif checked is not None and checked.dtypes is not None:
                dtypes |= checked.dtypes
            elif source.looks_at_dtypes(function):  # of other parameters alone: this one may be cast
                dtypes = frozenset(DTYPES.values()) - {""} if said.excluded else None
            elif behind is not None:
                dtypes |= behind
        if dtypes is not None and not (checked is not None and checked.is_for_card):
            dtypes -= said.excluded
        rank = checked.rank if checked is not None and checked.rank else said.rank
        if dtypes is not None or rank or sure:
            certain = frozenset[str]().union(*sure)
            certain = certain if dtypes is None else certain & dtypes
            limits[name] = Parameter(dtypes, rank, named=certain if sure else None)
    return limits
