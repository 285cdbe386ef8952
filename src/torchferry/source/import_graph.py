"""Which file of a project imports which, from the outlines of its files."""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.source.exports import absolute_module
from torchferry.source.outline import Outline
from torchferry.source.project import Project


class ImportGraph:
    """The imports between the files of a project."""

    def __init__(self, project: Project, outlines: Iterable[Outline]) -> None:
        self._importers: dict[str, set[str]] = {}
        self.named: dict[str, dict[str, set[str]]] = {}
        """For each module's file, the names that each importing file takes from it."""
        self._elsewhere: set[str] = set()
        for item in outlines:
            for imported in item.imports:
                self._add(project, item.path, imported.module, imported.names)

    def _add(self, project: Project, importer: str, module: str, names: tuple[str, ...]) -> None:
        absolute = absolute_module(module, importer)
        path = project.module_path(absolute, importer)
        if path is not None:
            self._importers.setdefault(path, set()).add(importer)
            self.named.setdefault(path, {}).setdefault(importer, set()).update(names)
        elif not module.startswith("."):
            self._elsewhere.add(module)
        for name in names:  # a name may be a module itself: from package import module
            inner = project.module_path(f"{absolute}.{name}", importer)
            if inner is not None:
                self._importers.setdefault(inner, set()).add(importer)

    def importers(self, path: str) -> set[str]:
        """Return the other files that import this one."""
        return self._importers.get(path, set()) - {path}

    def is_imported(self, path: str) -> bool:
        """Whether another file imports this one, or one of its name from a folder that it puts on Python's path."""
        if self.importers(path):
            return True
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        return any(".".join(parts[start:]) in self._elsewhere for start in range(len(parts)))

    def reaching(self, paths: Iterable[str]) -> set[str]:
        """Return the given files and every file that imports one of them, directly or not."""
        reaching = set(paths)
        todo = list(reaching)
        while todo:
            for importer in self._importers.get(todo.pop(), ()):
                if importer not in reaching:
                    reaching.add(importer)
                    todo.append(importer)
        return reaching
