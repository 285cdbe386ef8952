"""Enflame T20, T21 and i20 and their old plugin: `import ptex`, device type `xla`, torch 1.10 or 1.11."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_PLUGIN = "github.com/mango-MilkT/torch_gcu@14a99843d05c (an installed torch_gcu 1.10)"
_MANUAL = "T20 deployment manual (TopsRider t2x) and github.com/BarryZ001/MapSage_V5"


class Ptex(Backend):
    """Enflame T20, T21, i20 with ptex and torch_gcu 1.10 over TopsRider t2x."""

    NAME = "ptex"
    TITLE = "Enflame T20"
    TITLE_ZH = "燧原 T20"
    ALIASES = ("t20", "t21", "i20", "topsrider")
    CARDS = ("T20", "T21", "i20")
    PLUGIN = "ptex"
    PIP_NAME = None
    INSTALL = Bilingual(
        "install TopsRider t2x, then the ptex and torch_gcu wheels that lie in its folder pytorch-gcu",
        "先安装 TopsRider t2x，再安装其 pytorch-gcu 目录下的 ptex 与 torch_gcu wheel",
    )
    AUTOLOAD_SINCE = None
    DEVICE_TYPE = "xla"
    NAMESPACE = ""
    DEVICE_FACTORY = "ptex.device"
    MOVER = None
    PREDICATE = None
    INTEGER_DEVICE = False
    DEVICE_GENERATOR = False
    DTYPES = {"float64": "narrowed", "int64": "narrowed"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "float64": Bilingual(
            "computed in float32 without a word",
            "会不加提示地按 float32 计算",
        ),
        "int64": Bilingual(
            "held in 32 bits",
            "以 32 位存放",
        ),
    }
    COLLECTIVE = "eccl"
    COMPOSITE_COLLECTIVE = False
    DISTRIBUTED = "torch_gcu.distributed"
    AUTOCAST = False
    TRITON = None
    COMPILE_BACKEND = None
    VISIBLE_DEVICES = "TOPS_VISIBLE_DEVICES"
    SMI = "efsmi"
    DRIVER_MODULE = "enflame"
    DEVICE_NODES = "/dev/gcu*"
    SDK_HOME = "/usr/local/topsrider"

    SOURCES = {  # noqa: RUF012
        "CARDS": f"{_PLUGIN}; {_MANUAL}",
        "PLUGIN": _MANUAL,
        "PIP_NAME": f"{_MANUAL}: wheels come with TopsRider",
        "INSTALL": f"{_MANUAL}: ptex-2.1.0+torch1.11.0",
        "AUTOLOAD_SINCE": "torch 1.10 and 1.11 load no plugins (new in torch 2.5)",
        "DEVICE_TYPE": f"{_PLUGIN}: core/device.py; {_MANUAL}",
        "NAMESPACE": f"{_PLUGIN}: functions stand at the top level of torch_gcu",
        "DEVICE_FACTORY": f'{_MANUAL}: ptex.device("xla")',
        "MOVER": f"{_PLUGIN}: no such method",
        "PREDICATE": f"{_PLUGIN}: is_gcu is a method, not a property",
        "INTEGER_DEVICE": "torch 1.10: a number is an index of a CUDA device",
        "DEVICE_GENERATOR": f"{_MANUAL}: the vendor's own example passes None instead",
        "DTYPES": _MANUAL,
        "DTYPE_NOTES": _MANUAL,
        "COLLECTIVE": f"{_PLUGIN}: distributed/distributed_c10d.py:83",
        "COMPOSITE_COLLECTIVE": f"{_PLUGIN}: distributed/distributed_c10d.py:83",
        "DISTRIBUTED": f"{_PLUGIN}: distributed/",
        "AUTOCAST": f"{_PLUGIN}: amp/autocast_mode.py is its own; torch.autocast of 1.10 knows cuda and cpu",
        "TRITON": "torch 1.10 and 1.11 come before Triton in torch",
        "COMPILE_BACKEND": "torch 1.10 and 1.11 have no torch.compile",
        "VISIBLE_DEVICES": f"{_PLUGIN}: core/device.py:129",
        "SMI": _MANUAL,
        "DRIVER_MODULE": f"{_MANUAL}: lsmod",
        "DEVICE_NODES": _MANUAL,
        "SDK_HOME": _MANUAL,
    }
