"""The target of one run: a backend at a plugin version, answering what a CUDA-side name becomes there."""

from __future__ import annotations

import contextlib
from copy import copy
from functools import cached_property
from typing import Any

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.cuda import Package
from torchferry.backends.plugin_versions import is_known, known_version, plugin_rows
from torchferry.backends.registry import choose
from torchferry.backends.tables import REWRITTEN, Row, reached
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

_NUMBERS_SINCE = "2.1.0"
"""The torch, and the plugin for it, in which a number became an index of the accelerator rather than of CUDA."""


class InstalledPlugin(NamedTuple):
    """A plugin that an environment has.

    Attributes:
        version: Its version.
        place: The environment, as the user named it.
        lacking: Names below its namespace that the table has, and its own sources surely have not.
    """

    version: str
    place: str
    lacking: frozenset[str] = frozenset()

    @property
    def release(self) -> str:
        """Its version without what a build is called."""
        return self.version.partition("+")[0]


class Target:
    """A backend at a plugin version; an empty version means the newest whose surface was read."""

    module: str = ""
    """Module whose names are written in place of CUDA's, for code that is to run on every device; empty for the
    plugin's own names."""

    installed: InstalledPlugin | None = None
    """The plugin of the environment that the code is examined for, where one is named and has it."""

    def __init__(self, backend: type[Backend], version: str = "") -> None:
        self.backend = backend
        self.version = version
        self._rows: dict[tuple[str, str], Row] = {}

    @classmethod
    def named(cls, text: str) -> Target:
        """Return the target for `NAME` or `NAME@VERSION`, as a record or a report has it.

        Raises:
            UsageError: as `registry.choose` does.
        """
        choice = choose(text)
        return cls(choice.backend, choice.version)

    @classmethod
    def requested(cls, text: str) -> Target:
        """Return the target for `NAME` or `NAME@VERSION`, as a user asks for it: its version as the tables spell it.

        Raises:
            UsageError: as `registry.choose` and `known_version` do.
        """
        named = cls.named(text)
        return cls(named.backend, known_version(named.backend, named.version)) if named.version else named

    def for_torch(self, version: str) -> Target:
        """Return this target, at the plugin version that the vendor's table names for a torch.

        A target that has a version keeps it. Where the table has no row for the torch, one for another patch release
        of it counts; without that the target stays as it is.
        """
        if self.version:
            return self
        from packaging.version import Version  # imported late, as below

        wanted = Version(version).release
        plugins: dict[tuple[int, ...], str] = {}  # by release of torch, and by its first two numbers
        for row in self.plugin_rows():
            release, plugin = Version(row.name.partition("==")[2]).release, row.use.partition("==")[2]
            plugins.setdefault(release, plugin)
            plugins.setdefault(release[:2], plugin)
        fitting = plugins.get(wanted, plugins.get(wanted[:2]))
        return self if fitting is None else type(self)(self.backend, fitting)

    def with_installed(self, plugin: InstalledPlugin) -> Target:
        """Return this target as an environment has it: at that version, unless the user named one."""
        target = copy(self)
        target._rows = {}
        target.version = self.version or plugin.release
        target.installed = plugin
        return target

    def plugin_rows(self) -> list[Row]:
        """Return the rows of `versions.toml` that are about the plugin, not about what is installed beside it."""
        return plugin_rows(self.backend)

    def for_installed_torch(self) -> Target:
        """Return this target, at the plugin version for the torch of this environment; see `for_torch`."""
        from importlib import metadata  # imported late, with the readers of mail that it needs: few commands ask

        with contextlib.suppress(metadata.PackageNotFoundError):
            return self.for_torch(metadata.version("torch"))
        return self

    @property
    def name(self) -> str:
        """The target's name on the command line, without the version."""
        return self.backend.NAME

    @property
    def title(self) -> Bilingual:
        """Maker and family, for messages."""
        return Bilingual(self.backend.TITLE, self.backend.TITLE_ZH)

    @property
    def install(self) -> Bilingual:
        """How to install the plugin."""
        return self.backend.INSTALL

    @property
    def profiler_sort_key(self) -> str | None | Unknown:
        """What represents `cuda_time` in columns of the profiler at this version; see `Backend.PROFILER_SORT_KEY`."""
        until = self.backend.PROFILER_NAMED_COLUMNS_UNTIL
        if self.version and isinstance(until, str) and not reached(until, self.version):
            return f"{self.backend.DEVICE_TYPE}_time"
        return self.backend.PROFILER_SORT_KEY

    @property
    def dispatch_key(self) -> str | None:
        """The dispatch key under which the plugin registers its operators; None where no source says which."""
        return self.backend.DISPATCH_KEY if "DISPATCH_KEY" in self.backend.SOURCES else None

    @property
    def journal_key(self) -> str:
        """What a journal says that a tree was migrated to: two targets of which this is the same share their code."""
        return str(self)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words by which code speaks of what it is migrated to, beside CUDA."""
        return self.name, self.backend.PLUGIN

    @cached_property
    def written_modules(self) -> frozenset[str]:
        """The modules, beside torch, of which names are written in place of CUDA's, as a file may import them."""
        written = (self.backend.PLUGIN, self.backend.IMPORT_NAMESPACE, *(row.use for row in self.backend.table("api")))
        return frozenset({name.partition(".")[0] for name in written} - {"", "torch"})

    def __str__(self) -> str:
        """Return the target as a command takes it: of an installed plugin that no table knows, without its version."""
        if not self.version or (self.installed is not None and not is_known(self.backend, self.version)):
            return self.name
        return f"{self.name}@{self.version}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (self.backend, self.version), {"installed": self.installed}

    @property
    def parts(self) -> tuple[object, ...]:
        """All that it is made of: targets of which these are the same give the same answers."""
        return type(self), self.backend, self.version, self.installed

    def at(self, path: str) -> Target:
        """Return the target as one file of the project sees it."""
        return self

    def import_statement(self, module: str) -> str:
        """Return the statement that binds a module that what is written needs."""
        return f"import {module}"

    def needs_path(self, path: str) -> bool:
        """Whether what is written in a file is found only once the program has put the project on Python's path."""
        return False

    def api(self, name: str) -> Row:
        """Return what the torch API `name` becomes; status `unknown` where nothing was verified.

        A name without a row of its own takes that of the class or function it belongs to
        (`torch.cuda.Event.record` that of `torch.cuda.Event`); below a module it is unknown, and missing
        when the module is.
        """
        key = ("api", name)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._of_installed(self._api(name))
        return row

    def _of_installed(self, row: Row) -> Row:
        """Return a row as the installed plugin has it: what its sources surely lack is missing, whatever tables say."""
        plugin, namespace = self.installed, self.backend.NAMESPACE
        if plugin is None or plugin.release != self.version:
            return row
        if row.status not in REWRITTEN or not row.use.startswith(f"{namespace}."):
            return row
        if row.use[len(namespace) + 1 :].partition(".")[0] not in plugin.lacking:
            return row
        name, place = f"{self.backend.PLUGIN} {plugin.version}", plugin.place
        return row._replace(
            status="missing",
            use="",
            note=f"the table has `{row.use}`, and {name} in {place} has not: the plugin wins",
            note_zh=f"表中有 `{row.use}`，而 {place} 中的 {name} 没有：以插件为准",
            extra={},
        )

    def of_vendor(self, name: str) -> Row:
        """Return what the plugin itself has for `name`, also where something else is written in its place."""
        return self.api(name)

    def _api(self, name: str) -> Row:
        table = self.backend.table("api")
        row = table.get(name, self.version)
        if row is not None:
            return self._with_use(row, name)
        offered = cuda.offered_as(name)
        if offered != name:
            row = self._api(offered)
            if row.status != "unknown":
                return row._replace(name=name)
        owner = name.rpartition(".")[0]
        while owner:
            row = table.get(owner, self.version)
            if row is not None:
                if owner not in cuda.modules():
                    row = self._with_use(row, owner)
                    return row._replace(name=name, use=row.use and row.use + name[len(owner) :])
                if row.status == "missing":
                    return row._replace(name=name)
                break
            owner = owner.rpartition(".")[0]
        return Row(name, "unknown")

    def _with_use(self, row: Row, name: str) -> Row:
        if row.status == "same" and not row.use:
            below = name.startswith(cuda.NAMESPACE)
            return row._replace(use=self.backend.NAMESPACE + name[len(cuda.NAMESPACE) :] if below else name)
        return row

    @cached_property
    def replaced_modules(self) -> tuple[str, ...]:
        """The modules of torch, outside `torch.cuda`, of which the plugin has its own version of some names."""
        return tuple(
            sorted(
                {
                    row.name.rpartition(".")[0]
                    for row in self.backend.table("api")
                    if row.status in REWRITTEN and row.use != row.name and not row.name.startswith(cuda.NAMESPACE)
                }
                - {"", "torch"}
            )
        )

    @cached_property
    def replaced_names(self) -> tuple[str, ...]:
        """The names of `torch` itself that are written otherwise for the plugin."""
        return tuple(
            sorted(
                row.name.removeprefix("torch.")
                for row in self.backend.table("api")
                if row.status in REWRITTEN and row.use not in ("", row.name) and row.name.count(".") == 1
            )
        )

    @cached_property
    def replaced_last_names(self) -> tuple[str, ...]:
        """The last parts of names outside `torch.cuda` that are the same below another module for the plugin."""
        return tuple(
            sorted(
                {
                    row.name.rpartition(".")[2]
                    for row in self.backend.table("api")
                    if row.status in REWRITTEN
                    and row.use not in ("", row.name)
                    and row.use.rpartition(".")[2] == row.name.rpartition(".")[2]
                    and not row.name.startswith(cuda.NAMESPACE)
                }
            )
        )

    @cached_property
    def packages_of_names(self) -> tuple[str, ...]:
        """The packages, beside torch, that have the replacement of CUDA's names."""
        packages = {row.use.partition(".")[0] for row in self.backend.table("api") if row.status in REWRITTEN}
        return tuple(sorted(packages - {"", "torch"}))

    @property
    def replaces_torch_names(self) -> bool:
        """Whether the plugin has its own version of torch names outside `torch.cuda`."""
        return bool(self.replaced_modules)

    def row(self, table: str, name: str) -> Row:
        """Return the row `name` of a table other than `api`; status `unknown` where there is none."""
        listed = self.backend.table(table).get(name, self.version)
        if listed is None and table == "packages" and name in cuda.hosts():
            return Row(name, "same", source=cuda.hosts()[name].source)
        return listed if listed is not None else Row(name, "unknown")

    def package_of_module(self, module: str) -> tuple[Package, Row] | None:
        """Return the distribution that a dotted module belongs to, and what the target has in its place.

        None is for a module that no table speaks of. The row's status is one of `tables.STATUSES`: a package that no
        row calls the `same` may still work, and `unknown` says that nobody has verified it.
        """
        package = cuda.package_of_module(module)
        return None if package is None else (package, self.row("packages", package.name))

    def has_module(self, module: str) -> bool | None:
        """Whether the target has what a dotted module belongs to; None where no table speaks of it."""
        listed = self.package_of_module(module)
        if listed is None or listed[1].status == "unknown":
            return None
        # what has another in its place is itself not there, but for what comes with torch
        return listed[1].status in ("same", "partial") or (listed[1].status != "missing" and listed[0].kind == "torch")

    def library(self, name: str, installed_version: str = "") -> Row:
        """Return what the Python library `name`, the package that is imported, does about the target's device.

        The row's status is one of `tables.LIBRARY_STATUSES`; `extra` has `order` (one of `tables.ORDERS`), `asks`
        (by which question it decides) and, where the library itself redirects `torch.cuda`, `redirects` (the module
        that does it). An empty version is the newest. A version older than the first that has a row ignores the
        device, unless older ones were not read; `unknown` where there is no row, and for a version that cannot be
        compared. The plugin itself knows its device, and needs no row.
        """
        from packaging.version import InvalidVersion, Version  # imported late: most runs ask for no library

        rows = self.backend.table("libraries").named(name)
        if not rows and name == self.backend.PLUGIN:
            source = self.backend.source_of("PLUGIN")
            return Row(name, "knows", source=source, extra={"order": "never", "asks": "nothing: it is the plugin"})
        try:
            for row in rows:
                if row.holds_for(installed_version):
                    return row
            first = min((row for row in rows if row.since), key=lambda row: Version(row.since), default=None)
            if first is None or Version(installed_version) >= Version(first.since) or "before" in first.extra:
                return Row(name, "unknown")
        except InvalidVersion:
            return Row(name, "unknown")
        return Row(name, "ignores", source=first.source)

    @cached_property
    def refusing_functions(self) -> dict[str, int]:
        """The functions of libraries that refuse the target's device, with the position of their parameter for it."""
        return self._of_ignoring("device_arguments")

    @cached_property
    def refusing_settings(self) -> dict[str, int]:
        """The functions that refuse it in a dictionary of settings, with the position of their parameter for that."""
        return self._of_ignoring("device_settings")

    @cached_property
    def computing_on_cpu(self) -> frozenset[str]:
        """Those of the functions that do not raise for the target's device, and silently take the CPU."""
        rows = (row for row in self.backend.table("libraries") if row.status == "ignores")
        return frozenset(name for row in rows for name in row.extra.get("on_cpu", ()))

    def _of_ignoring(self, field: str) -> dict[str, int]:
        rows = (row for row in self.backend.table("libraries") if row.status == "ignores")
        return {name: position for row in rows for name, position in row.extra.get(field, {}).items()}

    def autoloads(self) -> bool | Unknown:
        """Whether `import torch` loads the plugin by itself (torch 2.5 and later)."""
        return self._since(self.backend.AUTOLOAD_SINCE)

    def takes_numbers(self) -> bool | Unknown:
        """Whether a bare number means the device: `.to(0)`."""
        takes = self.backend.INTEGER_DEVICE
        return UNKNOWN if takes is True and self._since(_NUMBERS_SINCE) is not True else takes

    def shares_tensors(self) -> bool | Unknown:
        """Whether device tensors go to other processes as shared memory."""
        return self._since(self.backend.SHARES_TENSORS_SINCE)

    def shares_events(self) -> bool | Unknown:
        """Whether events of the device go to other processes."""
        return self._since(self.backend.SHARES_EVENTS_SINCE)

    def _since(self, since: str | None | Unknown) -> bool | Unknown:
        if isinstance(since, Unknown):
            return UNKNOWN
        if since is None:
            return False
        if not self.version:
            return True
        return reached(since, self.version)
