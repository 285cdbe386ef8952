"""Sixteen fake servers in one run: one that is gone holds up none, and the second run changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deploy.lab.flows import Flow
from tests.deploy.lab.packages import HERE
from tests.deploy.lab.servers import Servers, reason_to_skip
from torchferry.deploy.bundle import write_bundle

_MEMORY = 3 << 30
"""Bytes for sixteen systems and what Ansible starts for each of them."""


@pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`")
def test_sixteen_hosts_at_once(tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < _MEMORY:
        pytest.skip(f"sixteen servers want {_MEMORY >> 30} GB of free memory")
    servers = Servers(tmp_path / "servers", 190)
    try:
        names = [f"n{number}" for number in range(16)]
        for name in names:
            servers.add(name, files={"no-docker": ""}, programs={"/usr/local/sbin/docker": "cluster/docker"})
        servers.wait(docker=False)
        write_bundle(tmp_path / "bundle", "gcu", {"installer": HERE / "gcu" / "installer.sh"}, {"disk_mb": "100"})
        flow = Flow(servers, "gcu", tmp_path / "bundle", "--only", "driver")
        servers.down("n7")
        status, text = flow("run")
        assert status == 2
        assert "n7: survey failed" in text, text
        assert [name for name in names if f"{name}  driver: changed" in text] == [n for n in names if n != "n7"], text
        servers.up_again("n7")
        servers.wait(docker=False)
        result = flow.json("run")
        assert result["ok"], result["failures"]
        changed = {name for name, host in result["hosts"].items() if "changed" in host["steps"].values()}
        assert changed == {"n7"}
        status, text = flow("run")
        assert (status, "0 steps changed" in text) == (0, True), text
    finally:
        servers.close()
