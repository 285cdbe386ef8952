"""Enflame S60 and L600 and their plugin torch_gcu 2.x."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_SOURCE = "github.com/sunnygui-L/torch-gcu@e63ff282355f (copy of EnflameTechnology/torch-gcu 2.10.0)"
_VLLM = "github.com/EnflameTechnology/vllm-gcu@7b5aaca941dd"


class Gcu(Backend):
    """Enflame S60 and later with torch_gcu over TopsRider."""

    NAME = "gcu"
    TITLE = "Enflame S60"
    TITLE_ZH = "燧原 S60"
    ALIASES = ("enflame", "s60")
    PLUGIN = "torch_gcu"
    PIP_NAME = None
    INSTALL = Bilingual(
        "install TopsRider, then the CPU build of torch and the torch_gcu wheel of the same version that lies in the "
        "folder ai_framework/torch_gcu of the unpacked TopsRider",
        "先安装 TopsRider，再安装 CPU 版 torch 与解压目录 ai_framework/torch_gcu 下相同版本的 torch_gcu wheel",
    )
    AUTOLOAD_SINCE = "2.10.0"
    DEFAULT_VERSION = "2.10.0"
    REDIRECTIONS = ("torch_gcu.transfer_to_gcu",)
    DEVICE_TYPE = "gcu"
    DISPATCH_KEY = "PrivateUse1"
    NAMESPACE = "torch.gcu"
    IMPORT_NAMESPACE = "torch_gcu.gcu"
    MOVER = "gcu"
    PREDICATE = "is_gcu"
    INTEGER_DEVICE = True
    DEVICE_GENERATOR = True
    SHARES_TENSORS_SINCE = "2.10.0"
    SHARES_EVENTS_SINCE = "2.10.0"
    DTYPES = {"float64": "narrowed", "int64": "narrowed"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "float64": Bilingual(
            "the card has no 64-bit arithmetic and computes in float32 without a word",
            "该卡没有 64 位浮点运算，会不加提示地按 float32 计算",
        ),
        "int64": Bilingual(
            "held in 32 bits unless TORCH_GCU_ENABLE_INT64_AND_UINT64=true is set",
            "除非设置 TORCH_GCU_ENABLE_INT64_AND_UINT64=true，否则以 32 位存放",
        ),
    }
    COLLECTIVE = "eccl"
    COMPOSITE_COLLECTIVE = True
    TF32_SWITCH = None
    AUTOCAST = True
    PROFILER_ACTIVITY = "torch.profiler.ProfilerActivity.GCU"
    PROFILER_SORT_KEY = "gcu_time"
    EXTENSION_MODULE = "tops_extension.torch"
    EXTENSION_CLASS = "TopsTorchExtension"
    COMPILER = "topscc"
    KERNEL_SUFFIX = ".tops"
    TRITON = "triton_gcu"
    COMPILE_BACKEND = "inductor"
    ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
    DRIVER_MODULE = "enflame"
    SDK_HOME = "/opt/tops"

    SOURCES = {  # noqa: RUF012
        "PLUGIN": f"{_SOURCE}: torch_gcu/__init__.py",
        "PIP_NAME": "absent from PyPI; wheels come with TopsRider",
        "INSTALL": f"{_SOURCE}: manuals/user_guide torch_gcu_user_guide.rst; {_VLLM}: docs/source/installation.md",
        "AUTOLOAD_SINCE": f"{_SOURCE}: setup.py:358; earlier versions were not read",
        "DEFAULT_VERSION": f"{_SOURCE}: version",
        "REDIRECTIONS": "github.com/sunnygui-L/torch-gcu@e63ff282355f torch_gcu/transfer_to_gcu.py",
        "DEVICE_TYPE": f"{_SOURCE}: torch_gcu/__init__.py:79",
        "DISPATCH_KEY": f"{_SOURCE}: torch_gcu/__init__.py:79",
        "NAMESPACE": f"{_SOURCE}: torch_gcu/__init__.py:80",
        "IMPORT_NAMESPACE": f"{_SOURCE}: torch_gcu/gcu/__init__.py",
        "MOVER": f"{_SOURCE}: torch_gcu/__init__.py (generated methods for privateuse1)",
        "PREDICATE": f"{_SOURCE}: torch_gcu/transfer_to_gcu.py:429",
        "INTEGER_DEVICE": "torch 2.13.0+cpu with a backend renamed as torch_gcu does: a number means it",
        "DEVICE_GENERATOR": f"{_SOURCE}: torch_gcu/gcu/random.py",
        "SHARES_TENSORS_SINCE": f"{_SOURCE}: torch_gcu/gcu/reductions.py, storage.py; earlier versions were not read",
        "SHARES_EVENTS_SINCE": f"{_SOURCE}: torch_gcu/gcu/reductions.py; earlier versions were not read",
        "DTYPES": f"{_SOURCE}: README.md",
        "DTYPE_NOTES": f"{_SOURCE}: README.md",
        "COLLECTIVE": f"{_SOURCE}: torch_gcu/__init__.py:96",
        "COMPOSITE_COLLECTIVE": f"{_SOURCE}: torch_gcu/transfer_to_gcu.py rewrites it so",
        "TF32_SWITCH": f"{_SOURCE}: none; only a hint in gcu/profiler/_pattern_matcher.py:310 names one",
        "AUTOCAST": f"{_SOURCE}: torch_gcu/gcu/amp; manuals/user_guide torch_gcu_amp.rst",
        "PROFILER_ACTIVITY": f"{_SOURCE}: torch_gcu/gcu/profiler",
        "PROFILER_SORT_KEY": f"{_SOURCE}: torch_gcu/gcu/profiler (self_gcu_time_total)",
        "EXTENSION_MODULE": f"{_VLLM}: setup.py:35",
        "EXTENSION_CLASS": f"{_VLLM}: setup.py:36, for kernels; C++ alone builds with torch's own CppExtension",
        "COMPILER": f"{_SOURCE}: README.md, /opt/tops/bin/topscc",
        "KERNEL_SUFFIX": f"{_VLLM}: setup.py:289",
        "TRITON": f"{_SOURCE}: torch_gcu/gcu/inductor/backend_register.py:188",
        "COMPILE_BACKEND": f"{_SOURCE}: torch_gcu/gcu/inductor",
        "ATTENTION": f"{_SOURCE}: torch_gcu/csrc/aten/RegisterSPDA.cpp; manuals/oplist_torch_gcu torch_gcu_op.rst:485",
        "DRIVER_MODULE": "github.com/flagos-ai/FlagTree documents/install_enflame_cn.md: /sys/module/enflame",
        "SDK_HOME": f"{_SOURCE}: README.md",
    }
