"""What is chosen, and what is said, with plugins that are broken, empty, somebody else's or imaginary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from tests import warm, warm_python
from tests.cli.process import torchferry
from tests.processes import HANGS
from torchferry.core.env import cache_folder
from torchferry.core.messages import Bilingual
from torchferry.device import detect
from torchferry.device.facts import DeviceFacts, Name
from torchferry.device.failures import DeviceWarning
from torchferry.device.one_file import one_file
from torchferry.device.provider import vendors

pytest.importorskip("torch")
pytestmark = pytest.mark.rehearsal

FORMS = ("torchferry.device", "device_utils")

BACKENDS = """
from tests import warm
from torchferry.backends.base import Backend

class Shared:
    COLLECTIVE = "accl"
    VISIBLE_DEVICES = "ACME_VISIBLE_DEVICES"

class Broken(Shared, Backend):
    NAME = TITLE = DEVICE_TYPE = "broken"
    PLUGIN = "torch_broken"
    NAMESPACE = "torch_broken"

class Early(Shared, Backend):
    NAME = TITLE = DEVICE_TYPE = "early"
    PLUGIN = "torch_early"
    NAMESPACE = "torch_early"
    PLUGIN_AFTER_TORCH = False

class Empty(Shared, Backend):
    NAME = TITLE = DEVICE_TYPE = "empty"
    PLUGIN = "torch_empty"
    NAMESPACE = "torch_empty"

class Other(Shared, Backend):
    NAME = TITLE = DEVICE_TYPE = "other"
    PLUGIN = "torch_other"
    NAMESPACE = "torch.other"
"""

PLUGINS = {
    "torch_broken": (
        "try:\n    open('/nonexistent/libacme.so')\nexcept OSError as error:\n    raise ImportError('no driver')\n"
    ),
    "torch_early": "",
    "torch_empty": "def is_available(): return False\n",
    "torch_other": "",
}


def distribution(site: Path, backends: str, names: dict[str, str]) -> Path:
    """Install a distribution that names backends in the entry-point group."""
    info = site / "torchferry_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchferry-acme\nVersion: 1.0\n", encoding="utf-8")
    entries = "".join(f"{name} = acme_backends:{kind}\n" for name, kind in names.items())
    (info / "entry_points.txt").write_text(f"[torchferry.backends]\n{entries}", encoding="utf-8")
    (site / "acme_backends.py").write_text(backends, encoding="utf-8")
    return site


def on_path(folder: Path) -> str:
    """Return a PYTHONPATH with a folder and this repository, of which the imaginary plugins import the tests."""
    return os.pathsep.join([str(folder), str(Path(__file__).parent.parent.parent)])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with four imaginary plugins, none of which finds a card, and the single file made there."""
    folder = tmp_path_factory.mktemp("site")
    distribution(folder, BACKENDS, {"broken": "Broken", "early": "Early", "empty": "Empty", "other": "Other"})
    for name, source in PLUGINS.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    done = torchferry("device", "vendor", folder, env={"PYTHONPATH": on_path(folder)})
    assert done.returncode == 0, done.stderr
    return folder


def python(site: Path, form: str, snippet: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a snippet that finds `DeviceManager`."""
    own = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": on_path(site)}
    (done,) = warm.run(
        f"from {form} import *\n{textwrap.dedent(snippet)}", environments=[{**own, **environment}], timeout=HANGS
    )
    return done


@pytest.mark.parametrize("form", FORMS)
def test_every_plugin_is_accounted_for(site: Path, form: str) -> None:
    done = python(
        site,
        form,
        """
        import json
        told = DeviceManager().report()["candidates"]
        print(json.dumps({item["vendor"]: [item["state"], item["reason"], item["error"]] for item in told}))
        """,
        ACME_VISIBLE_DEVICES="7",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found)[:4] == ["broken", "early", "empty", "other"]
    state, reason, error = found["broken"]
    assert state == "failed"
    assert reason.startswith("torch_broken fails: ImportError: no driver (after FileNotFoundError: ")
    assert "/nonexistent/libacme.so" in error
    assert "Traceback" in error
    assert found["early"][:2] == [
        "failed",
        "torch_early must be imported before torch; import it in the first line",
    ]
    assert found["empty"][:2] == [
        "no card",
        "torch_empty.is_available() is False; ACME_VISIBLE_DEVICES is set to `7`",
    ]
    assert found["other"][0] == "another plugin"
    assert "it has no torch.other.is_available" in found["other"][1]
    warnings = [line for line in done.stderr.splitlines() if "DeviceWarning" in line]
    assert [line.partition("DeviceWarning: ")[2].partition(":")[0] for line in warnings] == [
        "broken was not chosen",
        "early was not chosen",
        "running on the CPU",
    ]
    assert all(line.startswith("<string>:4:") for line in warnings)


@pytest.mark.parametrize("form", FORMS)
def test_a_broken_plugin_that_is_asked_for_is_an_error(site: Path, form: str) -> None:
    done = python(site, form, "DeviceManager()", PREFERRED_DEVICE="broken")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "DeviceNotAvailableError: PREFERRED_DEVICE asks for `broken`, which is not available" in last
    assert "ImportError: no driver" in last
    assert "available here: cpu" in last


@pytest.mark.parametrize("form", FORMS)
def test_errors_are_in_the_language_of_the_user(site: Path, form: str) -> None:
    done = python(site, form, "DeviceManager('warp')", LC_ALL="zh_CN.UTF-8")
    assert "未知设备 `warp`" in done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vendor of whom little is known, with a package to rehearse, and the single file made there."""
    folder = distribution(
        tmp_path_factory.mktemp("acme"),
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
        {"acme": "Acme"},
    )
    (folder / "data").mkdir()
    (folder / "data" / "api.toml").write_text(
        '[sources]\nS = "the imaginary plugin"\n\n[[row]]\n'
        'names = ["torch.cuda.is_available", "torch.cuda.set_device", "torch.cuda.amp.autocast", "torch.cuda.amp"]\n'
        'status = "same"\nsource = "S"\n\n[[row]]\n'
        'names = ["torch.cuda.memory_allocated", "torch.cuda.synchronize"]\nstatus = "unknown"\nsource = "S"\n',
        encoding="utf-8",
    )
    package = folder / "facade" / "torch_acme"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def _autoload(): pass\n\nimport torch\nfrom torchferry.rehearsal import facade_support\n"
        "facade_support.start(__name__)\n__version__ = facade_support.stated_version()\n",
        encoding="utf-8",
    )
    (folder / "device_utils.py").unlink(missing_ok=True)
    done = torchferry("device", "vendor", folder, env={"PYTHONPATH": on_path(folder)})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_an_imaginary_vendor_is_served(acme: Path, form: str) -> None:
    program = f"""
from {form} import DeviceManager, DeviceError
import torch
manager = DeviceManager()
print(manager.device, manager.vendor, manager.dtype, manager.collective_backend)
print(manager.create_generator(3).device.type, manager.memory_stats(show=False).allocated is not None)
layer = torch.nn.Linear(4, 2).to(manager.device)
with manager.autocast(), manager.timing() as timing:
    print(layer(torch.ones(1, 4, device=manager.device)).dtype, manager.grad_scaler().is_enabled())
for unknown in (manager.composite_backend, manager.profiler_sort_key):
    try:
        unknown()
    except DeviceError as error:
        print(error)
"""
    command = ("rehearse", "-t", "acme", "--", warm_python.python(), "-c", program)
    done = torchferry(*command, env={"PYTHONPATH": on_path(acme), "TORCHFERRY_CACHE": str(cache_folder())})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "acme:0 acme torch.bfloat16 accl",
        "acme True",
        "torch.bfloat16 False",
    ]
    assert "whether Acme Cards supports composite backends is not known" in done.stdout
    assert "the columns of the profiler's table are not known on Acme Cards" in done.stdout


@pytest.mark.parametrize("form", FORMS)
def test_portable_names_refuse_a_redirected_program(form: str, tmp_path: Path) -> None:
    (tmp_path / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
    (tmp_path / "train.py").write_text(f"import {form}\nprint({form}.device_string())\n", encoding="utf-8")
    command = ("rehearse", "-t", "npu", "--", "torchferry", "run", "--", warm_python.python(), tmp_path / "train.py")
    done = torchferry(*command, env={"TORCHFERRY_CACHE": str(cache_folder())})
    assert done.returncode != 0
    assert "torch.cuda is redirected too; run it without `torchferry run`" in done.stderr


@pytest.mark.parametrize(("called", "device_type"), [("torch.amp.GradScaler", "meta"), ("torch.amp.Absent", "cuda")])
def test_torchs_own_scaler_is_taken_where_this_torch_has_one(called: str, device_type: str) -> None:
    scaler_class = pytest.importorskip("torchferry.device.precision").scaler_class
    names = {"amp.GradScaler": Name("torch.cuda.amp.GradScaler", called=called)}
    facts = DeviceFacts("acme", Bilingual("Acme"), "meta", "gloo", namespace="torch.cuda", names=names)
    found = scaler_class(facts)
    assert scaler_class(facts) is found
    assert found(16.0, enabled=False)._device == device_type


def test_a_card_without_bfloat16_gets_float16() -> None:
    program = (
        "from torchferry.device import DeviceManager\nmanager = DeviceManager()\n"
        "print(manager.dtype, *[item.reason for item in manager.dtype_verdicts])\n"
        "try: DeviceManager(dtype='bfloat16')\nexcept Exception as error: print(error)\n"
    )
    command = ("rehearse", "-t", "musa", "--card", "S80", "--", warm_python.python(), "-c", program)
    done = torchferry(*command, env={"TORCHFERRY_CACHE": str(cache_folder())})
    assert done.stdout.splitlines() == [
        "torch.float16 torch.musa.is_bf16_supported() is False a product on the card equals the CPU's",
        "musa:0 has no bfloat16: torch.musa.is_bf16_supported() is False",
    ], done.stderr


@pytest.fixture
def without_torch(tmp_path: Path) -> Path:
    """A path on which torch cannot be imported."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: no such file')\n", encoding="utf-8")
    (tmp_path / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", FORMS)
def test_without_torch_the_error_says_so(without_torch: Path, form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from {form} import *"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(without_torch)},
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "ImportError: DeviceManager needs torch, which cannot be imported: libtorch_cpu.so: no such file; install"
    )


def test_without_torch_the_commands_say_so_and_write_the_file(without_torch: Path) -> None:
    env = {"PYTHONPATH": str(without_torch)}
    shown = torchferry("device", "show", env=env)
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[0] == "torchferry: DeviceManager needs torch: libtorch_cpu.so: no such file"
    (without_torch / "device_utils.py").unlink()
    assert torchferry("device", "vendor", without_torch, env=env).returncode == 0


def test_show(site: Path) -> None:
    shown = torchferry("device", "show")
    assert shown.returncode == 1
    assert shown.stdout.startswith("device: cpu (CPU): no accelerator is available: ")
    assert "checked cuda: no card; torch.cuda.is_available() is False" in shown.stdout
    assert shown.stderr.count("DeviceWarning") <= 1
    asked = torchferry("device", "show", "--device", "cpu", "--output-format", "json")
    assert asked.returncode == 0
    told = json.loads(asked.stdout)
    assert (told["device"], told["dtype"], told["collective"]) == ("cpu", "float32", "gloo")
    assert torchferry("device", "show", "--lang", "zh", "--device", "cpu").stdout.startswith("设备：cpu")
    refused = torchferry("device", "show", "--device", "broken", env={"PYTHONPATH": on_path(site)})
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert "torch_broken fails: ImportError: no driver" in refused.stderr


def test_a_list_of_more_cards_than_the_plugin_counts_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = next(each for each in vendors() if each.visible_devices)
    monkeypatch.setattr(detect, "absence", lambda facts: None)
    monkeypatch.setattr(detect, "find", lambda facts, name: lambda: 2)
    monkeypatch.setenv(str(facts.visible_devices), "0,1,7")
    with pytest.warns(DeviceWarning, match="0,1,7 names 3 cards, and the plugin counts 2"):
        detect._look(facts)
    monkeypatch.setenv(str(facts.visible_devices), "0,1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detect._look(facts)
