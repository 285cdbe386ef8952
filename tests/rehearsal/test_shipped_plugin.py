"""The vendor's own plugin on the simulated driver, from a wheel: nothing of it is changed.

The wheel is looked for in the folder that `TORCHFERRY_WHEELS` names, else in `wheels` beside the environment, where the
set-up of the tests puts it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.ranks import free_port
from tests.warm_python import ferry, instead
from torchferry import rehearsal
from torchferry.core.errors import UsageError
from torchferry.rehearsal.config import prepare

pytestmark = pytest.mark.rehearsal

PLUGIN = "torch_npu"
HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"


def wheel() -> Path | None:
    """The wheel for this Python and this torch."""
    folder = Path(os.environ.get("TORCHFERRY_WHEELS", "") or Path(sys.prefix) / "wheels")
    release = ".".join(importlib.metadata.version("torch").partition("+")[0].split(".")[:3])
    found = sorted(folder.glob(f"{PLUGIN}-{release}*-{HERE}-{HERE}-*{os.uname().machine}.whl"))
    return found[-1] if found else None


def why_not() -> str:
    try:
        if wheel() is None:
            return f"no wheel of {PLUGIN} for this torch and Python; `make wheels` fetches it"
    except importlib.metadata.PackageNotFoundError:
        return "no torch"
    return "" if importlib.util.find_spec("yaml") else f"{PLUGIN} needs PyYAML, which is not installed"


with_wheel = pytest.mark.skipif(bool(why_not()), reason=why_not())


def two_ranks() -> tuple[str, ...]:
    """What Python runs to start a program in two processes that meet at a port of their own."""
    return ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port()))


def rehearse(
    script: str,
    folder: Path,
    *options: str,
    launcher: tuple[str, ...] = (),
    status: int = 0,
    warm: bool = True,
    **variables: str,
) -> tuple[str, str, dict[str, object]]:
    """Rehearse a script with the wheel: what it printed, what was told, and the summary.

    A warm Python has torch imported already; the plugin it imports as any other does.
    """
    program = folder / "program.py"
    program.write_text(textwrap.dedent(script), encoding="utf-8")
    summary = folder / "summary.json"
    summary.unlink(missing_ok=True)
    command = [sys.executable, *launcher, str(program)]
    done = subprocess.run(
        [
            *(ferry(), "-m", "torchferry", "rehearse", "-t", "npu", "--plugin", str(wheel())),
            *("--summary-file", str(summary), *options),
            *("--", *(instead(command) if warm else command)),
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**ENVIRONMENT, "OMP_NUM_THREADS": "1", **variables},
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr, json.loads(summary.read_text()) if summary.exists() else {}


TRAIN = """
    import copy, torch
    torch.manual_seed(0)
    layers = torch.nn
    model = layers.Sequential(
        layers.Conv2d(3, 8, 3, padding=1), layers.BatchNorm2d(8), layers.ReLU(), layers.MaxPool2d(2), layers.Flatten(),
        layers.Linear(8 * 8 * 8, 10),
    )
    def train(model, device):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for step in range(5):
            generator = torch.Generator().manual_seed(step)
            images = torch.randn(16, 3, 16, 16, generator=generator).to(device)
            labels = torch.randint(0, 10, (16,), generator=generator).to(device)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
    on_cpu = list(train(copy.deepcopy(model), "cpu"))
    on_card = list(train(model.to("npu"), "npu"))
    assert on_cpu == on_card, (on_cpu, on_card)
    import torch_npu
    print("equal", torch_npu.__version__, torch.npu.max_memory_allocated() > 0, torch.npu.get_device_name())
"""


@with_wheel
def test_it_trains_to_the_losses_of_the_cpu_in_every_digit(tmp_path: Path) -> None:
    out, err, summary = rehearse(TRAIN, tmp_path, warm=False)
    assert out.split()[:3] == ["equal", importlib.metadata.version("torch").partition("+")[0], "True"]
    assert "as Huawei ships it, on a simulated driver" in err.splitlines()[0]
    assert "nothing was seen that would fail on the card" in err
    assert summary["operators"]["aten::convolution"] == 5  # type: ignore[index]


@with_wheel
def test_results_lie_in_memory_as_the_plugin_lays_them_out(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        assert not torch.npu.is_initialized()  # a device mesh gives each rank its own device only before that
        # CANN takes the device that the plugin's own settings name where a program has set none
        assert torch.npu.get_device_properties(0).total_memory == 64 << 30
        torch.manual_seed(0)
        functions = torch.nn.functional
        turned = torch.randn(2, 3, 4, 4).to("npu").permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        weight = torch.randn(6, 3, 1, 1).to("npu").requires_grad_()
        made = functions.conv2d(turned, weight)
        like = (torch.zeros_like(turned), torch.ones_like(turned), turned.clone(), turned.half())
        print([one.stride() == turned.stride() for one in like], made.is_contiguous(), (turned + 1).is_contiguous())
        result = functions.silu(functions.gelu(made))  # gelu is refused in another order
        result.sum().backward()
        same = torch.nn.Parameter(weight.detach().cpu())
        functions.silu(functions.gelu(functions.conv2d(turned.cpu().contiguous(), same))).sum().backward()
        print(torch.allclose(weight.grad.cpu(), same.grad))
        left, right = torch.randn(5, 3), torch.randn(5, 2)
        # the plugin runs it on the CPU, and gives the result the sizes of a tensor there
        solved = torch.linalg.lstsq(left.to("npu"), right.to("npu"), driver="gels").solution
        print(solved.device, torch.equal(solved.cpu(), torch.linalg.lstsq(left, right, driver="gels").solution))
    """
    out, _, summary = rehearse(script, tmp_path)
    assert out.splitlines()[:3] == ["[True, True, True, True] True True", "True", "npu:0 True"]
    assert summary["operators"]["aten::silu_backward"] == 1  # type: ignore[index]


@with_wheel
def test_every_registration_of_the_plugin_is_computed_kept_or_refused(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        from torchferry.rehearsal.driver import session
        served = {(name, key): service for name, key, service in session.operators().served()}
        looked_at = 0
        for name in torch._C._dispatch_get_all_op_names():
            if not name.startswith(("aten::", "npu::")):
                continue
            for key in ("PrivateUse1", "AutogradPrivateUse1"):
                if not torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
                    continue
                lines = torch._C._dispatch_dump(name).splitlines()
                if "schema: (none)" in lines:
                    continue  # nobody can call it: the plugin gave a kernel to a name that no library defines
                looked_at += 1
                if served.get((name, key)) == "kept":
                    continue
                active = next(line for line in lines if line.startswith((key + " ", key + ":")))
                # ours, or a reference that Python registered; the plugin's own would crash or compute nothing
                assert "driver/operators/operators.cpp" in active or "driver/session.py" in active, active
        print(looked_at, len(served))
        kept = sorted(name for (name, _), service in served.items() if service == "kept")
        print(*kept)
    """
    out, _, _ = rehearse(script, tmp_path)
    looked_at, served = map(int, out.splitlines()[0].split())
    assert looked_at >= served > 1400
    kept = set(out.splitlines()[1].split())
    assert {"aten::empty_strided", "aten::as_strided", "npu::get_npu_format"} <= kept
    assert not kept & {"aten::copy_", "aten::add.Tensor", "npu::npu_format_cast"}
    assert len(kept) < 60


@with_wheel
def test_two_ranks_over_the_vendors_collectives_equal_gloo(tmp_path: Path) -> None:
    script = """
        import os, sys, torch, torch.distributed as dist
        if "cpu" in os.environ.get("WHERE", ""):
            kind, backend = "cpu", "gloo"
        else:
            import torch_npu
            kind, backend = "npu", "hccl"
        rank = int(os.environ["RANK"])
        device = torch.device(kind, rank) if kind == "npu" else torch.device("cpu")
        if kind == "npu":
            torch.npu.set_device(rank)
        dist.init_process_group(backend)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
        model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(rank + 1)
        for step in range(4):
            images, labels = torch.randn(16, 64).to(device), torch.randint(0, 10, (16,)).to(device)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if rank == 0:
                print("LOSS", loss.item(), norm.item())
        objects = [None, None]
        dist.all_gather_object(objects, list(range(100 * (rank + 1))))
        assert list(map(len, objects)) == [100, 200]
        if kind == "npu":  # the plugin pads what is no multiple of 32 bytes
            for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.bfloat16, torch.int8):
                mine = torch.tensor([[1, rank], [1, 0]], dtype=dtype).to(device)
                parts = [torch.empty_like(mine) for _ in range(2)]
                dist.all_gather(parts, mine)
                assert [part.tolist() for part in parts] == [[[1, 0], [1, 0]], [[1, 1], [1, 0]]], dtype
        dist.destroy_process_group()
    """
    outputs = {
        queue: rehearse(script, tmp_path, "--devices", "2", launcher=two_ranks(), TASK_QUEUE_ENABLE=queue)[0]
        for queue in ("0", "1", "2")
    }
    on_cpu = subprocess.run(
        instead([sys.executable, *two_ranks(), str(tmp_path / "program.py")]),
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**ENVIRONMENT, "OMP_NUM_THREADS": "1", "WHERE": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        check=True,
    ).stdout
    expected = [line for line in on_cpu.splitlines() if line.startswith("LOSS")]
    assert len(expected) == 4
    for queue, out in outputs.items():
        assert [line for line in out.splitlines() if line.startswith("LOSS")] == expected, queue


@with_wheel
def test_what_a_program_meets(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        device = "npu"
        def error(call, kind=Exception):
            try:
                call()
            except kind as reason:
                return str(reason).splitlines()[0]
            return "nothing was raised"
        x = torch.ones(4, device=device)
        print(error(lambda: x + torch.ones(4)))
        print(error(lambda: x + torch.ones(4, device="npu:1")))
        print((x * torch.tensor(2.0)).sum().item(), x[torch.tensor([0, 1])].sum().item())
        print(error(lambda: torch.empty(3 << 30, device=device), torch.OutOfMemoryError))
        print(error(lambda: torch_npu.npu_anchor_response_flags(x.view(1, 4), [60, 60], [2, 2], 9)))
        print(error(lambda: torch.ones(1, 3, 4, 4, device=device).to(memory_format=torch.channels_last)))
        # in place, out=, views, random numbers, types
        y = torch.zeros(2, 3, device=device)
        torch.add(torch.ones(4, 5, device=device), 1, out=y)
        print(tuple(y.shape), y.sum().item(), y.t()[1].add_(1).sum().item(), y.sum().item())
        torch.manual_seed(3)
        drawn = torch.rand(5, device=device)
        torch.manual_seed(3)
        print(torch.equal(drawn, torch.rand(5, device=device)), torch.equal(drawn, torch.rand(5, device=device)))
        print(torch.equal(torch_npu.npu_dtype_cast(x, torch.half).cpu(), torch.ones(4, dtype=torch.half)))
        print(round(torch_npu.npu_rms_norm(x.view(2, 2), torch.ones(2, device=device))[0].sum().item(), 3))
        lstm = torch.nn.LSTM(3, 5)
        inputs = torch.randn(4, 2, 3)
        print(torch.allclose(lstm(inputs)[0], lstm.to(device)(inputs.to(device))[0].cpu(), atol=1e-6))
        scaler = torch.npu.amp.GradScaler(init_scale=1024.0)
        model = torch.nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with torch.autocast(device, torch.float16):
            loss = model(x).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(model.weight.grad.isfinite().all().item())
    """
    out, err, summary = rehearse(script, tmp_path, "--devices", "2", "--profile", str(small_card(tmp_path)))
    lines = [line for line in out.splitlines() if line]
    assert lines[0].startswith("Expected all tensors to be on the same device, but found at least two devices, npu:0")
    assert lines[1].endswith("npu:0 and npu:1!")
    assert lines[2] == "8.0 2.0"
    assert lines[3].startswith("NPU out of memory. Tried to allocate 12.00 GiB (NPU 0; 1024.00 MiB total capacity")
    assert lines[4].startswith(
        "npu::npu_anchor_response_flags is an operator of the plugin that the simulated driver does not"
    )
    assert lines[5].startswith("Only contiguous_format or preserve_format is supported")
    assert lines[6] == "(4, 5) 40.0 12.0 44.0"
    assert lines[7:] == ["True False", "True", "4.0", "True", "True"] or lines[8:] == ["True", "3.9999961853027344"], (
        lines
    )
    kinds = {event["kind"] for event in summary["events"]}  # type: ignore[attr-defined]
    assert {"mixed-devices", "not-rehearsed", "memory-format", "to-device", "synchronisation"} <= kinds
    assert "GOES ON WITHOUT " in err


def small_card(folder: Path) -> Path:
    path = folder / "card.toml"
    path.write_text('card = "small"\nextends = "910B2"\nmemory = "1GiB"\n', encoding="utf-8")
    return path


@with_wheel
def test_faults_and_strict_work_as_with_the_simulated_plugin(tmp_path: Path) -> None:
    script = """
        import torch
        print(torch.ones(3, device="npu").mul(2).isnan().sum().item())
        print((torch.ones(2, 3, device="npu") + 1).stride())
    """
    faults = ("--fault", "op=aten.mul.Tensor,kind=nan", "--fault", "op=aten.add.Tensor,kind=stride")
    out, _, _ = rehearse(script, tmp_path, *faults)
    assert out.splitlines()[-2:] == ["1", "(1, 2)"]
    _, err, _ = rehearse("import torch\ntorch.empty(1 << 20, device='npu')", tmp_path, "--fault", "kind=oom", status=1)
    assert "out of memory" in err
    rehearse("import torch\nprint(torch.ones(2))", tmp_path, "--strict", status=1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("torch_npu-2.13.0-cp27-cp27mu-linux_x86_64.whl", b"", "is for another Python"),
        (f"torch_npu-2.13.0-{HERE}-{HERE}-linux_x86_64.whl", b"no zip", "cannot be read as a wheel"),
        ("other-1.0-py3-none-any.whl", b"", "is not a wheel of torch_npu"),
        (f"torch_npu-9.9-{HERE}-{HERE}-absent.whl", None, "there is no file"),
    ],
)
def test_a_file_that_is_no_wheel_for_this_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, message: str
) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        prepare("npu", "", 0, None, (), str(path))


def test_a_vendor_whose_driver_is_not_described_is_told_so() -> None:
    with pytest.raises(UsageError, match="torchferry has no simulated driver for musa"):
        prepare("musa", "", 0, None, (), "installed")


def test_a_card_of_this_machine_is_not_hidden_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.rehearsal.driver.plugin.glob", lambda _: ["/dev/davinci0"])
    with pytest.raises(UsageError, match="this machine has a card"):
        prepare("npu", "", 0, None, (), "installed")


@pytest.mark.parametrize("plugin", ["", "simulated"])
def test_the_simulated_plugin_asks_for_none_of_this(monkeypatch: pytest.MonkeyPatch, plugin: str) -> None:
    monkeypatch.setattr("torchferry.rehearsal.driver.plugin.glob", lambda _: ["/dev/davinci0"])
    assert prepare("npu", "", 0, None, (), plugin).shipped is None


def an_installed_plugin(folder: Path, name: str, version: str, summary: str) -> None:
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    )


@pytest.mark.parametrize(
    ("name", "target", "plugin", "summary", "card", "version"),
    [
        ("torch_npu", "npu", "", "of the vendor", False, "2.13.0"),
        ("torch_npu", "npu@2.13.0", "", "of the vendor", False, "2.13.0"),
        ("torch_npu", "npu", "installed", "of the vendor", False, "2.13.0"),
        ("torch_npu", "npu", "simulated", "of the vendor", False, ""),
        ("torch_npu", "npu", "", "of the vendor", True, ""),  # the card's machine: nothing is hidden unasked
        ("torch_npu", "npu@2.9.0", "", "of the vendor", False, ""),  # names of another version
        ("torch_npu", "npu", "", "simulated by torchferry", False, ""),  # what a rehearsal around this one wrote
        ("torch_musa", "musa", "", "of the vendor", False, ""),  # a driver that nobody described
    ],
)
def test_the_installed_plugin_is_rehearsed_unasked_where_it_can_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    target: str,
    plugin: str,
    summary: str,
    card: bool,
    version: str,
) -> None:
    an_installed_plugin(tmp_path, name, "2.13.0", summary)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("torchferry.rehearsal.driver.plugin.glob", lambda _: ["/dev/davinci0"] if card else [])
    shipped = prepare(target, "", 0, None, (), plugin).shipped
    assert (shipped.version if shipped else "") == version


@pytest.mark.parametrize(
    ("name", "installed", "target", "card", "reason"),
    [
        ("torch_npu", "2.13.0", "npu@2.9.0", False, "the target names torch_npu 2.9.0, and the plugin is 2.13.0"),
        ("torch_npu", "2.13.0", "npu", True, "this machine has a card (/dev/davinci0)"),
        (
            "torch_npu",
            "2.9.0",
            "npu",
            False,
            "the installed plugin does not load with torch 2.13.0+cpu; for torch 2.13.0 install torch-",
        ),
        ("torch_musa", "2.13.0", "musa", False, "torchferry has no simulated driver for musa"),
    ],
    ids=["version", "card", "torch", "driver"],
)
def test_the_reason_is_told_where_the_installed_plugin_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, installed: str, target: str, card: bool, reason: str
) -> None:
    an_installed_plugin(tmp_path, name, installed, "of the vendor")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("torchferry.rehearsal.driver.plugin.glob", lambda _: ["/dev/davinci0"] if card else [])
    monkeypatch.setattr("torchferry.rehearsal.driver.plugin.torch_here", lambda: "2.13.0+cpu")
    begun: list[Any] = []
    monkeypatch.setattr("torchferry.rehearsal.begin", begun.append)
    sentence = f"{name} {installed} is installed, but the rehearsal uses the simulated plugin: {reason}"
    with pytest.warns(UserWarning, match=re.escape(sentence)):
        rehearsal.enable(target)
    assert begun[0].shipped is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rehearsal.enable(target, plugin="simulated")  # whoever asks for it need not be told


def test_both_ways_to_start_a_rehearsal_tell_the_reason(tmp_path: Path) -> None:
    an_installed_plugin(tmp_path, PLUGIN, "2.9.0", "of the vendor")
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    reason = "torch_npu 2.9.0 is installed, but the rehearsal uses the simulated plugin: "
    for command in (
        ("torchferry", "rehearse", "-t", "npu@2.13.0", "--", sys.executable, "-c", ""),
        ("pytest", "-q", "-p", "no:cacheprovider", "--rehearse", "npu@2.13.0", str(tmp_path)),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            capture_output=True,
            text=True,
            timeout=HANGS,
            env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            check=True,
        )
        assert (done.stdout + done.stderr).count(reason) == 1


@with_wheel
def test_a_process_puts_the_plugin_into_itself_and_its_children(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import subprocess, sys
            import torchferry.rehearsal
            session = torchferry.rehearsal.enable("npu", plugin={str(wheel())!r})
            assert torchferry.rehearsal.enable("npu", plugin={str(wheel())!r}) is session
            assert torchferry.rehearsal.current() is session
            import torch, torch_npu
            print(session.rehearsal.shipped.version, torch.ones(2, device="npu").sum().item(), torch_npu.__file__)
            child = "import torch, torch_npu; print(torch.ones(3, device='npu').sum().item(), torch_npu.__file__)"
            subprocess.run([sys.executable, "-c", child], check=True)
            try:
                torchferry.rehearsal.enable("npu", devices=3, plugin={str(wheel())!r})
            except Exception as error:
                print(error)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=HANGS, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr
    version = importlib.metadata.version("torch").partition("+")[0]
    lines = sorted(line for line in done.stdout.splitlines() if line.strip())
    assert lines[0].startswith(f"{version} 2.0 ") == (lines[0].endswith("site-packages/torch_npu/__init__.py"))
    assert [line.split()[-2] for line in lines[:2]] == ["2.0", "3.0"]
    assert "torch allows one such device per process" in done.stdout


@with_wheel
def test_a_test_suite_meets_the_plugin_and_its_own_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_something.py").write_text(
        "import torch, torch_npu\n\n\n"
        "def test_it(rehearsal):\n"
        "    assert rehearsal.rehearsal.shipped.version == torch_npu.__version__\n"
        "    print(torch.ones(2, device='npu'))\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rehearse", "npu"),
            *("--rehearse-plugin", str(wheel()), str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=ENVIRONMENT,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as Huawei ships it, on a simulated driver" in done.stdout
    assert "test_something.py:6  printing a tensor  x1" in done.stdout


@with_wheel
def test_operators_of_the_plugins_own_equal_another_formula(tmp_path: Path) -> None:
    script = Path(__file__).with_name("shipped_formulas.py").read_text(encoding="utf-8")
    out, err, _ = rehearse(script, tmp_path)
    assert out.count("looked at") >= 13
    assert "WOULD FAIL" not in err


@with_wheel
def test_what_is_refused_of_an_operator_is_named(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        x = torch.ones(2, 4, device="npu")
        for call in (
            lambda: torch_npu.npu_anchor_response_flags(x, [60, 60], [2, 2], 9),
            lambda: torch_npu.npu_ffn(x, x.t(), x, "relu", scale=x),
            lambda: torch_npu.npu_moe_token_permute(x, x.int(), padded_mode=True),
        ):
            try:
                call()
            except NotImplementedError as error:
                print(error)
    """
    out, _, summary = rehearse(script, tmp_path)
    assert [line for line in out.splitlines() if "npu::" in line] == [
        "npu::npu_anchor_response_flags is an operator of the plugin that the simulated driver does not compute: "
        "it runs on the card and is not rehearsed",
        "npu::npu_ffn with scale: not rehearsed",
        "npu::npu_moe_token_permute with padded_mode: not rehearsed",
    ]
    refused = {event["subject"] for event in summary["events"] if event["kind"] == "not-rehearsed"}  # type: ignore[attr-defined]
    assert refused == {"npu::npu_anchor_response_flags", "npu::npu_ffn", "npu::npu_moe_token_permute"}


@with_wheel
@pytest.mark.parametrize("saturates", ["0", "1"])
def test_a_step_with_an_overflow_is_skipped_as_on_the_cpu(tmp_path: Path, saturates: str) -> None:
    script = """
        import torch, torch_npu
        def train(device, scaler):
            torch.manual_seed(0)
            model = torch.nn.Linear(8, 4).to(device)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(4):
                loss = model(torch.randn(4, 8).to(device)).pow(2).mean() * (float("inf") if step == 2 else 1.0)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                yield scaler.get_scale(), [parameter.sum().item() for parameter in model.parameters()]
        on_card = list(train("npu", torch.npu.amp.GradScaler(init_scale=1024.0)))
        on_cpu = list(train("cpu", torch.amp.GradScaler("cpu", init_scale=1024.0)))
        assert on_card == on_cpu, (on_card, on_cpu)
        scaler = torch.npu.amp.GradScaler
        seen = []
        def status(call):
            scaler.clear_npu_overflow_flag()
            call()
            seen.append(scaler.get_npu_overflow_flag())
        x = torch.full((3,), 60000.0, device="npu", dtype=torch.half)
        mask = torch.tensor([True, False, True], device="npu")
        hidden = x.masked_fill(mask, float("-inf"))
        for call in (lambda: x + 1, lambda: x * 10, lambda: x.add_(1), lambda: torch.ones(1, device="npu") / 0):
            status(call)
        infinite = torch.full((2,), float("inf"))
        for call in (lambda: x.masked_fill(mask, float("-inf")), lambda: hidden + 1, lambda: infinite.npu()):
            status(call)
        print("STATUS", *seen)
    """
    out, _, _ = rehearse(script, tmp_path, INF_NAN_MODE_FORCE_DISABLE=saturates)
    assert "STATUS False True False True False False False" in out


@with_wheel
def test_a_graph_changes_nothing_while_it_is_recorded_and_equals_the_cpu_when_it_runs(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        x, counter = torch.ones(4, device="npu"), torch.zeros(1, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = (x * 2 + 1).relu()
            counter += 1
            drawn = torch.rand(3, device="npu")
        assert counter.item() == 0
        x.fill_(5)
        graph.replay()
        first = drawn.tolist()
        graph.replay()
        print(y.tolist(), counter.item(), first != drawn.tolist())
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                x.sum().item()
        except RuntimeError as error:
            print(error)
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                y = x * 2
                with torch.npu.stream(torch.npu.Stream()):
                    x.add_(1)
        except NotImplementedError as error:
            print(error)
        print("STILL", x.tolist())

        # a second stream joins the graph by an event, and has to come back
        side, graph, event = torch.npu.Stream(), torch.npu.NPUGraph(), torch.npu.Event()
        with torch.npu.graph(graph):
            first = torch.npu.current_stream()
            y = x + 1
            side.wait_stream(first)
            with torch.npu.stream(side):
                z = y * 2
                torch_npu.npu._launch_host_func(side, print, ["ON THE SECOND"])
            first.wait_stream(side)
            z = z + y
        x.fill_(6)
        graph.replay()
        print("JOINED", z.tolist())
        def leave():
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                x * 2
        def mark():
            x * 2
            event.record()
            return event
        for forbidden in (
            leave, torch.npu.synchronize, lambda: torch.npu.current_stream().wait_event(event),
            lambda: mark().query(), lambda: torch.npu.current_stream().synchronize(), lambda: mark().synchronize(),
        ):
            torch.npu.synchronize()
            event.record()
            try:
                with torch.npu.graph(torch.npu.NPUGraph()):
                    forbidden()
                print("ALLOWED", forbidden)
            except RuntimeError as error:
                print("CODE", str(error).partition("error code is ")[2].split()[0])

        # what is drawn follows from the generator's state when the graph runs, and from the place in the graph
        def draw():
            first = torch.rand(3, device="npu")
            state = torch.npu.get_rng_state()
            second = torch.rand(3, device="npu")
            torch.npu.set_rng_state(state)
            rows = torch.ones(8, device="npu", requires_grad=True)
            half = torch.utils.checkpoint.checkpoint(torch.nn.functional.dropout, rows, use_reentrant=False)
            return first, second, half, *torch.autograd.grad(half.sum(), rows)
        torch.npu.manual_seed(5)
        at_once = [[tensor.tolist() for tensor in draw()] for _ in range(2)]
        graph = torch.npu.NPUGraph()
        torch.npu.manual_seed(5)
        with torch.npu.graph(graph):
            drawn = draw()
        replayed = []
        for _ in range(2):
            graph.replay()
            replayed.append([tensor.tolist() for tensor in drawn])
        assert replayed == at_once, (replayed, at_once)
        assert replayed[0] != replayed[1] and replayed[0][2] == replayed[0][3]

        # functions of the host belong to the graph too
        calls, graph = [], torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            torch_npu.npu._launch_host_func(torch.npu.current_stream(), calls.append, [3])
        before = list(calls)
        graph.replay()
        graph.replay()
        print("CALLED", before, calls)
        with torch.npu.graph(torch.npu.NPUGraph()):
            torch_npu.npu._launch_host_func(torch.npu.Stream(), calls.append, [4])
        assert len(calls) == 2

        def made(device):
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
            return net, torch.optim.SGD(net.parameters(), 0.1)
        def batch(seed):
            generator = torch.Generator().manual_seed(seed)
            return torch.randn(4, 8, generator=generator), torch.randn(4, 4, generator=generator)
        def step(net, optimizer, rows, wanted):
            loss = (net(rows) - wanted).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss
        net, optimizer = made("cpu")
        on_cpu = [step(net, optimizer, *batch(seed)).item() for seed in (0, 0, 1, 2, 3)]
        net, optimizer = made("npu")
        rows, wanted = (tensor.npu() for tensor in batch(0))
        side = torch.npu.Stream()
        with torch.npu.stream(side):
            on_card = [step(net, optimizer, rows, wanted).item() for _ in range(2)]
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            loss = step(net, optimizer, rows, wanted)
        for seed in (1, 2, 3):
            for place, values in zip((rows, wanted), batch(seed)):
                place.copy_(values)
            graph.replay()
            on_card.append(loss.item())
        assert on_cpu == on_card, (on_cpu, on_card)
        print("EQUAL")
    """
    out, _, summary = rehearse(script, tmp_path)
    assert "[11.0, 11.0, 11.0, 11.0] 2.0 True" in out
    assert "aten::_local_scalar_dense waits for the device, which work that is recorded into a graph cannot" in out
    assert "aten::add_.Tensor on a stream outside of the graph that is recorded is not rehearsed" in out
    assert "STILL [5.0, 5.0, 5.0, 5.0]" in out
    assert out.count("ON THE SECOND") == 1
    assert "JOINED [21.0, 21.0, 21.0, 21.0]" in out
    assert "ALLOWED" not in out
    assert re.findall(r"CODE (\d+)", out) == ["107025", "107027", "107024", "107028", "107027", "107028"]
    assert "CALLED [] [[3], [3]]" in out
    lost = "aclrtLaunchHostFunc on a stream outside of the graph that is recorded"  # the plugin warns and goes on
    assert lost in {event["subject"] for event in summary["events"]}  # type: ignore[attr-defined]
    assert "EQUAL" in out


@with_wheel
def test_results_in_memory_that_the_plugin_lends_are_the_cpus(tmp_path: Path) -> None:
    # among them results for which the kernel asks for other memory of as many bytes: means, statistics, copies
    script = """
        import torch
        from torch.nn import functional
        torch.manual_seed(0)
        def differ(call, *given):
            sides = []
            for device in ("cpu", "npu"):
                inputs = [value.detach().to(device) for value in given]
                inputs = [value.requires_grad_() if value.is_floating_point() else value for value in inputs]
                results = call(*inputs)
                results = results if isinstance(results, (tuple, list)) else (results,)
                sum(result.sin().sum() for result in results if result.requires_grad).backward()
                sides.append([*results, *(value.grad for value in inputs if value.grad is not None)])
                assert all(each.device.type == device for each in sides[-1])
            return not all(torch.allclose(own, other.cpu(), atol=1e-6) for own, other in zip(*sides, strict=True))
        random, ids = torch.randn, lambda most, *shape: torch.randint(most, shape)
        last = lambda tensor: tensor.to(memory_format=torch.channels_last)
        convolve, attend = functional.conv2d, functional.scaled_dot_product_attention
        image, kernel, heads = random(2, 16, 8, 8), random(16, 16, 3, 3), [random(2, 4, 6, 8) for _ in range(3)]
        padded = dict(padding=1)
        convolutions = {
            "1 x 1": (image, random(16, 16, 1, 1), {}), "as large as its input": (image, kernel, padded),
            "strided": (random(2, 3, 9, 9), random(4, 3, 3, 3), dict(stride=2, padding=1)),
            "dilated": (random(1, 3, 9, 9), random(4, 3, 3, 3), dict(dilation=2)),
            "by channel": (random(2, 8, 8, 8), random(8, 1, 3, 3), dict(groups=8, padding=1)),
            "of one row": (random(3, 9, 9), random(4, 3, 3, 3), {}), "of none": (image[:0], kernel, {}),
            "channels last": (last(image), kernel, padded), "weights channels last": (image, last(kernel), padded),
            "of a part": (random(2, 16, 8, 16)[..., ::2], kernel, padded), "turned": (image.mT, kernel, padded),
            "weights like its input": (random(3, 3, 3, 3), random(3, 3, 3, 3), padded),
        }
        calls = {
            **{f"layer norm {shape}": (lambda x, w, b: torch.native_layer_norm(x, x.shape[-1:], w, b, 1e-5),
                                       random(shape), random(shape[-1]), random(shape[-1]))
               for shape in ((8, 1), (3, 5, 1), (1, 1), (4, 6))},
            "layer norm of two": (lambda x: functional.layer_norm(x.mT, (5, 3)), random(4, 3, 5)),
            **{f"batch norm {shape}": (lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
                                       random(shape), random(shape[1]), random(shape[1]))
               for shape in ((2, 4, 1, 1), (2, 4), (3, 4, 5, 5))},
            "batch norm that is used": (lambda x, m, v: functional.batch_norm(x, m.detach(), v.detach().abs()),
                                        random(4, 3, 5), random(3), random(3)),
            **{f"mm {rows} {both}": (torch.mm, random(rows, both), random(both, rows))
               for rows, both in ((4, 4), (1, 1), (2, 8))},
            "mm of a view": (lambda a, b: torch.mm(a.t(), b), random(4, 4), random(4, 4)),
            "addmm": (torch.addmm, random(4), random(4, 4), random(4, 4)),
            "add of a view": (lambda a, b: a + b.t(), random(4, 6), random(6, 4)),
            "multiplied with itself": (lambda a: a * a, random(4, 6)),
            "multiplied, divided": (lambda a: (a * 2.5, a / 3), random(4, 6)),
            "ints multiplied": (lambda a, b: a * 2.5 + b, ids(9, 4, 6), random(4, 6)),
            "gelu of a part": (lambda a: torch.nn.functional.gelu(a[:, ::2]), random(4, 6)),
            "softmax of a view": (lambda a: a.t().softmax(-1), random(4, 6)),
            "nothing": (torch.tanh, random(0, 3)),
            **{f"convolution {name}": (lambda x, w, options=options: convolve(x, w, **options), x, w)
               for name, (x, w, options) in convolutions.items()},
            "convolution in one direction": (lambda x, w, b: functional.conv1d(x, w, b, padding="same"),
                                             random(2, 4, 9), random(4, 4, 3), random(4)),
            "convolution in three": (functional.conv3d, random(1, 2, 5, 5, 5), random(3, 2, 3, 3, 3), random(3)),
            "convolution of constant weights": (lambda x, w: convolve(x, w.detach(), padding=1), image, kernel),
            "transposed": (lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
                           random(2, 4, 5, 5), random(4, 6, 3, 3)),
            "transposed in groups": (lambda x, w, b: functional.conv_transpose2d(x, w, b, groups=2),
                                     random(2, 4, 5, 5), random(4, 3, 3, 3), random(6)),
            **{f"sum and mean over {over}": (lambda x, over=over: (x.sum(over), x.mean(over, keepdim=True)),
                                             random(3, 4, 5)) for over in (0, -1, (0, 2), ())},
            "sum of a turned one": (lambda x: x.sum((0, 1)), random(3, 4, 5).transpose(0, 2)),
            "sum of none": (lambda x: x.sum(0), random(0, 4)),
            **{f"loss {reduction} {shape}": (lambda x, t, by=reduction: functional.cross_entropy(x, t, reduction=by),
                                             random(2, 5, *shape), ids(5, 2, *shape))
               for reduction in ("mean", "none") for shape in ((), (3, 3))},
            **{f"embedding {shape}": (lambda w, i: functional.embedding(i, w, padding_idx=1), random(7, 4),
                                      ids(7, *shape)) for shape in ((3,), (2, 3), (), (0,))},
            "embedding of a view": (lambda w, i: functional.embedding(i, w.t()), random(4, 7), ids(7, 5)),
            "pooled": (lambda x: (functional.max_pool2d(x, 3, 2, 1), functional.adaptive_avg_pool2d(x, 3)), image),
            "roots": (lambda a, b: torch._foreach_sqrt([a.abs().t(), b.abs()]), random(4, 6), random(3).double()),
            "copies": (lambda a: (a.clone(), a.t().clone(), a.t().contiguous()), random(4, 6)),
            "attention": (attend, *heads),
            "attention to what was": (lambda *given: attend(*given, is_causal=True), *heads),
            "attention of views": (lambda *given: attend(*(each.transpose(1, 2) for each in given)), *heads),
            "attention of few heads": (lambda *given: attend(*given, enable_gqa=True), heads[0],
                                       *(each[:, ::2].contiguous() for each in heads[1:])),
            "attention with a mask": (lambda q, k, v, mask: attend(q, k, v, mask > 0), *heads, ids(2, 6, 6)),
            "attention that learns a mask": (attend, *heads, random(6, 6)),
        }
        print("DIFFER", [name for name, (call, *given) in calls.items() if differ(call, *given)], len(calls))

        def in_place(device, call, *given):
            values = [value.clone().to(device) for value in given]
            call(*values)
            return values
        small, large = random(3, 4), random(30000)
        lists = [(lambda a, b, by=by: torch._foreach_mul_([a, b], by), each, random(5))
                 for by in (0.9, 3, 2 ** 60, -0.0, 1e300, 1e-45, float("nan")) for each in (small, large)]
        lists += [(lambda a, b, c, by=by: torch._foreach_add_([a, b], [c.t(), b], alpha=by), small, large, other)
                  for by in (1, -0.1) for other in (random(4, 3), random(4, 3).double())]
        print("UNEQUAL", [index for index, each in enumerate(lists) if not all(
            torch.equal(own.nan_to_num(-1), other.cpu().nan_to_num(-1))
            for own, other in zip(in_place("cpu", *each), in_place("npu", *each), strict=True))], len(lists))
    """
    out, _, _ = rehearse(script, tmp_path)
    assert "DIFFER [] 62" in out
    assert "UNEQUAL [] 18" in out


@with_wheel
def test_processes_write_to_the_same_memory(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu, torch.multiprocessing as multiprocessing
        def add_one(inbox, outbox):
            torch.npu.set_device(0)
            for _ in range(2):
                tensor = inbox.get()
                tensor.add_(1)
                outbox.put(tensor.sum().item())
                del tensor
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            process = context.Process(target=add_one, args=(inbox, outbox))
            process.start()
            small, large = torch.arange(4.0, device="npu"), torch.zeros(3 << 20, device="npu")
            inbox.put(small)
            print(outbox.get(timeout=600), small.tolist())
            inbox.put(large[5:10])
            print(outbox.get(timeout=600), large[4:11].tolist())
            process.join(600)
            print("ENDED", process.exitcode)
    """
    out, _, _ = rehearse(script, tmp_path, warm=False)  # it starts Python itself
    assert "10.0 [1.0, 2.0, 3.0, 4.0]" in out
    assert "5.0 [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]" in out
    assert "ENDED 0" in out


@with_wheel
def test_the_line_that_ran_out_of_memory_is_named(tmp_path: Path) -> None:
    script = """
        import torch
        try:
            torch.empty(3 << 30, device="npu")
        except torch.OutOfMemoryError as error:
            print(error)
    """
    _, err, summary = rehearse(script, tmp_path, "--profile", str(small_card(tmp_path)))
    assert "program.py:4" in err
    kinds = [event["kind"] for event in summary["events"]]  # type: ignore[attr-defined]
    assert kinds.count("out-of-memory") == 1


@with_wheel
@pytest.mark.parametrize("queue", ["0", "1"])
def test_both_ranks_send_before_either_receives(tmp_path: Path, queue: str) -> None:
    script = """
        import os, torch, torch_npu, torch.distributed as dist
        rank = int(os.environ["RANK"])
        torch.npu.set_device(rank)
        dist.init_process_group("hccl")
        for count in (10, 1_000_000):
            mine = torch.full((count,), float(rank + 1), device="npu")
            theirs = torch.zeros(count, device="npu")
            work = [dist.isend(mine, 1 - rank), dist.irecv(theirs, 1 - rank)]
            mine.add_(100)
            for each in work:
                each.wait()
            assert theirs.unique().tolist() == [2.0 - rank], theirs
        dist.destroy_process_group()
        print("OVER")
    """
    out, err, summary = rehearse(script, tmp_path, "--devices", "2", launcher=two_ranks(), TASK_QUEUE_ENABLE=queue)
    assert out.count("OVER") == 2
    assert "two ranks that send to each other before either receives" in err
    assert {event["kind"] for event in summary["events"]} >= {"not-rehearsed"}  # type: ignore[attr-defined]


@with_wheel
def test_a_fault_of_memory_counts_segments_of_the_plugins_allocator_and_says_so(tmp_path: Path) -> None:
    script = """
        import torch
        tensors = [torch.empty(100, device="npu") for _ in range(50)]  # of one segment
        try:
            torch.empty(8 << 20, device="npu")
            print("none")
        except torch.OutOfMemoryError:
            print("ran out")
    """
    out, err, _ = rehearse(script, tmp_path, "--fault", "kind=oom,after=1")
    assert out.split() == ["ran", "out"]
    assert "never occurred" not in err
    out, err, _ = rehearse(script, tmp_path, "--fault", "kind=oom,after=20")
    assert out.split() == ["none"]
    assert "a requested fault never occurred: kind=oom" in err
    assert "counts the memory segments" in err


WORK = """
    import torch
    torch.manual_seed(0)
    left = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 8))
    left(torch.randn(16, 64)).sum().backward()
    for layer, shape in LAYERS:
        layer.to("npu")(torch.randn(shape).to("npu")).sum().backward()
    rows = torch.randn(1, 2, 4, 8, device="npu", requires_grad=True)
    (rows @ rows.transpose(-1, -2)).sum().backward()
"""


@with_wheel
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_work_is_counted_on_both_sides_as_with_the_simulated_plugin(tmp_path: Path, device: str) -> None:
    layers = "[(torch.nn.Linear(64, 32), (16, 64)), (torch.nn.Conv2d(3, 4, 3), (2, 3, 8, 8))]"
    script = WORK.replace("LAYERS", layers if device == "npu" else "[(torch.nn.Linear(2, 2), (1, 2))]")
    strict = ("--strict",)
    status = 0 if device == "npu" else 1  # the CPU did more than the device
    _, err, summary = rehearse(script, tmp_path, *strict, status=status)
    _, _, simulated = rehearse(script, tmp_path, *strict, "--plugin", "simulated", status=status)
    assert summary["work"] == simulated["work"]
    assert summary["work"]["device"] > 0  # type: ignore[index]
    assert "model `Sequential`" in err


@with_wheel
def test_dtypes_that_the_card_lacks_or_holds_in_half_are_as_with_the_simulated_plugin(tmp_path: Path) -> None:
    script = """
        import torch
        def error(call):
            try:
                call()
            except Exception as reason:
                return type(reason).__name__, str(reason).splitlines()[0]
            return "nothing was raised"
        ones = torch.ones(2, device="npu")
        print(error(lambda: torch.ones(2, dtype=torch.float64).to("npu")))
        print(error(lambda: torch.zeros(2, dtype=torch.float64, device="npu")))
        print(error(lambda: ones.double()))
        print((ones * 2.5).mean().item(), torch.nn.functional.softmax(ones, 0).sum().item())
        fits = torch.tensor([1 << 30, -5]).to("npu")
        print((fits * 4).tolist(), fits.mul_(8).tolist(), torch.tensor([(1 << 40) + 7]).to("npu").tolist())
        ones.bfloat16().asinh()
    """
    card = tmp_path / "card.toml"
    card.write_text(
        'card = "own"\nextends = "910B2"\n[dtypes]\nfloat64 = "missing"\nint64 = "narrowed"\nbfloat16 = "emulated"\n'
    )
    out, _, summary = rehearse(script, tmp_path, "--profile", str(card))
    simulated_out, _, simulated = rehearse(script, tmp_path, "--profile", str(card), "--plugin", "simulated")
    assert out == simulated_out
    assert out.count("TypeError") == 3
    assert out.splitlines()[-1] == "[0, -20] [0, -40] [7]"
    looked_at = {"missing-dtype", "narrowed", "noted-dtype"}

    def events_of(account: dict[str, object]) -> set[tuple[str, str]]:
        events = account["events"]
        return {(event["kind"], event["subject"]) for event in events if event["kind"] in looked_at}  # type: ignore[attr-defined]

    assert events_of(summary) == events_of(simulated)
    assert {kind for kind, _ in events_of(summary)} == looked_at


@with_wheel
def test_collectives_of_a_graph_run_when_the_graph_does(tmp_path: Path) -> None:
    script = """
        import os, torch, torch_npu, torch.distributed as dist
        rank = int(os.environ["RANK"])
        torch.npu.set_device(rank)
        dist.init_process_group("hccl")
        given = torch.full((4,), rank + 1.0, device="npu")
        parts, halves = [torch.zeros(4, device="npu") for _ in range(2)], torch.zeros(2, device="npu")
        def work():
            total = given * 2
            dist.all_reduce(total)
            dist.all_gather(parts, given)  # padded to 32 bytes by the plugin
            both = parts[0] * 10 + parts[1]
            sent = given.clone()
            dist.broadcast(sent, 1)
            dist.all_to_all_single(halves, given[:2] + 0)
            reduced = torch.empty(2, device="npu")
            dist.reduce_scatter_tensor(reduced, both)
            received = torch.zeros_like(reduced)
            for step in dist.batch_isend_irecv([
                dist.P2POp(dist.isend, reduced + rank, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)
            ]):
                step.wait()
            return [total, both, sent, halves, reduced, received]
        at_once = []
        for value in (1.0, 11.0):
            given.fill_(rank + value)
            at_once.append([each.tolist() for each in work()])
        torch.npu.synchronize()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            results = work()
        for value, expected in zip((1.0, 11.0), at_once):
            given.fill_(rank + value)
            graph.replay()
            seen = [each.tolist() for each in results]
            assert seen == expected, (rank, seen, expected)
        print(f"EQUAL {seen[0][0]} {seen[1][0]}\\n", end="")
        dist.destroy_process_group()
    """
    out, _, _ = rehearse(script, tmp_path, "--devices", "2", launcher=two_ranks())
    assert out.count("EQUAL 46.0 122.0") == 2, out


@with_wheel
def test_products_round_their_inputs_as_the_profile_says(tmp_path: Path) -> None:
    script = """
        import torch, torch_npu
        x = torch.rand(8, 8, generator=torch.Generator().manual_seed(0))
        exact = torch.equal((x.npu() @ x.npu()).cpu(), x @ x)
        coarse = torch.nn.functional.conv2d(x.npu()[None, None], x.npu()[None, None, :3, :3]).cpu()
        fine = torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])
        print(exact, torch.equal(coarse, fine), torch.allclose(coarse, fine, rtol=1e-3))
    """
    profile = tmp_path / "card.toml"
    profile.write_text('matmul_rounding = "tf32"\n')
    out, _, _ = rehearse(script, tmp_path, "--profile", str(profile))
    assert out.split() == ["False", "False", "True"]
