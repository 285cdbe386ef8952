"""The line that installs torch and the plugin, from the vendor's table."""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.doctor.patient import Patient


def install_commands(patient: Patient, row: Row | None = None, plugin: str = "") -> tuple[str, ...]:
    """Return the commands that install a pair of the table.

    Args:
        patient: Machine and target.
        row: The pair; without it the one for the torch that is installed, else the newest.
        plugin: Another version of the plugin for the same torch.
    """
    rows = list(patient.target.backend.table("versions"))
    installed = next((one for one in rows if one.name == f"torch=={patient.torch}"), None)
    row = row or installed or (rows[0] if rows else None)
    template = patient.needs.python.install
    if row is None or not template:
        return tuple(filter(None, (patient.needs.container.run, f"torchferry backend show {patient.target.name}")))
    use = f"{row.use.partition('==')[0]}=={plugin}" if plugin else row.use
    wheels = [path for _, pattern in patient.needs.python.wheels for path in patient.machine.find(pattern)]
    wheel = wheels[0] if wheels else next((pattern for _, pattern in patient.needs.python.wheels), "")
    line = template.replace("{torch}", row.name.partition("==")[2]).replace("{plugin}", use).replace("{wheel}", wheel)
    return (line.replace("python -m", f"{patient.machine.python} -m"),)
