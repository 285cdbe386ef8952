"""Small CUDA programs that torch compiles, scripts or traces, and questions that torch's own modules ask."""

from __future__ import annotations

from tests.shim.programs import GCU, MUSA, NPU, PTEX, SDAA, Program

BRANCH = """
import torch
class M(torch.nn.Module):
    def forward(self, x):
        y = x * 10 if x.device.type == "cuda" else x * -1
        return y + 1 if y.is_cuda and str(y.device) == "cuda:0" else y - 1
x = torch.ones(2, device="cuda")
"""
"""Takes one way on CUDA and another on the CPU: 11 where every question is answered as on CUDA."""

TRACING = [
    Program(
        "exporting takes the branch of CUDA",
        BRANCH
        + """
for strict in (True, False):
    print(torch.export.export(M(), (x,), strict=strict).module()(x).tolist())
""",
        "[11.0, 11.0]\n[11.0, 11.0]",
    ),
    Program(
        "every way of make_fx takes the branch of CUDA",
        BRANCH
        + """
from torch.fx.experimental.proxy_tensor import make_fx
print([make_fx(M(), tracing_mode=mode)(x)(x).tolist() for mode in ("real", "fake", "symbolic")])
""",
        "[[11.0, 11.0], [11.0, 11.0], [11.0, 11.0]]",
    ),
    Program(
        "a fake tensor shows the device of CUDA",
        """
import torch
from torch._subclasses import FakeTensorMode
with FakeTensorMode() as mode:
    made = torch.empty(2, device="cuda")
    print(made.device, made.is_cuda, (made + 1).device, torch.empty(2).device, made.cpu().device)
print(mode.from_tensor(torch.ones(2, device="cuda")).device, made.device)
""",
        "cuda:0 True cuda:0 cpu cpu\ncuda:0 cuda:0",
        {PTEX: "..."},
    ),
    Program(
        "scripted classes and functions find the names around them",
        """
import torch
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@torch.jit.script
class Scale:
    def __init__(self, factor: int):
        self.factor = factor
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return doubled(x) * self.factor
def inside():
    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1
    @torch.jit.script
    class Local:
        def __init__(self):
            self.one = 1
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return local(x) + self.one
    @torch.jit.script
    def f(x: torch.Tensor) -> torch.Tensor:
        return Local().run(Scale(3)(local(x)))
    return f
print(inside()(torch.ones(2, device="cuda")).tolist())
""",
        "[14.0, 14.0]",
    ),
    Program(
        "a scripted module calls a scripted class and a function of its file",
        """
import torch
from dataclasses import dataclass
@torch.jit.script
@dataclass
class Pair:
    a: int
    b: int
def helper(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.to("cuda") * n
class M(torch.nn.Module):
    def forward(self, x):
        p = Pair(2, 3)
        return helper(x, p.a + p.b)
    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        return helper(x, 1)
m = torch.jit.script(M())
print(m(torch.ones(1)).item(), m.other(torch.ones(1)).device)
@torch.jit.script_if_tracing
def loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.size(0))):
        x = x + torch.ones(1, device="cuda")
    return x
print(torch.jit.trace(loop, torch.ones(2, device="cuda"))(torch.ones(3, device="cuda")).tolist())
""",
        "5.0 cuda:0\n[4.0, 4.0, 4.0]",
    ),
    Program(
        "a scripted function calls others in branches, beside one that raises",
        """
import torch
def inner(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(1, device="cuda")
def helper(x: torch.Tensor) -> torch.Tensor:
    return inner(x) * 2
def pick(t: torch.Tensor, how: str = "x") -> torch.Tensor:
    o = t
    if how == "x":
        o = o + 1
    elif how == "c":
        r = helper(o)
        o = o + r
    else:
        raise NotImplementedError("how")
    return o
scripted = torch.jit.script(pick)
x = torch.ones(2, device="cuda")
print(scripted(x).tolist(), scripted(x, "c").tolist(), torch.jit.script(helper)(x).tolist())
try:
    scripted(x, "other")
except torch.jit.Error:
    print("raised")
""",
        "[2.0, 2.0] [5.0, 5.0] [4.0, 4.0]\nraised",
    ),
]

TRACING += [
    Program(
        "autocast in a script",
        """
import torch
@torch.jit.script
def on_cpu(a: torch.Tensor):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.mm(a, a)
print(on_cpu(torch.ones(2, 2)).dtype)
@torch.jit.script
def on_card(a: torch.Tensor):
    with torch.autocast("cuda", dtype=torch.float16):
        return torch.mm(a, a)
""",
        "...torch.bfloat16\nNotImplementedError: torchferry: TorchScript's own autocast supports only `cpu` and `cuda`",
        {PTEX: "..."},
    ),
    Program(
        "forward-mode derivatives after torch's own functions were scripted",
        """
import torch
@torch.jit.script
def asked(x):
    return x.cuda() if x.is_cuda else x - 1
print(asked(torch.ones(1, device="cuda")).item())
primal, tangent = torch.func.jvp(lambda x: x * x, (torch.ones(2, device="cuda"),), (torch.ones(2, device="cuda"),))
print(primal.tolist(), tangent.tolist(), asked(torch.ones(1)).item())
""",
        "1.0\n[1.0, 1.0] [2.0, 2.0] 0.0",
    ),
    Program(
        "a device context in compiled code",
        """
import torch
@torch.compile(backend="eager")
def f(x):
    with torch.cuda.device(1):
        return x + torch.ones(2, device="cuda:1"), torch.cuda.current_device()
y, inside = f(torch.ones(2, device="cuda:1"))
print(y.tolist(), y.device, inside, torch.cuda.current_device())
""",
        "[2.0, 2.0] cuda:1 1 0",
        {PTEX: "...has no `torch.compile`"},
    ),
]

ASKED = [
    Program(
        "torch's own modules ask about CUDA and hear the truth",
        """
import torch, types
asks = '''
import torch
def ask(question):
    try:
        return question()
    except Exception as error:
        return type(error).__name__
def autocast(device):
    "As torch 2.1 to 2.11 begin every enabled autocast."
    return torch.cuda.amp.common.amp_definitely_not_available() and device == "cuda"
answers = [autocast("cpu"), autocast("cuda"), torch.cuda.get_arch_list(), ask(torch.cuda.get_device_properties),
           ask(torch.cuda.get_device_capability), ask(torch.cuda.cudart), torch.cuda.is_bf16_supported(False),
           hasattr(torch.cuda, "_sleep"), hasattr(torch.cuda, "_set_stream_by_id")]
'''
older = types.ModuleType("torch.amp.older")
exec(asks, older.__dict__)
print(older.answers)
print(torch.cuda.amp.common.amp_definitely_not_available(), torch.cuda.amp.amp_definitely_not_available())
""",
        "[False, False, [], 'AssertionError', 'AssertionError', 'NotImplementedError', False, True, True]\nFalse False",
    ),
    Program(
        "the program is not told what torch says of CUDA",
        """
import torch
for name in ("is_bf16_supported", "get_device_properties", "get_device_name", "get_device_capability", "is_initialized",
             "get_rng_state", "current_stream", "can_device_access_peer", "get_arch_list", "cudart"):
    function = getattr(torch.cuda, name)
    try:
        found = function(0, 1) if name == "can_device_access_peer" else function()
        print(name, "refused" if found is None or found is False else "answered")
    except Exception as error:
        ours = type(error) is NotImplementedError and ("torchferry: " in str(error) or "rehearsed" in str(error))
        print(name, "refused" if ours else error)
""",
        "...is_bf16_supported answered\nget_device_properties answered\nget_device_name answered\n",
        {
            PTEX: "is_bf16_supported refused\nget_device_properties refused\nget_device_name answered\n"
            "get_device_capability refused\nis_initialized refused\nget_rng_state refused\ncurrent_stream refused\n"
            "can_device_access_peer refused\nget_arch_list refused\ncudart refused"
        },
    ),
    Program(
        "a private function that only CUDA can serve is not there",
        """
import torch
print(hasattr(torch.cuda, "_sleep"), hasattr(torch.cuda, "_lazy_init"), hasattr(torch.cuda, "no_such_name"))
torch.cuda._lazy_init()
torch.cuda._sleep(1)
""",
        "...False True False\nAttributeError: torchferry: `torch.cuda._sleep` is a private name",
    ),
    Program(
        "beginning the device by hand",
        """
import torch
torch.cuda.init()
torch.cuda.init()
print("begun")
""",
        "begun",
        {PTEX: "begun\nwarning at line 3"},
    ),
    Program(
        "what is switched off need not be there",
        """
import torch
for off in (False,):
    with torch.autograd.profiler.emit_nvtx(enabled=off), torch.autograd.profiler.emit_nvtx(off):
        print(torch.ones(1, device="cuda").item())
with torch.autograd.profiler.emit_nvtx():
    pass
""",
        "...1.0\nNotImplementedError: torchferry: ",
        dict.fromkeys((NPU, MUSA, GCU, PTEX), "...has no `torch.autograd.profiler.emit_nvtx`") | {SDAA: "..."},
    ),
]

KERNELS = [
    Program(
        "what inductor would compile for the card runs operator by operator here",
        """
import torch
print(torch.compile(lambda x: x.to("cuda") * 2)(torch.ones(2)).tolist())
""",
        "[2.0, 2.0]",
        {PTEX: "...has no `torch.compile`"},
    ),
    Program(
        "extensions with CUDA sources say what they need",
        """
from torch.utils import cpp_extension
calls = {
    "load": lambda: cpp_extension.load("mine", ["mine.cpp", "mine_kernel.cu"]),
    "one source": lambda: cpp_extension.load(name="mine", sources="mine_kernel.cu"),
    "load_inline": lambda: cpp_extension.load_inline("mine", "", "__global__ void f() {}"),
    "CUDAExtension": lambda: cpp_extension.CUDAExtension("mine", ["mine.cpp", "mine_kernel.cu"]),
}
for name, call in calls.items():
    try:
        call()
    except NotImplementedError as error:
        text = str(error)
        sources = ("mine_kernel.cu", "cuda_sources")[name == "load_inline"]
        print(name, text.startswith("torchferry: the extension `mine` has CUDA sources"), sources in text)
        print("port" in text, "CUDA_HOME" in text)
""",
        "\n".join(f"{name} True True\nTrue False" for name in ("load", "one source", "load_inline", "CUDAExtension")),
    ),
    Program(
        "a build that looks for the CUDA toolkit says that there is none",
        """
from torch.utils import cpp_extension
cpp_extension.CUDA_HOME = None
cpp_extension._join_cuda_home("bin", "nvcc")
""",
        "...NotImplementedError: torchferry: the build of an extension needs the CUDA toolkit, which ",
    ),
]

ALL = [*TRACING, *ASKED, *KERNELS]
