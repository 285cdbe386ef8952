"""Tecorigin and its plugin torch_sdaa. Its source is closed: facts come from public use and documents."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_ZOO = "github.com/Tecorigin/teco-modelzoo@1356719059d0"
_DEEPSPEED = "github.com/deepspeedai/DeepSpeed@edaa72212672 accelerator/sdaa_accelerator.py"
_SURVEY = "public survey quoting docs.tecorigin.com, TecoPyTorch 3.2.0"
_BOLTZ = "Boltz-2 on SDAA adaptation report (torch_sdaa 3.2.0, torch 2.7.1)"


class Sdaa(Backend):
    """Tecorigin cards, of which each shows up as four devices, with torch_sdaa."""

    NAME = "sdaa"
    TITLE = "Tecorigin"
    TITLE_ZH = "太初元碁"
    ALIASES = ("tecorigin", "teco")
    PLUGIN = "torch_sdaa"
    PIP_NAME = None
    INSTALL = Bilingual(
        "use the vendor's image torch_sdaa:VERSION; the host's driver must match the toolkit in it",
        "使用厂商镜像 torch_sdaa:VERSION；宿主机驱动必须与镜像中的工具包版本匹配",
    )
    DEVICE_TYPE = "sdaa"
    NAMESPACE = "torch.sdaa"
    IMPORT_NAMESPACE = "torch_sdaa.sdaa"
    PREDICATE = "is_sdaa"
    DTYPES = {"bfloat16": "emulated"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "bfloat16": Bilingual(
            "the matrix unit computes in float16, and inputs beyond ±65407 are clipped (TORCH_SDAA_BF16_CLIP)",
            "矩阵单元以 float16 计算，超出 ±65407 的输入会被截断（TORCH_SDAA_BF16_CLIP）",
        )
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
    VISIBLE_DEVICES = "SDAA_VISIBLE_DEVICES"
    CONTAINER_VISIBLE_DEVICES = "TECO_VISIBLE_DEVICES"
    SMI = "teco-smi"
    DEVICE_NODES = "/dev/tcaicard*"
    SDK_HOME = "/opt/tecoai"
    DEVICES_PER_CARD = 4

    SOURCES = {  # noqa: RUF012
        "PLUGIN": f"{_ZOO}; github.com/huggingface/accelerate@16cb6eb80dd9 src/accelerate/state.py",
        "PIP_NAME": "absent from PyPI; images on the vendor's registry",
        "INSTALL": "SDAA container notes citing the torch_sdaa 3.3.0 manual",
        "DEVICE_TYPE": _DEEPSPEED,
        "NAMESPACE": _DEEPSPEED,
        "IMPORT_NAMESPACE": "by analogy with torch_sdaa.core in teco-modelzoo; only used where the source has "
        "`from torch.cuda import ...`",
        "PREDICATE": "used as a property in public code that runs on SDAA",
        "DTYPES": _SURVEY,
        "DTYPE_NOTES": _SURVEY,
        "COLLECTIVE": f"{_ZOO}: PyTorch/contrib/Classification/ResNet/main.py:840",
        "TF32_SWITCH": f"{_SURVEY}: precision is set by TORCH_SDAA_*_HIGHPREC variables",
        "AUTOCAST": f'{_BOLTZ}: torch.autocast("sdaa") works, torch.autocast("cuda") is silently disabled',
        "PROFILER_ACTIVITY": f"{_ZOO}: tools.py:43",
        "PROFILER_SORT_KEY": f"{_ZOO}: self_device_time_total",
        "EXTENSION_MODULE": "github.com/Tecorigin/teco-ops",
        "EXTENSION_CLASS": "github.com/Tecorigin/teco-ops",
        "COMPILER": "github.com/Tecorigin/teco-ops",
        "KERNEL_SUFFIX": "github.com/Tecorigin/teco-ops",
        "TRITON": f"{_DEEPSPEED}: is_triton_supported is False",
        "COMPILE_BACKEND": _SURVEY,
        "VISIBLE_DEVICES": f"{_DEEPSPEED}:302",
        "CONTAINER_VISIBLE_DEVICES": "SDAA container notes citing the torch_sdaa 3.3.0 manual",
        "SMI": _ZOO,
        "DEVICE_NODES": "SDAA container notes citing the torch_sdaa 3.3.0 manual",
        "SDK_HOME": f"{_ZOO}: adaptation guide",
        "DEVICES_PER_CARD": f"{_ZOO}; {_SURVEY}: 65,536 MB a card, four devices of 15,296 to 16,384 MB",
    }
