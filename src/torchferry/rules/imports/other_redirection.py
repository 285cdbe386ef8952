"""An import that redirects `torch.cuda` to another vendor's device.

`from torch_npu.contrib import transfer_to_npu` in a project that is migrated to another target: the plugin that it
belongs to is not on that machine, and what the project says of CUDA is migrated. Code that copes without the plugin is
left as it is; so is the target's own, where the style is not `portable`.

Why: The import raises on the target's machine, or it redirects what is migrated already.

References:
- page running
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Bilingual, Message, say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.guarded import guard_of, without


class OtherRedirection(Rule):
    """Finds imports of other vendors' redirects."""

    CODE = "IMP104"
    EFFECT = Effect.RAISES
    RUNS_ON_DEVICE = False

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The last parts of the modules."""
        return tuple(sorted({module.rpartition(".")[2] for module in _redirections(target)}))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import."""
        redirections = _redirections(context.target)
        for statement in context.file.imports:
            owner = context.names.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
            for alias in statement.names:
                imported = f"{owner}.{alias.name}" if owner else alias.name
                module = next((each for each in redirections if f"{imported}.".startswith(f"{each}.")), "")
                if module:
                    grade, effect = without(guard_of(context.file, statement), self.EFFECT)
                    message = _message(context, module, redirections[module], grade)
                    yield self.finding(context, context.file.span(statement), message, grade, effect=effect)
                    break


def _redirections(target: Target) -> dict[str, Bilingual]:
    """Return the modules that redirect `torch.cuda` to devices other than the target's, with whose they are."""
    redirections: dict[str, Bilingual] = {}
    for name in registry.built_in():
        backend = registry.load(name)
        if target.module or name != target.name:
            redirections.update(dict.fromkeys(backend.REDIRECTIONS, Bilingual(backend.TITLE, backend.TITLE_ZH)))
    return redirections


def _message(context: PythonContext, module: str, other: Bilingual, grade: Grade) -> Message:
    message = say("`{module}` redirects `torch.cuda` to {other}", module=module, other=other)
    if grade is Grade.NOTE:
        return message
    return say("{message}; on {target} remove the import", message=message, target=context.target.title)
