"""Write `requirements/*.txt`: what the Makefile and the action install, each version with the hashes of its files.

    python tools/lock.py [NAME ...]     resolve again; needs uv and a network
    python tools/lock.py --check        whether the files fit pyproject.toml; needs neither

One file serves every Python from 3.10 on: markers tell where a version belongs. torch and what its build for CUDA
brings are left out: its builds (PyPI's, the one for the CPU, a mirror's) have the same version and different files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchferry.core import toml

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"

UNLOCKED = re.compile(r"torch|triton|nvidia-.*|cuda-.*")
"""The packages that no file has."""


class Lock(NamedTuple):
    """What a file is resolved from.

    Attributes:
        group: A dependency group; empty for none.
        project: Whether with what torchferry itself needs.
        extra: An extra of torchferry; empty for none.
        alone: Without what its packages need.
    """

    group: str = ""
    project: bool = False
    extra: str = ""
    alone: bool = False


LOCKS = {
    "dev": Lock("dev", project=True),
    "build": Lock("build"),
    "action": Lock("build", project=True),
    "rehearsal": Lock("rehearsal", project=True),
    "deploy": Lock("deploy-check", project=True, extra="deploy"),
    "docs": Lock("docs"),
    "stories": Lock("stories", project=True),
    "lock": Lock("lock"),
    "fuzz": Lock("fuzz"),
    "plugin": Lock("plugin", alone=True),
}
"""The files by their names; what the first one has, the others have in the same version."""


def wanted(name: str) -> list[str]:
    """Return the requirements that a file is resolved from, sorted."""
    lock, settings = LOCKS[name], toml.load(ROOT / "pyproject.toml")
    found = group(settings["dependency-groups"], lock.group)
    if lock.project:
        found += settings["project"]["dependencies"]
    if lock.extra:
        found += settings["project"]["optional-dependencies"][lock.extra]
    return sorted(set(found))


def group(groups: dict[str, list[object]], name: str) -> list[str]:
    """Return the requirements of a dependency group, with those of the groups that it includes."""
    found: list[str] = []
    for item in groups[name]:
        found += [item] if isinstance(item, str) else group(groups, str(dict(item)["include-group"]))  # type: ignore[call-overload]
    return found


def digest(name: str) -> str:
    """Return what stands in the first line of a file for the requirements that it was resolved from."""
    return hashlib.sha256(json.dumps(wanted(name)).encode()).hexdigest()[:16]


def resolve(name: str) -> str:
    """Return the text of a file as uv resolves it."""
    lock = LOCKS[name]
    command = [
        "uv",
        "pip",
        "compile",
        *(["pyproject.toml"] if lock.project else []),
        "--universal",
        "--generate-hashes",
    ]
    command += ["--python-version", "3.10", "--no-header", "--no-annotate", "--no-config", "--quiet", "--upgrade"]
    command += ["--group", lock.group, *(["--extra", lock.extra] if lock.extra else []), *(["--no-deps"] * lock.alone)]
    first = FOLDER / f"{next(iter(LOCKS))}.txt"
    if name != first.stem and not lock.alone:
        command += ["--constraint", str(first)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    kept = [block for block in blocks(done.stdout) if not UNLOCKED.fullmatch(pinned(block).name)]
    first_line = f"# Written by tools/lock.py from pyproject.toml ({digest(name)}); `make locks` resolves it again."
    return "".join([first_line, "\n", *kept])


def blocks(text: str) -> list[str]:
    """Return the requirements of a file, each with the lines of its hashes."""
    return re.findall(r"^[a-zA-Z][^\n]*\n(?: [^\n]*\n)*", text, re.MULTILINE)


def pinned(block: str) -> Requirement:
    """Return a requirement of a file without its hashes."""
    requirement = Requirement(block.partition("\n")[0].removesuffix("\\"))
    requirement.name = canonicalize_name(requirement.name)
    return requirement


def problems(name: str) -> list[str]:
    """Return what is wrong with a file: stale, something without a hash or one version, something that is missing."""
    path = FOLDER / f"{name}.txt"
    if not path.is_file():
        return [f"{path.name} is missing"]
    text = path.read_text(encoding="utf-8")
    found = [] if f"({digest(name)})" in text.partition("\n")[0] else [f"{path.name} is stale"]
    versions: dict[str, list[Requirement]] = {}
    for block in blocks(text):
        requirement = pinned(block)
        versions.setdefault(requirement.name, []).append(requirement)
        if not re.search(r"--hash=sha256:[0-9a-f]{64}", block) or not re.fullmatch(
            r"==[^,*]+", str(requirement.specifier)
        ):
            found.append(f"{path.name}: {requirement} has no hash, or not one version")
    for asked in map(Requirement, wanted(name)):
        pins = versions.get(canonicalize_name(asked.name), [])
        fits = pins and all(asked.specifier.contains(next(iter(pin.specifier)).version) for pin in pins)
        if not fits and not UNLOCKED.fullmatch(canonicalize_name(asked.name)):
            found.append(f"{path.name}: {asked} is not in it")
    return found


def main() -> None:
    """Write or check the files."""
    parser = argparse.ArgumentParser(description="Write requirements/*.txt, or check that they fit pyproject.toml.")
    parser.add_argument("names", nargs="*", choices=[[], *LOCKS], help="the files; all of them without a name")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    names = [name for name in LOCKS if name in (options.names or LOCKS)]
    if options.check:
        wrong = [problem for name in names for problem in problems(name)]
        sys.exit("\n".join([*wrong, "make locks"]) if wrong else 0)
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        (FOLDER / f"{name}.txt").write_text(resolve(name), encoding="utf-8")
        print(f"requirements/{name}.txt")


if __name__ == "__main__":
    main()
