"""Building C++ and MUSA extensions. Source: torch_musa/utils/musa_extension.py, 2.7.1: names and arguments."""

import os

from torchferry.rehearsal import extension_build as _extension_build

MUSA_HOME = os.environ.get("MUSA_HOME") or os.environ.get("MUSA_PATH")
MUDNN_HOME = os.environ.get("MUDNN_HOME") or os.environ.get("MUDNN_PATH")

MUSAExtension = _extension_build.describe
BuildExtension = _extension_build.build_command(f"{__name__}.BuildExtension")
load = _extension_build.loader(f"{__name__}.load")
load_inline = _extension_build.loader(f"{__name__}.load_inline")
