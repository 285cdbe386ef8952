"""What the tables of a target say of a name of the CUDA side, and which names they have that are spelled alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.contents import Presence, contents, home_of
from torchferry.backends.tables import Row, normalised
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.rules.dependencies.cuda_requirement import LIBRARY_WHEEL, known_package
from torchferry.source.kinds import Kind

_TABLES = ("env", "tools", "packages", "frameworks", "images", "triton", "folk_variables")
"""The tables beside that of torch's names."""

_LIKENESS = 0.75
_MOST_ALIKE = 3


def rows_of(name: str, target: Target) -> list[Row]:
    """Return what the tables say of a name; an unknown row when none does.

    A module stands for the distribution that brings it, a wheel for one CUDA (`cupy-cuda12x`) for its distribution, and
    a distribution is found in any spelling.
    """
    rows = [*(target.row(table, name) for table in _TABLES), _api(name, target), *_own_name(name, target)]
    if name in target.backend.REDIRECTIONS:
        rows.append(_redirection(name, target))
    listed = [row for row in rows if is_said(row)]
    if listed or name.startswith("torch."):
        return listed or [target.api(name)]
    package = cuda.package_named(name) or cuda.package_of_module(name)
    distribution = package.name if package is not None else known_package(normalised(name), Kind.REQUIREMENTS)
    if distribution is not None:
        return [target.row("packages", distribution)]
    if LIBRARY_WHEEL.match(normalised(name)):
        return [_part_of_build(name, target)]
    return [target.api(name)]


def is_said(row: Row) -> bool:
    """Whether some table has the row."""
    return row.status != "unknown" or bool(row.source)


def is_cuda_name(name: str) -> bool:
    """Whether torch is known to have a name for CUDA, whatever a target has in its place."""
    return cuda.api_group(name) not in ("", "unlisted")


def alike(name: str, targets: Iterable[Target]) -> list[str]:
    """Return names that are spelled alike, in small or capital letters, the nearest first."""
    from difflib import get_close_matches  # imported late: most runs have no wrong name

    spelled = {each.lower(): each for target in targets for each in _names_of(target, name)}
    spelled |= {each.lower(): each for each in _names_of_cuda()}
    near = get_close_matches(name.lower(), sorted(spelled), n=_MOST_ALIKE, cutoff=_LIKENESS)
    return [spelled[each] for each in near]


def _api(name: str, target: Target) -> Row:
    if name == cuda.NAMESPACE:
        namespace = target.backend.NAMESPACE
        return Row(name, "renamed", namespace, source=target.backend.source_of("NAMESPACE"))
    return target.api(name)


def _own_name(name: str, target: Target) -> list[Row]:
    """Return a row for a name that some version of the plugin has of its own."""
    names = contents(target.backend)
    path = home_of(target.backend, name)
    versions = names.versions_with(path) if names is not None else ()
    if names is None or not versions:
        return []
    presence = names.presence(path, target.version or target.backend.DEFAULT_VERSION)
    status = {Presence.ABSENT: "missing", Presence.UNKNOWN: "unknown"}.get(presence, "same")
    note = say("a name of the plugin itself; found in version {versions}", versions=", ".join(versions))
    return [Row(name, status, note=note.render("en"), note_zh=note.render("zh"), source=names.source)]


def _redirection(name: str, target: Target) -> Row:
    note = say(
        "the vendor's module that redirects `torch.cuda` to {target}; `torchferry run` and `rehearse` do the same",
        target=target.title,
    )
    source = target.backend.source_of("REDIRECTIONS")
    return Row(name, "same", note=note.render("en"), note_zh=note.render("zh"), source=source)


def _part_of_build(name: str, target: Target) -> Row:
    note = say(
        "`{name}` belongs to torch's CUDA build; {target} does not need it, leave it out",
        name=name,
        target=target.title,
    )
    return Row(name, "missing", note=note.render("en"), note_zh=note.render("zh"))


def _names_of(target: Target, name: str) -> Iterator[str]:
    """Yield the names of a target's tables, and those that its plugin has where `name` would be."""
    for table in ("api", *_TABLES):
        yield from (row.name for row in target.backend.table(table))
    own = contents(target.backend)
    if own is not None:
        written, home = name.rpartition(".")[0], home_of(target.backend, name).rpartition(".")[0]
        below = (path.rpartition(".") for path in own.by_path)
        yield from (f"{written}.{last}" for folder, _, last in below if folder and folder == home)


def _names_of_cuda() -> Iterator[str]:
    """Yield the names that are asked for: of torch, distributions, modules, and what does nothing without CUDA."""
    for group in cuda.groups("api").values():
        yield from group.names
    for package in (*cuda.packages().values(), *cuda.hosts().values()):
        yield package.name
        yield from package.modules
    yield from cuda.idle()
