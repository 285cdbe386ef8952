"""A program that uses CUDA and does not begin the redirect, where a project is migrated by `--style shim`.

`import torchferry.shim.auto` leads `torch.cuda` of the process to the accelerator that is installed, and the code stays
as it is. The line is the first import, behind the docstring and `from __future__`, in every program that people start
and that reaches the device; the modules that it imports need none. It also stands ahead of lines that set environment
variables: set those that the plugin reads at its import where the program is started. Processes that a program starts
by `multiprocessing` import the program again, and so begin the redirect too.

Why: Without the redirect the program requests CUDA, and stops or runs on the CPU.

References:
- page running
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.rules.base import Rule
from torchferry.source.insertion import first_import_edit, imports_module
from torchferry.source.text import SourceText

_PACKAGE = "torchferry.shim"
_MODULE = f"{_PACKAGE}.auto"


class RedirectImport(Rule):
    """Adds the redirect's import to programs; which files these are is known when all were examined."""

    CODE = "IMP103"
    EFFECT = Effect.RAISES

    def edit(self, source: SourceText, target: Target, anyhow: bool) -> Edit | None:
        """Return the edit for a program, or None when it begins the redirect already or does not parse."""
        if imports_module(source.text, _PACKAGE):
            return None
        return first_import_edit(source.text, [_MODULE], source.newline)

    def at(self, path: str, source: SourceText, edit: Edit, target: Target) -> Finding:
        """Build the finding for an edit that `edit` returned."""
        line, column = source.position(edit.start)
        message = say("uses CUDA, which `import {module}` redirects to {target}", module=_MODULE, target=target.title)
        return Finding(
            self.CODE, Location(path, line, column, line, column), message, Grade.SAFE, (edit,), effect=self.EFFECT
        )
