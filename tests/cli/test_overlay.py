"""`torchferry migrate --overlay`: copies of modules of packages are served, and the rest stays as it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.installed.made import install
from tests.processes import HANGS

OPS = """import os
import torch

HERE = os.path.dirname(__file__)


def place(device="cuda"):
    return device


def beside():
    with open(os.path.join(HERE, "data.txt")) as file:
        return file.read()
"""
PACKAGE = {
    "foolib/__init__.py": "import torch\nfrom .ops import place, beside\nfrom . import plain\n\n\ndef late():\n"
    "    from .sub import deep\n    return deep.ask\n",
    "foolib/ops.py": OPS,
    "foolib/plain.py": "DATA = 1\n",
    "foolib/data.txt": "beside",
    "foolib/sub/__init__.py": "",
    "foolib/sub/deep.py": "import torch\n\n\ndef ask(x):\n    return x.is_cuda\n",
    "foolib/never.py": "import torch\n\n\ndef f():\n    torch.cuda.synchronize()\n",
    "onefile.py": "import torch\n\n\ndef where(device='cuda:0'):\n    return device\n",
}
PROGRAM = """import json, multiprocessing, sys
import foolib, onefile
from foolib.sub import deep


def work(number):
    class Tensor:
        is_cuda, is_npu = False, True
    own = [foolib.place(), foolib.beside(), deep.ask(Tensor), onefile.where(), foolib.plain.DATA]
    return [*own, foolib.place.__code__.co_filename.split("/")[-3], foolib.__file__.split("/")[-3]]


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(json.dumps([work(0), pool.map(work, [1])[0]]))
"""


class Made:
    """A project, the packages that it uses, and a stand-in for torch."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.site = root / "site-packages"
        self.torch = root / "torch-stand-in"
        self.state = {"XDG_STATE_HOME": str(root / "state")}
        for folder in (self.root, self.site, self.torch):
            folder.mkdir()
        (self.torch / "torch.py").write_text("")
        (self.root / "train.py").write_text(PROGRAM)
        files = {path: content for path, content in PACKAGE.items() if path != "onefile.py"}
        self.put("foolib", files, "1.0", "License-Expression: MIT\n")
        self.put(
            "onefile", {"onefile.py": PACKAGE["onefile.py"]}, "2.0", "Classifier: License :: OSI Approved :: BSD\n"
        )

    def put(self, name: str, files: dict[str, str], version: str, licence: str) -> None:
        install(
            self.site, name, files, version,
            metadata=f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{licence}\n",
        )  # fmt: skip
        info = self.site / f"{name}-{version}.dist-info"
        (info / "LICENSE").write_text(f"licence of {name}")
        names = f"{info.name}/METADATA,,\n{info.name}/LICENSE,,\n"
        (info / "RECORD").write_text((info / "RECORD").read_text() + names)

    def overlay(self, *options: object, folder: str = "ferry") -> subprocess.CompletedProcess[str]:
        return torchferry(
            "migrate", self.root, "-t", "npu", "--overlay", self.root / folder, "--python", self.site, *options,
            env={"TORCHFERRY_CACHE": str(self.root.parent / "cache"), **self.state},
        )  # fmt: skip

    def undo(self) -> subprocess.CompletedProcess[str]:
        return torchferry("undo", self.root, env=self.state)

    def run(self, program: str = "train.py") -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, (self.root / "ferry", self.torch, self.site)))
        return subprocess.run(
            [sys.executable, str(self.root / program)], env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=False, timeout=HANGS,
        )  # fmt: skip

    def files(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*")}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_what_is_copied(made: Made) -> None:
    before = made.files()
    installed = {path: path.read_bytes() for path in made.site.rglob("*") if path.is_file()}
    done = made.overlay()
    assert (done.returncode, done.stderr) == (0, "")
    assert "foolib 1.0 (MIT): modules 2" in done.stdout
    manifest = json.loads((made.root / "ferry" / "torchferry-overlay.json").read_text())
    foolib, onefile = manifest["packages"]
    assert [module["module"] for module in foolib["modules"]] == ["foolib.ops", "foolib.sub.deep"]
    assert (foolib["distribution"], foolib["version"], foolib["licence"]) == ("foolib", "1.0", "MIT")
    assert (made.root / "ferry" / foolib["licences"][0]).read_text() == "licence of foolib"
    assert (onefile["licence"], [module["module"] for module in onefile["modules"]]) == ("BSD", ["onefile"])
    assert {path: path.read_bytes() for path in made.site.rglob("*") if path.is_file()} == installed
    # and it is no part of the project
    assert '"ferry/' not in torchferry("scan", made.root, "-t", "npu", "-f", "json").stdout.partition('"ignored"')[0]
    assert made.undo().returncode == 0
    assert made.files() == before


def test_copies_are_served_also_to_processes_that_are_spawned(made: Made) -> None:
    before = made.files()
    assert made.overlay().returncode == 0
    done = made.run()
    expected = ["npu", "beside", True, "npu:0", 1, "modules", "site-packages"]
    assert json.loads(done.stdout or "null") == [expected, expected], done.stderr
    assert made.undo().returncode == 0  # with what Python compiled meanwhile
    assert made.files() == before


@pytest.mark.parametrize("said", ["no version", "foolib 1.1 is installed", "is not the file of foolib 1.0"])
def test_a_copy_of_something_else_is_not_served(made: Made, said: str) -> None:
    assert made.overlay().returncode == 0
    (made.root / "train.py").write_text("try:\n    import foolib\nexcept ImportError:\n    pass\n")
    assert made.run().returncode == 0
    if said == "foolib 1.1 is installed":
        metadata = made.site / "foolib-1.0.dist-info" / "METADATA"
        metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    elif said == "no version":
        (made.site / "foolib-1.0.dist-info" / "METADATA").unlink()
        (made.site / "foolib-1.0.dist-info").rename(made.site / "gone")
    else:
        (made.site / "foolib" / "ops.py").write_text(OPS + "#\n")
    done = made.run()
    assert done.returncode == 1  # a program that catches ImportError does not go on without it
    assert said in done.stderr


def test_what_would_be_written_is_shown(made: Made) -> None:
    before = made.files()
    checked = made.overlay("--check")
    shown = made.overlay("--diff")
    assert (checked.returncode, shown.returncode) == (1, 1)
    assert '-def place(device="cuda"):\n+def place(device="npu"):\n' in shown.stdout
    assert made.files() == before


def test_what_someone_put_there_stays(made: Made) -> None:
    assert made.overlay().returncode == 0
    (made.root / "ferry" / "notes.txt").write_text("mine")
    assert made.undo().returncode == 0
    assert made.files() == {"train.py", "ferry", "ferry/notes.txt"}
    again = made.overlay()
    assert again.returncode == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize(
    ("folder", "options", "said"),
    [
        ("../elsewhere", [], "is not in the project"),
        ("ferry", ["--out", "x"], "only with --check and --diff"),
        (".git/ferry", [], "version control"),
    ],
)
def test_wrong_use(made: Made, folder: str, options: list[str], said: str) -> None:
    done = made.overlay(*options, folder=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert made.files() == {"train.py"}


def test_a_package_without_a_licence_is_told(tmp_path: Path) -> None:
    made = Made(tmp_path)
    metadata = made.site / "foolib-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("License-Expression: MIT\n", ""))
    (made.site / "foolib-1.0.dist-info" / "LICENSE").unlink()
    done = made.overlay()
    assert "foolib does not state its licence" in done.stderr
    assert (made.root / "ferry" / "foolib" / "__init__.py").is_file()


def test_links_and_lying_lists_of_a_package_lead_nowhere(made: Made, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("import torch\n\n\ndef f(device='cuda'):\n    return 'secret'\n")
    licence = made.site / "foolib-1.0.dist-info" / "LICENSE"
    licence.unlink()
    licence.symlink_to(secret)
    (made.site / "foolib" / "ops.py").unlink()
    (made.site / "foolib" / "ops.py").symlink_to(secret)
    record = made.site / "foolib-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "../../secret,,\n/etc/passwd,,\nfoolib/../../secret.py,,\n")
    assert made.overlay().returncode == 0
    written = [path for path in (made.root / "ferry").rglob("*") if path.is_file()]
    assert not any(b"secret" in path.read_bytes() for path in written)
    assert {path.name for path in tmp_path.iterdir()} >= {"project", "secret", "site-packages"}
    assert not (tmp_path / "secret.py").exists()
