"""An import of another vendor's plugin, at the top of a file.

`import torch_musa` in a project that is migrated to Huawei Ascend: the program was written for, or migrated to, another
accelerator. Migrate the version for CUDA, which names every place; or keep both versions, each with its own plugin.
Code that copes without the plugin, or imports it only where something asks for it, is left as it is.

Why: The plugin is not on the target's machine, so the import raises.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Bilingual, say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.guarded import MISSING, Guard, guard_of


class OtherPlugin(Rule):
    """Finds imports of other vendors' plugins."""

    CODE = "IMP105"
    EFFECT = Effect.RAISES
    RUNS_ON_DEVICE = False

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The modules of the other plugins."""
        return tuple(sorted(_plugins(target)))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement that always runs."""
        plugins = _plugins(context.target)
        redirections = {module for name in registry.built_in() for module in registry.load(name).REDIRECTIONS}
        for statement in context.file.imports:
            owner = context.names.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
            for alias in statement.names:
                imported = owner or alias.name
                plugin = imported.partition(".")[0]
                if plugin not in plugins or guard_of(context.file, statement, MISSING) is not Guard.NONE:
                    continue
                if any(f"{imported}.{alias.name}.".startswith(f"{each}.") for each in redirections):
                    continue  # IMP104
                message = say(
                    "`{plugin}` is the plugin for {other}, and {target} has another: migrate the version for CUDA",
                    plugin=plugin,
                    other=plugins[plugin],
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(statement), message, Grade.MANUAL)
                break


def _plugins(target: Target) -> dict[str, Bilingual]:
    """Return the plugins of other vendors, with whose they are; none for code that runs on all of them."""
    if target.module:
        return {}
    loaded = [registry.load(name) for name in registry.built_in() if name != target.name]
    own = {target.backend.PLUGIN, target.backend.IMPORT_NAMESPACE.partition(".")[0]}
    own |= {row.use.partition(".")[0] for row in target.backend.table("api")}  # two plugins may share a package's name
    return {
        each.PLUGIN: Bilingual(each.TITLE, each.TITLE_ZH) for each in loaded if each.PLUGIN and each.PLUGIN not in own
    }
