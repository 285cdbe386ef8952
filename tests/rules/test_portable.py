"""`--style portable`: what is written is the same for every target, names no vendor, and needs no second look."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.rules.fixture import TARGETS
from torchferry.backends import registry as backends
from torchferry.backends.accelerator import DEVICE_TYPE, AcceleratorTarget
from torchferry.backends.portable import INSTALLED, PortableTarget
from torchferry.migration.plan import Plan, plan
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.base import Options
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

STAYS = {
    "comments and texts": 'print("trained on cuda:0")  # cuda\n',
    "the CPU": 'import torch\n\nx = torch.zeros(1, device="cpu").to("cpu:0")\n',
    "a switch of a CUDA library, which does nothing elsewhere": (
        "import torch\n\ntorch.backends.cudnn.benchmark = True\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
    ),
    "collectives that torch serves on most targets": (
        "import torch.distributed as dist\n\ndist.all_reduce(1)\ndist.barrier()\n"
    ),
    "a pattern, where only a literal can stand": (
        'import torch\n\ndef f(d: torch.device):\n    match d.type:\n        case "cuda":\n            return 1\n'
    ),
    "one of the values of a type, where only literals can stand": (
        "from typing import Literal, Optional\n\nimport torch.distributed as dist\n\n\n"
        'def f(backend: Literal["gloo", "nccl"], place: Optional[Literal["cpu", "cuda"]] = None):\n'
        "    dist.init_process_group(backend)\n"
    ),
    "types of tensors, which have no portable name": "import torch\n\nx = torch.cuda.FloatTensor(3)\n",
    "a variable that CUDA alone reads": 'import os\n\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
    "a branch beside those of another vendor, whichever is the target": (
        "import torch\n\nif torch.cuda.is_available():\n    torch.cuda.empty_cache()\n"
        "elif torch.npu.is_available():\n    torch.npu.empty_cache()\n"
    ),
    "a method of the project's own": "class Timer:\n    def cuda(self):\n        return 1\n\nTimer().cuda()\n",
    "a name that no table knows": "import torch\n\ntorch.cuda._sleep(5)\n",
}
"""Python that is left as it is. What torchferry says of it is another matter."""

REFUSED = {
    "the mode that tells where the host waits": (
        'import torch\n\ntorch.cuda.set_sync_debug_mode("warn")\n',
        "CUD104", "portable code has no counterpart of `torch.cuda.set_sync_debug_mode`",
    ),
    "figures that plugins give under names of their own": (
        "import torch\n\nprint(torch.cuda.utilization())\n", "CUD103",
        "portable code has no counterpart of `torch.cuda.utilization`",
    ),
    "a name of which nobody knows what stands for it": (
        "import torch\n\ntorch.cuda._sleep(5)\n", "CUD106", "portable code has no counterpart of `torch.cuda._sleep`",
    ),
    "a storage that is moved": (
        "import torch\n\nx.untyped_storage().cuda()\n", "DEV103", "a storage has `.cuda()` but not `.to(device)`",
    ),
    "a storage that an object holds": (
        "import torch\n\n\ndef f(batch):\n    return batch.storage.cuda()\n", "DEV103", "a storage has `.cuda()`",
    ),
    "a storage that a function is given": (
        "import torch\n\n\ndef move(st):\n    return st.cuda()\n\n\nmove(torch.ones(1).untyped_storage())\n",
        "DEV103", "a storage has `.cuda()`",
    ),
    "a device in what TorchScript compiles": (
        'import torch\n\n\n@torch.jit.script\ndef f(x):\n    return x.to("cuda")\n',
        "DEV101", "TorchScript cannot compile this call",
    ),
    "the same in a method, where another function compiles the object": (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda()\n\n\n"
        "def main():\n    torch.jit.script(Net())\n",
        "DEV103", "TorchScript cannot compile this call",
    ),
    "a method of tensors that is handed on": (
        "import torch\n\nmoved = map(torch.Tensor.cuda, [x])\n", "DEV103", "the method `cuda` is used as a value",
    ),
    "torch.cuda handed to a function, which may ask it for any name": (
        "import torch\n\nrun(torch.cuda)\n", "CUD107", "it has all portable names",
    ),
    "torch.cuda as an attribute of a class": (
        "import torch\n\n\nclass Backend:\n    module = torch.cuda\n", "CUD107", "it has all portable names",
    ),
}  # fmt: skip
"""Python that is left as it is, since no code for every device does the same, and what is said of it."""

BECOMES = {
    "places for tensors": (
        """
        import torch

        def f(rank, device="cuda"):
            a = torch.zeros(1, device="cuda")
            b = a.to("cuda:1").to(f"cuda:{rank}").to("cuda:%d" % rank)
            c = a.to("cuda:{}".format(rank)).to("cuda:" + str(rank))
            a.cuda(), a.cuda(rank)
            return a.cuda(non_blocking=True), a.to(0)
        """,
        """
        import torch
        import M

        def f(rank, device=None):
            if device is None:
                device = M.device_string()
            a = torch.zeros(1, device=M.device_string())
            b = a.to(M.device_string(1)).to(M.device_string(rank)).to(M.device_string(rank))
            c = a.to(M.device_string(rank)).to(M.device_string(rank))
            a.to(M.this_device()), a.to(M.this_device(rank))
            return a.to(M.this_device(), non_blocking=True), a.to(M.this_device(0))
        """,
    ),
    "f-strings that hold nothing but the device": (
        """
        import torch
        import torch.distributed as dist

        def f(x, backend=f"nccl"):
            dist.init_process_group(backend)
            if x.device.type == f'cuda':
                x.to(f"cuda:0")
            return torch.device(f"cuda")
        """,
        """
        import torch
        import M
        import torch.distributed as dist

        def f(x, backend=None):
            if backend is None:
                backend = M.collective_backend()
            dist.init_process_group(backend)
            if x.device.type == M.ACCELERATOR_TYPE:
                x.to(M.device_string(0))
            return torch.device(M.device_string())
        """,
    ),
    "questions": (
        """
        import torch

        def f(x, device):
            if device.type == "cuda" or device.type in ("cuda", "mps"):
                return {"cuda": 1, "cpu": 2}[device.type]
            if str(device) == "cuda:0" or str(device).startswith("cuda"):
                return not x.is_cuda
            if str(device).startswith("cuda:"):
                return int(str(device).replace("cuda:", ""))
            return x.is_cuda
        """,
        """
        import torch
        import M

        def f(x, device):
            if device.type == M.ACCELERATOR_TYPE or device.type in (M.ACCELERATOR_TYPE, "mps"):
                return {M.ACCELERATOR_TYPE: 1, "cpu": 2}[device.type]
            if str(device) == f"{M.ACCELERATOR_TYPE}:0" or str(device).startswith(M.ACCELERATOR_TYPE):
                return not (x.device.type == M.ACCELERATOR_TYPE)
            if str(device).startswith(f"{M.ACCELERATOR_TYPE}:"):
                return int(str(device).replace("cuda:", "").replace(f"{M.ACCELERATOR_TYPE}:", ""))
            return x.device.type == M.ACCELERATOR_TYPE
        """,
    ),
    "a question whether torch was built for CUDA, which it is not for any other card": (
        """
        import torch

        if torch.backends.cuda.is_built():
            x = torch.ones(2).cuda()
        torch.backends.cuda.matmul.allow_tf32 = True
        """,
        """
        import torch
        import M

        if M.is_available():
            x = torch.ones(2).to(M.this_device())
        torch.backends.cuda.matmul.allow_tf32 = True
        """,
    ),
    "a choice, with what it guards": (
        """
        import torch

        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        if device.type == "cuda":
            torch.cuda.set_device(device)
            torch.cuda.synchronize()
        print(f"{torch.cuda.memory_reserved() / 1e9 if torch.cuda.is_available() else 0:.1f}")
        """,
        """
        import torch
        import M

        device = torch.device(M.device_string(0))
        if device.type == M.ACCELERATOR_TYPE:
            M.set_device(device)
            M.synchronize()
        print(f"{M.memory_reserved() / 1e9 if M.is_available() else 0:.1f}")
        """,
    ),
    "imports": (
        """
        import torch
        import torch.cuda.amp as amp
        from torch import cuda
        from torch.cuda.amp import GradScaler, autocast
        from torch.profiler import ProfilerActivity, profile, record_function

        scaler = GradScaler()
        with autocast(), amp.autocast(), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            cuda.synchronize()
            torch.cuda.random.manual_seed_all(0)
        """,
        """
        import torch
        import M
        from M import amp
        IMPORT cuda
        from M import GradScaler, autocast
        from torch.profiler import record_function
        from M import ProfilerActivity, profile

        scaler = GradScaler()
        with autocast(), amp.autocast(), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.ACCELERATOR]):
            cuda.synchronize()
            M.manual_seed_all(0)
        """,
    ),
    "mixed precision of torch": (
        """
        import torch

        scaler = torch.amp.GradScaler("cuda", enabled=True)
        other = torch.amp.GradScaler()
        with torch.autocast("cuda", dtype=torch.float16), torch.autocast(device_type="cuda"):
            pass
        """,
        """
        import torch
        import M

        scaler = M.scaler_on(M.ACCELERATOR_TYPE, enabled=True)
        other = M.scaler_on(M.ACCELERATOR_TYPE)
        with M.autocast_on(M.ACCELERATOR_TYPE, dtype=torch.float16), M.autocast_on(device_type=M.ACCELERATOR_TYPE):
            pass
        """,
    ),
    "mixed precision that is imported beside other names": (
        """
        import torch
        from torch import nn, autocast

        with autocast("cuda"):
            pass
        """,
        """
        import torch
        import M
        from torch import nn
        from M import autocast_on as autocast

        with autocast(M.ACCELERATOR_TYPE):
            pass
        """,
    ),
    "memory formats, which one of the plugins refuses": (
        """
        import torch
        from torch import nn, channels_last_3d

        class Net(nn.Module):
            def __init__(self, memory_format=torch.channels_last):
                self.memory_format = memory_format

        def f(model, x, args):
            kind = torch.channels_last if args.channels_last else torch.contiguous_format
            return model.to(memory_format=kind), x.contiguous(memory_format=channels_last_3d)
        """,
        """
        import torch
        import M
        from torch import nn
        from M import channels_last_3d

        class Net(nn.Module):
            def __init__(self, memory_format=None):
                if memory_format is None:
                    memory_format = M.channels_last
                self.memory_format = memory_format

        def f(model, x, args):
            kind = M.channels_last if args.channels_last else torch.contiguous_format
            return model.to(memory_format=kind), x.contiguous(memory_format=channels_last_3d)
        """,
    ),
    "torch's own names for every accelerator, which finds no plugin that is not imported": (
        """
        import torch

        if torch.accelerator.is_available():
            device = torch.accelerator.current_accelerator()
            torch.accelerator.set_device_index(0)
            torch.accelerator.synchronize()
            torch.accelerator.memory.empty_cache()
        """,
        """
        import torch
        import M

        if M.is_available():
            device = M.this_device()
            M.set_device(0)
            M.synchronize()
            M.empty_cache()
        """,
    ),
    "collectives": (
        """
        import torch.distributed as dist

        dist.init_process_group("nccl" if dist.is_nccl_available() else "gloo")
        dist.new_group(backend="cpu:gloo,cuda:nccl")
        assert dist.get_backend() == "nccl"
        """,
        """
        import torch.distributed as dist
        import M

        dist.init_process_group(M.collective_backend() if M.is_collective_available() else "gloo")
        dist.new_group(backend=M.composite_backend())
        assert dist.get_backend() == M.collective_backend()
        """,
    ),
    "checkpoints": (
        """
        import torch

        torch.load("a.pt", map_location="cuda:0")
        torch.load("a.pt", map_location=lambda storage, place: storage.cuda(0))
        torch.load("a.pt", lambda storage, place: storage.cuda())
        torch.load("a.pt", map_location="cuda:0" if torch.cuda.is_available() else "cpu")
        """,
        """
        import torch
        import M

        torch.load("a.pt", map_location=M.load_location(0))
        torch.load("a.pt", map_location=M.load_location(0))
        torch.load("a.pt", M.load_location())
        torch.load("a.pt", map_location=M.load_location(0))
        """,
    ),
    "what may be None, or no device": (
        """
        import torch
        from torch.nn.utils.rnn import PackedSequence, pack_sequence

        class Model(torch.nn.Module):
            def cuda(self, device=None):
                self.extra = self.extra.cuda(device)
                return super().cuda(device)

        def f(x, args, device=None, place: torch.device = None):
            y = x.cuda(device=device), x.cuda(device=None)
            y = x.cuda(args.device, True)
            chosen = torch.device("cuda:1") if place else torch.device("cuda", args.index)
            z = x.cuda(chosen), x.cuda(x.device)
            x.storage().cuda(0)
            kind = pack_sequence([x]).is_cuda
            return isinstance(x, PackedSequence) and x.is_cuda
        """,
        """
        import torch
        import M
        from torch.nn.utils.rnn import PackedSequence, pack_sequence

        class Model(torch.nn.Module):
            def cuda(self, device=None):
                self.extra = self.extra.to(M.this_device(device))
                return super().to(M.this_device(device))

        def f(x, args, device=None, place: torch.device = None):
            y = x.to(device=M.this_device(device)), x.to(device=M.this_device())
            y = x.to(M.this_device(args.device), non_blocking=True)
            chosen = torch.device(M.device_string(1)) if place else torch.device(M.device_string(args.index))
            z = x.to(chosen), x.to(x.device)
            x.storage().cuda(0)
            kind = pack_sequence([x]).data.device.type == M.ACCELERATOR_TYPE
            return isinstance(x, PackedSequence) and x.data.device.type == M.ACCELERATOR_TYPE
        """,
    ),
    "the type of a device, where a type is meant": (
        """
        import torch

        kind = "cuda"
        device_type = "cuda"
        place = "cuda"
        scope = torch.autocast(kind), torch.autocast(place), torch.zeros(1, device=place)
        if torch.cuda.is_available():
            args.device_type = "cuda"

        def f(x, device_type="cuda"):
            return g(x, device_type="cuda" if x else "cpu")
        """,
        """
        import torch
        import M

        kind = M.ACCELERATOR_TYPE
        device_type = M.ACCELERATOR_TYPE
        place = M.device_string()
        scope = M.autocast_on(kind), M.autocast_on(place), torch.zeros(1, device=place)
        if M.is_available():
            args.device_type = M.ACCELERATOR_TYPE

        def f(x, device_type=None):
            if device_type is None:
                device_type = M.ACCELERATOR_TYPE
            return g(x, device_type=M.ACCELERATOR_TYPE if x else "cpu")
        """,
    ),
    "defaults that named a device without looking for one": (
        """
        import torch

        class Sampler:
            def __init__(self, n, device=torch.device("cuda"), *, other_device="cuda:1"):
                '''Draw.'''
                self.device = device

            def draw(self, device="cuda" if torch.cuda.is_available() else "cpu", count=torch.cuda.device_count()):
                return [lambda x, device="cuda": x.to(device)]
        """,
        """
        import torch
        import M

        class Sampler:
            def __init__(self, n, device=None, *, other_device=None):
                '''Draw.'''
                if device is None:
                    device = torch.device(M.device_string())
                if other_device is None:
                    other_device = M.device_string(1)
                self.device = device

            def draw(self, device=M.device_string(), count=M.device_count()):
                return [lambda x, device=M.device_string(): x.to(device)]
        """,
    ),
    "a use above the import of torch": (
        """
        import os
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"

        import torch
        torch.ones(1).cuda()
        """,
        """
        import os
        import M
        os.environ[M.visible_devices_variable()] = "1"

        import torch
        torch.ones(1).to(M.this_device())
        """,
    ),
    "the rest": (
        """
        import os
        import torch

        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        torch.cuda.nvtx.range_push("step")
        print(prof.key_averages().table(sort_by="self_cuda_time_total"))
        with torch.random.fork_rng():
            pass
        if torch.is_autocast_enabled() and hasattr(torch.cuda, "memory_stats"):
            print(torch.cuda.memory.memory_stats()["allocated_bytes.all.peak"])
        try:
            pass
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        """,
        """
        import os
        import torch
        import M

        os.environ[M.visible_devices_variable()] = "1"
        M.nvtx.range_push("step")
        print(prof.key_averages().table(sort_by=M.sort_key("self_cuda_time_total")))
        with torch.random.fork_rng(device_type=M.ACCELERATOR_TYPE):
            pass
        if torch.is_autocast_enabled(M.ACCELERATOR_TYPE) and hasattr(M.accelerator_namespace, "memory_stats"):
            print(M.memory_stats()["allocated_bytes.all.peak"])
        try:
            pass
        except M.OutOfMemoryError:
            M.empty_cache()
        """,
    ),
}
"""Input, and what every target gets; `M` is the module with the portable names."""

BECOMES |= {
    "questions for names, which the plugin answers": (
        """
        import torch
        from torch import cuda

        def has(name):
            return hasattr(torch.cuda, name) and hasattr(cuda, "Stream")

        sync = getattr(torch.cuda, "synchronize", None)
        """,
        """
        import torch
        import M
        IMPORT cuda

        def has(name):
            return hasattr(M.accelerator_namespace, name) and hasattr(M.accelerator_namespace, "Stream")

        sync = getattr(M.accelerator_namespace, "synchronize", None)
        """,
    ),
    "torch.cuda under a name of the project's own": (
        """
        import torch

        backend = torch.cuda
        backend.synchronize()
        """,
        """
        import torch
        import M

        backend = M.whole_module
        backend.synchronize()
        """,
    ),
    "objects of no known kind where sequences are packed, which have no `device`": (
        """
        import torch
        from torch.nn.utils.rnn import pack_sequence

        def f(batch, x):
            s = x.untyped_storage()
            if batch.is_cuda or s.is_cuda:
                return [item.is_cuda for item in batch]
        """,
        """
        import torch
        import M
        from torch.nn.utils.rnn import pack_sequence

        def f(batch, x):
            s = x.untyped_storage()
            if batch.data.device.type == M.ACCELERATOR_TYPE or s.device.type == M.ACCELERATOR_TYPE:
                return [(item.data.device.type == M.ACCELERATOR_TYPE) for item in batch]
        """,
    ),
    "what TorchScript compiles: questions, and defaults, which Python evaluates; and what it does not": (
        """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x, device: str = "cuda"):
                return x * 2 if x.is_cuda else x.to(device)

        def batch(x):
            return x.cuda() if x.device.type != "cuda" else x

        def main():
            torch.jit.script(Net().cuda())(batch(torch.ones(1)))
        """,
        """
        import torch
        import M

        class Net(torch.nn.Module):
            def forward(self, x, device: str = M.device_string()):
                return x * 2 if x.device.type == M.ACCELERATOR_TYPE else x.to(device)

        def batch(x):
            return x.to(M.this_device()) if x.device.type != M.ACCELERATOR_TYPE else x

        def main():
            torch.jit.script(Net().to(M.this_device()))(batch(torch.ones(1)))
        """,
    ),
}

MODULES = (INSTALLED, "device_utils", "kit.device_utils")


def migrated(root: Path, target: str, module: str = INSTALLED) -> Plan:
    """Plan the migration of a folder in portable style."""
    choice = backends.choose(target)
    written = PortableTarget(choice.backend, choice.version, module)
    request = Request(root, list_files(root), written, rules(), Options(), Selection(), rewrite=True)
    analysis = analyse(request)
    assert analysis.failures == []
    return plan(root, analysis)


def written(root: Path, source: str, target: str, module: str = INSTALLED) -> str:
    """Return what a Python file becomes."""
    root.mkdir(parents=True)
    (root / "input.py").write_text(source, encoding="utf-8")
    changed = {write.path: write.after.decode() for write in migrated(root, target, module).writes if write.after}
    return changed.get("input.py", source)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("title", STAYS)
def test_what_stays(title: str, target: str, tmp_path: Path) -> None:
    assert written(tmp_path / "project", STAYS[title], target) == STAYS[title]


@pytest.mark.parametrize("title", REFUSED)
def test_what_cannot_be_portable_is_refused_by_name(title: str, tmp_path: Path) -> None:
    source, code, told = REFUSED[title]
    (tmp_path / "input.py").write_text(source, encoding="utf-8")
    planned = migrated(tmp_path, "npu", "device_utils")
    text = next((write.after.decode() for write in planned.writes if write.after), source)
    said = [finding for finding in planned.remaining if finding.code == code]
    kept = {finding.location.line for finding in said}
    assert [source.splitlines()[line - 1] in text for line in kept] == [True]
    assert all(told in finding.message.render("en") for finding in said)
    assert all(finding.grade.value in ("manual", "unsafe") for finding in said)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("title", BECOMES)
def test_what_every_target_gets(title: str, module: str, tmp_path: Path) -> None:
    source, expected = (textwrap.dedent(text).lstrip() for text in BECOMES[title])
    owner, _, name = module.rpartition(".")
    bound, whole = module, f"import {module}"
    if owner == "kit":
        bound, whole = name, f"from {owner} import {name}"
    expected = expected.replace("IMPORT cuda", f"{f'from {owner} import {name}' if owner else whole} as cuda")
    for before, after in (("import M\n", f"{whole}\n"), ("from M ", f"from {module} "), ("M.", f"{bound}.")):
        expected = expected.replace(before, after)
    expected = expected.replace("hasattr(M,", f"hasattr({bound},")
    for target in TARGETS:
        assert written(tmp_path / target, source, target, module) == expected, target


SCRIPT = """
import sys
from pathlib import Path

import torch
from torch.cuda import amp
from torch.cuda.amp import GradScaler, autocast

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
NEXT

def main():
    torch.cuda.synchronize()
"""


def test_a_copy_is_imported_where_the_project_finds_its_modules(tmp_path: Path) -> None:
    script = SCRIPT.replace("NEXT", "\nfrom kit import models\n").lstrip()
    before, _, after = script.partition("from torch.cuda import amp\n")
    after = after.replace("from torch.cuda.amp import GradScaler, autocast\n", "")
    after = after.replace(
        "    sys.path.append(str(ROOT))\n",
        "    sys.path.append(str(ROOT))\n"
        "from kit import device_utils\n"
        "from kit.device_utils import GradScaler, autocast\n"
        "from kit.device_utils import amp\n",
    )
    expected = before + after.replace("torch.cuda.synchronize", "device_utils.synchronize")
    assert written(tmp_path / "copied", script, "npu", "kit.device_utils") == expected
    installed = written(tmp_path / "installed", script, "npu")
    assert "import torch\nimport torchferry.device\nfrom torchferry.device import amp\n" in installed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "device: cuda\n"),
        ("Dockerfile", "FROM nvidia/cuda:12.1.0-runtime\nENV CUDA_VISIBLE_DEVICES=0\n"),
        ("requirements.txt", "torch==2.1.0+cu121\n"),
        ("run.sh", "CUDA_VISIBLE_DEVICES=0 python train.py --device cuda\nnvidia-smi\n"),
    ],
)
def test_what_belongs_to_one_machine_stays(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    planned = migrated(tmp_path, "npu", "device_utils")
    assert planned.writes == []
    assert planned.remaining


def test_no_vendor_is_named(tmp_path: Path) -> None:
    whole = "\n".join(textwrap.dedent(source) for source, _ in BECOMES.values())
    words = {backends.load(name).PLUGIN for name in TARGETS} | {backends.load(name).COLLECTIVE for name in TARGETS}
    words |= {f"torch.{backends.load(name).DEVICE_TYPE}" for name in TARGETS}
    for target in TARGETS:
        text = written(tmp_path / target, whole, target)
        assert not [word for word in words if word in text]


def test_what_stands_above_the_lines_that_find_the_project_is_left(tmp_path: Path) -> None:
    text = "import os\nimport sys\n\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nsys.path.append('..')\n\nimport torch\n"
    (tmp_path / "input.py").write_text(text, encoding="utf-8")
    planned = migrated(tmp_path, "npu", "kit.device_utils")
    assert planned.writes == []
    assert ["move it below them" in finding.message.render("en") for finding in planned.remaining] == [True]
    assert "import device_utils\nos.environ[device_utils" in written(tmp_path / "near", text, "npu", INSTALLED).replace(
        INSTALLED, "device_utils"
    )


BY_TORCH = (
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.cuda().to("cuda:1").to(f"cuda:{rank}")
    if x.is_cuda and device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.set_device(rank)
    model = DistributedDataParallel(model, device_ids=[rank])
    with torch.autocast("cuda"):
        dist.init_process_group("nccl")
    x.cuda(device=index)
    torch.cuda.manual_seed_all(0)
    """,
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    device = torch.device(TYPE if torch.accelerator.is_available() else "cpu")
    model.to(TYPE).to(TYPE + ":1").to(TYPE + ":" + str(rank))
    if x.device.type == TYPE and device.type == TYPE:
        torch.accelerator.synchronize()
        torch.accelerator.set_device_index(rank)
    model = DistributedDataParallel(model, device_ids=[rank])
    with torch.autocast(TYPE):
        dist.init_process_group(DEFAULT(torch.accelerator.current_accelerator() or "cpu"))
    x.cuda(device=index)
    torch.cuda.manual_seed_all(0)
    """,
)


@pytest.mark.parametrize("target", ["npu", "gcu"])
def test_torch_alone(target: str, tmp_path: Path) -> None:
    source, expected = (textwrap.dedent(text).lstrip() for text in BY_TORCH)
    (tmp_path / "input.py").write_text(source, encoding="utf-8")
    choice = backends.choose(target)
    alone = AcceleratorTarget(choice.backend, choice.version)
    assert alone.refusal() is None
    analysis = analyse(Request(tmp_path, list_files(tmp_path), alone, rules(), rewrite=True))
    assert analysis.failures == []
    planned = plan(tmp_path, analysis)
    assert planned.writes[0].after.decode() == expected.replace("TYPE", DEVICE_TYPE).replace(
        "DEFAULT", "torch.distributed.get_default_backend_for_device"
    )
    left = [(finding.location.line, finding.grade.value) for finding in planned.remaining]
    assert (14, "manual") in left
    assert (13, "unsafe") in left


@pytest.mark.parametrize(("target", "left"), [("npu", ["manual"]), ("gcu", [])])
def test_torch_alone_leaves_a_memory_format_that_the_plugin_refuses(
    target: str, left: list[str], tmp_path: Path
) -> None:
    (tmp_path / "input.py").write_text(
        "import torch\n\nx = x.to(memory_format=torch.channels_last)\n", encoding="utf-8"
    )
    choice = backends.choose(target)
    alone = AcceleratorTarget(choice.backend, choice.version)
    planned = plan(tmp_path, analyse(Request(tmp_path, list_files(tmp_path), alone, rules(), rewrite=True)))
    assert list(planned.writes) == []
    found = [finding for finding in planned.remaining if finding.code == "MEM102"]
    assert [finding.grade.value for finding in found] == left
    assert all("refuses `torch.channels_last`" in finding.message.render("en") for finding in found)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("npu@2.5.1", "torch has torch.accelerator from 2.6 on"),
        ("npu@2.6.0", "is not known"),
        ("sdaa", "is not known"),
        ("ptex", "no torch.accelerator"),
    ],
)
def test_torch_alone_is_refused_where_it_would_take_the_cpu(target: str, reason: str) -> None:
    choice = backends.choose(target)
    refused = AcceleratorTarget(choice.backend, choice.version).refusal()
    assert refused is not None
    assert reason in refused.render("en")


def test_torch_alone_says_what_it_has_no_word_for() -> None:
    """What the vendor writes otherwise, and a portable name serves, is not passed over in silence."""
    target = AcceleratorTarget(backends.load("npu"))
    for name in ("torch.channels_last", "torch.distributed.is_nccl_available", "torch.profiler.ProfilerActivity.CUDA"):
        row = target.api(name)
        assert row.status == "missing", name
        assert "`--device-module file` has" in row.note
    assert target.api("torch.backends.cuda.matmul.allow_tf32").status == "same"
