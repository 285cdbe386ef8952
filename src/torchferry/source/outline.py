"""What a Python file imports and whether it is started as a program, judged by its text alone.

Every file of a project is read once for this; only those that speak of CUDA are parsed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.lines import line_matches

_IMPORT = lazy_regex(
    rb"^[ \t]*(?:from[ \t]+(?P<module>\.*[\w.]*)[ \t]+import[ \t]+(?:\((?P<many>[^)]*)\)|(?P<names>[^\r\n#;]+))"
    rb"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_NAME = lazy_regex(rb"(?:^|,)\s*([\w.*]+)")
_COMMENT = lazy_regex(rb"#[^\r\n]*")


class Import(NamedTuple):
    """One import: a module as written (relative ones with dots), and the names taken from it."""

    module: str
    names: tuple[str, ...]


class Outline(NamedTuple):
    """The outline of one Python file.

    Attributes:
        path: Path relative to the root.
        imports: Its imports, wherever they stand.
        is_program: Whether it has an `if __name__ == "__main__"` part.
    """

    path: str
    imports: tuple[Import, ...]
    is_program: bool

    @property
    def packages(self) -> set[str]:
        """The top-level packages that it imports from, its own relative imports left out."""
        return {imported.module.partition(".")[0] for imported in self.imports}


def outline(path: str, data: bytes) -> Outline:
    """Read the outline of a file from its bytes."""
    imports = []
    for match in line_matches(_IMPORT, b"import", data):
        module = match["module"]
        if module is not None:
            names = match["many"] if match["many"] is not None else match["names"]
            if b"#" in names:
                names = _COMMENT.sub(b"", names)
            imports.append(Import(_text(module), tuple(map(_text, _NAME.findall(names)))))
        else:
            imports += [Import(_text(name), ()) for name in _NAME.findall(match["modules"])]
    return Outline(path, tuple(imports), b"__main__" in data and b"__name__" in data)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
