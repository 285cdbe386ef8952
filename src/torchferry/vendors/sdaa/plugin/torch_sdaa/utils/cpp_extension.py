"""Building C++ and SDAA extensions. Source: github.com/Tecorigin/teco-ops@c58369950e39 setup.py."""

from torchferry.rehearsal import extension_build as _extension_build

TecoExtension = _extension_build.describe
BuildExtension = _extension_build.build_command(f"{__name__}.BuildExtension")
load_inline = _extension_build.loader(f"{__name__}.load_inline")
