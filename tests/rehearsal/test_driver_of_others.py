"""The guide's example: the plugin of a vendor that does not exist, over a driver that its folder describes.

The plugin is built as a vendor builds one, linked with a library that is not there: only the simulated driver has it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.warm_python import ferry, python
from torchferry.backends.described import describe
from torchferry.core.errors import TorchferryError
from torchferry.rehearsal import build
from torchferry.rehearsal.driver import building, matching
from torchferry.rehearsal.driver.description import load_driver

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler"),
]

ACME = Path(__file__).with_name("acme")
LIBRARY = "libtorch_acme.so"


def plugin_library() -> Path:
    """Build the plugin once for each torch and compiler; the library that it is linked with is an empty one."""
    source = ACME / "torch_acme" / "plugin.cpp"
    recipe = build.recipe(("-O0",), source=source)

    def make(folder: Path) -> None:
        stub = folder / "libacmedrv.so"
        compiler = building.c_compiler()
        subprocess.run(
            [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{stub.name}", "-o", str(stub), "-x", "c", "/dev/null"],
            check=True,
        )
        linked = ["-Wl,--no-as-needed", f"-L{folder}", "-lacmedrv"]
        subprocess.run([*recipe.command(folder / LIBRARY), *linked], check=True)
        stub.unlink()

    key = (recipe.torch_version, recipe.compiler_version, recipe.flags, source.read_text(encoding="utf-8"))
    digest = hashlib.sha256(repr(key).encode()).hexdigest()
    return build.folder_in_cache(f"acme-{digest[:24]}", make, LIBRARY) / LIBRARY


def distribution(site: Path, name: str, entry_point: str = "") -> None:
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if entry_point:
        (folder / "entry_points.txt").write_text(f"[torchferry.backends]\n{entry_point}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages: the plugin, and the package that describes its vendor."""
    site = tmp_path / "site"
    shutil.copytree(ACME / "torch_acme", site / "torch_acme")
    (site / "torch_acme" / LIBRARY).symlink_to(plugin_library())
    distribution(site, "torch-acme")
    shutil.copytree(ACME / "vendor", site / "torchferry_acme")
    (site / "torchferry_acme" / "__init__.py").touch()
    distribution(site, "torchferry-acme", "acme = torchferry_acme")
    return site


def rehearse(site: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    path = site.parent / "program.py"
    path.write_text(textwrap.dedent(program), encoding="utf-8")
    command = (ferry(), "-m", "torchferry", "rehearse", "-t", "acme")
    return subprocess.run(
        [*command, "--summary-file", str(site.parent / "summary.json"), *options, "--", python(), str(path)],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**ENVIRONMENT, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        check=False,
    )


PROGRAM = """
import torch
from torch import nn
import torch_acme

def losses(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(8, 1, 8, 8).to(device), torch.arange(8).to(device)
    values = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values

def said(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]

cpu, acme = losses("cpu"), losses("acme")
print(cpu == acme, cpu[-1] < cpu[0])
print(torch.acme.device_count(), torch.acme.event_time() >= 0)
cube = torch.arange(8.0).reshape(2, 2, 2).to("acme:1")
print(torch.ops.acme.pitch(cube), torch.ops.acme.blend(cube, cube + 4, 0.5).sum().item(), torch.sin(cube).device)
print(said(lambda: torch.ops.acme.swizzle(cube)))
print(said(torch.acme.temperature))
print(said(lambda: torch.empty(3 << 20, device="acme")))
print(said(lambda: torch.acme.set_device(2)))
"""


def test_the_plugin_of_another_vendor_is_rehearsed_as_it_is(site: Path) -> None:
    card = site.parent / "card.toml"
    card.write_text('card = "A1"\ndevices = 2\nmemory = "8MiB"\n')
    done = rehearse(site, PROGRAM, "--profile", str(card))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True True",
        "2 True",
        "16 44.0 acme:1",
        "NotImplementedError: acme::swizzle is an operator of the plugin that the simulated driver does not compute: "
        "it runs on the card and is not rehearsed",
        "RuntimeError: ACME: acmeReadTemperature is not simulated",
        "OutOfMemoryError: ACME out of memory: no room for 12582912 bytes on card 0 (device 0 has 8388608 bytes, "
        "0 of them in use: no room for 12582912)",
        "RuntimeError: ACME: invalid device ordinal 2",
    ]
    first = next(line for line in done.stderr.splitlines() if "REHEARSAL" in line)
    assert "2 x A1 (8.0 MiB each), torch_acme 1.0 as Acme ships it, on a simulated driver" in first
    seen = {(each["kind"], each["subject"]) for each in events(site)}
    assert seen >= {
        ("not-rehearsed", "acme::swizzle"),
        ("not-rehearsed", "acmeReadTemperature"),
        ("fallback", "aten::sin.out"),
        ("out-of-memory", "acme:0"),
    }


TABLES = {
    "ops.toml": """
        version = "1.0"
        torch = "2.13.0"
        source = "S"
        fallback = "warn"
        [sources]
        S = "made up"
        [operators]
        registered = ["sin.out"]
        """,
    "kernel_limits.toml": """
        library = "AcmeKernels"
        [sources]
        S = "made up"
        [cards]
        all = ["A1"]
        [functions.acmeCos]
        page = "S cos"
        x = ["all: f"]
        [operators]
        "cos" = ["input acmeCos.x"]
        """,
    "cards.toml": """
        [sources]
        S = "made up"
        [[card]]
        name = "A1"
        memory = 8388608
        devices_per_card = 2
        source = "S"
        """,
}


def test_where_a_table_and_the_plugin_differ_the_plugin_is_followed(site: Path) -> None:
    for name, text in TABLES.items():
        (site / "torchferry_acme" / name).write_text(textwrap.dedent(text), encoding="utf-8")
    done = rehearse(
        site, "import torch, torch_acme\nx = torch.ones(3).to('acme')\nprint(x.sin().device, x.cos().device)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "acme:0 acme:0\n"
    told = {each["subject"]: each["detail"] for each in events(site) if each["kind"] == "contradiction"}
    assert told["aten::sin.out"] == "the table has it, and the plugin does not register it"
    assert told["aten::add.out"] == "the plugin registers it, and the table lacks it"
    assert told["aten::cos"].startswith("the published limits name its argument `input`")
    assert ("fallback", "aten::sin.out") in {(each["kind"], each["subject"]) for each in events(site)}
    assert "the table was not followed" in done.stderr


def events(site: Path) -> list[dict[str, Any]]:
    summary: dict[str, Any] = json.loads((site.parent / "summary.json").read_text())
    return list(summary["events"])


def test_an_entry_point_that_the_driver_lacks_fails_by_name(site: Path) -> None:
    source = site / "torchferry_acme" / "driver" / "acmedrv.c"
    source.write_text(re.sub(r"FERRY_EXPORT int acmeEventElapsed.*?\n}\n", "", source.read_text(), flags=re.DOTALL))
    done = rehearse(site, "import torch, torch_acme")
    assert done.returncode == 2
    assert "torch_acme 1.0 does not load with torch" in done.stderr
    assert "undefined symbol: acmeEventElapsed" in done.stderr
    assert "driver/driver.toml of acme lacks it" in done.stderr
    assert "Traceback" not in done.stderr


def test_operators_under_another_dispatch_key_are_refused() -> None:
    pytest.importorskip("torch")
    from torchferry.rehearsal.driver import session

    with pytest.raises(TorchferryError, match="torch_acme registers its operators for another dispatch key than Priv"):
        session.refuse_other_key(describe(ACME / "vendor", "acme"))


def test_a_version_without_a_table_is_of_every_torch(site: Path) -> None:
    assert matching.belongs(describe(ACME / "vendor", "acme"), "1.0", "2.13.0")
    (site / "torchferry_acme" / "versions.toml").write_text(
        textwrap.dedent(
            """
            [sources]
            S = "the invented vendor's manual"
            [[row]]
            name = "torch==2.9.0"
            status = "equivalent"
            use = "torch-acme==1.0"
            source = "S"
            """
        )
    )
    described = describe(site / "torchferry_acme", "acme")
    assert matching.belongs(described, "1.0.post2", "2.9.0+cpu")
    assert not matching.belongs(described, "1.0", "2.13.0")
    assert matching.belongs(described, "1.2", "2.13.0")
    assert "torch_acme 1.0 is for torch 2.9.0" in matching.what_fits(described, "1.0", "2.13.0").render("en")


@pytest.mark.parametrize(
    ("found", "written", "said"),
    [
        ('header = "acmedrv.h"\n', "", "nothing is said of header"),
        ('names = ["acmeSetClock"]', 'names = ["acmeLaunch"]', "both accepted and refused: acmeLaunch"),
        ('queue = "none"', 'queue = { variable = "ACME_QUEUE" }', "`queue`"),
        ("libraries = ", "library_names = ", "library_names"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(site: Path, found: str, written: str, said: str) -> None:
    path = site / "torchferry_acme" / "driver" / "driver.toml"
    path.write_text(path.read_text().replace(found, written))
    with pytest.raises(ValueError, match=said):
        load_driver(describe(site / "torchferry_acme", "acme"))
