"""The hosts of an inventory with their variables, and what of these no output may show.

Ansible reads inventories of every kind. Starting it takes longer than all the rest before the first host is asked, so
a file that is nothing but hosts and groups in the plainest form is read here; where a line could mean more, by Ansible.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchferry.core import secrets
from torchferry.core.errors import UsageError
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.deploy.engine import ansible, environment

_SECTION = re.compile(r"\[([A-Za-z][A-Za-z0-9_]*)(:vars)?\]")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class PlayOptions(NamedTuple):
    """How a playbook is run.

    Attributes:
        inventory: The user's inventory.
        limit: Hosts or groups, as Ansible takes them.
        forks: Hosts at once.
        passwords: What is typed at Ansible's prompts, by their pattern.
        vault_password_file: The file with the password of the vault.
        tree_above: With more hosts than this, hosts pass files on to others.
        tree_width: To how many each of them does.
    """

    inventory: Path
    limit: str = ""
    forks: int = 25
    passwords: Mapping[str, str] = {}
    vault_password_file: Path | None = None
    tree_above: int = 32
    tree_width: int = 8


def inventory_hosts(options: PlayOptions) -> dict[str, dict[str, Any]]:
    """Return the variables of the inventory's hosts by their names, as Ansible reads them.

    Raises:
        UsageError: Ansible cannot read it, or it has no host.
    """
    plain = _plain_hosts(options)
    if plain is not None:
        return plain
    command = [ansible("ansible-inventory"), "-i", str(options.inventory.resolve()), "--list"]
    if options.limit:
        command += ["--limit", options.limit]
    if options.vault_password_file is not None:
        command += ["--vault-password-file", str(options.vault_password_file)]
    with doing(say("reading the inventory")):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL
        )
    return _usable(listed_hosts(done.stdout, done.stderr, options), done.stderr, options)


def listed_hosts(text: str, problem: str, options: PlayOptions) -> dict[str, dict[str, Any]]:
    """Return the variables of hosts by their names, from what `ansible-inventory --list` printed.

    Raises:
        UsageError: it printed something else; `problem` is what it said of it.
    """
    try:
        listed = parsed_json(text)
        groups = [group["hosts"] for group in listed.values() if isinstance(group, dict) and "hosts" in group]
        names = [name for hosts in groups for name in hosts if isinstance(name, str)]
        variables = listed.get("_meta", {}).get("hostvars", {})
        found = {name: variables.get(name, {}) for name in dict.fromkeys(names)}
    except (ValueError, TypeError, AttributeError):
        raise _unreadable(options, problem) from None
    if not all(isinstance(values, dict) for values in found.values()):
        raise _unreadable(options, problem)
    return found


def _usable(hosts: dict[str, dict[str, Any]], problem: str, options: PlayOptions) -> dict[str, dict[str, Any]]:
    """Return the hosts; raises what `inventory_hosts` does."""
    if not hosts and problem.strip():
        raise _unreadable(options, problem)
    if not hosts:
        raise UsageError(
            say("the inventory {path} names no host", path=options.inventory),
            say("write one line per host: NAME ansible_host=ADDRESS ansible_user=ACCOUNT"),
        )
    for name in hosts:
        if "{{" in name or "{%" in name:  # Ansible would fill it in wherever the name stands
            raise UsageError(
                say("the inventory {path} has a template as a host name: {name}", path=options.inventory, name=name),
                say("write the host name in full"),
            )
        if "/" in name or name in (".", ".."):  # Ansible's plugins make names of files of it
            raise UsageError(
                say("the inventory {path} has a path as a host name: {name}", path=options.inventory, name=name),
                say("give the host a name, and write its address as ansible_host"),
            )
    return hosts


def _unreadable(options: PlayOptions, problem: str) -> UsageError:
    return UsageError(
        say(
            "Ansible cannot read the inventory {path}: {problem}",
            path=options.inventory,
            problem=problem.strip()[-500:],
        ),
        say("check the inventory: `ansible-inventory -i {path} --list`", path=options.inventory),
    )


def _plain_hosts(options: PlayOptions) -> dict[str, dict[str, Any]] | None:
    """Return the hosts of an INI file in which each line can mean but one thing; None where Ansible has to say."""
    path = options.inventory.resolve()
    beside = [path.parent / name for name in ("group_vars", "host_vars")]
    # with another ending it could be YAML, as a program it is run, and variables may lie beside it
    if path.suffix != ".ini" or not path.is_file() or os.access(path, os.X_OK) or any(map(os.path.lexists, beside)):
        return None
    try:
        text = read_regular(path, LARGEST_SETTINGS).decode("ascii")
        return None if text.startswith("#!") else _chosen(*_read_lines(text), options.limit)
    except (OSError, ValueError):
        return None


def _read_lines(text: str) -> tuple[dict[str, dict[str, Any]], dict[str, set[str]]]:
    """Return hosts with their variables, and groups.

    Raises:
        ValueError: a line could mean more than we know of.
    """
    hosts: dict[str, dict[str, Any]] = {}
    groups: dict[str, set[str]] = {}
    of_all: dict[str, Any] = {}
    section, is_variables = "ungrouped", False
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            heading = _SECTION.fullmatch(line)
            if heading is None or (heading[1] == "all") != bool(heading[2]) or heading[1] == "ungrouped":
                raise ValueError(line)
            section, is_variables = heading[1], bool(heading[2])
        elif is_variables:
            name, value = _variable(line.replace(" = ", "=", 1))
            of_all[name] = value
        else:
            words = shlex.split(line, comments=True)
            if not words or not _HOST.fullmatch(words[0]):
                raise ValueError(line)
            hosts.setdefault(words[0], {}).update(map(_variable, words[1:]))
            groups.setdefault(section, set()).add(words[0])
    if hosts.keys() & (groups.keys() | {"all"}):
        raise ValueError("a name of two things")
    return {host: {**of_all, **variables} for host, variables in hosts.items()}, groups


def _variable(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not _VARIABLE.fullmatch(name):
        raise ValueError(text)
    try:
        return name, ast.literal_eval(value)  # as Ansible does: a number is none of the texts that could be hidden
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value


def _chosen(
    hosts: dict[str, dict[str, Any]], groups: Mapping[str, set[str]], limit: str
) -> dict[str, dict[str, Any]] | None:
    """Return the hosts that a limit of plain names leaves; None where it is more than that, or leaves none."""
    names = {name.strip() for name in limit.split(",") if name.strip()} or {"all"}
    if names - hosts.keys() - groups.keys() - {"all"}:
        return None
    wanted = {member for name in names for member in (groups.get(name) or (hosts if name == "all" else (name,)))}
    return {host: variables for host, variables in hosts.items() if host in wanted} or None


def hidden_texts(hosts: Mapping[str, Mapping[str, Any]], options: PlayOptions) -> list[tuple[str, str]]:
    """Return what no output may show, the longest first, and what is shown in its place."""
    hidden = {password: "***" for password in options.passwords.values() if password}
    for host, variables in hosts.items():
        for name, value in variables.items():
            is_password = name.endswith(("_pass", "_password", "_passwd"))
            if name in ("ansible_user", "ansible_ssh_user"):  # by itself it may be a word like `root`
                hidden[f"{_opened(value, options)}@"] = "***@"
            elif is_password or name in ("ansible_host", "ansible_ssh_host", "torchferry_address"):
                text = _opened(value, options)
                if len(text) > 3 and text != host:
                    hidden[text] = "***" if is_password else host
    hidden.pop("@", None)
    return sorted(hidden.items(), key=lambda item: -len(item[0]))


def _opened(value: object, options: PlayOptions) -> str:
    """Return the text of a variable, also of one that is its own vault; empty where it has none."""
    if isinstance(value, dict) and options.vault_password_file is not None:
        command = [ansible("ansible-vault"), "decrypt", "--output", "-"]
        command += ["--vault-password-file", str(options.vault_password_file)]
        done = subprocess.run(
            command,
            input=str(value.get("__ansible_vault", "")),
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        value = done.stdout if done.returncode == 0 else ""
    return str(value) if isinstance(value, (str, int, float)) else ""  # a password of digits alone is a number


def masked(text: str, hidden: Iterable[tuple[str, str]]) -> str:
    """Return a text without the inventory's addresses, without secrets, and without what steers a terminal."""
    for secret, shown in hidden:
        text = text.replace(secret, shown)
    text = secrets.masked(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)
