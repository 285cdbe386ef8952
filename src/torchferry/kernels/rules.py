"""The user's own rules: a TOML of this project, or the JSON that the vendors' tools take.

A TOML says which names and headers are which::

    [names]
    MMCV_WITH_CUDA = "MMCV_WITH_MUSA"

    [headers]
    "acme/cuda_ops.h" = "acme/musa_ops.h"

A JSON maps a text to another, and the vendors' tools replace it wherever it stands. It is understood here as what it
means: a name, a header, a suffix, a word in its context. What would change more is not applied, and named
(`MapRule.verdict`), unless the user asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from torchferry.backends.kernel_table import KernelTable, Renamed
from torchferry.core import toml
from torchferry.core.errors import UsageError
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_NAME = lazy_regex(r"[A-Za-z_]\w*\Z")
_INCLUDE = lazy_regex(r'\s*#\s*include\s*[<"]([^<>"]+)[>"]\s*\Z')
_HEADER = lazy_regex(r"[\w./+-]+\.(?:h|hpp|hh|cuh|muh|inl)\Z")
_VERSIONS = lazy_regex(r"(?=\w+\Z)\w*(?:VERSION|_VER_M|CUDA_ARCH)")
_DISPATCH = lazy_regex(r"(?:AT|TORCH)_DISPATCH_\w+\Z")
_TOO_SHORT = frozenset({"cu", "nv", "cuda", "CU", "NV", "CUDA", "Cuda", "cub", "half", "double"})


class RuleVerdict(str, Enum):
    """What became of a rule."""

    APPLIED = "applied"
    KNOWN = "known"
    """The target's table says the same, or something more exact."""
    NAMES_ONLY = "no effect"
    """It changes names that nothing depends on, such as guards against including a header twice."""
    UNSAFE = "unsafe"
    """It changes more than names; applied only where the user asks for it."""


class MapRule(NamedTuple):
    """One rule of the user's.

    Attributes:
        name: What it replaces.
        use: What it writes.
        verdict: What becomes of it.
        reason: Why; for the user.
    """

    name: str
    use: str
    verdict: RuleVerdict
    reason: Message


class RuleSet(NamedTuple):
    """The user's rules, as they are applied.

    Attributes:
        names: By the identifier; a header by `#include ` and its name, the namespace by `::cuda::`.
        texts: Text that is replaced in code wherever it stands; only of unsafe rules that the user wants.
        rules: All of them, in their order.
        contexts: Words that mean CUDA in one place alone, as `KernelTable.contexts`; only where the target's are off.
    """

    names: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple default, never mutated
    texts: dict[str, str] = {}  # noqa: RUF012 - as above
    rules: tuple[MapRule, ...] = ()
    contexts: dict[tuple[str, str], Renamed] = {}  # noqa: RUF012 - as above


def read_rules(file: Path) -> dict[str, str]:
    """Return the rules of a file: TOML or, by its suffix, JSON.

    Raises:
        UsageError: the file cannot be read, or is not what it should be; says where.
    """
    try:
        if file.suffix == ".json":
            document = parsed_json(read_text(file, LARGEST_SETTINGS))
            if not isinstance(document, dict) or not all(isinstance(use, str) for use in document.values()):
                raise UsageError(say("{path}: not a JSON object that maps strings to strings", path=file))
            return document
        return _toml_rules(file, toml.load(file))
    except OSError as error:
        raise UsageError(say("cannot read {path}: {error}", path=file, error=error.strerror)) from None
    except (toml.TOMLDecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UsageError(say("{path}: {error}", path=file, error=error)) from None


def _toml_rules(file: Path, document: Mapping[str, object]) -> dict[str, str]:
    rules: dict[str, str] = {}
    for section, rows in document.items():
        if section not in ("names", "headers") or not isinstance(rows, dict):
            raise UsageError(
                say("{path}: the section `{section}` is not known", path=file, section=section),
                say("the sections are [names] and [headers]"),
            )
        for name, use in rows.items():
            if not isinstance(use, str) or not use or "\n" in use:
                raise UsageError(
                    say(
                        "{path}: the value of `{name}` must be a string on one line, and not empty",
                        path=file,
                        name=name,
                    )
                )
            if section == "names" and not (_NAME.match(name) and _NAME.match(use)):
                raise UsageError(
                    say(
                        "{path}: [names] maps identifiers, and `{name}` or `{use}` is not one",
                        path=file,
                        name=name,
                        use=use,
                    )
                )
            rules[name if section == "names" else f"#include {name}"] = use
    return rules


def rule_set(rules: Mapping[str, str], table: KernelTable, allow_unsafe: bool, default: bool = True) -> RuleSet:
    """Return what is done about the user's rules.

    Args:
        rules: As they are written.
        table: The target's.
        allow_unsafe: Whether those are applied that change more than names.
        default: Whether the target's own rules are applied; without them a rule that the table has, too, is needed.
    """
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    contexts: dict[tuple[str, str], Renamed] = {}
    judged = []
    for name, use in rules.items():
        rule = _judged(name, use, table)
        if rule.verdict is RuleVerdict.KNOWN and not default and name not in table.suffixes:
            rule = rule._replace(
                verdict=RuleVerdict.APPLIED,
                reason=say("the target's table has it, too, and its rules are not applied"),
            )
        judged.append(rule)
        if rule.verdict is RuleVerdict.APPLIED:
            header, context = _header_of(name), _context_of(name)
            if header:
                names[f"#include {header}"] = _header_use(use)
            elif context is not None:
                contexts[context] = Renamed(context[1], use.strip(":,. ()"), "--map")
            else:
                names[name] = use
        elif rule.verdict is RuleVerdict.UNSAFE and allow_unsafe:
            (names if _NAME.match(name) else texts)[name] = use
    return RuleSet(names, texts, tuple(judged), contexts)


def without_effect(rules: Iterable[MapRule]) -> Iterator[Message]:
    """Yield what there is to say of the rules that were not applied, since nothing depends on what they change."""
    for rule in rules:
        if rule.verdict is RuleVerdict.NAMES_ONLY:
            yield say("not applied: `{name}` -> `{use}`: {reason}", name=rule.name, use=rule.use, reason=rule.reason)


def _context_of(name: str) -> tuple[str, str] | None:
    """Return the place and the word of a rule that is about one place alone: `::cuda::`, `, CUDA,`, `.is_cuda()`."""
    if name == "::cuda::":
        return "namespace", "cuda"
    if name.strip(", ") == "CUDA" and name.count(",") == 2:
        return "key", "CUDA"
    return ("method", "is_cuda") if name.strip(".()") == "is_cuda" else None


def _header_of(name: str) -> str:
    if name.startswith("#include ") and '"' not in name and "<" not in name:
        return name.partition(" ")[2]
    match = _INCLUDE.match(name)
    return match[1] if match else name if _HEADER.match(name) and "/" in name else ""


def _header_use(use: str) -> str:
    match = _INCLUDE.match(use)
    return use[use.index(match[1]) - 1 :].strip() if match else use


def _judged(name: str, use: str, table: KernelTable) -> MapRule:
    def rule(verdict: RuleVerdict, reason: Message) -> MapRule:
        return MapRule(name, use, verdict, reason)

    header = _header_of(name)
    if header:
        row = table.headers.get(header)
        if row is not None and row.use in use:
            return rule(RuleVerdict.KNOWN, say("the target's table already has this header"))
        return rule(RuleVerdict.APPLIED, say("a header"))
    if name == use:
        return rule(RuleVerdict.NAMES_ONLY, say("it changes nothing"))
    if name in table.suffixes:
        return rule(
            RuleVerdict.KNOWN,
            say("the port already renames the suffixes of files, and of headers whose file is in the tree"),
        )
    if name == "::cuda::" and ("namespace", "cuda") in table.contexts:
        return rule(
            RuleVerdict.KNOWN,
            say("the target's table already has libtorch's namespaces `at` and `c10`; other namespaces stay"),
        )
    if name.strip(", ") == "CUDA" and name.count(",") == 2:
        return rule(RuleVerdict.KNOWN, say("the target's table already has dispatch keys between two commas"))
    if name.strip(".()") == "is_cuda":
        return rule(RuleVerdict.KNOWN, say("the target's table already has this method"))
    if not _NAME.match(name):
        return rule(RuleVerdict.UNSAFE, say("the text would be replaced anywhere, also in paths of your own headers"))
    if name in _TOO_SHORT:
        return rule(
            RuleVerdict.UNSAFE,
            say("`{name}` is too general: it also occurs in code that has nothing to do with CUDA", name=name),
        )
    if _DISPATCH.match(name) and use != name:
        return rule(
            RuleVerdict.UNSAFE,
            say("the operators would lose dtypes: float16 or bfloat16 would raise instead of being computed"),
        )
    if _VERSIONS.match(name):
        return rule(RuleVerdict.UNSAFE, say("the value is a CUDA version, and the new name has other version numbers"))
    if not _NAME.match(use):
        return rule(RuleVerdict.UNSAFE, say("`{use}` is not a name", use=use))
    if name.startswith("_") and name.strip("_") in ("CU", "CUH", "CU_H", "H", "CU_INC"):
        return rule(RuleVerdict.NAMES_ONLY, say("part of an include guard, whose name has no effect"))
    if table.use_of(name) == use:
        return rule(RuleVerdict.KNOWN, say("the target's table already has this rule"))
    return rule(RuleVerdict.APPLIED, say("a name, replaced where it is a whole identifier"))
