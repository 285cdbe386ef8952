"""What a rehearsal imitates: one card under one plugin version, as far as the facts go.

A profile is made from the backend's tables, and a user may change it with a TOML file for a card that no table
has, or for a machine that differs::

    card = "X1 with half the memory"    # name that the program sees
    extends = "X1"                      # card that everything else is taken from
    devices = 2
    memory = "32GiB"                    # of one device
    capability = [8, 0]                 # or "none": the plugin answers None
    missing = ["aten::sinc.out"]        # operators taken away
    fallback = "error"                  # what happens with a missing one: error, warn or silent
    keeps_parameter_identity = true
    matmul_rounding = "tf32"            # or "hf32", or "" for float32's own
    kernel_limits = "report"            # what no published list has: refuse, report or ignore

    [dtypes]
    float64 = "missing"                 # or narrowed, emulated, limited; native takes a rule away

    [properties]
    multi_processor_count = 64

What nobody knows is treated as on CUDA, and named in `Profile.unknown`, so that no rehearsal claims more than it knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.card_table import Card
from torchferry.backends.cards import default_card, find_card, plain_card
from torchferry.backends.dtype_rules import DTYPE_RULES, DTYPES, NATIVE
from torchferry.backends.kernel_limits import kernel_limits
from torchferry.backends.operators import NAME, load_operators
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core import toml
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.rehearsal import published_limits

MOST_DEVICES = 16
"""As many devices as one machine is rehearsed with."""

FALLBACKS = ("error", "warn", "silent")
"""What a user may ask for; a plugin's own may be `unknown` too."""

ROUNDING_BITS = {"": 0, "tf32": 10, "hf32": 11}
"""How inputs of a matrix product are rounded: explicit mantissa bits that stay; 0 is not at all."""

ROUNDINGS = tuple(ROUNDING_BITS)
"""Names of these."""

_UNKNOWN: dict[str, Message] = {
    "devices": say("how many devices a card has"),
    "memory": say("the memory of a device"),
    "capability": say("the capability of a device"),
    "registered": say("which operators are missing"),
    "version": say("which operators this version of the plugin has (those of the nearest version are taken)"),
    "layouts": say("which operators are missing for sparse and nested tensors"),
    "fallback": say("what happens with a missing operator"),
    "conditions": say("operators that run on the CPU for some arguments only"),
    "identity": say("whether moving a module keeps its Parameter objects"),
}


@dataclass(frozen=True)
class Profile:
    """What a rehearsal imitates. A fact that is not known has the value that CUDA has, and is in `unknown`.

    Attributes:
        target: Name of the backend.
        version: Plugin version; empty when none is known.
        card: Name of the card.
        devices: Number of devices, 1 to `MOST_DEVICES`.
        memory: Bytes of one device; 0 is not limited, because it is not known.
        capability: (major, minor), or None where the plugin answers None or where it is not known.
        capability_known: Whether `capability` is a fact.
        property_names: Fields of `get_device_properties`, in the plugin's order; empty when they are not known.
        none_properties: Fields among them that are None on this plugin.
        properties: Known values of such fields, beside those that `memory` and `capability` give.
        dtypes: Rules for dtypes that differ from CUDA; see `Backend.DTYPES`.
        fallback: What happens with an operator that the plugin lacks: `error`, `warn`, `silent` or `unknown`.
        missing_operators: Operators that the user's file takes away.
        fallback_operators: Operators that the user has run on the CPU, with or without overload.
        registered: Operators that the plugin registers, without `aten::`; None when nobody knows the list.
        sparse: Those that it registers for sparse COO tensors; None when nobody knows.
        sparse_compressed: For CSR and its relatives.
        sparse_products: How it multiplies COO tensors, one of `torchferry.backends.operators.PRODUCTS`.
        nested: For nested tensors of strided layout; those of jagged layout are made of dense ones.
        operators_version: Plugin version that this list was read from.
        operators_torch: torch version that it is for; newer operators are in no list.
        forced_fallback: Registered operators that this card runs on the CPU nonetheless.
        keeps_parameter_identity: Whether `module.to(device)` keeps the Parameter objects.
        matmul_rounding: One of `ROUNDINGS`.
        kernel_limits: What the card's kernels take, as `published_limits.text_of` has it; None where nobody says.
        beyond_limits: What happens with anything else, one of `published_limits.MODES`.
        casts_double: Whether a cast on the device to float64 gives float32.
        saturates: Whether float16 results that are too large become the largest number, and not infinity.
        unknown: The facts that are not known, as short phrases; each is a message of the catalog.
    """

    target: str
    version: str
    card: str
    devices: int = 1
    memory: int = 0
    capability: tuple[int, int] | None = None
    capability_known: bool = False
    property_names: tuple[str, ...] = ()
    none_properties: tuple[str, ...] = ()
    properties: Mapping[str, int | str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fallback: str = "unknown"
    missing_operators: frozenset[str] = frozenset()
    fallback_operators: frozenset[str] = frozenset()
    registered: frozenset[str] | None = None
    sparse: frozenset[str] | None = None
    sparse_compressed: frozenset[str] | None = None
    sparse_products: str = ""
    nested: frozenset[str] | None = None
    operators_version: str = ""
    operators_torch: str = ""
    forced_fallback: frozenset[str] = frozenset()
    keeps_parameter_identity: bool = True
    matmul_rounding: str = ""
    kernel_limits: str | None = None
    beyond_limits: str = "refuse"
    casts_double: bool = False
    saturates: bool = False
    unknown: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the profile as JSON, for a child process; `from_json` makes an equal one of it."""
        values: dict[str, object] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            values[entry.name] = sorted(value) if isinstance(value, frozenset) else value
        return json.dumps(values)

    @staticmethod
    def from_json(text: str) -> Profile:
        """Return the profile that `to_json` wrote.

        Raises:
            ValueError: the text is not such JSON.
        """
        values = parsed_json(text)
        names = {entry.name for entry in fields(Profile)}
        if not isinstance(values, dict) or values.keys() != names:
            raise ValueError(f"a profile has the keys {', '.join(sorted(names))}")
        sets = (
            "missing_operators",
            "fallback_operators",
            "registered",
            "sparse",
            "sparse_compressed",
            "nested",
            "forced_fallback",
        )
        for name in sets:
            values[name] = None if values[name] is None else frozenset(values[name])
        for name in ("capability", "property_names", "none_properties", "unknown"):
            values[name] = None if values[name] is None else tuple(values[name])
        return Profile(**values)


def make_profile(target: Target, card: str = "", devices: int = 0, file: Path | None = None) -> Profile:
    """Return the profile of a card of `target`.

    Args:
        target: Backend and plugin version.
        card: Name or alias of a card; empty for what `file` names, else for the backend's default card. It comes
            before the `card` and `extends` of `file`.
        devices: Number of devices; 0 for what `file` says, else for as many as one card has.
        file: The user's own profile, TOML, which changes what the tables say.

    Raises:
        UsageError: no such card, too many devices, or a key or value in `file` that does not fit.
    """
    backend = target.backend
    if not 0 <= devices <= MOST_DEVICES:
        raise UsageError(
            say_plural(
                "{count} device cannot be rehearsed; name 1 to {most}",
                "{count} devices cannot be rehearsed; name 1 to {most}",
                count=devices,
                most=MOST_DEVICES,
            )
        )
    own = {} if file is None else _read(file)
    base, name = _card(backend, card, own)
    version = target.version or backend.DEFAULT_VERSION
    table = load_operators(backend, version)
    unknown: list[str] = []

    def known(key: str, fact: Any, otherwise: Any, of: str = "") -> Any:
        """Return the user's value for `key`, else the fact, else what represents an unknown one."""
        value = own.get(key, fact)
        if not isinstance(value, Unknown):
            return value
        unknown.append(_UNKNOWN[of or key].template)
        return otherwise

    number = devices or known("devices", base.devices_per_card, 1)
    memory = known("memory", base.memory, 0)
    capability = known("capability", base.capability, None)
    registered = known("registered", table.registered, None)
    layouts = {name: None if isinstance(fact, Unknown) else fact for name, fact in table.layouts.items()}
    if registered is not None and None in layouts.values():
        unknown.append(_UNKNOWN["layouts"].template)
    if registered is not None and table.version not in ("", version) and "registered" not in own:
        unknown.append(_UNKNOWN["version"].template)
    fallback = own.get("fallback", table.fallback)
    if fallback == "unknown":
        unknown.append(_UNKNOWN["fallback"].template)
    if table.sometimes_forced_on(base.name):
        unknown.append(_UNKNOWN["conditions"].template)
    identity = known("keeps_parameter_identity", base.keeps_parameter_identity, True, "identity")
    return Profile(
        target=backend.NAME,
        version=version,
        card=name,
        devices=number,
        memory=memory,
        capability=capability,
        capability_known=_UNKNOWN["capability"].template not in unknown,
        property_names=() if isinstance(base.property_names, Unknown) else base.property_names,
        none_properties=base.none_properties,
        properties=_properties(base, name, own),
        dtypes={dtype: rule for dtype, rule in {**base.dtypes, **own.get("dtypes", {})}.items() if rule != NATIVE},
        fallback=fallback,
        missing_operators=own.get("missing", frozenset()),
        fallback_operators=frozenset(),
        registered=registered,
        **layouts,
        sparse_products=table.sparse_products,
        operators_version=table.version,
        operators_torch=table.torch,
        forced_fallback=table.forced_on(base.name),
        keeps_parameter_identity=identity,
        matmul_rounding=own.get("matmul_rounding", ""),
        kernel_limits=_limits(backend, base),
        beyond_limits=own.get("kernel_limits", "refuse"),
        casts_double=table.casts_double,
        saturates=base.overflow == "saturates",
        unknown=tuple(unknown),
    )


def _card(backend: type[Backend], asked: str, own: Mapping[str, Any]) -> tuple[Card, str]:
    """Return the card that the facts come from, and the name that the program sees."""
    if asked or "extends" in own:
        base = find_card(backend, asked or own["extends"])
        return base, base.name if asked else own.get("card", base.name)
    if "card" not in own:
        base = default_card(backend)
        return base, base.name
    try:
        base = find_card(backend, own["card"])
    except UsageError:
        # A card of the user's own: nothing is taken from another one unless `extends` says so.
        base = plain_card(backend, own["card"])
    return base, base.name


def _limits(backend: type[Backend], base: Card) -> str | None:
    table = kernel_limits(backend)
    if table is None or not table.knows(base.name):
        return None
    return published_limits.text_of(table.on(base.name))


def _properties(base: Card, name: str, own: Mapping[str, Any]) -> dict[str, int | str]:
    """Return the card's properties with the user's, less those that the user's other keys make wrong."""
    stale: set[str] = {"total_memory"} if "memory" in own else set()
    if "capability" in own:
        stale |= {"major", "minor"}
    if name != base.name:
        stale.add("name")
    kept = {key: value for key, value in base.properties.items() if key not in stale}
    return {**kept, **own.get("properties", {})}


def _read(path: Path) -> dict[str, Any]:
    """Return the keys of the user's file, each with its checked value."""
    try:
        document = toml.load(path)
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(say("{path} is not TOML: {error}", path=path, error=error)) from None
    except OSError as error:
        raise UsageError(say("{path} cannot be read: {error}", path=path, error=error.strerror)) from None
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key not in _KEYS:
            problem = unknown_name("setting", key, _KEYS)
            raise UsageError(say("{path}: {problem}", path=path, problem=problem.message), problem.advice)
        try:
            values[key] = _KEYS[key](value)
        except _Unfit as unfit:
            raise UsageError(
                say(
                    "{path}: `{key}` is {value}; write {expected}",
                    path=path,
                    key=".".join((key, *unfit.below)),
                    value=repr(unfit.value),
                    expected=unfit.expected,
                ),
                unfit.advice,
            ) from None
    return values


class _Unfit(Exception):  # noqa: N818 - never leaves this module
    """A value that does not fit: the value, what to write, and the key below the table's where there is one."""

    def __init__(self, value: object, expected: Message, *below: str, advice: Message | None = None) -> None:
        super().__init__(expected.template)
        self.value = value
        self.expected = expected
        self.below = below
        self.advice = advice


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Unfit(value, say("a name in quotes"))
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unfit(value, say("true or false"))
    return value


def _devices(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MOST_DEVICES:
        raise _Unfit(value, say("a number from 1 to {most}", most=MOST_DEVICES))
    return value


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(i?))?b", re.IGNORECASE)


def _memory(value: Any) -> int:
    """Return a size in bytes: a number of them, or a text such as `64GiB` (binary) or `48 GB` (decimal)."""
    size = value if type(value) is int else 0
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        unit = 1024 if match[3] else 1000
        size = int(Fraction(match[1]) * unit ** " kmgt".index((match[2] or " ").lower()))
    if not 0 < size < 2**63:
        raise _Unfit(value, say("a size such as {example} or a number of bytes", example='"64GiB", "48 GB"'))
    return size


def _capability(value: Any) -> tuple[int, int] | None:
    if value == "none":
        return None
    if not isinstance(value, list) or len(value) != 2 or any(type(part) is not int or part < 0 for part in value):
        raise _Unfit(value, say("{example} or {other}", example="[8, 0]", other='"none"'))
    return value[0], value[1]


def _one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise _Unfit(value, say("one of {names}", names=", ".join(f'"{name}"' for name in names)))
        return str(value)

    return read


def _operators(value: Any) -> frozenset[str]:
    expected = say("a list of operators such as {example}", example='["add.Tensor"]')
    if not isinstance(value, list):
        raise _Unfit(value, expected)
    names: set[str] = set()
    for item in value:
        if not isinstance(item, str):
            raise _Unfit(value, expected)
        name = item.removeprefix("aten::")
        if NAME.fullmatch(name.rpartition("::")[2]) is None:
            raise _Unfit(item, expected)
        names.add(name)
    return frozenset(names)


def _dtypes(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Unfit(value, say("a table such as {example}", example='[dtypes] float64 = "missing"'))
    rules = _one_of((*DTYPE_RULES, NATIVE))
    for dtype, rule in value.items():
        if dtype not in DTYPES:
            # translators: the kind of a name that is unknown, as in "unknown dtype `x`"; torch's word, not translated
            advice = unknown_name("dtype", dtype, DTYPES).advice
            raise _Unfit(rule, say("a rule for a dtype of torch"), dtype, advice=advice)
        try:
            rules(rule)
        except _Unfit as unfit:
            raise _Unfit(rule, unfit.expected, dtype) from None
    return value


def _named_values(value: Any) -> dict[str, int | str]:
    if not isinstance(value, dict):
        raise _Unfit(value, say("a table such as {example}", example="[properties] multi_processor_count = 64"))
    for name, item in value.items():
        if type(item) not in (int, str):
            raise _Unfit(item, say("an integer or a string"), name)
    return value


_KEYS: dict[str, Callable[[Any], Any]] = {
    "card": _text,
    "extends": _text,
    "devices": _devices,
    "memory": _memory,
    "capability": _capability,
    "missing": _operators,
    "fallback": _one_of(FALLBACKS),
    "keeps_parameter_identity": _flag,
    "matmul_rounding": _one_of(ROUNDINGS),
    "kernel_limits": _one_of(published_limits.MODES),
    "dtypes": _dtypes,
    "properties": _named_values,
}
