"""The line that installs torch and the plugin, from the vendor's table."""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.doctor.context import Patient


def install_commands(
    patient: Patient, row: Row | None = None, plugin: str = "", *, wheel: bool = True
) -> tuple[str, ...]:
    """Return the commands that install a pair of the table.

    Args:
        patient: Machine and target.
        row: The pair; without it the one for the torch that is installed, else the newest.
        plugin: Another version of the plugin for the same torch.
        wheel: Whether the wheel that lies on the machine is to be installed too.
    """
    rows = list(patient.target.backend.table("versions"))
    installed = next((one for one in rows if one.name == f"torch=={patient.torch}"), None)
    row = row or installed or (rows[0] if rows else None)
    template = patient.needs.python.install
    if row is None or not template:
        return tuple(filter(None, (patient.needs.container.run, f"torchferry backend show {patient.target.name}")))
    if not wheel:
        template = " && ".join(step for step in template.split(" && ") if "{wheel}" not in step)
    use = f"{row.use.partition('==')[0]}=={plugin}" if plugin else row.use
    line = template.replace("{torch}", row.name.partition("==")[2]).replace("{plugin}", use)
    line = line.replace("{wheel}", _wheel(patient))
    return (line.replace("python -m", f"{patient.machine.python} -m"),)


def _wheel(patient: Patient) -> str:
    """Return the wheel of the plugin that lies on the machine, else where it would lie."""
    patterns = [pattern for _, pattern in patient.needs.python.wheels]
    found = (path for pattern in patterns for path in reversed(patient.machine.find(pattern)))
    return next(found, next(iter(patterns), ""))
