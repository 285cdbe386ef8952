"""The table of messages: every entry reads, is complete, and says what its groups matched."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.errors import COMMON, KnownError, errors_of, errors_of_all, families_of, first_match
from torchferry.cli import cli
from torchferry.core.messages import Bilingual

ENTRIES = errors_of_all(registry.load(name) for name in registry.built_in())
BY_KEY = {entry.key: entry for entry in ENTRIES}


def test_every_entry_is_complete() -> None:
    for entry in ENTRIES:
        texts = (*entry.causes, *filter(None, [entry.meaning if entry.meaning.en else None]), entry.remedy)
        for text in texts:
            assert bool(text.en) == bool(text.zh), entry.key
            if entry.pattern is None:
                assert not re.search(r"\{[a-z]+\}", text.en.replace("{python}", "")), entry.key
        groups = entry.pattern.groupindex if entry.pattern is not None else {}
        named = {name for text in texts for name in re.findall(r"\{([a-z]+)\}", text.en + text.zh)}
        assert named <= {*groups, "python"}, entry.key
        assert set(entry.explains) <= BY_KEY.keys(), entry.key


def test_tables_have_no_entry_twice() -> None:
    assert len(BY_KEY) == len(ENTRIES)
    assert {entry.owner for entry in ENTRIES} == {*registry.built_in(), COMMON}


def problem_of(line: str) -> str:
    """Return why a command of ours could not be typed as it stands, or an empty text."""
    _, *words = shlex.split(line.partition(" | ")[0].partition(" > ")[0])
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        below = command.get_command(click.Context(command), words[0])
        if below is None:
            break
        command, words = below, words[1:]
    try:
        given, _, _ = command.make_parser(click.Context(command)).parse_args(words)
    except click.UsageError as error:
        return error.format_message()
    options = [each for each in command.params if isinstance(each, click.Option)]
    return ", ".join(f"lacks --{each.name}" for each in options if each.required and each.name not in given)


def test_a_command_of_a_remedy_can_be_typed() -> None:
    lines = {line for entry in ENTRIES for line in entry.commands if line.startswith("torchferry ")}
    assert {line: problem for line in lines if (problem := problem_of(line))} == {}
    assert problem_of("torchferry port csrc --build setup.py") == "lacks --target"
    assert "requires an argument" in problem_of("torchferry port csrc -t musa --review")


def acme(folder: Path, text: str) -> type[Backend]:
    (folder / "errors.toml").write_text(f'[sources]\nS = "s"\n[[error]]\n{text}', encoding="utf-8")

    class Acme(registry.load("npu")):  # type: ignore[misc]
        NAME = "acme"
        DATA_DIRECTORY = folder

    return Acme


GOOD = """id = "a-1"
literals = ["boom"]
pattern = 'boom (?P<what>\\S+)(?P<more> again)?'
causes = ["the {what} went off{more}"]
causes_zh = ["{what} 爆了{more}"]
commands = ["look {what}", "{python} -c 1", "echo ${HOME}"]
source = "S"
"""
WRONG = {
    GOOD.replace("a-1", "A_1"): "small letters",
    GOOD.replace('["boom"]', '["b"]'): "at least 4 letters",
    GOOD.replace("causes_zh", "causes_fr"): "`causes_fr` is none of",
    GOOD.replace('causes_zh = ["{what} 爆了{more}"]\n', ""): "one text for each other",
    GOOD.replace("commands = [", "explains = ["): "`remedy` or `commands`",
    GOOD + 'role = "reason"\n': "`role` is one of",
    GOOD + 'where = ["logs"]\n': "`where` has some of",
    GOOD + 'remedy = "run"\n': "needs its Chinese",
    GOOD.replace('"S"', '"T"'): "source `T` is not in",
    f"{GOOD}[[error]]\n{GOOD}": "two \\[\\[error\\]\\]",
}


@pytest.mark.parametrize("text", WRONG, ids=WRONG.values())
def test_a_wrong_entry_is_refused_by_its_place(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=WRONG[text]):
        errors_of(acme(tmp_path, text))


def test_an_entry_says_what_its_message_named(tmp_path: Path) -> None:
    entries = errors_of(acme(tmp_path, GOOD))
    match = first_match(entries, "x\nboom $(reboot) y", ("log",))
    assert match is not None
    assert match.causes == (Bilingual("the $(reboot) went off?", "$(reboot) 爆了?"),)
    assert match.commands("/a b/python") == ("look '$(reboot)'", "'/a b/python' -c 1", "echo ${HOME}")
    assert match.advice.en.startswith("look ")
    assert first_match(entries, "boom", ("log",)) is None, "the expression must be found, too"
    assert first_match(entries, "boom x", ("tool", "deploy")) is None, "an entry for logs"


def test_entries_are_asked_by_place_and_order(tmp_path: Path) -> None:
    def entry(number: int, where: str, more: str = "") -> str:
        return GOOD.replace("a-1", f"a-{number}") + f'where = ["{where}"]\n{more}'

    text = "[[error]]\n".join(
        (
            entry(1, "machine"),
            entry(2, "deploy"),
            entry(3, "deploy", "first = true\n"),
            entry(4, "deploy", 'steps = ["x"]\nfirst = true\n'),
        )
    )
    entries: tuple[KnownError, ...] = errors_of(acme(tmp_path, text))

    def answer(*where: str, step: str = "") -> str:
        match = first_match(entries, "boom x", where, step)
        return match.entry.id if match is not None else ""

    assert answer("machine", "deploy") == "a-1"
    assert answer("deploy", "machine") == "a-3"
    assert answer("deploy", step="x") == "a-3"
    assert answer("tool") == ""


def test_each_code_is_of_one_family_and_each_family_has_codes() -> None:
    for backend in (*(registry.load(name) for name in registry.built_in()), None):
        families = families_of(backend)
        entries = [entry for entry in errors_of(backend) if backend is None or entry.owner == backend.NAME]
        for family in families:
            assert any(family.has(entry) for entry in entries), family
        for entry in entries:
            if entry.code:
                assert sum(family.has(entry) for family in families) == 1, entry.code
