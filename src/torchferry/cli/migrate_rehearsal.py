"""`migrate --rehearse`: the migrated program runs on the simulated card, in a copy, and the table's last line says how.

`migrate` imports this when it is asked for.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from torchferry.cli.settings import RunSettings
from torchferry.cli.settling import mend_links, refuse_large
from torchferry.core import supported_torch
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import doing
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.migration.copy import write_copy
from torchferry.rehearsal.aggregate import Aggregate, collect
from torchferry.rehearsal.config import Rehearsal, prepare
from torchferry.rehearsal.launcher import run_aside
from torchferry.rehearsal.summary import verdict
from torchferry.report.summary import DeviceTest, MigrationOutput
from torchferry.source.tree import NEVER_ENTERED


def words_of(command: str) -> list[str]:
    """Return the words of a command.

    Raises:
        UsageError: it has none, or a quote is open.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(say("`{command}` is not a command: {error}", command=command, error=error)) from None
    if not words:
        raise UsageError(say("--rehearse needs a command, such as {example}", example='"python train.py --steps 2"'))
    return words


def device_test(
    setting: RunSettings, written: MigrationOutput, command: str, seconds: float, lang: str
) -> tuple[DeviceTest, bool]:
    """Run a command in a copy of the migrated tree, on the simulated card; the second is whether it could begin there.

    Raises:
        UsageError: it is no command.
        TorchferryError: no copy can be made.
    """
    words = words_of(command)
    rehearsal = prepare(str(setting.target), "", 0, None, ())
    note = say("rehearsing `{command}`, time limit {seconds} s", command=command, seconds=f"{seconds:g}")
    print_notice(f"torchferry: {note.render(lang)}")
    with temporary_folder("torchferry-migrate-") as name:
        top = Path(os.path.realpath(name))
        folder = top / (written.place.resolve().name or "project")
        refuse_large(written.place, top)
        write_copy(written.place, folder, (), NEVER_ENTERED)
        mend_links(Path(os.path.realpath(written.place)), folder)
        session = top / "session"
        session.mkdir()
        with doing(say("rehearsing `{command}`", command=command)):
            code, printed = run_aside(words, rehearsal, session, folder, seconds, {"PYTHONDONTWRITEBYTECODE": "1"})
        seen = collect(session)
    good, text = _judged(rehearsal, seen, code)
    if seen.processes == 0 and seen.without_torch:
        advice = supported_torch.how_to_install(seen.without_torch)
        text = say("{outcome}: {line}", outcome=text, line=advice)
    elif not good:
        last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
        if code and last:
            text = say("{outcome}: {line}", outcome=text, line=last.strip()[:200])
    return DeviceTest(good, text, command), not seen.could_not_begin


def _judged(rehearsal: Rehearsal, seen: Aggregate, code: int | None) -> tuple[bool, Message]:
    if code is None:
        return False, say("the time limit ended it")
    is_well = not (seen.failures or seen.only_reported or seen.mostly_on_host)
    good = code == 0 and seen.on_device > 0 and seen.used and is_well
    if not good:
        return False, verdict(rehearsal, seen, code)
    if seen.caught:
        return True, verdict(rehearsal, seen, code)
    operators = say_plural("{count} operator", "{count} operators", count=len(seen.operators))
    card = rehearsal.profile.card or rehearsal.resolved().title
    return True, say("it ended normally on a simulated {card}, where {operators} ran", card=card, operators=operators)
