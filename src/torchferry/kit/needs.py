"""What the code of a project needs beside torch: packages that it imports, models of a hub, dtypes."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torchferry.backends import cuda
from torchferry.core.files import read_regular
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.core.vendored import CHECKSUM, FIRST
from torchferry.source.kinds import Kind
from torchferry.source.names import Names
from torchferry.source.outline import outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.roles import ASIDE, is_set_aside
from torchferry.source.text import UndecodableError, decode_python
from torchferry.source.tree import Listing

_DTYPES = ("float32", "float16", "bfloat16")
_DTYPE = lazy_regex(
    r"\btorch\.(?P<dtype>bfloat16|float16|half)\b|\.(?P<method>half|bfloat16)\(\)|[\"'](?P<text>bf16|fp16|bfloat16|float16)[\"']"
)
_SHORT = {"half": "float16", "bf16": "bfloat16", "fp16": "float16"}

_HUB_WORDS = (
    b"from_pretrained",
    b"hf_hub_download",
    b"snapshot_download",
    b"pretrained_model_name_or_path",
    b"repo_id",
)
_REPOSITORY = lazy_regex(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}\Z")
_ALONE = lazy_regex(r"[a-z][a-z0-9]*(?:-[a-z0-9.]+)+\Z")
"""A model without an owner, such as `bert-base-uncased`."""

_LOCAL = frozenset({
    "checkpoint", "checkpoints", "ckpt", "ckpts", "weights", "weight", "model", "models", "output", "outputs", "run",
    "runs", "data", "datasets", "dataset", "pretrained", "pretrained_models", "log", "logs", "result", "results",
    "work_dirs", "exp", "exps", "experiments", "path", "your", "save", "saved", "saves", "assets", "configs", "tmp",
    "root", "home", "mnt", "workspace", "username", "your-username", "user", "org",
})  # fmt: skip
"""First parts of names that are folders of a machine rather than owners on a hub."""

_KEYWORDS = ("repo_id", "pretrained_model_name_or_path", "model_id", "model_name_or_path", "model_dir")
_MOST_MODELS = 8
"""Models that are asked for; a project that lists more offers a choice, and needs one of them."""

_OF_PYTHON = frozenset({"setuptools", "pkg_resources", "pip"})
"""Modules that come with an environment."""

_SHARED = frozenset({"google", "nvidia", "ruamel", "azure"})
"""Namespaces in which several distributions have modules."""

_SMALL = (".json", ".txt", ".md", ".yaml", ".yml")


class ImportedModule(NamedTuple):
    """A package that the code imports, its own modules and Python's left out.

    Attributes:
        module: The module at the top; of a namespace that several distributions share, the part below it too.
        distribution: What to install for it; empty where no table says so: another name may be somebody else's package.
        needed: Whether an import is at a file's margin, so that the file does not load without it.
        place: The first of its imports, as `file:line`.
    """

    module: str
    distribution: str
    needed: bool
    place: str


class HubModel(NamedTuple):
    """A model of a hub that the code names.

    Attributes:
        hub: `huggingface` or `modelscope`.
        name: The model.
        file: A small file of it that the code asks for; empty where it names none.
        place: Where it is used, as `file:line`.
    """

    hub: str
    name: str
    file: str
    place: str


class Needs(NamedTuple):
    """What the code of a project needs.

    Attributes:
        modules: In order of their names.
        models: In order of their places.
        dtypes: For each dtype that is spoken of, the first place.
        manager: The file with the device manager, relative to the root; empty for none.
        from_root: The files below the root that import the project's modules from there, and not from their own folder.
    """

    modules: tuple[ImportedModule, ...]
    models: tuple[HubModel, ...]
    dtypes: dict[str, str]
    manager: str = ""
    from_root: frozenset[str] = frozenset()


def needs_of(
    root: Path, listing: Listing, leave_out: Iterable[str] = (), to_be: Mapping[str, bytes] | None = None
) -> Needs:
    """Read what the code needs; files that cannot be read are left out.

    Args:
        root: The project's folder.
        listing: Its files.
        leave_out: Files that a migration wrote.
        to_be: The contents of files that are about to be written, so that places are those of the code as it then is.
    """
    written = to_be or {}
    ours = frozenset(leave_out)
    paths = [entry.path for entry in listing.entries if entry.kind is Kind.PYTHON and entry.path not in ours]
    beside = [path for path in written if path.endswith(".py")]
    project = Project(root, [*paths, *beside])
    own = {part.removesuffix(".py") for path in (*paths, *beside) for part in path.split("/")}
    modules: dict[str, ImportedModule] = {}
    models: dict[tuple[str, str], HubModel] = {}
    dtypes: dict[str, str] = {}
    from_root: set[str] = set()
    manager = ""
    for path in sorted(paths):
        try:
            data = written[path] if path in written else read_regular(root / path)
        except OSError:
            continue
        if path in written:
            _add(project, path, data)
        if _is_manager(data):
            manager = min(filter(None, (manager, path)), key=lambda each: (each.count("/"), each))
            continue
        if "/" in path and any(
            (target := project.module_path(each.module, path)) is not None
            and target.removesuffix(".py").removesuffix("/__init__") == each.module.replace(".", "/")
            for each in outline(path, data).imports
        ):
            from_root.add(path)
        if CHECKSUM.encode() in data[:400] or ASIDE.search(path) is not None or is_set_aside(path):
            continue
        for module in _modules(project, own, path, data):
            known = modules.get(module.module)
            if known is None or (module.needed and not known.needed):
                modules[module.module] = module
        for dtype, place in _dtypes(path, data):
            dtypes.setdefault(dtype, place)
        if any(word in data for word in _HUB_WORDS):
            for model in _models(project, path):
                models.setdefault((model.hub, model.name), model)
    found = [model for model in models.values() if not (root / model.name).exists()]
    return Needs(tuple(sorted(modules.values())), tuple(found[:_MOST_MODELS]), dtypes, manager, frozenset(from_root))


def _add(project: Project, path: str, data: bytes) -> None:
    """Let a project have a file as it is to be."""
    with contextlib.suppress(UndecodableError, UnparsableError):  # read from the disk, then
        file = PythonFile(path, decode_python(data))
        project.add(file, Names(file, project))


def _is_manager(data: bytes) -> bool:
    """Whether a file is the device manager that torchferry writes."""
    lines = data.split(b"\n", 2)
    return (
        len(lines) == 3
        and lines[0].startswith(FIRST.encode())
        and lines[1].startswith(CHECKSUM.encode())
        and (b"class DeviceManager" in data or b"def device_string" in data)
    )


def _modules(project: Project, own: set[str], path: str, data: bytes) -> Iterator[ImportedModule]:
    for imported in outline(path, data).imports:
        top = imported.module.partition(".")[0]
        if not top.isidentifier() or top in sys.stdlib_module_names or top == "torch":
            continue
        if project.module_path(top, path) is not None or project.module_path(imported.module, path) is not None:
            continue
        package = cuda.package_of_module(imported.module)
        if (package is None and top in own) or top in _OF_PYTHON:
            continue  # a folder that is no package, as Python takes one beside a program
        name = package.name if package is not None else ""
        module = ".".join(imported.module.split(".")[:2]) if top in _SHARED else top
        if module not in _SHARED:  # `import google` alone says nothing
            yield ImportedModule(module, name, not imported.indented, f"{path}:{imported.line}")


def _dtypes(path: str, data: bytes) -> Iterator[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    for match in _DTYPE.finditer(text):
        name = match["dtype"] or match["method"] or match["text"]
        yield _SHORT.get(name, name), f"{path}:{text.count(chr(10), 0, match.start()) + 1}"


def _models(project: Project, path: str) -> Iterator[HubModel]:
    loaded = project.file(path)
    if loaded is None:
        return
    file, names = loaded
    hub = "modelscope" if "modelscope" in names.imported_packages() else "huggingface"
    constants = _constants(file)
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        given = next((keywords[word] for word in _KEYWORDS if word in keywords), None)
        if called in ("from_pretrained", "hf_hub_download", "snapshot_download") and given is None and node.args:
            given = node.args[0]
        if given is None or not (called.startswith(("from_", "hf_", "snapshot", "load")) or "repo_id" in keywords):
            continue
        name = _text_of(given, constants)
        if name is None or not _is_model(name):
            continue
        asked = _text_of(keywords["filename"], constants) if "filename" in keywords else None
        small = asked if asked is not None and asked.endswith(_SMALL) and ".." not in asked else ""
        yield HubModel(hub, name, small, f"{path}:{node.lineno}")


def _is_model(name: str) -> bool:
    if name.partition("/")[0].lower() in _LOCAL:
        return False
    return (_REPOSITORY.match(name) or _ALONE.match(name)) is not None


def _constants(file: PythonFile) -> dict[str, str]:
    """Return the texts that names, options and parameters of a file represent, where there is only one."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(file.tree):
        for name, value in _bound(node):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.setdefault(name, set()).add(value.value)
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, (ast.Name, ast.Attribute)):
                yield _last(target), node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, (ast.Name, ast.Attribute)):
        if isinstance(node.value, ast.Call):  # field(default="...")
            yield _last(node.target), next((word.value for word in node.value.keywords if word.arg == "default"), None)
        else:
            yield _last(node.target), node.value
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        positional = [*node.args.posonlyargs, *node.args.args]
        for argument, default in zip(
            positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True
        ):
            yield argument.arg, default
        for argument, given in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            yield argument.arg, given
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        usual = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
        for option in node.args:
            if isinstance(option, ast.Constant) and isinstance(option.value, str):
                yield option.value.lstrip("-").replace("-", "_"), usual


def _last(target: ast.Name | ast.Attribute) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _text_of(value: ast.expr, constants: dict[str, str]) -> str | None:
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, (ast.Name, ast.Attribute)):
        return constants.get(_last(value))
    return None
