"""The conda environments of a machine, read as files: which is active, and which has the plugin."""

from __future__ import annotations

import glob
import posixpath
from dataclasses import dataclass

from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Host

_INSTALLATIONS = ("/root/miniconda3", "/root/anaconda3", "/opt/conda", "/opt/miniconda3", "/opt/anaconda3")
"""Where vendors' images and installers have conda; `~/.conda/environments.txt` names environments elsewhere."""


@dataclass(frozen=True)
class CondaEnvironment:
    """An environment of conda: its folder, and its name. `conda activate` takes both; the folder is never ambiguous."""

    prefix: str
    name: str

    @property
    def python(self) -> str:
        """Its interpreter."""
        return f"{self.prefix}/bin/python"

    def holds(self, program: str) -> bool:
        """Whether a program lies in its folder: an environment below another's is not part of that one."""
        return posixpath.dirname(posixpath.normpath(program)) == f"{self.prefix}/bin"


def active_environment(host: Host) -> CondaEnvironment | None:
    """Return the environment that `conda activate` made the shell's; None where there is none."""
    prefix = host.environment.get("CONDA_PREFIX", "").rstrip("/")
    if not prefix.startswith("/"):
        return None
    return CondaEnvironment(prefix, host.environment.get("CONDA_DEFAULT_ENV") or _name_of(prefix))


def environments(host: Host) -> list[CondaEnvironment]:
    """Return the environments that have an interpreter, as `conda info -e` lists them: the active one first."""
    active = active_environment(host)
    home = host.environment.get("HOME", "/root")
    bases = [*_INSTALLATIONS, f"{home}/miniconda3", f"{home}/anaconda3"]
    if active is not None:
        bases.append(_base_of(active.prefix))
    prefixes: list[str] = []
    for base in bases:
        prefixes += [
            base,
            *(path.rpartition("/bin/")[0] for path in host.find(f"{glob.escape(base)}/envs/*/bin/python")),
        ]
    lines = (host.read(f"{home}/.conda/environments.txt") or "").splitlines()
    prefixes += [line.rstrip().rstrip("/") for line in lines if line.startswith("/") and line.isprintable()]
    others = [CondaEnvironment(prefix, _name_of(prefix)) for prefix in dict.fromkeys(prefixes)]
    if active is not None:
        others = [active, *(other for other in others if other.prefix != active.prefix)]
    return [other for other in others if host.entry(other.python) is not None]


def with_plugin(context: CheckContext) -> list[CondaEnvironment]:
    """Return the environments in whose packages the target's plugin lies."""
    plugin = context.target.backend.PLUGIN
    return [
        environment
        for environment in environments(context.host)
        if context.host.find(f"{glob.escape(environment.prefix)}/lib/python3*/site-packages/{plugin}/__init__.py")
    ]


def _base_of(prefix: str) -> str:
    """Return the installation of conda that an environment belongs to: it is one itself, or lies in `envs` of one."""
    base, inside, _ = prefix.rpartition("/envs/")
    return base if inside else prefix


def _name_of(prefix: str) -> str:
    """Return what `conda info -e` calls it: the name below `envs`, `base`, or the path of what lies elsewhere."""
    _, inside, name = prefix.rpartition("/envs/")
    if inside and "/" not in name:
        return name
    return "base" if prefix in _INSTALLATIONS or posixpath.basename(prefix) in ("miniconda3", "anaconda3") else prefix
