"""A CUDA device in a command that a service starts: `run: python train.py --device cuda` in `.github/workflows`.

The command starts the migrated program, which then has no CUDA device to give it. Whether the machines of the service
get the target's cards, go on with CUDA, or have no card at all is for a person to decide, so nothing is rewritten.
Files of an editor, such as `.vscode/launch.json`, start the program where the project is: SHL101 rewrites them.

Why: The service passes a CUDA device to a migrated program, which then fails.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import is_of_service
from torchferry.rules.family import UnderRedirect
from torchferry.rules.shell.device_option import DeviceOption
from torchferry.source.kinds import Kind


class ServiceFile(Rule):
    """Finds options and variables of command lines in files that a service reads."""

    CODE = "SHL108"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = DeviceOption.WORDS
    KINDS = (Kind.YAML, Kind.JSON)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield what SHL101 would find, without its fixes."""
        if not is_of_service(context.path):
            return
        for finding in DeviceOption().check(_AsOfProject(context)):
            if finding.edits:
                message = say(
                    "{message}; a service starts this on machines of its own: decide which device they have",
                    message=finding.message,
                )
                yield finding._replace(code=self.CODE, message=message, grade=Grade.MANUAL, edits=())


class _AsOfProject(Context):
    """A file of a service as if it lay among those of the program, with its own places."""

    def __init__(self, context: Context) -> None:
        super().__init__(
            context.path.replace("/.", "/").lstrip("."), context.kind, context.source, context.target, context.options
        )
        self._whole = context

    def location(self, start: int, end: int) -> Location:
        """Return the location of a span of offsets in the file."""
        return self._whole.location(start, end)

    def snippet(self, start: int, end: int) -> str:
        """Return the text of a span in the file, its first line at most."""
        return self._whole.snippet(start, end)
