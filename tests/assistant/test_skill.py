"""The skill, AGENTS.md and llms.txt, held against what exists; and the skill put into a folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.cli.process import torchferry
from torchferry.assistant.skill import FILE, NAME, install_skill, skill_text
from torchferry.assistant.tool_table import TOOLS
from torchferry.cli import cli
from torchferry.core.errors import TorchferryError
from torchferry.rehearsal.aggregate import RehearsalOutcome

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
WORDS = ("analysed", "migrated", "rehearsed", "compared", "accepted")
BEYOND_COMMANDS = {"job", "cancel_job"}
NO_TOOLS = {"cause", "by", "unsafe", "allow_dirty", "left_out", "safe", "unjudged", "incomplete", "cuda"}


def commands_in(text: str) -> set[str]:
    return set(re.findall(r"`(torchferry [^`]+)`", text))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_skill_names_every_tool_and_none_that_is_not_there(lang: str) -> None:
    text = skill_text(lang)
    front = text.split("---\n")[1]
    name, description = re.findall(r"^(?:name|description): (.+)$", front, re.M)
    assert name == NAME
    assert 100 < len(description) <= 1024 if lang == "en" else len(description) <= 1024
    assert ": " not in description, "a plain scalar of YAML"
    tools = {tool.name for tool in TOOLS} | BEYOND_COMMANDS
    column = {
        word
        for line in text.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    outcomes = {outcome.value for outcome in RehearsalOutcome}
    assert column - outcomes == tools
    single = set(re.findall(r"`([a-z_]+)`", text))
    assert single - tools - NO_TOOLS - {FILE} == set()
    assert outcomes == {
        line.split("`")[1] for line in text.splitlines() if line.startswith("| `") and line.split("`")[1] in outcomes
    }
    assert [word for word in WORDS if word not in text] == []
    assert re.findall(r"/(?:home|work|tmp)/", text) == []


def test_both_languages_show_the_same_commands() -> None:
    assert commands_in(skill_text("en")) == commands_in(skill_text("zh"))


@pytest.mark.parametrize("line", sorted(commands_in(skill_text("en"))))
def test_a_command_of_the_skill_is_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and (below := command.get_command(context, words[0])):
        command, words = below, words[1:]
    assert command is not cli
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, click.Group):  # the short form of its first command
        options |= {option for name in command.list_commands(context) if (below := command.get_command(context, name))
                    for parameter in below.params for option in parameter.opts}  # fmt: skip
    own = words[: words.index("--")] if "--" in words else words
    assert {word for word in own if word.startswith("-")} <= options


def test_the_skill_is_installed_and_never_over_somebodys_own(tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "skills"
    file = folder / NAME / FILE
    assert torchferry("skill", "install", folder, "--lang", "en").stdout == f"{file} is written\n"
    assert file.read_text(encoding="utf-8").startswith(skill_text("en"))
    assert install_skill(folder, "en", force=False) is None
    assert install_skill(folder, "zh", force=False) == file, "what nobody has edited is replaced"
    file.write_text(file.read_text(encoding="utf-8").replace("torchferry", "ferry", 1), encoding="utf-8")
    edited = file.read_bytes()
    with pytest.raises(TorchferryError, match="edited"):
        install_skill(folder, "en", force=False)
    assert file.read_bytes() == edited
    file.write_text("mine")
    with pytest.raises(TorchferryError, match="did not write it"):
        install_skill(folder, "en", force=False)
    assert install_skill(folder, "en", force=True) == file
    file.unlink()
    (tmp_path / "elsewhere").write_text("x")
    file.symlink_to(tmp_path / "elsewhere")
    for force in (False, True):
        with pytest.raises(TorchferryError, match="is a link"):
            install_skill(folder, "en", force=force)
    assert (tmp_path / "elsewhere").read_text() == "x"
    refused = torchferry("skill", "install", tmp_path / "elsewhere")
    assert (refused.returncode, "internal error" in refused.stderr) == (2, False)
    assert torchferry("skill", "show", "--lang", "zh").stdout == skill_text("zh")


@pytest.mark.parametrize("page", ["AGENTS.md", "AGENTS.zh-CN.md", "llms.txt"])
def test_a_page_for_agents_names_what_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 6
    assert [link for link in links if not (ROOT / link).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`make ([\w-]+)`", text) if f"\n{name}:" not in makefile] == []
    assert [each for each in commands_in(text) if each.split()[1] not in cli.list_commands(click.Context(cli))] == []
