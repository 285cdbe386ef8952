"""What one file of a package does about its device."""

from __future__ import annotations

import pytest

from torchferry.installed.model import PlaceNeed
from torchferry.installed.places import places
from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText

WORDS = ("npu", "torch_npu")


def found(text: str) -> list[tuple[PlaceNeed, str, str]]:
    file = PythonFile("pkg/mod.py", SourceText("import torch\n" + text))
    return sorted((item.need, item.what, item.parameter) for item in places(file, WORDS))


NOTHING = {
    "the device that is given": "def f(x, device):\n    return x.to(device)\n",
    "a question of the tensor": "def f(x, y):\n    if x.is_cuda:\n        y = y.cuda()\n    return y\n",
    "a question of the device": "def f(x, d):\n    if d.type == 'cuda':\n        x = x.to('cuda')\n    return x\n",
    "harmless names": "def f():\n    torch.cuda.empty_cache()\n    torch.cuda.manual_seed(0)\n",
    "guarded calls": "def f():\n    if torch.cuda.is_available():\n        torch.cuda.synchronize()\n",
    "left before": "def f(x):\n    if not x.is_cuda:\n        return x\n    torch.cuda.synchronize()\n",
    "its own method": "class M:\n    def cuda(self):\n        self.x = self.x.cuda()\n",
    "named for CUDA": "class CUDAThing:\n    def go(self, x):\n        return x.cuda()\n",
    "the program part": "if __name__ == '__main__':\n    x = torch.ones(1).cuda()\n",
    "switched off": "def f():\n    with torch.autocast('cuda', enabled=False):\n        pass\n",
    "a text": "def f():\n    '''cuda'''\n    print('cuda')\n",
    "a branch beside the target's": (
        "def f():\n    if torch.npu.is_available():\n        return 'npu'\n"
        "    device = 'cuda' if torch.cuda.is_available() else 'cpu'\n    return device\n"
    ),
    "kernel with a plain path": "def f(x):\n    if x.is_cuda:\n        return fast(x)\n    return x\n",
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_what_follows_the_device_is_nothing(text: str) -> None:
    assert [row for row in found(text) if row[0] is not PlaceNeed.TARGET] == []


SOMETHING: dict[str, tuple[str, tuple[PlaceNeed, str, str]]] = {
    "default": ("def f(device='cuda'):\n    pass\n", (PlaceNeed.DEFAULT, '"cuda"', "device")),
    "default of a keyword": ("def f(*, device='cuda:0'):\n    pass\n", (PlaceNeed.DEFAULT, '"cuda:0"', "device")),
    "default of a device": (
        "def f(device=torch.device('cuda')):\n    pass\n",
        (PlaceNeed.DEFAULT, '"cuda"', "device"),
    ),
    "field": ("class C:\n    device: str = 'cuda'\n", (PlaceNeed.DEFAULT, '"cuda"', "device")),
    "or": ("def f(device=None):\n    return g(device or 'cuda')\n", (PlaceNeed.DEFAULT, '"cuda"', "device")),
    "option": (
        "def f(p):\n    p.add_argument('--device', default='cuda')\n",
        (PlaceNeed.DEFAULT, '"cuda"', "--device"),
    ),
    "method": ("def f(x):\n    return x.cuda()\n", (PlaceNeed.CALL, ".cuda()", "")),
    "to": ("def f(x):\n    return x.to('cuda')\n", (PlaceNeed.CALL, 'to("cuda")', "")),
    "rank": ("def f(x, r):\n    return x.to(f'cuda:{r}')\n", (PlaceNeed.CALL, 'to("cuda:")', "")),
    "keyword": ("def f():\n    return torch.ones(1, device='cuda')\n", (PlaceNeed.CALL, 'ones(device="cuda")', "")),
    "namespace": ("def f():\n    torch.cuda.synchronize()\n", (PlaceNeed.CALL, "torch.cuda.synchronize", "")),
    "import": (
        "p = torch.cuda.get_device_properties(0)\n",
        (PlaceNeed.IMPORT, "torch.cuda.get_device_properties", ""),
    ),
    "assert": ("def f(x):\n    assert x.is_cuda\n", (PlaceNeed.QUESTION, ".is_cuda", "")),
    "raise": ("def f(x):\n    if not x.is_cuda:\n        raise ValueError\n", (PlaceNeed.QUESTION, ".is_cuda", "")),
    "else raise": (
        "def f(x):\n    if x.is_cuda:\n        return k(x)\n    else:\n        raise ValueError\n",
        (PlaceNeed.QUESTION, ".is_cuda", ""),
    ),
    "nccl": (
        "def f(d):\n    d.init_process_group('nccl')\n",
        (PlaceNeed.COLLECTIVE, 'init_process_group("nccl")', ""),
    ),
    "choice": (
        "def f(device=None):\n    if device is None:\n"
        "        device = 'cuda' if torch.cuda.is_available() else 'cpu'\n    return device\n",
        (PlaceNeed.CHOICE, '"cuda"', "device"),
    ),
    "choice beside another card": (
        "d: str = 'mps' if torch.backends.mps.is_available() else 'cuda' if torch.cuda.is_available() else 'cpu'\n",
        (PlaceNeed.CHOICE, '"cuda"', ""),
    ),
    "switch": (
        "def f(x, use_gpu):\n    if use_gpu:\n        x = x.cuda()\n    return x\n",
        (PlaceNeed.CHOICE, ".cuda()", ""),
    ),
    "kernel": ("import triton\n@triton.jit\ndef k(x):\n    pass\n", (PlaceNeed.TRITON, "k", "")),
    "kernel below autotune": (
        "from triton import jit, autotune\n@autotune([], key=[])\n@jit\ndef k(x):\n    pass\n",
        (PlaceNeed.TRITON, "k", ""),
    ),
    "built when used": (
        "from torch.utils.cpp_extension import load\ndef f():\n    return load('n', ['a.cu'])\n",
        (PlaceNeed.SOURCE, "cpp_extension.load", ""),
    ),
    "plugin": ("try:\n    import torch_npu\nexcept ImportError:\n    pass\n", (PlaceNeed.TARGET, "torch_npu", "")),
    "accelerator": ("d = torch.accelerator.current_accelerator()\n", (PlaceNeed.TARGET, "torch.accelerator", "")),
}


@pytest.mark.parametrize(("text", "expected"), SOMETHING.values(), ids=SOMETHING)
def test_what_chooses_is_told_with_what_a_caller_can_do(text: str, expected: tuple[PlaceNeed, str, str]) -> None:
    assert expected in found(text)


def test_kernels_of_a_module_that_copes_without_triton_are_optional() -> None:
    text = "try:\n    import triton\nexcept ImportError:\n    pass\nif a:\n    @triton.jit\n    def k(x): pass\n"
    file = PythonFile("pkg/mod.py", SourceText(text))
    assert [item.optional for item in places(file, WORDS) if item.need is PlaceNeed.TRITON] == [True]


def test_a_function_of_thousands_of_conditions_is_read_in_one_go() -> None:
    body = "".join(f"    if x.is_cuda:\n        y{number} = x.cuda()\n" for number in range(3000))
    assert found(f"def f(x):\n{body}") == []


SAVED = {
    "a list": ("s['a'] = torch.xpu.get_rng_state_all()\n    if a: torch.cuda.get_rng_state_all()", "cuda, xpu"),
    "a submodule": ("s['a'] = torch.cuda.random.get_rng_state()", "cuda"),
    "a conditional": ("s['a'] = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []", "cuda"),
    "the target is in it": ("s['a'] = torch.npu.get_rng_state_all(); s['b'] = torch.cuda.get_rng_state_all()", ""),
    "any device": ("s['a'] = torch.cuda.get_rng_state(); s['b'] = getattr(torch, kind).get_rng_state_all()", ""),
    "a loop": ("for k in ('cuda', 'xpu'): s[k] = getattr(torch, k).get_rng_state_all()", "cuda, xpu"),
    "a comprehension": ("s |= {k: getattr(torch, k).get_rng_state() for k in ['cuda']}", "cuda"),
    "a loop with the target": ("for k in ('cuda', 'npu'): s[k] = getattr(torch, k).get_rng_state_all()", ""),
    "a list of the module": ("for k in DEVICES: s[k] = getattr(torch, k).get_rng_state_all()", "cuda, musa"),
    "a list that grows": ("for k in GROWN: s[k] = getattr(torch, k).get_rng_state_all()", ""),
    "a list that nobody knows": ("for k in devices(): s[k] = getattr(torch, k).get_rng_state_all()", ""),
    "a module of any device": ("torch.get_device_module(kind).get_rng_state(); torch.cuda.get_rng_state()", ""),
    "the CPU alone": ("pass", ""),
}  # fmt: skip


@pytest.mark.parametrize(("more", "devices"), SAVED.values(), ids=SAVED)
def test_lists_of_devices_whose_generators_are_kept(more: str, devices: str) -> None:
    text = (
        "import torch\nDEVICES = ('cuda', 'musa')\nGROWN = ['cuda']\nGROWN.append(own())\n"
        f"def save(kind):\n    s = {{}}\n    s['cpu'] = torch.get_rng_state()\n    {more}\n    return s\n"
    )
    assert [what for need, what, _ in found(text) if need is PlaceNeed.GENERATORS] == [devices][: bool(devices)]


def test_a_function_that_keeps_no_state_of_the_cpu_is_no_list_of_devices() -> None:
    text = "import torch\ndef tracker():\n    return torch.cuda.get_rng_state()\n"
    assert PlaceNeed.GENERATORS not in [need for need, _, _ in found(text)]
