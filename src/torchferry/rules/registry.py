"""Find the rules: every module of every family folder that defines a `Rule` with a code."""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache, lru_cache
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Rule
from torchferry.rules.family import Portability, RuleFamily, Subject, UnderRedirect, WhenPorted


class RuleFacts(NamedTuple):
    """The known facts about a rule without running it: what the rule says, or else its family.

    Attributes:
        about: What its findings are about.
        uses_device: Whether code with a fix of it uses the device, and so needs the plugin.
        runs_on_device: Whether code at its places runs something there, or only requests the device or names it.
        under_redirect: What the redirect leaves of its findings.
        portability: What its edits are worth in code for every device.
        with_torch_alone: Whether it applies where portable code has torch's own words alone.
        only_with_torch: Whether it finds what versions refuse that come with the torch of a plugin.
        unresolved: Whether nobody could tell what is at its places.
        when_ported: What becomes of a finding about a file that is ported.
        answers: What a person may do about its places, the recommended one first.
        needs_counterpart: Whether the first answer takes something of the target's, which not every finding has.
    """

    about: Subject
    uses_device: bool
    runs_on_device: bool
    under_redirect: UnderRedirect
    portability: Portability
    with_torch_alone: bool
    only_with_torch: bool
    unresolved: bool
    when_ported: WhenPorted
    answers: tuple[Message, ...]
    needs_counterpart: bool


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, in order of their codes.

    Raises:
        ValueError: two rules have the same code.
    """
    by_code: dict[str, Rule] = {}
    for module in _modules():
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module:
                code = value.__dict__.get("CODE")
                if code is None:
                    continue
                if code in by_code:
                    raise ValueError(f"{value.__name__} and {type(by_code[code]).__name__} both have the code {code}")
                by_code[code] = value()
    return tuple(by_code[code] for code in sorted(by_code))


def family_name(code: str) -> str:
    """Return the family of a rule: the letters of its code."""
    return code.rstrip("0123456789")


@lru_cache(maxsize=1)
def families() -> dict[str, RuleFamily]:
    """Return the families by their names, in order.

    Raises:
        ValueError: rules of one folder have codes of two families, or rules of two folders have one.
    """
    folders: dict[str, str] = {}
    for rule in rules():
        folder = type(rule).__module__.rpartition(".")[0]
        if folders.setdefault(family_name(rule.CODE), folder) != folder:
            raise ValueError(f"{rule.CODE} lies in {folder}; its family is {folders[family_name(rule.CODE)]}")
    if len(set(folders.values())) < len(folders):
        raise ValueError(f"a folder has rules of two families: {folders}")
    return {name: _family(folders[name]) for name in sorted(folders)}


def _family(folder: str) -> RuleFamily:
    package = sys.modules[folder]
    defined = getattr(package, "FAMILY", None)
    if isinstance(defined, RuleFamily):
        return defined
    title = (package.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return RuleFamily(say("{text}", text=title or folder.rpartition(".")[2]))


def family_title(name: str) -> Message:
    """Return the title of a family; its letters, where no rule here is of it."""
    family = families().get(name)
    return say("{text}", text=name) if family is None else family.title


@cache
def rule_facts(code: str) -> RuleFacts:
    """Return the known facts about the rule with this code; the defaults, for one that is not among the rules here."""
    rule = next((rule for rule in rules() if code == rule.CODE), None) or Rule()
    family = families().get(family_name(code)) or RuleFamily(say("{text}", text=family_name(code)))
    return RuleFacts(
        about=family.about,
        uses_device=family.uses_device,
        runs_on_device=family.uses_device and rule.RUNS_ON_DEVICE,
        under_redirect=rule.UNDER_REDIRECT or family.under_redirect,
        portability=rule.PORTABILITY or family.portability,
        with_torch_alone=rule.WITH_TORCH_ALONE,
        only_with_torch=rule.ONLY_WITH_TORCH,
        unresolved=rule.UNRESOLVED,
        when_ported=rule.WHEN_PORTED,
        answers=rule.ANSWERS,
        needs_counterpart=rule.NEEDS_COUNTERPART,
    )


def unknown_rule(code: str) -> UsageError:
    """Return the error for a code that no rule and no family has, with the nearest one."""
    codes = [rule.CODE for rule in rules()]
    wanted = code.upper()
    digits = wanted[:3] + wanted[3:].replace("O", "0").replace("I", "1")  # which are easily taken for each other
    import difflib  # imported late: most runs have no wrong name

    close = difflib.get_close_matches(digits, [*codes, *families()], n=1)
    advice = say("`torchferry rule` lists them")
    if close:
        advice = say("did you mean `{close}`? `torchferry rule` lists them", close=close[0])
    return UsageError(say("there is no rule or family `{code}`", code=code), advice)


def _modules() -> list[str]:
    modules: list[str] = []
    with os.scandir(Path(__file__).parent) as families:
        for family in families:
            if family.is_dir():
                names = [name.removesuffix(".py") for name in os.listdir(family) if name.endswith(".py")]
                modules += [f"{__package__}.{family.name}.{name}" for name in names if not name.startswith("_")]
    return sorted(modules)
