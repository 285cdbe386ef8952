"""A program that does not say where it ran and for how long; reported with `--status-line` only.

`migrate --status-line --unsafe-fixes` adds lines behind the imports of each program that imports torch. When the
program ends they print one line to standard error: device, card, dtype, the most memory that its tensors held, and the
seconds since the imports. With `--style portable` it is one call, `device_utils.print_status_at_end()`, and the dtype
is the best one that the device computes itself. Otherwise the lines use the plugin's own names, leave out what the
plugin does not tell, and the dtype is torch's default. A program that has not used the device says that. The device is
asked at the end only, so that the lines choose no card and start none. It is a fix to read: it adds a line to the
output of the program, and a program that is killed prints none.

Why: A log without the device cannot be compared with another, and a run that stayed on the CPU looks like a slow card.

References:
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.random.portable_generator import writes_manager
from torchferry.source.insertion import behind_path_changes, header_end
from torchferry.source.roles import mains, work_at_top

_CALL = "print_status_at_end"
_FUNCTION = "_print_status"
_MEBIBYTE = "2**20"


class StatusAtEnd(Rule):
    """Finds programs that import torch and do not print the device's status when they end."""

    CODE = "PRF106"
    EFFECT = Effect.NOTHING
    WORDS = ("torch",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing without `--status-line`."""
        return self.WORDS if options.status_line and (writes_manager(target) or not target.module) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield one finding for a program."""
        place = _work(context)
        if place is None or _CALL in context.text or f"def {_FUNCTION}(" in context.text:
            return
        at = header_end(context.text)
        if at is None or context.builds_extensions:
            return
        at = max(at, behind_path_changes(context.text))
        if context.target.module:
            lines, imports = [f"{context.target.module}.{_CALL}()"], [context.target.module]
        else:
            lines, imports = _own_lines(context.target)
        # with a character of what follows, the lines go behind an import that is added at the same place
        edit = Edit(at, at + 1, _set_apart(context, at, lines) + context.text[at])
        message = say("the program does not say where it ran; with the fix it prints device, dtype, memory and seconds")
        yield self.finding(context, context.file.span(place), message, Grade.UNSAFE, [edit], imports=tuple(imports))


def _work(context: PythonContext) -> ast.AST | None:
    """Return what shows that a file with torch is a program: a test of `__name__`, else the first work at its top."""
    if context.shell is not None or not context.names.references("torch"):  # a notebook shows what its cells print
        return None
    if context.names.references("unittest") or context.names.references("pytest"):
        return None
    for statement in mains(context.file.tree):
        return statement.test
    return work_at_top(context.file, context.names)


def _set_apart(context: PythonContext, at: int, lines: list[str]) -> str:
    """Return lines below a test of `__name__` as a block for the beginning of a line, with blank lines around it."""
    newline = context.source.newline
    block = ['if __name__ == "__main__":', *(f"    {line}" if line else "" for line in lines), ""]
    if at:
        block.insert(0, "")
        if context.text[at - 1] not in "\r\n":
            block.insert(0, "")
    if context.text[at : at + 1] not in ("", "\r", "\n"):
        block.append("")
    return newline.join(block)


def _own_lines(target: Target) -> tuple[list[str], list[str]]:
    """Return the lines in the plugin's own names, and the modules that they need imported."""

    def own(name: str) -> str:
        row = target.api(f"torch.cuda.{name}")
        if row.status not in REWRITTEN or not row.use:
            return ""
        used.append(row.use.partition(".")[0])
        return f"{row.use}()"

    used = ["torch"]
    device = target.backend.DEVICE_TYPE
    index, card, is_used, most = map(
        own, ("current_device", "get_device_name", "is_initialized", "max_memory_allocated")
    )
    where = f"{device}:{{{index}}}" if index else device
    named = f" ({{{card}}})" if card else ""
    memory = f"at most {{{most} / {_MEBIBYTE}:.2f}} MiB" if most else "memory not reported"
    status = [
        f'status = f"{where}{named}, "',
        f'status += f"default {{torch.get_default_dtype()}}: {memory}"',
    ]
    if is_used:
        status = [f'status = "{device} is not used"', f"if {is_used}:", *(f"    {line}" for line in status)]
    lines = [
        "import atexit as _atexit",
        "import sys as _sys",
        "import time as _time",
        "",
        "@_atexit.register",
        f"def {_FUNCTION}(started=_time.perf_counter()):",
        '    """Print device, dtype, memory and seconds when the program ends."""',
        *(f"    {line}" for line in status),
        '    print(f"{status}; {_time.perf_counter() - started:.2f} s", file=_sys.stderr)',
    ]
    return lines, list(dict.fromkeys(used))
