"""A vendor that exists in an entry point alone goes through scan and migrate like the others."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.warm_python import python
from torchferry.core.env import cache_folder

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """An installed distribution that names its backend in the entry-point group."""
    site = tmp_path / "site"
    info = site / "torchferry_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchferry-acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[torchferry.backends]\nacme = acme_backend:Acme\n", encoding="utf-8")
    (site / "acme_backend.py").write_text(
        textwrap.dedent(
            """
            from pathlib import Path
            from torchferry.backends.base import Backend

            class Acme(Backend):
                NAME = "acme"
                TITLE = "Acme Cards"
                PLUGIN = "torch_acme"
                DEVICE_TYPE = "acme"
                NAMESPACE = "torch.acme"
                IMPORT_NAMESPACE = "torch_acme.acme"
                COLLECTIVE = "accl"
                MOVER = "acme"
                DATA_DIRECTORY = Path(__file__).with_name("data")
                FACADE_DIRECTORY = Path(__file__).with_name("facade")
            """
        ),
        encoding="utf-8",
    )
    (site / "data").mkdir()
    (site / "data" / "api.toml").write_text(
        textwrap.dedent(
            """
            [sources]
            S = "the imaginary plugin's source"

            [[row]]
            names = ["torch.cuda.is_available", "torch.cuda.set_device", "torch.cuda.amp.autocast", "torch.cuda.amp"]
            status = "same"
            source = "S"
            """
        ),
        encoding="utf-8",
    )
    return site


DESCRIPTION = """
title = "Acme Cards"

[sources]
S = "the imaginary plugin's source"

[plugin]
value = "torch_acme"
source = "{S}"

[device_type]
value = "acme"
source = "{S}"

[namespace]
value = "torch.acme"
source = "{S}"

[import_namespace]
value = "torch_acme.acme"
source = "{S}"

[collective]
value = "accl"
source = "{S}"

[mover]
value = "acme"
source = "{S}"
"""


@pytest.fixture(params=["class", "folder"])
def either(vendor: Path, request: pytest.FixtureRequest) -> Path:
    """The same vendor as a class, and as a package with the folder that a vendor of torchferry has."""
    if request.param == "folder":
        (vendor / "acme_backend.py").unlink()
        (vendor / "data").rename(vendor / "acme_vendor")
        (vendor / "acme_vendor" / "__init__.py").touch()
        (vendor / "acme_vendor" / "vendor.toml").write_text(DESCRIPTION, encoding="utf-8")
        (vendor / "facade").mkdir()
        (vendor / "acme_vendor" / "plugin").symlink_to(vendor / "facade")
        named = "[torchferry.backends]\nacme = acme_vendor\n"
        (vendor / "torchferry_acme-1.0.dist-info" / "entry_points.txt").write_text(named, encoding="utf-8")
    return vendor


def test_it_is_listed_shown_and_migrated_to(either: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(either)}
    assert "Acme Cards" in torchferry("backend", "list", env=env).stdout
    shown = torchferry("backend", "show", "acme", env=env)
    assert "COLLECTIVE = accl" in shown.stdout
    assert "SMI = UNKNOWN" in shown.stdout
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    (project / "pick.py").write_text('def pick(kind):\n    return kind in ("acme", "cuda")\n', encoding="utf-8")
    done = torchferry("migrate", project, "--target", "acme", env=env)
    assert done.returncode == 1, done.stderr
    text = (project / "digits" / "devices.py").read_text(encoding="utf-8")
    assert 'f"acme:{rank}" if torch.acme.is_available()' in text
    assert "torch.acme.set_device(rank)" in text
    assert 'backend="accl"' in text
    left = torchferry("scan", project, "--target", "acme", "-f", "full", env=env).stdout
    assert "UNKNOWN" in left
    assert "there is already a branch for Acme Cards" in left
    assert torchferry("undo", project, env=env).returncode == 0


@pytest.mark.rehearsal
def test_it_is_rehearsed_with_the_packages_that_it_brings(either: Path, tmp_path: Path) -> None:
    package = either / "facade" / "torch_acme"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        textwrap.dedent(
            """
            def _autoload(): pass

            import torch
            from torchferry.rehearsal import facade_support
            facade_support.start(__name__)
            __version__ = facade_support.stated_version()
            """
        ),
        encoding="utf-8",
    )
    program = (
        "import torch, torch_acme\n"
        "layer = torch.nn.Linear(3, 2).to('acme')\n"
        "layer(torch.ones(1, 3, device='acme')).sum().backward()\n"
        "print(layer.weight.grad.device, torch.acme.is_available())\n"
    )
    command = ("rehearse", "-t", "acme", "--strict", "--", python(), "-c", program)
    done = torchferry(*command, env={"PYTHONPATH": str(either), "TORCHFERRY_CACHE": str(cache_folder())})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "acme:0 True\n"
    assert "REHEARSAL on the CPU: 1 x Acme Cards" in done.stderr


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("Acme = 3\n", "entry point `acme` in group `torchferry.backends` is not a Backend subclass"),
        ("import there_is_no_such_module\n", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        (
            "from torchferry.backends.base import Backend\nclass Acme(Backend):\n    NAME = TITLE = PLUGIN = 'acme'\n",
            "it does not set DEVICE_TYPE, COLLECTIVE",
        ),
    ],
)
def test_an_entry_point_that_is_no_backend_is_an_error(vendor: Path, module: str, says: str) -> None:
    (vendor / "acme_backend.py").write_text(module, encoding="utf-8")
    done = torchferry("backend", "list", env={"PYTHONPATH": str(vendor)})
    assert done.returncode == 2
    assert "Huawei Ascend" in done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr
