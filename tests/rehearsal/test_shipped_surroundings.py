"""The vendor's own plugin where its surroundings are unusual: environments, processes, layouts, allocators, formats."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.test_driver_plugins import wheel as small_wheel
from tests.rehearsal.test_shipped_plugin import TRAIN, rehearse, two_ranks, with_wheel

torch = pytest.importorskip("torch")

from torchferry.rehearsal.driver.composed import COMPOSED_WITHOUT_CPU  # noqa: E402

pytestmark = pytest.mark.rehearsal


def half_a_toolkit(folder: Path) -> dict[str, str]:
    """Make a toolkit of which a part is missing, and what its `set_env.sh` exports."""
    home = folder / "ascend-toolkit" / "latest"
    for part in ("lib64", "opp", "python/site-packages"):
        (home / part).mkdir(parents=True)
    for library in ("libascendcl.so", "libhccl.so", "libopapi.so"):
        (home / "lib64" / library).write_text("no library")
    return {
        "ASCEND_TOOLKIT_HOME": str(home),
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "ASCEND_AICPU_PATH": str(home),
        "TOOLCHAIN_HOME": str(home / "toolkit"),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(home / "lib64"), os.environ.get("LD_LIBRARY_PATH", "")])),
        "PYTHONPATH": os.pathsep.join([str(home / "python" / "site-packages"), ENVIRONMENT.get("PYTHONPATH", "")]),
    }


@with_wheel
def test_neither_a_toolkit_nor_growing_segments_change_a_loss(tmp_path: Path) -> None:
    script = (
        TRAIN
        + """
    free, total = torch.npu.mem_get_info()
    torch.npu.empty_cache()
    held = torch.empty(total // 8 * 5, dtype=torch.uint8, device="npu")
    try:
        torch.empty(total // 8 * 5, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError as error:
        print("OOM", str(error).splitlines()[0])
    del held
    print(torch.empty(total // 8 * 5, dtype=torch.uint8, device="npu").numel() > total // 2)
"""
    )
    card = tmp_path / "card.toml"
    card.write_text('card = "own"\nextends = "910B2"\nmemory = "1GiB"\n')
    out, err, _ = rehearse(
        script,
        tmp_path,
        *("--profile", str(card)),
        launcher=(),
        status=0,
        warm=False,
        **half_a_toolkit(tmp_path),
        PYTORCH_NPU_ALLOC_CONF="expandable_segments:True",
    )
    assert out.startswith("equal")
    assert "OOM NPU out of memory. Tried to allocate 642.00 MiB (NPU 0; 1024.00 MiB total capacity" in out
    assert out.split()[-1] == "True"
    assert "cannot open shared object" not in err


@with_wheel
def test_half_precision_is_the_cpus_and_formats_sparse_tensors_and_the_profiler_are_told_as_they_are(
    tmp_path: Path,
) -> None:
    script = """
        import torch, torch_npu

        def error(call):
            try:
                call()
            except Exception as reason:
                return str(reason).splitlines()[0]
            return "nothing was raised"

        torch.manual_seed(0)
        x, y = torch.randn(8, 16), torch.randn(16, 8)
        calls = {
            "mm": lambda a, b: a @ b, "add": lambda a, b: a + b.t(), "mul": lambda a, b: a * b.t(),
            "gelu": lambda a, b: torch.nn.functional.gelu(a), "softmax": lambda a, b: a.softmax(-1),
            "layer_norm": lambda a, b: torch.nn.functional.layer_norm(a, (16,)), "sum": lambda a, b: a.sum(),
            "mean": lambda a, b: b.mean(0), "where": lambda a, b: torch.where(a > 0, a, b.t()),
            "cat": lambda a, b: torch.cat([a, b.t()]), "addmm": lambda a, b: torch.addmm(a[:, :8], a, b),
            "add_": lambda a, b: a.clone().add_(b.t()), "linear": lambda a, b: torch.nn.functional.linear(a, b.t()),
        }
        apart = [
            (name, dtype) for name, call in calls.items() for dtype in (torch.float32, torch.half, torch.bfloat16)
            if not torch.equal(call(x.to(dtype), y.to(dtype)), call(x.to(dtype).npu(), y.to(dtype).npu()).cpu())
        ]
        print("APART", apart)

        # a format is a way to lay a tensor out; what is cast to one has the same numbers
        cast = torch_npu.npu_format_cast(x.npu(), 29)
        made = torch_npu.empty_with_format((4, 32), dtype=torch.half, device="npu", acl_format=29)
        print("FORMAT", torch.equal(cast.cpu(), x), int(torch_npu.get_npu_format(made)), made.fill_(2).sum().item())
        torch.npu.config.allow_internal_format = True
        cast = torch_npu.npu_format_cast(x.npu(), 29)
        back, held = torch_npu.npu_format_cast(cast, 2), x.npu()
        torch_npu.npu_format_cast_(held, 29)
        weight = x.npu().requires_grad_()
        torch_npu.npu_format_cast(weight, 29).square().sum().backward()
        print("FORMATS", *(int(torch_npu.get_npu_format(each)) for each in (cast, back, held)))
        assert all(torch.equal(each.cpu(), x) for each in (cast, back, held)) and cast.data_ptr() != back.data_ptr()
        assert torch.equal(torch.nn.functional.linear(cast, held).cpu(), torch.nn.functional.linear(x, x))
        assert torch.equal(weight.grad.cpu(), 2 * x)
        torch.npu.config.allow_internal_format = False

        def sparse(device, indices=((1, 0, 1), (0, 1, 0)), values=(1.0, 2.0, 3.0)):
            return torch.sparse_coo_tensor(indices, values, (2, 2), device=device, check_invariants=False)
        rows = torch.arange(6.0).view(3, 2)
        for call in (
            lambda device: sparse(device).coalesce(),
            lambda device: sparse(device, ((), ()), ()).coalesce(),
            lambda device: torch.sparse_coo_tensor(((2, 0, 2),), rows, (3, 2)).to(device).coalesce(),
            lambda device: torch.eye(3, device=device).to_sparse(),
            lambda device: torch.arange(12.0, device=device).view(3, 2, 2).to_sparse(1),
            lambda device: torch.tensor(2.0, device=device).to_sparse(),
        ):
            found, right = call("npu"), call("cpu")
            assert found.is_coalesced() and right.is_coalesced()
            assert torch.equal(found.indices().cpu(), right.indices()), (found, right)
            assert torch.equal(found.values().cpu(), right.values()), (found, right)

        def embedded(device):
            torch.manual_seed(0)
            layer = torch.nn.Embedding(7, 3, sparse=True).to(device)
            optimizer = torch.optim.SGD(layer.parameters(), 0.1)
            for _ in range(2):
                optimizer.zero_grad()
                layer(torch.tensor([1, 2, 1], device=device)).pow(2).sum().backward()
                optimizer.step()
            return layer.weight.detach().cpu()
        print("SPARSE", torch.equal(embedded("npu"), embedded("cpu")))
        print("REFUSED", error(lambda: torch.sparse.mm(sparse("npu").coalesce(), torch.ones(2, 2, device="npu"))))
        print("REFUSED", error(lambda: torch.quantize_per_tensor(x.npu(), 0.1, 0, torch.qint8)))

        profiler = torch_npu.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.NPU]) as profile:
            x.npu().mul(2)
            profile.step()
        print("PROFILED")
    """
    out, _, summary = rehearse(script, tmp_path)
    assert "APART []" in out
    assert "FORMAT True 29 256.0" in out
    assert "FORMATS 29 2 29" in out
    assert "SPARSE True" in out
    refused = [line for line in out.splitlines() if line.startswith("REFUSED")]
    assert refused[0] == "REFUSED CAUTION: The operator 'aten::addmm' is not currently supported on the NPU backend."
    assert refused[1].startswith("REFUSED aten::quantize_per_tensor with a quantised tensor: not rehearsed")
    assert "PROFILED" in out
    events = {(event["kind"], event["subject"]) for event in summary["events"]}  # type: ignore[attr-defined]
    assert {("not-rehearsed", "aten::quantize_per_tensor"), ("not-rehearsed", "aclprofInit")} <= events
    assert ("missing-operator", "aten::addmm (sparse)") in events


@with_wheel
@pytest.mark.parametrize("plugin", ["wheel", "simulated"])
def test_a_program_may_import_the_plugin_before_torch(tmp_path: Path, plugin: str) -> None:
    options = ("--plugin", "simulated") if plugin == "simulated" else ()
    out, _, _ = rehearse("import torch_npu, torch\nprint(torch.ones(2, device='npu').sum().item())", tmp_path, *options)
    assert out.split()[-1] == "2.0"


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_a_fused_optimizer_that_is_composed_equals_the_kernel_of_the_cpu(name: str, amsgrad: bool) -> None:
    def made() -> Any:
        torch.manual_seed(0)
        values = [[torch.rand(3, 2) for _ in range(2)] for _ in range(5)]
        return [*values[:4], values[4] if amsgrad else [], [torch.tensor(3.0) for _ in range(2)]]

    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": amsgrad}
    for maximize, overflow in ((False, 0.0), (True, 0.0), (False, 1.0)):
        more = {"maximize": maximize, "grad_scale": torch.tensor(2.0), "found_inf": torch.tensor(overflow)}
        expected, found = made(), made()
        getattr(torch.ops.aten, name)(*expected, **options, **more)
        COMPOSED_WITHOUT_CPU[name](*found, **options, **more)
        for right, value in zip(expected[:5], found[:5], strict=True):
            torch.testing.assert_close(value, right)


@with_wheel
def test_a_fork_and_more_ranks_than_cards_are_told_by_the_plugin_and_the_driver(tmp_path: Path) -> None:
    script = """
        import os, sys, torch, torch_npu, torch.distributed as dist

        def tell(name, call):
            try:
                call()
                said = "nothing was raised"
            except Exception as reason:
                said = " ".join(str(reason).split())
            os.write(1, f"{name} {os.environ['RANK']} {said}\\n".encode())

        tell("CARD", lambda: torch.npu.set_device(int(os.environ["RANK"])))
        torch.npu.set_device(0)
        torch.ones(2, device="npu")
        if os.fork() == 0:
            tell("FORK", lambda: torch.ones(2, device="npu"))
            os._exit(0)
        os.wait()
        def meet():
            dist.init_process_group("hccl")
            dist.all_reduce(torch.ones(2, device="npu"))
            torch.npu.synchronize()
        tell("RANKS", meet)
        os._exit(0)
    """
    out, err, _ = rehearse(script, tmp_path, "--devices", "1", launcher=two_ranks())
    assert "CARD 0 nothing was raised" in out
    assert "CARD 1" in out
    assert "CARD 1 nothing" not in out
    assert out.count("Cannot re-initialize NPU in forked subprocess") == 2
    assert out.count("RANKS") == 2
    assert "nothing was raised" not in out.replace("CARD 0 nothing was raised", "")
    assert "each rank needs a card of its own" in err


START = """
import sys, types
{before}
import torchferry.rehearsal
torchferry.rehearsal.enable("npu", plugin={plugin!r})
"""


@pytest.mark.parametrize(
    ("before", "variables", "message"),
    [
        ("sys.modules['torch_npu'] = types.ModuleType('torch_npu')", {}, "torch_npu was imported before the rehearsal"),
        (
            "import torch; torch.utils.rename_privateuse1_backend('musa')",
            {},
            "already has a plugin for the device `musa`",
        ),
        ("", {"CXX": "/absent/c++"}, "there is no C++ compiler"),
        ("", {"CC": "/absent/cc"}, "there is no C compiler"),
    ],
    ids=["imported", "another plugin", "no C++ compiler", "no C compiler"],
)
def test_a_process_that_cannot_take_the_plugin_says_why(
    tmp_path: Path, before: str, variables: dict[str, str], message: str
) -> None:
    plugin = str(small_wheel(tmp_path, "import torch; torch.utils.rename_privateuse1_backend('npu')", "2.13.0"))
    if variables:
        variables = {**variables, "TORCHFERRY_CACHE": str(tmp_path / "cache")}  # a library that was built would serve
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(START).format(before=before, plugin=plugin)],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**ENVIRONMENT, **variables},
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr
