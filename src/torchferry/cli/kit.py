"""`migrate --kit`: the files beside a migrated project, written in the same transaction as its code."""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.cli.settings import RunSettings
from torchferry.core.files import read_regular
from torchferry.kit.plan import CodeOutcome, Kit, kit_of, kit_writes
from torchferry.migration.plan import Plan
from torchferry.migration.suffix import suffixed
from torchferry.migration.transaction import Write
from torchferry.source.kinds import Kind, kind_of


def kit_for(setting: RunSettings, suffix: str, lang: str) -> Kit:
    """Return what the kit of a project is made from.

    Args:
        setting: What the command was asked.
        suffix: The suffix of new files; empty where files are changed in place.
        lang: Language of the files.
    """
    target = setting.target
    listing = setting.request.listing
    return kit_of(setting.root, setting.name, listing, target, suffix or f"_{target.name}", setting.style, lang)


def with_kit(
    setting: RunSettings, planned: Plan, kit: Kit, way: str, suffix: str = "", new_files: Iterable[Write] = ()
) -> Plan:
    """Add the files of a kit to a plan.

    Args:
        setting: What the command was asked.
        planned: The plan of the code, whose writes are in place.
        kit: What the kit is made from.
        way: `beside` the originals, `in place`, in a `copy`, or as a `patch`.
        suffix: The suffix of new files; empty where files are changed in place.
        new_files: The writes of the code beside the originals, where a suffix is given.

    Raises:
        TorchferryError: a file of the kit is somebody's own.
    """
    writes = list(new_files) if suffix else list(planned.writes)
    if not suffix and not writes and _is_there(kit):
        return planned  # its documents speak of the migration that is done
    back = {suffixed(item.path, suffix): item.path for item in planned.analysis.examined} if suffix else {}
    moved = {
        back.get(write.path, write.path): write.path
        for write in writes
        if write.before is not None or write.path in back
    }
    originals = {path: read_regular(setting.root / path) for path in moved}
    outcome = CodeOutcome(
        tuple(writes),
        moved,
        originals,
        tuple(path for path in planned.analysis.entry_points if path not in kit.made and kind_of(path) is Kind.PYTHON),
        tuple(finding for finding in planned.fixed if finding.location.path not in kit.made),
        tuple(finding for finding in planned.remaining if finding.location.path not in kit.made),
        way,
    )
    own = {write.path: write for write in writes}
    for write in kit_writes(kit, outcome):
        own[write.path] = write
    return planned._replace(writes=[own[path] for path in sorted(own)])


def _is_there(kit: Kit) -> bool:
    return all((kit.root / path).is_file() for path in (kit.readme, kit.guide, kit.setup_test, kit.targeted.main))
