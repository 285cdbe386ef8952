"""`python -m torchferry.run SCRIPT ARGUMENTS`: run a Python program with torch.cuda redirected.

For launchers that start Python themselves: `torchrun --nproc_per_node 2 -m torchferry.run train.py`.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from torchferry.core import env, exitcodes, supported_torch
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice
from torchferry.core.torch_start import or_end

_USAGE = "python -m torchferry.run [--target NAME[@VERSION]] (SCRIPT | -m MODULE) [ARGUMENTS]"


def main(arguments: list[str]) -> None:
    """Run what `arguments` name, as Python itself would."""
    arguments = list(arguments)
    if arguments[:1] == ["--target"] and len(arguments) > 1:
        os.environ["TORCHFERRY_SHIM_TARGET"] = arguments[1]
        del arguments[:2]
    elif arguments and arguments[0].startswith("--target="):
        os.environ["TORCHFERRY_SHIM_TARGET"] = arguments.pop(0).partition("=")[2]
    if arguments[:1] == ["--"]:
        del arguments[0]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        del arguments[0]
    if not arguments or arguments[0] in {"-h", "--help"}:
        print_notice(_USAGE)
        raise SystemExit(exitcodes.CLEAN if arguments else exitcodes.ERROR)
    script = Path(arguments[0])
    if not as_module and not script.is_file():
        print_notice(f"torchferry: {say('there is no file `{path}`', path=script)}")
        raise SystemExit(exitcodes.ERROR)
    os.environ[env.SHIM] = "1"
    _redirect()
    sys.argv = arguments
    if as_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")


def _import_torch() -> None:
    """Begin the redirect by its entry point, where torch loads those."""
    with supported_torch.needed("python -m torchferry.run"):
        import torch  # noqa: F401


def _redirect() -> None:
    """Begin the redirect here; with torch's own loading of plugins it has begun already, and this changes nothing."""
    or_end(_import_torch)

    from torchferry.shim import entry, no_device
    from torchferry.shim.redirect import current

    if current() is None:
        entry.autoload()
    if no_device.refused():
        raise SystemExit(exitcodes.ERROR)


if __name__ == "__main__":
    main(sys.argv[1:])
