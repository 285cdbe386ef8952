"""Recorded machines with Tecorigin cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import INSIDE, OTHER_PCI, Case, python, tool, variables
from tests.vendors.sdaa.outputs import SDAA_115, SDAA_LOST, SDAA_T100
from torchferry.core.subprocesses import ProcessResult

CONDA = {  # the adaptation guide's `conda info -e`: base, paddle_env, torch_env, tvm-build; torch_env has the plugin
    **{
        f"/root/miniconda3{folder}/bin/python": ""
        for folder in ("", "/envs/paddle_env", "/envs/torch_env", "/envs/tvm-build")
    },
    "/root/miniconda3/envs/torch_env/lib/python3.10/site-packages/torch_sdaa/__init__.py": "",
    "/data/old[1]/bin/python": "",
    "/data/old[1]/lib/python3.8/site-packages/torch_sdaa/__init__.py": "",
    "/root/.conda/environments.txt": "/data/old[1]\n/data/removed\n",
}


def of_conda(active: str, examined: str, plugin: bool = False) -> dict[str, object]:
    """Return a machine's fields: which environment the shell has activated, and whose interpreter is examined."""
    base = "/root/miniconda3"
    name = active.rpartition("/")[2] or "base"
    modules = {"torch_sdaa": f"{base}{examined}/lib/python3.10/site-packages/torch_sdaa/__init__.py"} if plugin else {}
    return {
        **variables(CONDA_PREFIX=f"{base}{active}", CONDA_DEFAULT_ENV=name),
        **python(executable=f"{base}{examined}/bin/python", modules=modules),
    }


CASES = [
    Case(
        "python.interpreter",
        "sdaa",
        (("warning", "torch_sdaa is in the conda environment torch_env, not in /root/miniconda3/bin/python"),),
        CONDA,
        machine=of_conda("", ""),
    ),
    Case(
        "python.interpreter",
        "sdaa",
        (("ok", "/envs/torch_env/bin/python, of the active conda environment torch_env"),),
        CONDA,
        machine=of_conda("/envs/torch_env", "/envs/torch_env", plugin=True),
    ),
    Case(
        "python.interpreter",
        "sdaa",
        (("ok", "/envs/torch_env/bin/python, not of the active conda environment base"),),
        CONDA,
        machine=of_conda("", "/envs/torch_env", plugin=True),
    ),
    Case("python.interpreter", "sdaa", (("ok", "/venv/bin/python"),), machine=variables(CONDA_PREFIX="relative")),
    Case("driver.pci", "sdaa", (("unknown", "nobody has verified"),), OTHER_PCI),
    # beta releases of one version are one release; another number is another one
    Case("driver.version", "sdaa", (("ok", "driver 1.1.2b1"),), machine=tool("teco-smi", SDAA_T100)),
    Case("driver.version", "sdaa", (("ok", "driver 3.2.0"),), machine=tool("teco-smi", SDAA_115)),
    Case(
        "driver.version",
        "sdaa",
        (("warning", "the driver is 3.2.0, and the runtime is 3.3.0"),),
        machine=tool("teco-smi", SDAA_115.replace("SDAARuntime: 3.2.0", "SDAARuntime: 3.3.0")),
    ),
    Case("tool.present", "sdaa", (("ok", "1.10.0 shows 2 devices"),), machine=tool("teco-smi", SDAA_T100)),
    Case(
        "tool.present",
        "sdaa",
        (("failure", "was stopped"),),
        machine=tool("teco-smi", ProcessResult(None, problem="timeout")),
    ),
    Case(
        "tool.present",
        "sdaa",
        (("unknown", "does not know the format"),),
        machine=tool("teco-smi", "SMI 9 {new form}\n"),
    ),
    Case(
        "card.health", "sdaa", (("failure", "no longer on the bus"), ("ok", "OK")), machine=tool("teco-smi", SDAA_LOST)
    ),
    Case("sdk.environment", "sdaa", (("failure", "setvars.sh was not sourced"),), {"/opt/tecoai/setvars.sh": ""}),
    Case(  # a card of this vendor is four devices
        "environment.visible_devices",
        "sdaa",
        (("ok", "SDAA_VISIBLE_DEVICES is 3"),),
        INSIDE,
        machine=variables(SDAA_VISIBLE_DEVICES="3", TECO_VISIBLE_DEVICES="1"),
    ),
    Case(  # a line of this layout is a card with the memory of four devices
        "environment.visible_devices",
        "sdaa",
        (("ok", "SDAA_VISIBLE_DEVICES is 4,5,6,7"),),
        machine={**variables(SDAA_VISIBLE_DEVICES="4,5,6,7"), **tool("teco-smi", SDAA_115)},
    ),
    Case(
        "environment.visible_devices",
        "sdaa",
        (("failure", "names device 8, but there are 8"),),
        machine={**variables(SDAA_VISIBLE_DEVICES="8"), **tool("teco-smi", SDAA_115)},
    ),
]
