"""What a file is, judged by its name, which decides how it is read and which rules look at it."""

from __future__ import annotations

import re
from enum import Enum

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.recorded_decisions import FILE as DECISIONS


class Kind(Enum):
    """A kind of file that torchferry understands."""

    PYTHON = "Python"
    NOTEBOOK = "notebook"
    SHELL = "shell script"
    MAKEFILE = "Makefile"
    REQUIREMENTS = "requirements file"
    SETUP_CFG = "setup.cfg"
    PYPROJECT = "pyproject.toml"
    CONDA = "conda environment"
    YAML = "YAML"
    JSON = "JSON"
    TOML = "TOML"
    INI = "INI file"
    DOCKERFILE = "Dockerfile"
    COMPOSE = "compose file"
    MARKDOWN = "Markdown"
    KERNEL = "CUDA source"
    CPP = "C or C++ source"
    CMAKE = "CMake file"
    MANIFEST = "MANIFEST.in"
    MESON = "Meson file"
    BAZEL = "Bazel file"


OWN_SETTINGS = "torchferry.toml"

_NAMES = {
    Kind.CMAKE: r"CMakeLists\.txt\Z|.+\.cmake(?:\.in)?\Z",
    Kind.MANIFEST: r"MANIFEST\.in\Z",
    Kind.MESON: r"meson\.build\Z|meson(?:_options\.txt|\.options)\Z",
    Kind.BAZEL: r"(?:BUILD|WORKSPACE)(?:\.bazel)?\Z|MODULE\.bazel\Z|.+\.bzl\Z",
    Kind.SETUP_CFG: r"setup\.cfg\Z",
    Kind.PYPROJECT: r"pyproject\.toml\Z",
    Kind.MAKEFILE: r"(?:GNU)?[Mm]akefile(?:\..+)?\Z|.+\.mk\Z|\.?[Jj]ustfile\Z|.+\.just\Z",
    Kind.SHELL: r"Procfile(?:\.\w+)?\Z",
    Kind.DOCKERFILE: r"(?:.+[.-])?[Dd]ockerfile(?:[._-].+)?\Z|Containerfile\Z",
    Kind.COMPOSE: r"(?:docker-)?compose(?:[.-].+)?\.ya?ml\Z",
    Kind.CONDA: r"(?:environment|conda|env)(?:[._-].+)?\.ya?ml\Z",
    Kind.INI: r"\.env(?:\..+)?\Z",
    Kind.REQUIREMENTS: r"(?:.*[._-])?(?:requirements?|constraints?)(?:[._-].*)?\.(?:txt|in|pip)\Z",
}
_NAMED = lazy_regex("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _NAMES.items()))
"""The names of all kinds in one expression, as most files are of none of them."""

CODE = (
    Kind.PYTHON,
    Kind.NOTEBOOK,
    Kind.SHELL,
    Kind.KERNEL,
    Kind.CPP,
    Kind.CMAKE,
    Kind.MANIFEST,
    Kind.MESON,
    Kind.BAZEL,
)
"""Kinds of file that hold what runs, or build it; the others say how it is installed, started, set or described."""

SETTINGS = (Kind.YAML, Kind.JSON, Kind.TOML, Kind.INI)
"""Kinds of file that hold a program's settings."""

_SUFFIXES = {
    ".py": Kind.PYTHON,
    ".pyw": Kind.PYTHON,
    ".pyi": Kind.PYTHON,
    ".ipynb": Kind.NOTEBOOK,
    ".sh": Kind.SHELL,
    ".bash": Kind.SHELL,
    ".zsh": Kind.SHELL,
    ".slurm": Kind.SHELL,
    ".sbatch": Kind.SHELL,
    ".args": Kind.SHELL,  # options, one on a line: `python train.py @default.args`
    ".flags": Kind.SHELL,
    ".yaml": Kind.YAML,
    ".yml": Kind.YAML,
    ".json": Kind.JSON,
    ".toml": Kind.TOML,
    ".ini": Kind.INI,
    ".cfg": Kind.INI,
    ".conf": Kind.INI,
    ".env": Kind.INI,
    ".gin": Kind.INI,
    ".properties": Kind.INI,
    ".md": Kind.MARKDOWN,
    ".rst": Kind.MARKDOWN,
    ".cu": Kind.KERNEL,
    ".cuh": Kind.KERNEL,
    ".c": Kind.CPP,
    ".cc": Kind.CPP,
    ".cpp": Kind.CPP,
    ".cxx": Kind.CPP,
    ".h": Kind.CPP,
    ".hh": Kind.CPP,
    ".hpp": Kind.CPP,
    ".hxx": Kind.CPP,
    ".inl": Kind.CPP,
    ".inc": Kind.CPP,
    ".ipp": Kind.CPP,
    ".tpp": Kind.CPP,
    ".impl": Kind.CPP,
}


def kind_of(path: str) -> Kind | None:
    """Return the kind of the file at `path` (with `/`), or None for one that torchferry does not read."""
    folder, _, name = path.rpartition("/")
    if name in (OWN_SETTINGS, DECISIONS):
        return None  # it speaks of the project, and rewriting it would change what the next run does
    named = _NAMED.match(name)
    if named is not None:
        return Kind[named.lastgroup or ""]
    if folder.rpartition("/")[2] == "requirements" and name.endswith((".txt", ".in")):
        return Kind.REQUIREMENTS
    return _SUFFIXES.get(name[name.rfind(".") :].lower()) if "." in name else None


HEADER_HEAD = 16 * 1024
"""Bytes at the beginning of a file by which `is_bare_header` judges."""

SCRIPT_HEAD = 128
"""Bytes at the beginning of a file by which `script_kind` judges."""

_SCRIPT = lazy_regex(rb"#![^\n]*\b(?:(?P<shell>(?:ba|da|k|z)?sh)|(?:python|pypy)[\d.]*)(?![\w./-])")

_HEADER = lazy_regex(
    rb"^[ \t]*\#[ \t]*(?:include[ \t]*[<\"][\w./+-]+[>\"]|pragma[ \t]+once\b"
    rb"|ifndef[ \t]+(\w+)\s+\#[ \t]*define[ \t]+\1\b)",
    re.MULTILINE,
)


def is_bare_header(path: str, head: bytes) -> bool:
    """Whether a file without a suffix is a header, as those of C++'s own library are: by its first lines."""
    return "." not in path.rpartition("/")[2] and b"\0" not in head and _HEADER.search(head) is not None


def script_kind(head: bytes) -> Kind | None:
    """Return the kind of a file without a suffix that is a script of a shell or of Python, by its first line."""
    script = _SCRIPT.match(head)
    if script is None:
        return None
    return Kind.SHELL if script["shell"] else Kind.PYTHON


_LANGUAGES = {
    ".pyx": "Cython",
    ".pxd": "Cython",
    ".pxi": "Cython",
    ".f": "Fortran",
    ".f90": "Fortran",
    ".cuf": "Fortran",
    ".rs": "Rust",
    ".go": "Go",
    ".java": "Java",
    ".kt": "Kotlin",
    ".scala": "Scala",
    ".swift": "Swift",
    ".mm": "Objective-C",
    ".jl": "Julia",
    ".lua": "Lua",
    ".m": "MATLAB",
    ".r": "R",
    ".cs": "C#",
    ".js": "JavaScript",
    ".ts": "TypeScript",
    ".cl": "OpenCL",
    ".hip": "HIP",
    ".ptx": "PTX",
    ".mojo": "Mojo",
    ".bazel": "Bazel",
    ".gradle": "Gradle",
    ".ps1": "PowerShell",
    ".bat": "batch files",
}


def language_of(path: str) -> str:
    """Return the language of a file of source that torchferry does not read; empty for other files."""
    name = path.rpartition("/")[2]
    return _LANGUAGES.get(name[name.rfind(".") :].lower(), "") if "." in name else ""
