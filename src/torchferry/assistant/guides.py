"""What a client can read, and how it can begin: resources and prompts. Each resource is what a command prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say

_SCHEME = "torchferry://"


@dataclass(frozen=True)
class Guide:
    """One resource.

    Attributes:
        place: Behind `torchferry://`; `{name}` at its end represents what the client writes there.
        title: A few words.
        text: What is in it; a model reads it.
        command: The words of the command whose output it is; `{name}` as above, `{root}` is the first folder.
        mime: The kind of text.
        has_target: Whether the command takes the server's target.
    """

    place: str
    title: str
    text: str
    command: tuple[str, ...]
    mime: str = "text/plain"
    has_target: bool = False

    @property
    def address(self) -> str:
        """The address, or the pattern of addresses."""
        return _SCHEME + self.place

    @property
    def has_name(self) -> bool:
        """Whether it represents many."""
        return self.place.endswith("{name}")


GUIDES = (
    Guide("rules", "rules", "All rules, one line each.", ("rule",)),
    Guide("rules/{name}", "one rule", "A rule such as DEV101, or the rules of a family.", ("rule", "--", "{name}")),
    Guide("targets", "targets", "The targets of this server.", ("backend", "list")),
    Guide("targets/{name}", "one target", "Every fact about a target with its source.", ("backend", "show", "{name}")),
    Guide("skill", "skill", "How to carry a project: gates, proofs, what never to believe.", ("skill", "show")),
    Guide(
        "verdict",
        "verdict",
        "The verdict of the first folder for the server's target, as a person reads it.",
        ("scan", "--exit-zero", "-o", "{report}", "--", "{root}"),
        has_target=True,
    ),
    Guide(
        "verdict.html",
        "verdict page",
        "The same as a page to show or send to a person; some hundred kB.",
        ("scan", "--exit-zero", "-f", "html", "-o", "{report}", "--", "{root}"),
        "text/html",
        has_target=True,
    ),
)


def guide_at(address: str) -> tuple[Guide, str]:
    """Return the resource at an address, and the name that the client wrote in it.

    Raises:
        TorchferryError: there is none.
    """
    place = address.removeprefix(_SCHEME)
    for guide in GUIDES:
        if address.startswith(_SCHEME) and not guide.has_name and place == guide.place:
            return guide, ""
        before = guide.place.removesuffix("{name}")
        if address.startswith(_SCHEME) and guide.has_name and place.startswith(before) and len(place) > len(before):
            return guide, unquote(place[len(before) :])
    raise TorchferryError(
        say("there is no resource `{name}`", name=address[:200]),
        say("there are: {names}", names=", ".join(guide.address for guide in GUIDES)),
    )


def words_of(guide: Guide, name: str, root: str, target: str) -> list[str]:
    """Return the command of a resource.

    Args:
        guide: The resource.
        name: What the client wrote in its address.
        root: The first folder.
        target: The server's target; empty for none.

    Raises:
        UsageError: the name is none.
    """
    if name.startswith("-"):
        raise UsageError(say("`{name}`: {text} is no name", name=guide.place, text=name[:80]))
    words = [name if word == "{name}" else root if word == "{root}" else word for word in guide.command]
    if guide.has_target and target:
        words[1:1] = ["-t", target]
    return words


@dataclass(frozen=True)
class GuidedTask:
    """One prompt: what a person asks an agent to do, with the steps that this takes here.

    Attributes:
        name: As a client lists it.
        text: What it is for.
        arguments: Name and meaning of what is filled in; all are required.
        steps: What the agent is told.
    """

    name: str
    text: str
    arguments: Mapping[str, str]
    steps: str


TASKS = (
    GuidedTask(
        "migrate_project",
        "Carry a CUDA project to a target, up to a rehearsal.",
        {"path": "folder of the project", "target": "target, such as those that torchferry://targets lists"},
        """Carry the project in `{path}` to the target `{target}` with the tools of torchferry.

1. scan: tell me the verdict in its own words, and how many programs are ready, wait for decisions or are blocked.
2. decisions: for each one, show_decision, then ask me with its choices and costs. Record my answer with decide, in my
   name. Never decide for me.
3. preview_fixes, then apply_fixes. Nothing is allowed over uncommitted changes unless I say so.
4. scan again: what is left, and why.
5. rehearse each program that I name, with a small input. Tell me the outcome word and the cause as they are.
Say what you could not do and what was not examined. A program is ready only as far as a gate has proven it: analysed,
migrated, rehearsed, compared, accepted; torchferry://skill says what proves each.""",
    ),
    GuidedTask(
        "explain_failure",
        "Say why a run failed, from its logs.",
        {"logs": "file or folder with the logs"},
        """Find out why the run with the logs in `{logs}` failed.

1. explain_logs: name what failed first, on which rank and host, and what only follows from it.
2. Where it is not known, say so, and quote the lines; do not guess a cause.
3. For a name or a code in the message, explain_name gives its meaning with the source.""",
    ),
    GuidedTask(
        "compare_numbers",
        "Find where the numbers of a program on a target differ.",
        {"command": "the program and its arguments", "path": "folder to run in"},
        """Find out whether `{command}` in `{path}` computes the same on the target as on the reference.

1. nan: is anything not finite? Name operator, module, step and line.
2. compare: which operator is outside of its bound? What was not compared is untested, and never passes.
3. With a record from the reference's machine: record here, then compare_records; name the first cause.
A rehearsal says nothing about accuracy on the card: only a run on the card does.""",
    ),
)
