"""Enflame T20, T21 and i20 and their old plugin: `import ptex`, device type `xla`, torch 1.10 or 1.11."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_PLUGIN = "github.com/mango-MilkT/torch_gcu@14a99843d05c (an installed torch_gcu 1.10)"
_NOTES = "github.com/BarryZ001/MapSage_V5@4ea9c434a110"
_MANUAL = f"T20 deployment manual (TopsRider t2x 2.5.136) in {_NOTES} docs"
_RELEASE = f"TopsRider release notes v2.5.136 (copy in {_NOTES} docs)"
_TOOLKIT = f"Enflame container toolkit user guide 1.0 (copy in {_NOTES} docs/topsrider_official_docs)"
_ZOO = "github.com/EnflameTechnology/ModelZoo@53f119033735"


class Ptex(Backend):
    """Enflame T20, T21, i20 with ptex and torch_gcu 1.10 over TopsRider t2x."""

    NAME = "ptex"
    TITLE = "Enflame T20"
    TITLE_ZH = "燧原 T20"
    ALIASES = ("t20", "t21", "i20", "topsrider")
    PLUGIN = "ptex"
    PIP_NAME = None
    INSTALL = Bilingual(
        "install TopsRider t2x, then the ptex and torch_gcu wheels that lie in its folder pytorch-gcu",
        "先安装 TopsRider t2x，再安装其 pytorch-gcu 目录下的 ptex 与 torch_gcu wheel",
    )
    AUTOLOAD_SINCE = None
    SHADOWS = ("gcu",)
    BUILD_MODULES = {"torch.gcu": "GCU not available"}  # noqa: RUF012
    DEVICE_TYPE = "xla"
    DISPATCH_KEY = "XLA"
    NAMESPACE = ""
    DEVICE_FACTORY = "ptex.device"
    RUN_PENDING = "torch_gcu.sync_lived_tensor"
    MOVER = None
    PREDICATE = None
    INTEGER_DEVICE = False
    DEVICE_GENERATOR = False
    SHARES_TENSORS_SINCE = None
    SHARES_EVENTS_SINCE = None
    DTYPES = {"float64": "narrowed", "int64": "narrowed"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "float64": Bilingual(
            "computed in float32 without a word",
            "会不加提示地按 float32 计算",
        ),
        "int64": Bilingual(
            "held in 32 bits; keep values below 2**31",
            "以 32 位存放；数值请保持在 2**31 以内",
        ),
    }
    COLLECTIVE = "eccl"
    COMPOSITE_COLLECTIVE = False
    DISTRIBUTED = "torch_gcu.distributed"
    TF32_SWITCH = "ENFLAME_ENABLE_TF32"
    AUTOCAST = False
    COMPILER = "topscc"
    TRITON = None
    COMPILE_BACKEND = None
    ATTENTION = None
    DRIVER_MODULE = "enflame"
    SDK_HOME = "/usr/local/topsrider"

    SOURCES = {  # noqa: RUF012
        "PLUGIN": _MANUAL,
        "PIP_NAME": f"{_MANUAL}: wheels come with TopsRider",
        "INSTALL": f"{_MANUAL}: TopsRider_t2x run file with -C torch-gcu, then ptex-2.1.0+torch1.11.0",
        "AUTOLOAD_SINCE": "torch 1.10 and 1.11 load no plugins (new in torch 2.5)",
        "BUILD_MODULES": (
            f"{_MANUAL}: its check after `import torch` alone expects hasattr(torch, 'gcu') to be True; another manual "
            "there shows that torch.gcu.device_count() raises where torch_gcu.is_available() is True; not added by "
            f"{_PLUGIN}"
        ),
        "SHADOWS": f"{_RELEASE}: TopsRider t2x installs torch_gcu 1.10 beside ptex",
        "DEVICE_TYPE": f"{_PLUGIN}: core/device.py; {_MANUAL}",
        "DISPATCH_KEY": f"{_MANUAL}: its devices are of torch's own type xla",
        "NAMESPACE": f"{_PLUGIN}: functions stand at the top level of torch_gcu",
        "DEVICE_FACTORY": f'{_MANUAL}: ptex.device("xla")',
        "RUN_PENDING": f"{_PLUGIN}: core/model.py, every tensor that is alive on the device",
        "MOVER": f"{_PLUGIN}: no such method",
        "PREDICATE": f"{_PLUGIN}: is_gcu is a method, not a property",
        "INTEGER_DEVICE": "torch 1.10: a number is an index of a CUDA device",
        "DEVICE_GENERATOR": f"{_MANUAL}: the vendor's own example passes None instead",
        "SHARES_TENSORS_SINCE": (
            "torch 1.10 torch/multiprocessing/reductions.py: storages of CPU and CUDA only; pytorch/xla issue 2103"
        ),
        "SHARES_EVENTS_SINCE": "torch 1.10 torch/multiprocessing/reductions.py knows torch.cuda.Event only",
        "DTYPES": f"{_RELEASE}: torch_gcu 1.10 casts Int64 and FP64 to 32 bits; a variable decides",
        "DTYPE_NOTES": _RELEASE,
        "COLLECTIVE": f"{_PLUGIN}: distributed/distributed_c10d.py:83",
        "COMPOSITE_COLLECTIVE": f"{_PLUGIN}: distributed/distributed_c10d.py:83",
        "DISTRIBUTED": f"{_PLUGIN}: distributed/",
        "TF32_SWITCH": f"{_ZOO}: training_models/pytorch/nlp/transformer/scripts/run_1gcu.sh:2 (environment)",
        "AUTOCAST": f"{_PLUGIN}: amp/autocast_mode.py is its own; torch.autocast of 1.10 knows cuda and cpu",
        "COMPILER": f"{_RELEASE}: TopsCC",
        "TRITON": "torch 1.10 and 1.11 come before Triton in torch",
        "COMPILE_BACKEND": "torch 1.10 and 1.11 have no torch.compile",
        "ATTENTION": f"{_PLUGIN}: none; torch 1.10 and 1.11 come before scaled_dot_product_attention",
        "DRIVER_MODULE": f"{_MANUAL}: lsmod",
        "SDK_HOME": _MANUAL,
    }
