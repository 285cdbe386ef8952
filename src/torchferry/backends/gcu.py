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
    CARDS = ("S60", "L600")
    PLUGIN = "torch_gcu"
    PIP_NAME = None
    INSTALL = Bilingual(
        "install TopsRider, then the torch_gcu wheel that it carries and the CPU build of torch of the same version",
        "先安装 TopsRider，再安装其附带的 torch_gcu wheel 和相同版本的 CPU 版 torch",
    )
    AUTOLOAD_SINCE = "2.10.0"
    DEFAULT_VERSION = "2.10.0"
    DEVICE_TYPE = "gcu"
    NAMESPACE = "torch.gcu"
    IMPORT_NAMESPACE = "torch_gcu.gcu"
    MOVER = "gcu"
    PREDICATE = "is_gcu"
    DEVICE_GENERATOR = True
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
    AUTOCAST = True
    PROFILER_ACTIVITY = "torch.profiler.ProfilerActivity.GCU"
    PROFILER_SORT_KEY = "gcu_time"
    COMPILER = "topscc"
    TRITON = "triton_gcu"
    COMPILE_BACKEND = "inductor"
    VISIBLE_DEVICES = "TOPS_VISIBLE_DEVICES"
    CONTAINER_VISIBLE_DEVICES = "ENFLAME_VISIBLE_DEVICES"
    SMI = "efsmi"
    DEVICE_NODES = "/dev/gcu*"
    SDK_HOME = "/opt/tops"
    CARD_MEMORY = {"S60": 49120}  # noqa: RUF012
    DEVICES_PER_CARD = 1

    SOURCES = {  # noqa: RUF012
        "CARDS": f"{_SOURCE}: README.md (S60), csrc/gcu/gcu_hardware.cpp (L600)",
        "PLUGIN": f"{_SOURCE}: torch_gcu/__init__.py",
        "PIP_NAME": "absent from PyPI; wheels come with TopsRider",
        "INSTALL": f"{_SOURCE}: README.md",
        "AUTOLOAD_SINCE": f"{_SOURCE}: setup.py:358; earlier versions were not read",
        "DEFAULT_VERSION": f"{_SOURCE}: version",
        "DEVICE_TYPE": f"{_SOURCE}: torch_gcu/__init__.py:79",
        "NAMESPACE": f"{_SOURCE}: torch_gcu/__init__.py:80",
        "IMPORT_NAMESPACE": f"{_SOURCE}: torch_gcu/gcu/__init__.py",
        "MOVER": f"{_SOURCE}: torch_gcu/__init__.py (generated methods for privateuse1)",
        "PREDICATE": f"{_SOURCE}: torch_gcu/transfer_to_gcu.py:429",
        "DEVICE_GENERATOR": f"{_SOURCE}: torch_gcu/gcu/random.py",
        "DTYPES": f"{_SOURCE}: README.md",
        "DTYPE_NOTES": f"{_SOURCE}: README.md",
        "COLLECTIVE": f"{_SOURCE}: torch_gcu/__init__.py:96",
        "COMPOSITE_COLLECTIVE": f"{_SOURCE}: torch_gcu/transfer_to_gcu.py rewrites it so",
        "AUTOCAST": f"{_SOURCE}: torch_gcu/gcu/amp",
        "PROFILER_ACTIVITY": f"{_SOURCE}: torch_gcu/gcu/profiler",
        "PROFILER_SORT_KEY": f"{_SOURCE}: torch_gcu/gcu/profiler (self_gcu_time_total)",
        "COMPILER": f"{_SOURCE}: README.md, /opt/tops/bin/topscc",
        "TRITON": f"{_SOURCE}: README.md, triton_gcu 3.6",
        "COMPILE_BACKEND": f"{_SOURCE}: torch_gcu/_inductor",
        "VISIBLE_DEVICES": f"{_SOURCE}: torch_gcu/gcu/__init__.py:492",
        "CONTAINER_VISIBLE_DEVICES": f"{_VLLM}: docs",
        "SMI": f"{_VLLM}: docs/source/installation.md:48",
        "DEVICE_NODES": f"{_VLLM}: docs/source/installation.md",
        "SDK_HOME": f"{_SOURCE}: README.md",
        "CARD_MEMORY": f"{_VLLM}: docs/source/installation.md:48",
        "DEVICES_PER_CARD": f"{_VLLM}: docs/source/installation.md:48",
    }
