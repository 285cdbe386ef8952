"""Deployments on fake servers: systems of their own with sshd and Docker, and installers that imitate the vendors'.

They take minutes, so `make test-deploy` runs them and the usual suite does not.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.deploy.lab.flows import Flow, t20_flow
from tests.deploy.lab.servers import FILL_WHILE_COPYING, Servers, reason_to_skip
from tests.processes import HANGS

pytestmark = [
    pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`"),
]

BASE_LOG = "docker exec t20_training_env_py38 cat /var/log/torchferry/ptex/base.log"


@pytest.fixture(scope="module", autouse=True)
def lab_can_start() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Return the T20 flow on two servers, one of each Ubuntu that the manual names."""
    folder = tmp_path_factory.mktemp("lab")
    servers = Servers(folder / "servers", 20)
    try:
        servers.add("old", "host-bionic")
        servers.add("new", "host-focal")
        servers.wait()
        yield t20_flow(servers, folder / "t20")
    finally:
        servers.close()


STATE_OF_HOST = """
docker ps -a --format '{{.Names}} {{.Image}} {{.State}}'; docker images --format '{{.Repository}}:{{.Tag}}'; lsmod
find /etc /opt /usr /var/lib -xdev -not -path '/var/lib/docker/*' -not -path '/var/lib/containerd/*' \\
  -type f -printf '%p %s %T@\\n' | sort
"""


def test_a_dry_run_changes_nothing(flow: Flow) -> None:
    before = [flow.servers.on(host, STATE_OF_HOST) for host in ("old", "new")]
    status, text = flow("run", "--dry-run")
    assert status == 0, text
    assert "new: would run: copy-installer, driver, copy-image-tar, image, container" in text
    assert "nothing was changed" in text
    assert [flow.servers.on(host, STATE_OF_HOST) for host in ("old", "new")] == before


def test_the_first_run_installs_and_the_second_changes_nothing(flow: Flow) -> None:
    status, text = flow("run")
    assert status == 0, text
    assert "left out: packages: not in the bundle" in text
    before = [flow.servers.on(host, STATE_OF_HOST) for host in ("old", "new")]
    status, text = flow("run")
    assert status == 0, text
    assert "0 steps changed" in text
    assert [flow.servers.on(host, STATE_OF_HOST) for host in ("old", "new")] == before
    result = flow.json("verify")
    assert result["ok"], result["failures"]
    assert result["hosts"]["old"]["steps"]["card-computes"] == "ok"
    assert flow.json("verify", "--set", "plugin_version=2.1.0")["hosts"]["new"]["steps"]["plugin-version"] == "ok"
    failures = flow.json("verify", "--set", "plugin_version=1.3.20")["failures"]
    steps = [("old", "plugin-version"), ("old", "sample"), ("new", "plugin-version"), ("new", "sample")]
    assert [(row["host"], row["step"]) for row in failures] == steps
    assert failures[1]["cause"].startswith("the sample was not run again"), failures
    assert failures[0]["cause"].startswith("the container has ptex 2.1.0"), failures
    status, text = flow("report")
    assert status == 0
    assert "10.99.0." not in text, "a record has no addresses"


def test_verify_runs_the_sample_again(flow: Flow) -> None:
    """That it passed when the run ran it says nothing of today."""
    sample = "/usr/local/topsrider/ai_development_toolkit/huggingface-gcu/sd_scripts_1.1.28/sdxl_minimal_inference.sh"
    inside = "docker exec t20_training_env_py38 bash -c"
    flow.servers.on("new", f"{inside} 'cp {sample} /root/whole; echo \"printf 0/50\" > {sample}'")
    assert flow.json("verify", "--no-sample")["ok"], "it only asks whether it passed when it was run"
    result = flow.json("verify")
    assert [(row["host"], row["step"]) for row in result["failures"]] == [("new", "sample")], result["failures"]
    assert "without computing" in result["failures"][0]["cause"]
    failures = flow.json("verify", "--no-sample")["failures"]
    assert [(row["host"], row["step"]) for row in failures] == [("new", "sample")], "it does not count as passed now"
    flow.servers.on("new", f"{inside} 'cp /root/whole {sample}'")
    status, text = flow("verify")
    assert status == 0, text
    assert re.search(r"^new  sample: passed \(\d+ s\)$", text, re.M), text
    status, text = flow("run")
    assert status == 0, text
    assert "0 steps changed" in text


def test_a_replaced_framework_is_seen_explained_and_repaired(flow: Flow) -> None:
    replace = "docker exec t20_training_env_py38 bash -c 'bash /usr/local/topsrider/ai_development_toolkit"
    flow.servers.on("new", f"{replace}/huggingface-gcu/sd_scripts_1.1.28/install_for_sd_scripts.sh'")
    status, text = flow("verify")
    assert status == 1
    assert "torch is not the one of TopsRider" in text
    status, text = flow("run", "--limit", "new")
    assert status == 0, text
    assert flow.json("verify")["ok"]


def test_a_file_that_was_cut_off_on_the_host_is_sent_again(flow: Flow) -> None:
    folder = "/var/lib/torchferry/ptex/bundle"
    flow.servers.on("old", f"truncate -s 3000 {folder}/installer; rm /var/lib/fakekmod/enflame")
    status, text = flow("run", "--limit", "old")
    assert status == 0, text
    assert "copy-installer: changed" in text
    sent = flow.bundle / "files" / "installer"
    assert flow.servers.on("old", f"stat -c %s {folder}/installer").strip() == str(sent.stat().st_size)


def test_a_copy_that_was_cut_off_goes_on(flow: Flow) -> None:
    folder = "/var/lib/torchferry/ptex/bundle"
    flow.servers.on(
        "new",
        f"cd {folder} && mkdir -p incoming"
        " && head -c 50000000 image_tar > incoming/image_tar.$(sha256sum < image_tar | head -c 16)"
        " && rm image_tar && docker rm -f t20_training_env_py38 && docker rmi ubuntu:20.04",
    )
    before = flow.servers.received("new")
    status, text = flow("run", "--limit", "new", "--only", "image")
    assert status == 0, text
    rest = (flow.bundle / "files" / "image_tar").stat().st_size - 50_000_000
    assert rest < flow.servers.received("new") - before < 1.05 * rest + 2_000_000, "what was there is not sent again"
    size = (flow.bundle / "files" / "image_tar").stat().st_size
    assert flow.servers.on("new", f"stat -c %s {folder}/image_tar").strip() == str(size)


def test_a_killed_controller_finds_its_work_going_on(flow: Flow) -> None:
    assert flow("run", "--limit", "new", "--only", "container")[0] == 0
    flow.servers.on("new", "docker exec t20_training_env_py38 bash -c 'mkdir -p /lab; echo 4 > /lab/slow'")
    run = subprocess.Popen(
        flow.command("run", "--limit", "new"),
        env=flow.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + HANGS
    while "[base] 1/3" not in flow.servers.on("new", BASE_LOG, check=False):
        assert time.monotonic() < end, "the installation did not begin"
        time.sleep(0.3)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    status, text = flow("run", "--limit", "new")
    assert status == 0, text
    assert "base: nothing to do" in text, "the first one's work was waited for, not done twice"
    assert flow.json("verify")["ok"]


def test_a_container_that_is_killed_in_the_middle_is_explained_and_goes_on(flow: Flow) -> None:
    assert flow("run", "--limit", "new")[0] == 0
    inside = "docker exec t20_training_env_py38"
    flow.servers.on("new", f"{inside} rm -rf /usr/local/topsrider /opt/tops /var/log/torchferry")
    flow.servers.on("new", f"{inside} bash -c 'mkdir -p /lab; echo 4 > /lab/slow'")
    run = subprocess.Popen(
        flow.command("run", "--limit", "new"), env=flow.environment, stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + HANGS
    while "[base] 1/3" not in flow.servers.on("new", BASE_LOG, check=False):
        assert time.monotonic() < end, "the installation did not begin"
        time.sleep(0.3)
    flow.servers.on("new", "docker kill t20_training_env_py38")
    text, _ = run.communicate()
    assert run.returncode == 1
    assert "the command was killed" in text, text
    status, text = flow("run", "--limit", "new")
    assert status == 0, text
    assert "container: changed" in text
    assert "base: changed" in text


def test_another_container_is_kept_until_the_commit_and_comes_back(flow: Flow) -> None:
    assert flow("run", "--limit", "old", "--only", "image,container")[0] == 0
    assert flow("commit")[0] == 0
    name = "t20_training_env_py38"
    mark = f"docker exec {name} cat /root/mine"
    flow.servers.on("old", f"docker exec {name} bash -c 'echo mine > /root/mine'")
    before = flow.servers.on("old", "docker ps -a --format '{{.ID}} {{.Names}} {{.State}}'")
    image = ("--set", "image=ubuntu:other", "--limit", "old", "--only", "container")
    flow.servers.on("old", "docker tag ubuntu:20.04 ubuntu:other")
    status, text = flow("run", *image)
    assert status == 0, text
    assert f"{name}-before" in flow.servers.on("old", "docker ps -a --format '{{.Names}}'")
    assert "mine" not in flow.servers.on("old", mark, check=False)
    status, text = flow("rollback", *image)
    assert status == 0, text
    assert flow.servers.on("old", mark).strip() == "mine"
    assert flow.servers.on("old", "docker ps -a --format '{{.ID}} {{.Names}} {{.State}}'") == before


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Return the T20 flow on servers that each lack something."""
    folder = tmp_path_factory.mktemp("broken")
    servers = Servers(folder / "servers", 40)
    try:
        servers.add("nodocker", files={"no-docker": ""})
        servers.add("kernel", files={"fail": "no-headers\n"})
        servers.add("busy")
        servers.add("nocard", files={"no-cards": ""})
        servers.add("gone")
        servers.add("full")
        servers.wait()
        servers.down("gone")
        servers.on("busy", "mkdir -p /var/lib/fakekmod; echo 3 > /var/lib/fakekmod/enflame")
        yield t20_flow(servers, folder / "t20")
    finally:
        servers.close()


def test_each_failure_names_step_cause_and_remedy(broken: Flow) -> None:
    status, text = broken("run", "--set", "replace_driver=yes", "--only", "driver", "--limit", "all:!full")
    assert status == 2
    for host, step, cause, remedy in (
        ("nodocker", "engine", "the container engine does not run", "systemctl start docker"),
        ("kernel", "driver", "the kernel module was not built", "install linux-headers"),
        ("nocard", "cards", "the host has no such card", "look with `lspci -nn`"),
        ("busy", "driver", "its driver must not be torn off", "wait for it or stop it"),
        ("gone", "survey", "the host cannot be reached", "check address and port"),
    ):
        part = re.split(r"(?m)^\w+: \w+ failed: ", text.partition(f"\n{host}: {step} failed: ")[2])[0]
        assert cause in part, text
        assert remedy in part, text
    assert "10.99.0." not in text, "no address is shown"
    assert "enflame" in broken.servers.on("busy", "lsmod"), "a driver in use stays"


def test_a_full_disk_is_explained_and_what_was_copied_is_kept(broken: Flow) -> None:
    on = broken.servers.on
    on("full", "mount -o remount,size=4k /tmp")
    status, text = broken("run", "--limit", "full", "--only", "driver")
    assert status == 1
    assert "the disk is full" in text, text
    on("full", "mount -o remount,size=2m /tmp")
    status, text = broken("run", "--limit", "full", "--only", "driver")
    assert status == 1
    assert "full: driver failed" in text
    assert "archive is corrupt" in text, "what the installer says of it"
    assert "the disk is full" in text, text
    assert "free space under /var/lib, /usr/local and /tmp" in text
    on("full", "mount -o remount,size=1g /tmp")
    on("full", f"mv /var/lib/torchferry /root/kept; {FILL_WHILE_COPYING}")
    on("full", "cp -a /root/kept/. /var/lib/torchferry/")
    status, text = broken("run", "--limit", "full", "--only", "driver,image")
    assert status == 1
    assert "full  driver: changed" in text
    assert "full: copy-image-tar failed" in text, text
    assert "the disk is full" in text, text
    size = "stat -c %s /var/lib/torchferry/ptex/bundle/incoming/image_tar.*"
    assert 1_000_000 < int(on("full", size)) < (broken.bundle / "files" / "image_tar").stat().st_size
    on("full", "rm /var/lib/torchferry/filler")
    status, text = broken("run", "--limit", "full", "--only", "driver,image")
    assert status == 0, text
    assert "full  copy-image-tar: changed" in text
    assert "full  image: changed" in text


def test_peermem_without_ofed_is_refused_before_anything_is_installed(broken: Flow) -> None:
    status, text = broken("run", "--set", "installer_args=--peermem", "--limit", "kernel")
    assert status == 1
    assert "kernel: ofed failed" in text
    assert "leave --peermem out" in text


def test_a_rollback_leaves_a_host_as_it_was(broken: Flow) -> None:
    state = STATE_OF_HOST.replace("lsmod\n", "lsmod; ls /var/lib/torchferry 2>&1;\n")
    broken.servers.on("kernel", "rm -f /lab/fail; rm -rf /var/lib/torchferry; mkdir -p /var/lib/fakekmod")
    before, hashes = broken.servers.on("kernel", state), broken.servers.written("kernel")
    status, text = broken("run", "--limit", "kernel")
    assert status == 0, text
    assert broken.servers.written("kernel") != hashes
    status, text = broken("rollback", "--limit", "kernel")
    assert status == 0, text
    assert broken.servers.on("kernel", state) == before
    assert broken.servers.written("kernel") == hashes, "what was written, by sha256"
