"""Inventories: read here as Ansible reads them, or by Ansible; and what of them no output shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.core.errors import UsageError
from torchferry.deploy import inventory
from torchferry.deploy.engine import ansible
from torchferry.deploy.inventory import PlayOptions, hidden_texts, inventory_hosts, masked

PLAIN = """\
# comment
lone ansible_host=198.51.100.1
[servers]
node1 ansible_host=198.51.100.2 ansible_user=ops ansible_ssh_common_args='-o A=b -o C="d e"' # behind it
node-2.example ansible_port=2222 ansible_password="it's" ansible_become_password=12345678
; another comment
[others]
node1 ansible_become=false
node3
[all:vars]
ansible_user = root
torchferry_address = '198.51.100.9'
"""


@pytest.mark.parametrize(
    ("text", "limit", "hosts"),
    [
        (PLAIN, "", ["lone", "node-2.example", "node1", "node3"]),
        (PLAIN, "servers", ["node-2.example", "node1"]),
        (PLAIN, "node3, ungrouped", ["lone", "node3"]),
        (PLAIN, "all", ["lone", "node-2.example", "node1", "node3"]),
        ("a x=1 y=0x10 z=[1,2] w=None v=1_0 u=007 t=\"'q'\"\n", "", ["a"]),
    ],
)
def test_a_plain_file_is_read_as_ansible_reads_it(
    text: str, limit: str, hosts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hosts.ini"
    path.write_text(text, encoding="utf-8")
    options = PlayOptions(path, limit)
    read = inventory._plain_hosts(options)
    assert read is not None
    assert sorted(read) == hosts
    try:
        ansible("ansible-inventory")
    except UsageError:
        pytest.skip("Ansible is not installed: pip install 'torchferry[deploy]'")
    monkeypatch.setattr(inventory, "_plain_hosts", lambda options: None)
    assert inventory_hosts(options) == read


@pytest.mark.parametrize(
    ("text", "limit", "name"),
    [
        ("node[1:3]\n", "", "hosts.ini"),
        ("node:22\n", "", "hosts.ini"),
        ("a\n[more:children]\nb\n", "", "hosts.ini"),
        ("[more]\na\n[more:vars]\nb=1\n", "", "hosts.ini"),
        ("[all]\na\n", "", "hosts.ini"),
        ("[a]\na\n", "", "hosts.ini"),
        ("a 'b\n", "", "hosts.ini"),
        ("a b\n", "", "hosts.ini"),
        ("a$(id)\n", "", "hosts.ini"),
        ("ä\n", "", "hosts.ini"),
        ("#!/bin/sh\na\n", "", "hosts.ini"),
        ("a\nb\n", "a*", "hosts.ini"),
        ("a\nb\n", "all:!a", "hosts.ini"),
        ("a\nb\n", "@file", "hosts.ini"),
        ("a\nb\n", "c", "hosts.ini"),
        ("", "", "hosts.ini"),
        ("a\n", "", "hosts"),
        ("a\n", "", "hosts.yml"),
    ],
)
def test_what_could_mean_more_is_left_to_ansible(text: str, limit: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert inventory._plain_hosts(PlayOptions(path, limit)) is None


def test_variables_beside_a_file_and_programs_are_ansibles(tmp_path: Path) -> None:
    path = tmp_path / "hosts.ini"
    path.write_text("a\n", encoding="utf-8")
    assert inventory._plain_hosts(PlayOptions(path)) == {"a": {}}
    path.chmod(0o755)
    assert inventory._plain_hosts(PlayOptions(path)) is None
    path.chmod(0o644)
    (tmp_path / "host_vars").mkdir()
    assert inventory._plain_hosts(PlayOptions(path)) is None


def test_addresses_accounts_and_passwords_are_hidden_also_such_of_digits() -> None:
    variables = {"ansible_host": "198.51.100.7", "ansible_user": "root", "ansible_become_password": 12345678}
    hidden = hidden_texts({"node": variables}, PlayOptions(Path("hosts.ini"), passwords={"ssh": "typed1111"}))
    said = "root@198.51.100.7: /root 12345678 typed1111\x1b[31m"
    assert masked(said, hidden) == "***@node: /root *** ***?[31m"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("hosts.ini", "\"{{lookup('pipe','id')}}\" ansible_connection=local\n", "a template as the name of a host"),
        ("hosts.yml", "all: {hosts: {'../../etc/passwd': {}}}\n", "a path as the name of a host"),
        ("hosts.yml", "bad: [unclosed", "cannot read the inventory"),
        ("hosts.ini", "[servers]\n", "names no host"),
    ],
)
def test_an_inventory_that_cannot_serve_is_refused(name: str, text: str, problem: str, tmp_path: Path) -> None:
    try:
        ansible("ansible-inventory")
    except UsageError:
        pytest.skip("Ansible is not installed: pip install 'torchferry[deploy]'")
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=problem):
        inventory_hosts(PlayOptions(tmp_path / name))
