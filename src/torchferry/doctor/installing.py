"""The line that installs torch and the plugin, from the vendor's table."""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.doctor.context import CheckContext


def install_commands(
    context: CheckContext, row: Row | None = None, plugin: str = "", *, wheel: bool = True
) -> tuple[str, ...]:
    """Return the commands that install a pair of the table.

    Args:
        context: Machine and target.
        row: The pair; without it the one for the torch that is installed, else the newest.
        plugin: Another version of the plugin for the same torch.
        wheel: Whether the wheel that lies on the machine is to be installed too.
    """
    rows = list(context.target.backend.table("versions"))
    installed = next((row_of_torch for row_of_torch in rows if row_of_torch.name == f"torch=={context.torch}"), None)
    row = row or installed or (rows[0] if rows else None)
    template = context.requirements.python.install
    if row is None or not template:
        return tuple(
            filter(None, (context.requirements.container.run, f"torchferry backend show {context.target.name}"))
        )
    if not wheel:
        template = " && ".join(step for step in template.split(" && ") if "{wheel}" not in step)
    use = f"{row.use.partition('==')[0]}=={plugin}" if plugin else row.use
    line = template.replace("{torch}", row.name.partition("==")[2]).replace("{plugin}", use)
    line = line.replace("{wheel}", _wheel(context))
    return (line.replace("python -m", f"{context.host.python} -m"),)


def _wheel(context: CheckContext) -> str:
    """Return the wheel of the plugin that lies on the machine, else where it would lie."""
    patterns = [pattern for _, pattern in context.requirements.python.wheels]
    wheels = (path for pattern in patterns for path in reversed(context.host.find(pattern)))
    return next(wheels, next(iter(patterns), ""))
