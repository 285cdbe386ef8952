"""Tecorigin and its plugin torch_sdaa. Its source is closed: facts come from public use and documents."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_ZOO = "github.com/Tecorigin/teco-modelzoo@1356719059d0"
_DEEPSPEED = "github.com/deepspeedai/DeepSpeed@edaa72212672 accelerator/sdaa_accelerator.py"
_SURVEY = "public survey quoting docs.tecorigin.com, TecoPyTorch 3.2.0"
_BOLTZ = "Boltz-2 on SDAA adaptation report (torch_sdaa 3.2.0, torch 2.7.1)"
_DIFFDOCK = "DiffDock on SDAA adaptation report (torch_sdaa 3.2.1, torch 2.12.0)"
_ACCELERATE = "github.com/huggingface/accelerate@16cb6eb80dd9"
_OPS = "github.com/Tecorigin/teco-ops@c58369950e39"
_EXAMPLES = "github.com/Tecorigin/modelzoo PyTorch/contrib"


class Sdaa(Backend):
    """Tecorigin cards, of which each shows up as four devices, with torch_sdaa."""

    NAME = "sdaa"
    TITLE = "Tecorigin"
    TITLE_ZH = "太初元碁"
    ALIASES = ("tecorigin", "teco")
    PLUGIN = "torch_sdaa"
    PIP_NAME = None
    INSTALL = Bilingual(
        "use the vendor's image pytorch:VERSION-torch_sdaaVERSION from jfrog.tecorigin.net, and run "
        "`source /opt/tecoai/setvars.sh` in it; the host's driver must match the toolkit in the image",
        "使用 jfrog.tecorigin.net 上的厂商镜像 pytorch:版本-torch_sdaa版本，在其中执行 "
        "`source /opt/tecoai/setvars.sh`；宿主机驱动必须与镜像中的工具包版本匹配",
    )
    REDIRECTIONS = ("torch_sdaa.utils.cuda_migrate",)
    DEVICE_TYPE = "sdaa"
    NAMESPACE = "torch.sdaa"
    IMPORT_NAMESPACE = "torch.sdaa"
    MOVER = "sdaa"
    PREDICATE = "is_sdaa"
    DTYPES = {"bfloat16": "emulated", "float32": "limited"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "bfloat16": Bilingual(
            "the matrix unit computes in float16, and inputs beyond ±65407 are clipped (TORCH_SDAA_BF16_CLIP)",
            "矩阵单元以 float16 计算，超出 ±65407 的输入会被截断（TORCH_SDAA_BF16_CLIP）",
        ),
        "float32": Bilingual(
            "convolutions compute in float16 inside unless TORCH_SDAA_CONV_USE_FP32=1 is set",
            "除非设置 TORCH_SDAA_CONV_USE_FP32=1，卷积内部按 float16 计算",
        ),
    }
    COLLECTIVE = "tccl"
    TF32_SWITCH = None
    AUTOCAST = True
    PROFILER_ACTIVITY = "torch.profiler.ProfilerActivity.SDAA"
    PROFILER_SORT_KEY = "device_time"
    EXTENSION_MODULE = "torch_sdaa.utils.cpp_extension"
    EXTENSION_CLASS = "TecoExtension"
    COMPILER = "tecocc"
    KERNEL_SUFFIX = ".scpp"
    TRITON = None
    COMPILE_BACKEND = "teco_inductor"
    DRIVER_MODULE = "aicard"
    SDK_HOME = "/opt/tecoai"

    SOURCES = {  # noqa: RUF012
        "PLUGIN": f"{_ZOO}; {_ACCELERATE}: src/accelerate/state.py",
        "PIP_NAME": "absent from PyPI; images on the vendor's registry",
        "INSTALL": f"{_EXAMPLES} READMEs; {_ZOO}: PyTorch/doc adaptation guide",
        "REDIRECTIONS": "github.com/Tecorigin/modelzoo PyTorch: from torch_sdaa.utils import cuda_migrate",
        "DEVICE_TYPE": _DEEPSPEED,
        "NAMESPACE": _DEEPSPEED,
        "IMPORT_NAMESPACE": f"{_EXAMPLES}: `from torch.sdaa import amp`; {_DEEPSPEED}: `import torch.sdaa`; the plugin "
        "must be loaded first, and the module's real home is not public",
        "MOVER": f"{_ACCELERATE}: src/accelerate/big_modeling.py:482 (modules); {_EXAMPLES} (tensors)",
        "PREDICATE": "used as a property in public code that runs on SDAA; Tensor.is_cuda is False there",
        "DTYPES": _SURVEY,
        "DTYPE_NOTES": _SURVEY,
        "COLLECTIVE": f"{_ZOO}: PyTorch/contrib/Classification/ResNet/main.py:840",
        "TF32_SWITCH": f"{_SURVEY}: precision is set by TORCH_SDAA_*_HIGHPREC variables",
        "AUTOCAST": f'{_BOLTZ}: torch.autocast("sdaa") works, torch.autocast("cuda") is silently disabled',
        "PROFILER_ACTIVITY": f"{_ZOO}: tools.py:43",
        "PROFILER_SORT_KEY": f"{_ZOO}: self_device_time_total",
        "EXTENSION_MODULE": f"{_OPS}: setup.py:134",
        "EXTENSION_CLASS": f"{_OPS}: setup.py:134",
        "COMPILER": f"{_OPS}: teco/CMakeLists.txt:3",
        "KERNEL_SUFFIX": f"{_OPS}: SDAAC_examples",
        "TRITON": f"{_DEEPSPEED}: is_triton_supported is False",
        "COMPILE_BACKEND": _SURVEY,
        "DRIVER_MODULE": "public installation notes of driver 3.2.1 on loongarch64 (2026): rmmod aicard",
        "SDK_HOME": f"{_ZOO}: adaptation guide",
    }
