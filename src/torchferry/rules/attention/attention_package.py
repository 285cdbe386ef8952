"""A package of attention kernels for CUDA: flash-attn, xformers, sageattention.

Their kernels are CUDA code, so they neither build nor load on the target. If the target has its own fused attention,
use it; `torch.nn.functional.scaled_dot_product_attention` runs everywhere. Plain attention gives the same result up to
rounding. It stores the whole score matrix, so its memory grows with the square of the length. Where its speed beside
these kernels is published for the target, the finding says it.

An import inside `try`/`except ImportError`, or behind a check for the package, is only noted, because the program
continues without it.

Why: The package cannot be installed or imported on the target, so the program stops at the import.

References:
- table packages
- page advising
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.performance import performance_facts, times_the_speed
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import Context, OncePerBlock, PythonContext, Rule
from torchferry.rules.config.device_setting import CONFIG_KINDS
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import MISSING, Guard, guard_of_import, without
from torchferry.rules.library.named_in_settings import WORDS as NAMING_WORDS
from torchferry.rules.library.named_in_settings import findings_in_settings
from torchferry.source.flow.syntax import string_value
from torchferry.source.kinds import Kind
from torchferry.source.project import Project

_PACKAGES = {
    "flash_attn": "flash-attn",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_3": "flash-attn-3",
    "flash_attn_interface": "flash-attn-3",
    "flashinfer": "flashinfer-python",
    "sageattention": "sageattention",
    "xformers": "xformers",
}

ATTENTION_PACKAGES = frozenset(_PACKAGES.values())
"""The distributions whose kernels these are."""


def plain_attention_speed(target: Target) -> Message | None:
    """Return how fast attention by its formula is where such kernels were; None where nobody published it."""
    for fact in performance_facts(target.backend):
        if fact.about == "without_flash" and fact.speed is not None:
            return say(
                "attention by its formula instead: {factor} ({measured})",
                factor=times_the_speed(fact.speed),
                measured=fact.measured,
            )
    return None


def _imports(context: PythonContext, module: str) -> Iterator[ast.AST]:
    """Yield the statements that import a module, and the calls that import it by its name."""
    for reference in context.names.references(module):
        if isinstance(reference.node, ast.alias):
            yield context.file.parents[reference.node]
    for name, call in context.named_imports:
        if name == module or name.startswith(f"{module}."):
            yield call


def _is_own(context: PythonContext, module: str, statement: ast.AST) -> bool:
    """Whether a module that a statement imports is the project's, or an object that was put in its place before.

    Files of a package are called `flash_attn.py` too, and import the real one: a module of the project must be found
    from a folder that is on the path, and have what is imported.
    """
    if _is_put_before(context, module, statement):
        return True
    if context.project is None or not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return False
    wanted = [(alias.name, "") for alias in statement.names] if isinstance(statement, ast.Import) else [
        (statement.module or "", alias.name) for alias in statement.names
    ]  # fmt: skip
    named = [each for each in wanted if each[0] == module or each[0].startswith(f"{module}.")]
    return bool(named) and any(
        all(_has(context.project, top, *each) for each in named) for top in _folders_on_path(context, module)
    )


def _is_put_before(context: PythonContext, module: str, statement: ast.AST) -> bool:
    """Whether `sys.modules["flash_attn"] = stub` stands above an import."""
    for modules in context.file.attributes.get("modules", ()):
        store = context.file.parents.get(modules)
        put = context.file.parents.get(store) if isinstance(store, ast.Subscript) else None
        if not isinstance(store, ast.Subscript) or not isinstance(put, ast.Assign) or store not in put.targets:
            continue
        is_above = context.file.parents.get(put) is context.file.tree and put.lineno < getattr(statement, "lineno", 0)
        if is_above and string_value(store.slice) == module and context.names.qualified(modules) == "sys.modules":
            return not isinstance(put.value, ast.Constant)
    return False


def _folders_on_path(context: PythonContext, module: str) -> Iterator[str]:
    """Yield the folders of the project that hold a module and are on Python's path, or may be: those the file names."""
    assert context.project is not None
    paths = context.project.paths
    texts = [str(constant.value) for constant in context.file.strings] if "sys.path" in context.text else []
    for path in sorted(paths):
        for end in (f"{module}.py", f"{module}/__init__.py"):
            folder = path.removesuffix(end)
            if path in (folder, context.path) or (folder and not folder.endswith("/")):
                continue
            name = folder.rstrip("/").rpartition("/")[2]
            is_named = folder in ("", "src/") or any(name in text.split("/") for text in texts)
            is_beside = context.path.rpartition("/")[0] == folder.rstrip("/")
            if is_named or (is_beside and f"{folder}__init__.py" not in paths):
                yield folder


def _has(project: Project, folder: str, module: str, name: str) -> bool:
    """Whether a module below a folder is there, and binds a name; an empty one for the module alone."""
    base = folder + module.replace(".", "/")
    path = next((each for each in (f"{base}.py", f"{base}/__init__.py") if each in project.paths), None)
    if path is None or name in ("", "*"):
        return path is not None
    if not project.paths.isdisjoint((f"{base}/{name}.py", f"{base}/{name}/__init__.py")):
        return True
    loaded = project.file(path)
    return loaded is not None and bool(loaded[1].module_bindings(name))


class AttentionPackage(Rule):
    """Finds imports of attention kernels."""

    CODE = "ATT101"
    EFFECT = Effect.RAISES
    WORDS = NAMING_WORDS
    KINDS = (Kind.PYTHON, *CONFIG_KINDS)
    MODULES = tuple(_PACKAGES)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield the same for each class that a settings file names."""
        return findings_in_settings(context, self.check_python)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each package in each block that imports it: a program may come to any of them."""
        once = OncePerBlock(context.file)
        for module, package in _PACKAGES.items():
            for statement in _imports(context, module):
                if exemption_reason(context, statement) is not None or _is_own(context, module, statement):
                    continue
                row = context.target.row("packages", package)
                if row.status == "same":
                    continue
                guard = guard_of_import(context, statement, MISSING)
                advice: object = row.remark or say("use torch.nn.functional.scaled_dot_product_attention")
                if row.use:
                    advice = noted(say("use `{use}`", use=row.use), row.remark)
                message = say(
                    "`{module}` contains CUDA kernels that do not run on {target}: {advice}",
                    module=module,
                    target=context.target.title,
                    advice=advice,
                )
                message = noted(message, plain_attention_speed(context.target))
                grade, effect = without(guard, self.EFFECT)
                blocker = guard is Guard.NONE
                span = context.file.span(statement)
                reported = self.finding(context, span, message, grade, effect=effect, blocker=blocker, lacks=package)
                yield from once.first(statement, reported)
