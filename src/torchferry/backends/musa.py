"""Moore Threads and its plugin torch_musa."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_SOURCE = "github.com/MooreThreads/torch_musa@8b583b3f2fd0 (2.7.1)"
_SDK = "docs.mthreads.com, MUSA SDK 5.2.0 installation guide"


class Musa(Backend):
    """Moore Threads S80, S4000, S5000 with torch_musa over the MUSA SDK."""

    NAME = "musa"
    TITLE = "Moore Threads"
    TITLE_ZH = "摩尔线程"
    ALIASES = ("mthreads", "moorethreads")
    PLUGIN = "torch_musa"
    PIP_NAME = None
    INSTALL = Bilingual(
        "install the MUSA SDK, then torch and torch_musa of the same version from the vendor's package index "
        "(dl.mthreads.com); the plugin needs the vendor's own build of torch",
        "先安装 MUSA SDK，再从厂商软件源（dl.mthreads.com）安装版本相同的 torch 与 torch_musa；"
        "插件需要厂商自己构建的 torch",
    )
    AUTOLOAD_SINCE = "2.1.0"
    DEFAULT_VERSION = "2.7.1"
    REDIRECTIONS = ("torchada",)
    DEVICE_TYPE = "musa"
    DISPATCH_KEY = "PrivateUse1"
    NAMESPACE = "torch.musa"
    IMPORT_NAMESPACE = "torch_musa"
    MOVER = "musa"
    PREDICATE = "is_musa"
    DEVICE_GENERATOR = True
    SHARES_TENSORS_SINCE = "1.2.1"
    SHARES_EVENTS_SINCE = "1.2.1"
    DTYPES = {"float64": "limited", "bfloat16": "limited"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "float64": Bilingual(
            "S80-class cards have no 64-bit arithmetic; TORCH_USE_MUSA_DOUBLE_CAST computes in float32",
            "S80 一类的卡没有 64 位浮点运算，设置 TORCH_USE_MUSA_DOUBLE_CAST 后按 float32 计算",
        ),
        "bfloat16": Bilingual(
            "needs a card of capability 2.2 or above (S4000 and later); ask torch.musa.is_bf16_supported()",
            "需要计算能力 2.2 及以上的卡（S4000 及以后）；可用 torch.musa.is_bf16_supported() 查询",
        ),
    }
    COLLECTIVE = "mccl"
    COMPOSITE_COLLECTIVE = True
    TF32_SWITCH = "torch.backends.mudnn.allow_tf32"
    AUTOCAST = True
    PROFILER_ACTIVITY = "torch.profiler.ProfilerActivity.MUSA"
    PROFILER_SORT_KEY = "device_time"
    EXTENSION_MODULE = "torch_musa.utils.musa_extension"
    EXTENSION_CLASS = "MUSAExtension"
    COMPILER = "mcc"
    KERNEL_SUFFIX = ".mu"
    TRITON = "triton (the vendor's build)"
    COMPILE_BACKEND = "inductor, musagraphs"
    ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
    DRIVER_MODULE = "mtgpu"
    SDK_HOME = "/usr/local/musa"

    SOURCES = {  # noqa: RUF012
        "PLUGIN": f"{_SOURCE}: torch_musa/__init__.py",
        "PIP_NAME": "absent from PyPI; https://dl.mthreads.com/repo/api/pypi/pypi/simple",
        "INSTALL": _SDK,
        "AUTOLOAD_SINCE": "torch_musa setup.py:241, tags v2.1.0 to v2.7.1; none in v2.0.0, v2.0.1",
        "DEFAULT_VERSION": f"{_SOURCE}: version.txt",
        "REDIRECTIONS": "torchada 0.1.103 wheel (PyPI)",
        "DEVICE_TYPE": f"{_SOURCE}: torch_musa/__init__.py:43",
        "DISPATCH_KEY": f"{_SOURCE}: torch_musa/__init__.py:43",
        "NAMESPACE": f"{_SOURCE}: torch_musa/__init__.py",
        "IMPORT_NAMESPACE": f"{_SOURCE}: torch.musa is the package torch_musa (torch_musa/__init__.py)",
        "MOVER": f"{_SOURCE}: torch_musa/core/tensor_attrs.py",
        "PREDICATE": f"{_SOURCE}: torch_musa/core/tensor_attrs.py:47",
        "DEVICE_GENERATOR": f"{_SOURCE}: torch_musa/core/random.py, csrc/core/Module.cpp:578",
        "SHARES_TENSORS_SINCE": "torch_musa tags v1.2.1 to v2.7.1: csrc/core/StorageSharing.cpp, torch_patches",
        "SHARES_EVENTS_SINCE": (
            "torch_musa tags v1.2.1 to v2.7.1: torch_musa/core/reductions.py; its own tests of them are skipped"
        ),
        "DTYPES": f"{_SOURCE}: README.md:43, torch_musa/core/device.py:193",
        "DTYPE_NOTES": f"{_SOURCE}: README.md:43, torch_musa/core/device.py:193",
        "COLLECTIVE": f"{_SOURCE}: README.md:66 (not on S80 and S3000: README.md:118)",
        "COMPOSITE_COLLECTIVE": f"{_SOURCE}: torch_musa/distributed",
        "TF32_SWITCH": f"{_SOURCE}: README.md:50",
        "AUTOCAST": f"{_SOURCE}: torch_musa/core/amp",
        "PROFILER_ACTIVITY": f"{_SOURCE}: torch_musa/__init__.py:51",
        "PROFILER_SORT_KEY": f"{_SOURCE}: tests/unittest/profiler/test_profiler.py:1157",
        "EXTENSION_MODULE": f"{_SOURCE}: torch_musa/utils/musa_extension.py",
        "EXTENSION_CLASS": f"{_SOURCE}: torch_musa/utils/musa_extension.py",
        "COMPILER": f"{_SOURCE}: torch_musa/utils/musa_extension.py",
        "KERNEL_SUFFIX": f"{_SOURCE}: torch_musa/csrc",
        "TRITON": f"{_SOURCE}: README.md; {_SDK}",
        "COMPILE_BACKEND": f"{_SOURCE}: torch_musa/_inductor, _dynamo/backend/musagraphs.py:284",
        "ATTENTION": f"{_SOURCE}: csrc/aten/ops/attention/mudnn/SDPUtils.h:93 (capability 2.2 and above)",
        "DRIVER_MODULE": _SDK,
        "SDK_HOME": _SDK,
    }
