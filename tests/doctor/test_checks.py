"""Every check over recorded machines: a table with a row that is well and a row that is not, for each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.doctor.outputs import (
    DECORATOR_MISSING,
    GCU_Q,
    GCU_TABLE,
    GLIBC_OLD,
    GLIBCXX_OLD,
    MUSA_DENIED,
    MUSA_S80,
    MUSA_S4000_SHORT,
    NPU_910B,
    NPU_910C,
    NPU_DENIED,
    NPU_ECC,
    NPU_SICK,
    NUMPY_2,
    SDAA_115,
    SDAA_LOST,
    SDAA_T100,
    STATIC_TLS,
    T20,
    TBE_MISSING,
)
from tests.doctor.recorded import KERNEL, PYTHON, Case, context_of, node, results_of
from torchferry.backends import registry
from torchferry.backends.machine import facts
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor.context import CheckContext
from torchferry.doctor.engine import examine
from torchferry.doctor.host import Space, User
from torchferry.doctor.registry import _check_of, all_checks
from torchferry.doctor.result import Result

ROOMY = Space(1 << 40, 1 << 39, True, True)
SHM = Space(64 << 30, 60 << 30, True, True)
INSIDE = {"/.dockerenv": ""}
IPC = "/proc/self/ns/ipc"
MODULES = {"/proc/modules": "drv_pcie_host 40960 1\n"}
NPU_PCI = {
    "/sys/bus/pci/devices/0000:c1:00.0/vendor": "0x19e5\n",
    "/sys/bus/pci/devices/0000:c1:00.0/device": "0xd802\n",
    "/sys/bus/pci/devices/0000:c1:00.0/class": "0x120000\n",
}
OTHER_PCI = {
    "/sys/bus/pci/devices/0000:00:01.0/vendor": "0x19e5\n",
    "/sys/bus/pci/devices/0000:00:01.0/device": "0x1822\n",
    "/sys/bus/pci/devices/0000:00:01.0/class": "0x020000\n",
}
MUSA_PCI = {
    "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x1ed5\n",
    "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
}
NPU_NODES = {path: node(path) for path in ("/dev/davinci0", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")}
ENV_SCRIPT = {"/usr/local/Ascend/cann/set_env.sh": "export ASCEND_HOME_PATH=/usr/local/Ascend/cann\n"}
CANN = {
    "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info": (
        "package_name=Ascend-cann-toolkit\nversion=8.5.0\ninnerversion=V100R001C25SPC001\n"
    )
}
# hiascend.com installation documents
DRIVER_FILE = {
    "/usr/local/Ascend/driver/version.info": (
        "Version=25.3.rc1\nascendhal_version=7.35.23\nInnerversion=V100R001C23SPC002B212\npackage_version=25.3.rc1\n"
    )
}
NPU_LIBRARIES = {
    "/usr/lib64/libascend_hal.so": "x",
    "/usr/lib64/libascendcl.so": "x",
    "/usr/lib64/libhccl.so": "x",
}
LOADED = {"libascend_hal.so": "", "libascendcl.so": "", "libhccl.so": ""}
MUDNN_GONE = (
    "Traceback (most recent call last):\n"
    "ImportError: libmudnn.so.1: cannot open shared object file: No such file or directory\n"
)


def python(**values: object) -> dict[str, object]:
    """Return a machine's fields with this Python side."""
    return {"answer": {**PYTHON, **values}}


def npu(torch: str = "2.9.0+cpu", plugin: str = "2.9.0", cuda: str | None = None, **more: object) -> dict[str, object]:
    """Return an interpreter that has torch and torch_npu."""
    values: dict[str, object] = {
        "modules": {"torch": "/venv/torch/__init__.py", "torch_npu": "/venv/torch_npu/__init__.py"},
        "distributions": {"torch": torch, "torch-npu": plugin},
        "torch": {"version": torch, "cuda": cuda, "hip": None},
        "entry_points": {"torch_npu": "torch_npu:_autoload"},
    }
    return python(**{**values, **more})


def musa(version: str, **more: str) -> dict[str, object]:
    """Return an interpreter that has torch and torch_musa of one version."""
    return python(
        modules={"torch": "/t", "torch_musa": "/m"},
        distributions={"torch": version, "torch-musa": version, **more},
        torch={"version": version, "cuda": None, "hip": None},
    )


def numpy(torch: str, version: str) -> dict[str, object]:
    """Return an interpreter that has torch, torch_npu and NumPy."""
    return npu(torch, distributions={"torch": torch, "torch-npu": torch, "numpy": version})


def cann(modules: dict[str, str] | None = None, lacking: tuple[str, ...] = ()) -> dict[str, object]:
    """Return an interpreter that finds CANN's module and the distributions that it needs, but for some."""
    packages = facts(registry.load("npu")).sdk.packages
    distributions = {name: "1" for name in packages if name not in lacking}
    return python(
        modules={"tbe": "/usr/local/Ascend/cann/tbe"} if modules is None else modules, distributions=distributions
    )


def t20(torch: str = "1.10.0", gcu: str = "1.10.0", ptex: str = "1.3.20") -> dict[str, object]:
    """Return an interpreter that has the two distributions of the T20's plugin."""
    return python(
        modules={"torch": "/t", "torch_gcu": "/g", "ptex": "/p"},
        distributions={"torch": torch, "torch-gcu": gcu, "ptex": ptex},
        torch={"version": torch, "cuda": None, "hip": None},
    )


def companions(torch: str, **versions: str) -> dict[str, object]:
    """Return an interpreter that has torch and what belongs to it."""
    return npu(torch, distributions={"torch": torch, **versions})


def variables(**values: str) -> dict[str, object]:
    """Return a machine's environment."""
    return {"environment": {"PATH": "/usr/bin", **values}}


def musa_sdk(version: str) -> dict[str, str]:
    """Return the file in which the MUSA SDK states its version (docs.mthreads.com, ONNX Runtime for MUSA)."""
    return {"/usr/local/musa/version.json": f'{{\n  "musa_toolkits": {{\n    "version": "{version}"\n  }}\n}}\n'}


def tool(name: str, output: str | ProcessResult, **more: str | ProcessResult) -> dict[str, object]:
    """Return a machine's fields with these outputs."""
    return {"outputs": {name: output, **{key.replace("__", " -t ecc -i "): value for key, value in more.items()}}}


def steps(*said: dict[str, object], **more: object) -> dict[str, object]:
    """Return what the probe found."""
    return {"steps": list(said), "doing": "", "stopped": "", **more}


PROXY = {"PATH": "/usr/bin", "http_proxy": "http://mia:secret@10.0.0.1:3128", "HTTP_PROXY": "http://other:3128"}

CASES = [
    # --- driver ---
    Case("driver.pci", "npu", (("ok", "0000:c1:00.0"),), NPU_PCI),
    Case("driver.pci", "npu", (("failure", "no card of vendor 0x19e5"),), OTHER_PCI),
    Case("driver.pci", "musa", (("ok", "1 on the PCI bus"),), MUSA_PCI),
    Case("driver.pci", "sdaa", (("unknown", "nobody has verified"),), OTHER_PCI),
    Case("driver.pci", "npu", (("skipped", "does not show"),)),
    Case("driver.module", "npu", (("ok", "drv_pcie_host is loaded"),), MODULES),
    Case("driver.module", "npu", (("failure", "is not loaded"),)),
    Case("driver.module", "ptex", (("ok", "enflame is loaded"),), {"/sys/module/enflame/version": "2.4\n"}),
    Case("driver.module", "ptex", (("failure", "enflame is not loaded"),)),
    Case("driver.module", "npu", (("skipped", "rehearsal"),), rehearsed=True),
    Case("driver.kernel", "musa", (("ok", KERNEL),), {f"/lib/modules/{KERNEL}/updates/dkms/mtgpu.ko": ""}),
    Case(
        "driver.kernel",
        "musa",
        (("failure", "is built for kernel 5.4.0-42-generic"),),
        {"/lib/modules/5.4.0-42-generic/updates/dkms/mtgpu.ko": ""},
    ),
    Case(
        "driver.kernel",
        "musa",
        (("ok", KERNEL),),
        {f"/lib/modules/{KERNEL}/modules.dep": "kernel/drivers/gpu/drm/mt/mtgpu.ko: kernel/drivers/gpu/drm/drm.ko\n"},
    ),
    Case(
        "driver.module",
        "musa",
        (("failure", "mtgpu is not loaded"),),
        {f"/lib/modules/{KERNEL}/modules.dep": "updates/dkms/mtgpu.ko:\n"},
    ),
    Case(
        "driver.kernel",
        "musa",
        (("warning", "not among those of this kernel"),),
        {"/lib/modules/5.4.0-42-generic/updates/dkms/mtgpu.ko": "", "/proc/modules": "mtgpu 1 0\n"},
    ),
    Case("driver.version", "npu", (("ok", "driver 25.3.rc1"),), DRIVER_FILE),
    Case(
        "driver.version",
        "npu",
        (("failure", "the tool reports 23.0.7"),),
        {**DRIVER_FILE, **INSIDE},
        machine=tool("npu-smi info", NPU_910B),
    ),
    Case("driver.version", "npu", (("unknown", "its version cannot be found"),), MODULES),
    Case("driver.version", "gcu", (("ok", "driver 1.6.3.12"),), {"/sys/module/enflame/version": "1.6.3.12\n"}),
    # beta releases of one version are one release; another number is another one
    Case("driver.version", "sdaa", (("ok", "driver 1.1.2b1"),), machine=tool("teco-smi", SDAA_T100)),
    Case("driver.version", "sdaa", (("ok", "driver 3.2.0"),), machine=tool("teco-smi", SDAA_115)),
    Case(
        "driver.version",
        "sdaa",
        (("warning", "the driver is 3.2.0, and the runtime is 3.3.0"),),
        machine=tool("teco-smi", SDAA_115.replace("SDAARuntime: 3.2.0", "SDAARuntime: 3.3.0")),
    ),
    Case("driver.iommu", "musa", (("warning", "the IOMMU is off"),), MUSA_PCI),
    Case("driver.iommu", "musa", (("ok", "is on"),), {**MUSA_PCI, "/sys/kernel/iommu_groups/0/": ""}),
    # --- nodes ---
    Case("node.present", "npu", (("ok", "1 x /dev/davinci[0-9]*"),), machine={"nodes": NPU_NODES}),
    Case("node.present", "npu", (("failure", "missing: /dev/davinci[0-9]*"),)),
    Case("node.present", "npu", (("failure", "this container has no"),), INSIDE),
    Case(
        "node.present",
        "npu",
        (("ok", "davinci"), ("failure", "/dev/devmm_svm")),
        INSIDE,
        machine={"nodes": {"/dev/davinci0": node("/dev/davinci0")}},
    ),
    Case("node.access", "npu", (("ok", "all 4"),), machine={"nodes": NPU_NODES}),
    Case(
        "node.access",  # torch_musa developer manual 11.1: the user is not in the group
        "musa",
        (("failure", "mia may not open /dev/dri/renderD128"),),
        {"/etc/group": "root:x:0:\nrender:x:109:\n"},
        machine={"nodes": {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=109, usable=False)}},
    ),
    Case(
        "node.access",
        "npu",
        (("failure", "may not open"),),
        machine={"nodes": {"/dev/davinci0": node("/dev/davinci0", mode=0o600, usable=False)}},
    ),
    # --- tool ---
    Case("tool.present", "npu", (("ok", "23.0.7 shows 2 devices"),), machine=tool("npu-smi info", NPU_910B)),
    Case("tool.present", "npu", (("ok", "shows 2 devices"),), machine=tool("npu-smi info", NPU_910C)),
    Case("tool.present", "musa", (("ok", "1.14.0 shows 1 device"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case("tool.present", "sdaa", (("ok", "1.10.0 shows 2 devices"),), machine=tool("teco-smi", SDAA_T100)),
    Case("tool.present", "gcu", (("ok", "shows 1 device"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "tool.present", "gcu", (("ok", "shows 2 devices"),), machine={"outputs": {"efsmi -q": "?", "efsmi": GCU_TABLE}}
    ),
    Case("tool.present", "ptex", (("ok", "1.20.0 shows 2 devices"),), machine=tool("efsmi", T20)),
    Case("tool.present", "npu", (("failure", "is not on PATH"),)),
    Case(
        "tool.present",
        "npu",
        (("failure", "npu-smi fails"),),
        machine=tool("npu-smi info", ProcessResult(255, NPU_DENIED)),
    ),
    Case(
        "tool.present", "musa", (("failure", "fails"),), machine=tool("mthreads-gmi", ProcessResult(1, "", MUSA_DENIED))
    ),
    Case(
        "tool.present",
        "sdaa",
        (("failure", "was stopped"),),
        machine=tool("teco-smi", ProcessResult(None, problem="timeout")),
    ),
    Case("tool.present", "sdaa", (("unknown", "cannot read"),), machine=tool("teco-smi", "SMI 9 {new form}\n")),
    Case(
        "tool.present",
        "npu",
        (("failure", "does not find libdrvdsmi_host.so"),),
        machine=tool(
            "npu-smi info",
            ProcessResult(127, "", "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open\n"),
        ),
    ),
    Case(
        "tool.present",  # a card whose second line is broken must not vanish
        "npu",
        (("unknown", "1 card in the output"),),
        machine=tool("npu-smi info", NPU_910B.replace("0000:C2:00.0  | 0 ", "0000:C2:00.0    0 ")),
    ),
    # --- cards ---
    Case("card.health", "npu", (("ok", "says OK of all 2"),), machine=tool("npu-smi info", NPU_910B)),
    Case("card.health", "npu", (("failure", "says Warning"),), machine=tool("npu-smi info", NPU_SICK)),
    Case(
        "card.health", "sdaa", (("failure", "no longer on the bus"), ("ok", "OK")), machine=tool("teco-smi", SDAA_LOST)
    ),
    Case("card.health", "gcu", (("ok", "says True"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.health",
        "gcu",
        (("failure", "says False"),),
        machine=tool("efsmi -q", GCU_Q.replace("Health                  : True", "Health : False")),
    ),
    Case("card.health", "musa", (("unknown", "nobody"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case(
        "card.memory_errors",
        "npu",
        (("ok", "no memory errors"),),
        machine={
            "outputs": {
                "npu-smi info": NPU_910B,
                "npu-smi info -t ecc -i 0": NPU_ECC,
                "npu-smi info -t ecc -i 1": NPU_ECC,
            }
        },
    ),
    Case(
        "card.memory_errors",
        "npu",
        (("unknown", "card 0"), ("failure", "card 1: 3 memory errors")),
        machine={
            "outputs": {
                "npu-smi info": NPU_910B,
                "npu-smi info -t ecc -i 1": NPU_ECC.replace(
                    "HBM Double Bit Error Count               : 0", "HBM Double Bit Error Count               : 3"
                ),
            }
        },
    ),
    Case("card.memory_errors", "gcu", (("ok", "no memory errors"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.memory_errors",
        "gcu",
        (("failure", "card 0: 2"),),
        machine=tool("efsmi -q", GCU_Q.replace("Total DBE               : 0", "Total DBE               : 2")),
    ),
    Case(
        "card.memory_errors",
        "gcu",
        (("warning", "ECC is off"), ("warning", "ECC is off"), ("unknown", "nobody")),
        machine={"outputs": {"efsmi -q": "", "efsmi": GCU_TABLE}},
    ),
    Case(
        "card.temperature", "npu", (("ok", "55, 54 C"), ("unknown", "nobody")), machine=tool("npu-smi info", NPU_910B)
    ),
    Case("card.temperature", "npu", (("warning", "card 1: 96 C"),), machine=tool("npu-smi info", NPU_SICK)),
    Case("card.memory", "npu", (("ok", "free on: 0, 1"),), machine=tool("npu-smi info", NPU_910B)),
    Case("card.memory", "npu", (("warning", "60001 of 65536"), ("ok", "1")), machine=tool("npu-smi info", NPU_SICK)),
    Case("card.memory", "ptex", (("unknown", "card 0"), ("unknown", "card 1")), machine=tool("efsmi", T20)),
    Case(  # the tool names no process: who has the card open is looked for
        "card.memory",
        "gcu",
        (("warning", "card 0: 40000 of 42976 MiB"),),
        {"/proc/4711/comm": "python3\n", "/proc/4711/fd/5": "", "/proc/12/fd/0": ""},
        machine={
            **tool("efsmi -q", GCU_Q.replace("Used Size               : 0 ", "Used Size : 40000 ")),
            "nodes": {"/dev/gcu0": node("/dev/gcu0")},
            "links": {"/proc/4711/fd/5": "/dev/gcu0", "/proc/12/fd/0": "/dev/null"},
        },
    ),
    Case("card.memory_size", "musa", (("ok", "every card"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case(
        "card.memory_size",
        "musa",
        (("failure", "shows 32768 MiB instead of 49152"),),
        machine=tool("mthreads-gmi", MUSA_S4000_SHORT),
    ),
    # the tool's figure is compared with the tool's: 42,976 MiB with ECC, 49,120 without; a program gets 41,846
    Case("card.memory_size", "gcu", (("ok", "every card"),), machine=tool("efsmi -q", GCU_Q)),
    Case(
        "card.memory_size",
        "gcu",
        (("failure", "shows 34000 MiB instead of 49120"),),
        machine=tool("efsmi -q", GCU_Q.replace(": 42976 MiB", ": 34000 MiB")),
    ),
    # --- toolkit and libraries ---
    Case("sdk.installed", "npu", (("ok", "CANN 8.5.0"),), CANN),
    Case("sdk.installed", "npu", (("failure", "CANN is not installed"),)),
    Case("sdk.installed", "npu", (("unknown", "no file states"),), ENV_SCRIPT),
    Case(
        "sdk.installed",
        "musa",
        (("ok", "MUSA SDK 5.2.0"),),
        {"/usr/local/musa/version.json": '{\n  "musa_toolkits": {\n    "version": "5.2.0"\n  }\n}\n'},
    ),
    Case(
        "sdk.environment",
        "npu",
        (("ok", "was sourced"),),
        {**ENV_SCRIPT, "/usr/local/Ascend/cann/lib64/": ""},
        machine={"environment": {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann"}},
    ),
    Case("sdk.environment", "npu", (("failure", "was not sourced"),), ENV_SCRIPT),
    Case("sdk.environment", "sdaa", (("failure", "setvars.sh was not sourced"),), {"/opt/tecoai/setvars.sh": ""}),
    Case(
        "sdk.environment",
        "npu",
        (("failure", "which does not exist"),),
        ENV_SCRIPT,
        machine={"environment": {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann-8.0"}},
    ),
    Case(
        "library.found",
        "npu",
        (("ok", "libascend_hal.so loads"), ("ok", "libascendcl.so")),
        NPU_LIBRARIES,
        machine=python(libraries=LOADED),
    ),
    Case("library.found", "npu", (("failure", "libascend_hal.so is missing"), ("failure", "libascendcl.so"))),
    Case(
        "library.found",  # torch_musa developer manual 11.2 and 11.4
        "musa",
        (
            ("failure", "libsrv_um_MUSA.so is empty"),
            ("failure", "libmusart.so is missing"),
            ("failure", "the loader does not search"),
        ),
        {**INSIDE, "/usr/lib/libsrv_um_MUSA.so": "", "/usr/local/musa/lib/libmudnn.so.1": "x"},
    ),
    Case(
        "library.found",
        "npu",
        (("ok", "libascend_hal.so"), ("failure", "does not load")),
        NPU_LIBRARIES,
        machine=python(
            libraries={
                **LOADED,
                "libascendcl.so": "libc_sec.so: cannot open shared object file: No such file or directory",
            }
        ),
    ),
    Case("library.shadowed", "npu", (("ok", "no library shadows"),), NPU_LIBRARIES),
    Case(
        "library.shadowed",
        "npu",
        (("warning", "/old/libascendcl.so shadows"),),
        {**NPU_LIBRARIES, "/old/libascendcl.so": "another"},
        machine={"environment": {"LD_LIBRARY_PATH": "/old"}},
    ),
    Case(
        "library.shadowed",
        "npu",
        (("warning", "folders that do not exist: /gone"),),
        NPU_LIBRARIES,
        machine={"environment": {"LD_LIBRARY_PATH": "/gone"}},
    ),
    Case("library.collective", "npu", (("ok", "libhccl.so loads"),), NPU_LIBRARIES, machine=python(libraries=LOADED)),
    Case("library.collective", "ptex", (("failure", "libeccl.so is missing"),)),
    # --- environment ---
    Case("environment.visible_devices", "npu", (("ok", "every card is used"),)),
    Case(
        "environment.visible_devices",
        "npu",
        (("warning", "CUDA_VISIBLE_DEVICES is set"),),
        machine={"environment": {"CUDA_VISIBLE_DEVICES": "0"}},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("failure", "hides every card"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": ""}},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("failure", "names device 5, but there are 2"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": "0,5"}, **tool("npu-smi info", NPU_910B)},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("warning", "out of order"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": "1,0"}},
    ),
    Case("environment.visible_devices", "musa", (("failure", "MTHREADS_VISIBLE_DEVICES is not set"),), INSIDE),
    Case(  # given with --device, or by --privileged
        "environment.visible_devices",
        "musa",
        (("ok", "every card is used"),),
        INSIDE,
        machine={"nodes": {"/dev/mtgpu.0": node("/dev/mtgpu.0")}},
    ),
    Case(
        "environment.visible_devices",
        "musa",
        (("failure", "MTHREADS_VISIBLE_DEVICES is `void`"),),
        INSIDE,
        machine=variables(MTHREADS_VISIBLE_DEVICES="void"),
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("warning", "CUDA_VISIBLE_DEVICES is 0,1, and ASCEND_RT_VISIBLE_DEVICES is 2"),),
        machine=variables(CUDA_VISIBLE_DEVICES="0,1", ASCEND_RT_VISIBLE_DEVICES="2"),
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("ok", "ASCEND_RT_VISIBLE_DEVICES is 0,1"),),
        machine=variables(CUDA_VISIBLE_DEVICES="0,1", ASCEND_RT_VISIBLE_DEVICES="0,1"),
    ),
    Case(
        "environment.visible_devices",
        "gcu",
        (("warning", "TOPS_VISIBLE_DEVICES is 1, but ENFLAME_VISIBLE_DEVICES passes 0"),),
        INSIDE,
        machine=variables(TOPS_VISIBLE_DEVICES="1", ENFLAME_VISIBLE_DEVICES="0"),
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("warning", "ASCEND_RT_VISIBLE_DEVICES is 5, but ASCEND_VISIBLE_DEVICES passes 0"),),
        INSIDE,
        machine=variables(ASCEND_RT_VISIBLE_DEVICES="5", ASCEND_VISIBLE_DEVICES="0"),
    ),
    Case(  # the host's numbers or the container's: nobody has verified it
        "environment.visible_devices",
        "npu",
        (("unknown", "ASCEND_RT_VISIBLE_DEVICES is 4,5, but ASCEND_VISIBLE_DEVICES passes 4,5"),),
        INSIDE,
        machine=variables(ASCEND_RT_VISIBLE_DEVICES="4,5", ASCEND_VISIBLE_DEVICES="4,5"),
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("ok", "ASCEND_RT_VISIBLE_DEVICES is 0,1"),),
        INSIDE,
        machine=variables(ASCEND_RT_VISIBLE_DEVICES="0,1", ASCEND_VISIBLE_DEVICES="4,5"),
    ),
    Case(  # a card of this vendor is four devices
        "environment.visible_devices",
        "sdaa",
        (("ok", "SDAA_VISIBLE_DEVICES is 3"),),
        INSIDE,
        machine=variables(SDAA_VISIBLE_DEVICES="3", TECO_VISIBLE_DEVICES="1"),
    ),
    Case(  # privileged: more is here than the variable passes in
        "environment.visible_devices",
        "gcu",
        (("ok", "TOPS_VISIBLE_DEVICES is 1"),),
        INSIDE,
        machine={
            **variables(TOPS_VISIBLE_DEVICES="1", ENFLAME_VISIBLE_DEVICES="0"),
            "nodes": {f"/dev/gcu{index}": node(f"/dev/gcu{index}") for index in range(2)},
        },
    ),
    Case(  # the tool shows no card: the nodes are counted
        "environment.visible_devices",
        "npu",
        (("failure", "ASCEND_RT_VISIBLE_DEVICES names device 7, but there are 1"),),
        machine={**variables(ASCEND_RT_VISIBLE_DEVICES="0,7"), "nodes": NPU_NODES},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("ok", "ASCEND_RT_VISIBLE_DEVICES is 0"),),
        machine={**variables(ASCEND_RT_VISIBLE_DEVICES="0"), "nodes": NPU_NODES},
    ),
    Case(  # the node of the host's card 4 was passed in: nobody has verified which number counts
        "environment.visible_devices",
        "npu",
        (("unknown", "names device 4, but there are 1"),),
        INSIDE,
        machine={**variables(ASCEND_RT_VISIBLE_DEVICES="4"), "nodes": {"/dev/davinci4": node("/dev/davinci4")}},
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
    Case("environment.proxy", "npu", (("ok", "no proxy"),)),
    Case(
        "environment.proxy",
        "npu",
        (("warning", "differ: http://***@10.0.0.1:3128"), ("warning", "no_proxy lacks localhost")),
        machine={"environment": PROXY},
    ),
    Case(
        "environment.proxy",
        "npu",
        (("warning", "http://***@mirror.example/simple"),),
        {"/home/mia/.config/pip/pip.conf": "[global]\nindex-url = http://mia:secret@mirror.example/simple\n"},
        machine={"environment": {"HOME": "/home/mia"}},
    ),
    # --- system ---
    Case("system.limits", "npu", (("ok", "not too limited"),), machine={"bounds": {"memlock": (-1, -1)}}),
    Case(
        "system.limits",
        "npu",
        (("warning", "memlock is limited to 65536"), ("warning", "nofile is limited to 1024")),
        machine={"bounds": {"memlock": (65536, 65536), "nofile": (1024, 1048576)}},
    ),
    Case("system.disk", "npu", (("ok", "free: /work 512 GiB"),), machine={"rooms": {"/work": ROOMY, "/tmp": ROOMY}}),
    Case(
        "system.disk",
        "npu",
        (("failure", "/work: 1 MiB are free"), ("failure", "TMPDIR is /gone")),
        machine={"rooms": {"/work": Space(1 << 40, 1 << 20, True, True)}, "environment": {"TMPDIR": "/gone"}},
    ),
    Case(
        "system.disk",
        "npu",
        (("failure", "cannot hold more files"), ("ok", "/tmp")),
        machine={"rooms": {"/work": Space(1 << 40, 1 << 39, False, True), "/tmp": ROOMY}},
    ),
    Case(
        "system.clock",
        "npu",
        (("ok", "0.000012 s off"),),
        machine=tool(
            "chronyc tracking", "Leap status     : Normal\nSystem time     : 0.000012 seconds slow of NTP time\n"
        ),
    ),
    Case(
        "system.clock",
        "npu",
        (("warning", "follows no server"),),
        machine=tool("chronyc tracking", "System time     : 0.0 seconds fast\nLeap status     : Not synchronised\n"),
    ),
    Case(
        "system.clock",
        "npu",
        (("warning", "no time service"),),
        machine=tool("timedatectl show -p NTPSynchronized --value", "no\n"),
    ),
    Case("system.clock", "npu", (("unknown", "a container has"),), INSIDE),
    Case("system.host_name", "npu", (("ok", "one of its addresses"),), {"/etc/hosts": "10.0.0.4 node1\n"}),
    Case("system.host_name", "npu", (("warning", "only to 127.0.1.1"),), {"/etc/hosts": "127.0.1.1 node1\n"}),
    Case("system.host_name", "npu", (("unknown", "lacks this host's name"),), {"/etc/hosts": "127.0.0.1 localhost\n"}),
    # --- container ---
    Case("container.mounts", "npu", (("skipped", "no container"),)),
    Case("container.mounts", "npu", (("failure", "/usr/local/dcmi"),), INSIDE),
    Case(
        "container.mounts",
        "npu",
        (("ok", "mounted"),),
        {**INSIDE, **DRIVER_FILE, "/usr/local/dcmi/": "", "/usr/local/Ascend/driver/lib64/": ""},
    ),
    Case(
        "container.privileges",
        "ptex",
        (("ok", "is privileged"),),
        {**INSIDE, "/proc/sys/kernel/cap_last_cap": "40\n", "/proc/self/status": "CapBnd:\t000001ffffffffff\n"},
    ),
    Case(
        "container.privileges",
        "ptex",
        (("warning", "is not privileged"),),
        {**INSIDE, "/proc/sys/kernel/cap_last_cap": "40\n", "/proc/self/status": "CapBnd:\t00000000a80425fb\n"},
    ),
    Case(
        "container.network",
        "ptex",
        (("warning", "network of its own"),),
        {**INSIDE, "/sys/class/net/eth0/ifindex": "12\n", "/sys/class/net/eth0/iflink": "13\n"},
    ),
    Case(
        "container.network",
        "ptex",
        (("ok", "host's network"),),
        {**INSIDE, "/sys/class/net/eth0/ifindex": "2\n", "/sys/class/net/eth0/iflink": "2\n"},
    ),
    Case(
        "container.ipc", "ptex", (("ok", "host's IPC namespace"),), INSIDE, machine={"links": {IPC: "ipc:[4026531839]"}}
    ),
    Case("container.ipc", "ptex", (("warning", "of its own"),), INSIDE, machine={"links": {IPC: "ipc:[4026532177]"}}),
    Case("container.ipc", "ptex", (("unknown", "cannot be told"),), INSIDE),
    Case("container.ipc", "npu", (("ok", "no `--ipc=host` is needed"),), INSIDE),
    Case("container.ipc", "ptex", (("skipped", "no container"),)),
    Case("container.shared_memory", "npu", (("ok", "65536 MiB"),), INSIDE, machine={"rooms": {"/dev/shm": SHM}}),
    Case(
        "container.shared_memory",
        "npu",
        (("failure", "64 MiB"),),
        INSIDE,
        machine={"rooms": {"/dev/shm": Space(64 << 20, 64 << 20, True, True)}},
    ),
    Case("container.shared_memory", "musa", (("warning", "65536 MiB"),), INSIDE, machine={"rooms": {"/dev/shm": SHM}}),
    Case(
        "container.runtime",  # arthurchiao.art GPU notes 2: daemon.json of an Ascend host
        "npu",
        (("ok", "the runtime ascend is registered"),),
        {"/etc/docker/daemon.json": '{"runtimes": {"ascend": {"path": "/x"}}, "default-runtime": "ascend"}'},
        machine={"outputs": {"docker info": ""}},
    ),
    Case("container.runtime", "musa", (("warning", "is not registered"),), machine={"outputs": {"docker info": ""}}),
    Case(
        "container.runtime",
        "musa",
        (("unknown", "cannot be read"),),
        {"/etc/docker/daemon.json": "{runtimes"},
        machine={"outputs": {"docker info": ""}},
    ),
    # --- Python ---
    Case("python.interpreter", "npu", (("ok", "Python 3.10.12"),)),
    Case(
        "python.interpreter",
        "npu",
        (("failure", "cannot be examined"),),
        machine={"answer": ProcessResult(None, problem="missing")},
    ),
    Case("python.torch", "npu", (("ok", "torch 2.9.0+cpu"),), machine=npu()),
    Case("python.torch", "npu", (("failure", "not installed"),)),
    Case("python.torch_build", "npu", (("ok", "as the plugin requires"),), machine=npu()),
    Case("python.torch_build", "npu", (("failure", "is built for CUDA"),), machine=npu("2.9.0+cu128", cuda="12.8")),
    Case("python.plugin", "npu", (("ok", "torch_npu 2.9.0"),), machine=npu()),
    Case("python.plugin", "npu", (("failure", "torch_npu is not installed"),)),
    Case(
        "python.plugin",  # T20 deployment manual, stage 3 step 6 and 6.6: the wheel lies there and was not installed
        "ptex",
        (("failure", "ptex is on this machine but not installed"), ("failure", "torch_gcu is not installed")),
        {"/usr/local/topsrider/ai_development_toolkit/pytorch-gcu/ptex-2.1.0+torch1.11.0-py3-none-any.whl": ""},
    ),
    Case("python.import", "npu", (("ok", "import torch_npu"),), machine=npu()),
    Case(
        "python.import",
        "musa",
        (("failure", "import torch_musa fails"),),
        machine={
            **python(modules={"torch": "/t", "torch_musa": "/m"}),
            "imported": {"error": MUDNN_GONE, "version": ""},
        },
    ),
    Case("python.import", "npu", (("failure", "fails"),), machine={**npu(), "imported": ProcessResult(-11)}),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu()),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu("2.9.0+cpu", "2.9.0.post6")),
    Case("python.versions", "npu", (("failure", "is for torch 2.9.0"),), machine=npu("2.8.0+cpu", "2.9.0")),
    Case("python.versions", "npu", (("unknown", "not in the vendor's table"),), machine=npu("2.9.0", "2.9.0.post99")),
    Case("python.versions", "npu", (("unknown", "neither"),), machine=npu("3.0.0", "3.0.0")),
    Case("python.versions", "npu", (("failure", "torch 2.9.0 needs"),), machine=npu("2.9.0", "2.2.0")),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu("2.9.0", "2.9.0+git1a2b3c")),
    Case("python.versions", "musa", (("ok", "belong together"),), machine=musa("2.9.1")),
    Case(  # torch_musa's own version check: 2.1.0 and 2.1.1 are for torch 2.5.0 too
        "python.versions",
        "musa",
        (("ok", "torch 2.5.0 and torch_musa 2.1.1 belong"),),
        machine=python(
            distributions={"torch": "2.5.0", "torch-musa": "2.1.1"}, torch={"version": "2.5.0"}, modules={"torch": "/t"}
        ),
    ),
    Case(  # torch_musa was numbered otherwise before 2.5.0
        "python.versions",
        "musa",
        (("unknown", "is not in the vendor's table, which has 2.5.0, 2.1.1, 2.1.0"),),
        machine=python(
            distributions={"torch": "2.5.0", "torch-musa": "2.0.0"}, torch={"version": "2.5.0"}, modules={"torch": "/t"}
        ),
    ),
    Case(  # the T20 stack as users documented it: TopsRider t2x 2.5.136
        "python.versions",
        "ptex",
        (("ok", "torch 1.10.0 and torch_gcu 1.10.0 belong"), ("ok", "torch 1.10.0 and ptex 1.3.20 belong")),
        machine=t20(),
    ),
    Case(  # T20 deployment manual, stage 3 step 6 and stage 5 step 4
        "python.versions",
        "ptex",
        (
            ("ok", "torch_gcu 1.10.0+2.5.136"),
            ("unknown", "nobody has verified ptex 2.1.0+torch1.11.0 with torch 1.10.0"),
        ),
        machine=t20(gcu="1.10.0+2.5.136", ptex="2.1.0+torch1.11.0"),
    ),
    Case(  # T20 deployment manual, stage 5 step 4: a script of the project replaced torch
        "python.versions",
        "ptex",
        (
            ("failure", "torch_gcu 1.10.0 is for torch 1.10.0, but torch 1.13.1 is installed"),
            ("failure", "ptex 1.3.20 is for torch 1.10.0"),
        ),
        machine=t20("1.13.1+cu117"),
    ),
    Case(
        "python.versions",
        "ptex",
        (("ok", "torch_gcu"), ("unknown", "torch 1.10.0 with ptex 9.9 is not in the vendor's table")),
        machine=t20(ptex="9.9"),
    ),
    Case("python.versions", "ptex", (("skipped", "missing"),), machine=t20(gcu="", ptex="")),
    Case("python.companions", "npu", (("skipped", "neither"),), machine=npu()),
    Case(
        "python.companions",
        "npu",
        (("ok", "torchvision 0.24.1+cpu belongs to torch 2.9.0"), ("ok", "torchaudio 2.9.0")),
        machine=companions("2.9.0+cpu", torchvision="0.24.1+cpu", torchaudio="2.9.0"),
    ),
    Case(  # T20 deployment manual, stage 5 step 4: a script of the project replaced torchvision
        "python.companions",
        "ptex",
        (("warning", "torchvision 0.14.1 is installed, but torch 1.10.0 needs 0.11.1"),),
        machine=companions("1.10.0", torchvision="0.14.1"),
    ),
    Case(  # torchaudio 2.11 serves every later torch; a torch that is not in the table is judged by its first numbers
        "python.companions",
        "npu",
        (("ok", "torchvision 0.28.7 belongs to torch 2.13.7"), ("ok", "torchaudio 2.11.0")),
        machine=companions("2.13.7", torchvision="0.28.7", torchaudio="2.11.0"),
    ),
    Case(
        "python.companions",
        "musa",
        (("ok", "torchvision 0.24.1.post1+musa5.2.0"), ("unknown", "torchaudio 7.0 is not in the table")),
        machine=companions("2.9.1+musa5.2.0", torchvision="0.24.1.post1+musa5.2.0", torchaudio="7.0"),
    ),
    Case(
        "python.companions",
        "npu",
        (("unknown", "belongs to torch 3.0.0 is not known"),),
        machine=companions("3.0.0", torchvision="0.28.0"),
    ),
    Case("python.sdk", "npu", (("ok", "fits CANN 8.5.0"),), CANN, machine=npu()),
    Case(
        "python.sdk",
        "npu",
        (("failure", "is built for CANN 9.1.0, but 8.5.0"),),
        CANN,
        machine=npu(plugin="2.9.0.post6"),
    ),
    Case("python.sdk", "musa", (("ok", "fits MUSA SDK 5.2.0"),), musa_sdk("5.2.0"), machine=musa("2.9.1")),
    Case("python.sdk", "musa", (("failure", "built for MUSA SDK >=5.1.0"),), musa_sdk("4.3.4"), machine=musa("2.9.1")),
    Case("python.sdk", "musa", (("unknown", "is known only with"),), musa_sdk("5.2.0"), machine=musa("2.7.1")),
    Case("python.autoload", "npu", (("ok", "loads torch_npu automatically"),), machine=npu()),
    Case(
        "python.autoload",
        "npu",
        (("warning", "is 0"),),
        machine={**npu(), "environment": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}},
    ),
    Case("python.autoload", "npu", (("warning", "no entry point"),), machine=npu(entry_points={})),
    Case("python.conflicts", "npu", (("ok", "no other plugin"),), machine=npu()),
    Case(
        "python.conflicts",
        "npu",
        (("warning", "other plugins too: torch_musa"), ("warning", "2 packages")),
        machine=npu(
            entry_points={"torch_npu": "x", "torch_musa": "y", "torchferry_shim": "z"},
            distributions={"flash-attn": "2.5", "nvidia-nccl-cu12": "2.2", "numpy": "2.0"},
        ),
    ),
    Case("python.shadowed", "npu", (("ok", "nothing shadows"),)),
    Case("python.shadowed", "musa", (("warning", "/work/torch_musa"),), {"/work/torch_musa/": ""}),
    Case("python.numpy", "npu", (("skipped", "missing"),), machine=npu()),
    Case("python.numpy", "npu", (("ok", "torch 2.9.0 works with NumPy 2.1.0"),), machine=numpy("2.9.0+cpu", "2.1.0")),
    Case("python.numpy", "npu", (("ok", "torch 2.1.0 works with NumPy 1.26.4"),), machine=numpy("2.1.0", "1.26.4")),
    Case(  # nothing was imported: the versions tell
        "python.numpy",
        "npu",
        (("warning", "torch 2.1.0 cannot exchange data with NumPy 2.0.1"),),
        machine={**numpy("2.1.0", "2.0.1"), "imported": {"error": MUDNN_GONE, "version": ""}},
    ),
    Case(  # a build of the vendor's own may be newer than its number: what was tried counts
        "python.numpy",
        "musa",
        (("ok", "torch 2.2.0"),),
        machine={**musa("2.2.0", numpy="2.0.1"), "imported": {"error": "", "version": "2.2.0", "numpy": ""}},
    ),
    Case(  # openfl issue 999: the error of a tensor
        "python.numpy",
        "npu",
        (("warning", "cannot exchange data"),),
        machine={
            **numpy("2.9.0", "2.0.1"),
            "imported": {"error": "", "version": "2.9.0", "numpy": "RuntimeError: Numpy is not available"},
        },
    ),
    Case("python.toolkit", "npu", (("skipped", "CANN is not installed"),), machine=npu()),
    Case("python.toolkit", "gcu", (("skipped", "no Python package is known"),)),
    Case("python.toolkit", "npu", (("ok", "found: tbe, attrs"),), CANN, machine=cann()),
    Case("python.toolkit", "npu", (("failure", "does not find tbe"),), ENV_SCRIPT, machine=cann(modules={})),
    Case(
        "python.toolkit",
        "npu",
        (("warning", "/venv/bin/python lacks attrs, decorator"),),
        CANN,
        machine=cann(lacking=("attrs", "decorator")),
    ),
    # --- live probe ---
    Case("probe.start", "npu", (("ok", "2 devices"),), probe=steps({"step": "start", "devices": 2, "name": "910B3"})),
    Case("probe.start", "npu", (("failure", "counts 0"),), probe=steps({"step": "start", "error": "counts 0 devices"})),
    Case(
        "probe.start",
        "npu",
        (("ok", "1 device: "), ("warning", "the time limit of 180 s ended the probe during operators attention")),
        probe=steps({"step": "start", "devices": 1}, stopped="timeout", doing="operators attention", timeout=180.0),
    ),
    Case(
        "probe.start",
        "npu",
        (("ok", "1 device: "), ("failure", "exit status -11 during operators attention")),
        probe=steps({"step": "start", "devices": 1}, stopped="exit status -11", doing="operators attention"),
    ),
    Case(
        "probe.start",
        "npu",
        (("failure", "did not start within the time limit of 20 s"),),
        probe=steps(stopped="timeout", doing="start", timeout=20),
    ),
    Case("probe.allocate", "npu", (("ok", "npu:0"),), probe=steps({"step": "allocate", "part": "npu:0", "error": ""})),
    Case(
        "probe.allocate",
        "npu",
        (("failure", "npu:1: OOM"),),
        probe=steps({"step": "allocate", "part": "npu:1", "error": "OOM"}),
    ),
    Case("probe.matmul", "npu", (("ok", "npu:0"),), probe=steps({"step": "matmul", "part": "npu:0", "error": ""})),
    Case(
        "probe.matmul",
        "npu",
        (("failure", "differs"),),
        probe=steps({"step": "matmul", "part": "npu:0", "error": "differs"}),
    ),
    Case("probe.dtypes", "npu", (("ok", "float32"),), probe=steps({"step": "dtype", "part": "float32", "error": ""})),
    Case(
        "probe.dtypes",
        "gcu",
        (("warning", "int64 does not work"),),
        probe=steps({"step": "dtype", "part": "int64", "error": "narrowed"}),
    ),
    Case(
        "probe.operators",
        "npu",
        (("ok", "softmax"),),
        probe=steps({"step": "operators", "part": "softmax", "error": ""}),
    ),
    Case(
        "probe.operators",
        "npu",
        (("failure", "group `sorting`"), ("ok", "softmax")),
        probe=steps(
            {"step": "operators", "part": "sorting", "error": "NotImplementedError: no"},
            {"step": "operators", "part": "softmax", "error": ""},
        ),
    ),
    Case(
        "probe.collective", "npu", (("ok", "8 devices"),), probe=steps({"step": "collective", "error": "", "ranks": 8})
    ),
    Case(
        "probe.collective",
        "npu",
        (("failure", "rank 1"),),
        probe=steps({"step": "collective", "error": "rank 1", "ranks": 2}),
    ),
    Case(
        "probe.collective",
        "npu",
        (("warning", "hccl over 8 devices did not finish within 90 s"),),
        probe=steps({"step": "collective", "error": "", "ranks": 8, "limit": 90.0}, timeout=180.0),
    ),
    Case("probe.collective", "npu", (("skipped", "one device"),), probe=steps({"step": "collective", "skipped": True})),
    Case(
        "probe.bandwidth",
        "npu",
        (("ok", "24.5 GB/s to the device, 20.1 GB/s back"),),
        probe=steps({"step": "bandwidth", "error": "", "mebibytes": 64, "up": 24.51, "down": 20.1}),
    ),
    Case(
        "probe.bandwidth", "npu", (("unknown", "no memory"),), probe=steps({"step": "bandwidth", "error": "no memory"})
    ),
    Case("probe.bandwidth", "npu", (("skipped", "rehearsal"),), rehearsed=True, probe=steps()),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_check_over_a_recorded_machine(case: Case, tmp_path: Path) -> None:
    results = results_of(case, tmp_path)
    assert [result.status.value for result in results] == [status for status, _ in case.wanted], results
    for result, (_, said) in zip(results, case.wanted, strict=True):
        assert said in result.what.render("en")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_well_has_a_cause_and_a_command(case: Case, tmp_path: Path) -> None:
    for result in results_of(case, tmp_path):
        if result.status.value in ("failure", "warning"):
            assert result.cause is not None, result
            assert result.commands, result
            assert all(result.commands), result
            for text in (result.what, result.cause, result.advice):
                assert text is None or re.search(r"[\u4e00-\u9fff]", text.render("zh")) or "{" not in str(text)
        assert "{" not in result.what.render("en") + (result.cause.render("en") if result.cause else "")
        for command in result.commands:
            assert "..." not in command, command
            assert "{" not in re.sub(r"'\{\{.*?\}\}'|\$\{\w+\}|%\{\w+\}", "", command), command


def test_a_module_that_makes_no_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torchferry.doctor.checks.empty"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(TypeError, match="has 0 checks"):
        _check_of("empty")


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.code)
def test_every_check_has_rows_of_both_kinds(check: object) -> None:
    code = check.code  # type: ignore[attr-defined]
    statuses = {status for case in CASES if case.check == code for status, _ in case.wanted}
    assert "ok" in statuses, code
    assert statuses & {"failure", "warning", "unknown"}, code


def commands(check: str, target: str, tmp_path: Path, files: dict[str, str], **machine: object) -> list[str]:
    results = results_of(Case(check, target, (), files, machine=machine), tmp_path)
    return [command for result in results for command in result.commands]


def test_joining_the_group_render_as_the_manual_says(tmp_path: Path) -> None:
    nodes = {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=109, usable=False)}
    there = commands("node.access", "musa", tmp_path / "a", {"/etc/group": "render:x:109:\n"}, nodes=nodes)
    assert there == ["sudo usermod -aG render mia"]
    nodes = {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=0, usable=False)}
    absent = commands("node.access", "musa", tmp_path / "b", {"/etc/group": "root:x:0:\n"}, nodes=nodes)
    assert absent == ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"]


RENDER = "/dev/dri/renderD128"
GROUPS: dict[str, tuple[str, dict[str, tuple[int, int]], list[str]]] = {
    "the card's node comes first, and the group has no name": (
        "root:x:0:\n",
        {"/dev/mtgpu.0": (109, 0o660), RENDER: (109, 0o660)},
        ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"],
    ),
    "root's, with a mode that lets a group in": (
        "root:x:0:\n",
        {"/dev/mtgpu.0": (0, 0o660), RENDER: (0, 0o660)},
        ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"],
    ),
    "the group is there under another number": (
        "render:x:993:\n",
        {RENDER: (109, 0o660)},
        [f"sudo chgrp render {RENDER}", "sudo usermod -aG render mia"],
    ),
    "another group has them": ("video:x:44:\n", {RENDER: (44, 0o660)}, ["sudo usermod -aG video mia"]),
    "nobody knows which group it should be": (
        "",
        {"/dev/mtgpu.0": (109, 0o660)},
        ["ls -l /dev/mtgpu.0", "sudo setfacl -m u:mia:rw /dev/mtgpu.0"],
    ),
    "the mode": ("", {RENDER: (109, 0o640)}, [f"ls -l {RENDER}", f"sudo chmod g+rw {RENDER}"]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_who_is_let_in_is_judged_by_the_node_whose_group_is_known(name: str, tmp_path: Path) -> None:
    groups, nodes, wanted = GROUPS[name]
    closed = {path: node(path, gid=gid, mode=mode, usable=False) for path, (gid, mode) in nodes.items()}
    assert commands("node.access", "musa", tmp_path, {"/etc/group": groups}, nodes=closed) == wanted


def test_an_explicit_choice_of_cards_is_not_overwritten(tmp_path: Path) -> None:
    def mend(**values: str) -> list[str]:
        return commands("environment.visible_devices", "npu", tmp_path, {}, environment=values)

    assert mend(CUDA_VISIBLE_DEVICES="0,1", ASCEND_RT_VISIBLE_DEVICES="2") == ["unset CUDA_VISIBLE_DEVICES"]
    assert mend(CUDA_VISIBLE_DEVICES="0,1") == ["export ASCEND_RT_VISIBLE_DEVICES=0,1; unset CUDA_VISIBLE_DEVICES"]
    assert mend(CUDA_VISIBLE_DEVICES="GPU-8e1f") == ["unset CUDA_VISIBLE_DEVICES"]


def test_a_replaced_torch_is_mended_by_the_framework_and_not_by_the_same_wheel(tmp_path: Path) -> None:
    wheel = "/usr/local/topsrider/ai_development_toolkit/pytorch-gcu/ptex-2.1.0+torch1.11.0-py3-none-any.whl"
    lines = commands("python.versions", "ptex", tmp_path, {wheel: ""}, **t20("1.13.1"))
    assert set(lines) == {"./TopsRider_t2x_2.5.136_deb_amd64.run -y -C torch-gcu"}


def test_a_replaced_torchvision_is_installed_alone(tmp_path: Path) -> None:
    line = "/venv/bin/python -m pip install torchvision=={} --no-deps{}"
    found = commands("python.companions", "ptex", tmp_path, {}, **companions("1.10.0", torchvision="0.14.1"))
    assert found == [line.format("0.11.1", "")]
    found = commands("python.companions", "npu", tmp_path, {}, **companions("2.7.1+cpu", torchvision="0.20.0"))
    assert found == [line.format("0.22.1", " --index-url https://download.pytorch.org/whl/cpu")]


def test_the_process_that_has_a_card_open_is_named(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.check == "card.memory" and "links" in case.machine)
    (result,) = results_of(case, tmp_path)
    assert result.cause is not None
    assert "4711 python3 (/dev/gcu0)" in result.cause.render("en")
    assert result.commands == ("ps -o pid,user,etime,args -p 4711",)


def test_another_card_is_offered_where_its_number_is_the_variable_s(tmp_path: Path) -> None:
    busy = NPU_910B.replace("3338 / 65536", "60001/ 65536")
    chosen = "export ASCEND_RT_VISIBLE_DEVICES=1  # another card"
    for name, output, offered in (
        ("one device a card", busy, [chosen]),
        ("a model that no table knows", busy.replace("910B3", "910X3"), []),
        ("a sick card", busy.replace("1     910B3               | OK   ", "1     910B3               | Alarm"), []),
    ):
        found = commands("card.memory", "npu", tmp_path / name, {}, **tool("npu-smi info", output))
        assert [line for line in found if "VISIBLE" in line] == offered, name
    quarter = SDAA_T100.replace("0MB / 15296MB", "15000MB / 15296MB", 1)
    assert "VISIBLE" not in str(commands("card.memory", "sdaa", tmp_path / "sdaa", {}, **tool("teco-smi", quarter)))


def test_the_same_python_is_not_advised_again(tmp_path: Path) -> None:
    def advice(**machine: object) -> str:
        return commands("python.torch", "npu", tmp_path, {}, outputs={"python3": ""}, **machine)[0]

    assert advice() == "torchferry doctor --python $(command -v python3)"
    assert advice(python="python3").startswith("find / ")
    assert advice(**python(executable="python3")).startswith("find / ")


def test_root_may_open_what_others_may_not(tmp_path: Path) -> None:
    case = Case("node.access", "npu", (), machine={"nodes": NPU_NODES, "who": User(0, "root", (0,))})
    assert "root may open all 4" in results_of(case, tmp_path)[0].what.render("en")


def test_a_module_that_is_built_needs_only_loading(tmp_path: Path) -> None:
    built = {f"/lib/modules/{KERNEL}/modules.dep": "updates/dkms/mtgpu.ko:\n"}
    assert commands("driver.module", "musa", tmp_path, built)[0] == "sudo modprobe mtgpu"


def test_the_install_line_is_of_the_installed_torch(tmp_path: Path) -> None:
    lines = commands("python.versions", "npu", tmp_path, {}, **npu("2.8.0+cpu", "2.9.0"))
    assert lines == [
        "/venv/bin/python -m pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cpu && "
        "/venv/bin/python -m pip install torch-npu==2.9.0.post6"
    ]


def test_the_toolkit_that_is_there_chooses_the_plugin(tmp_path: Path) -> None:
    lines = commands("python.sdk", "npu", tmp_path, CANN, **npu(plugin="2.9.0.post6"))
    assert "torch-npu==2.9.0" in lines[0]
    assert "post" not in lines[0]


KNOWN = {
    "NumPy 2": (NUMPY_2, "built against NumPy 1", "/venv/bin/python -m pip install 'numpy<2'"),
    "glibc": (GLIBC_OLD, "older than 2.33", "ldd --version | head -n 1  # the version that is here"),
    "libstdc++": (
        GLIBCXX_OLD,
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6, is older than GLIBCXX_3.4.30",
        "find / -name 'libstdc++.so.6*' -not -path '/proc/*'",
    ),
    "static TLS": (
        STATIC_TLS,
        "thread-local variables",
        "export LD_PRELOAD=/root/miniforge3/envs/tensorflow/lib/python3.8/site-packages/torch/lib/libgomp-d22c30c5.so.1"
        ":$LD_PRELOAD",
    ),
    "tbe": (
        TBE_MISSING,
        "CANN's own module tbe",
        "source /usr/local/Ascend/cann/set_env.sh || source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    ),
    "decorator": (
        DECORATOR_MISSING,
        "the module decorator that it needs is not installed",
        "/venv/bin/python -m pip install "
        "attrs numpy decorator sympy cffi pyyaml psutil protobuf scipy requests absl-py",
    ),
}
"""For each recorded failure, a part of the cause and the first command."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_failure_is_explained_wherever_it_is_printed(name: str, tmp_path: Path) -> None:
    text, cause, command = KNOWN[name]
    library = {"/usr/lib64/libascend_hal.so": "x"}
    cases = [
        Case("python.import", "npu", (), machine={**npu(), "imported": {"error": text, "version": ""}}),
        Case("tool.present", "npu", (), machine=tool("npu-smi info", ProcessResult(1, "", text))),
        Case("library.found", "npu", (), library, machine=python(libraries={"libascend_hal.so": text})),
        Case("python.interpreter", "npu", (), machine={"answer": ProcessResult(1, "", text)}),
        Case("probe.start", "npu", (), probe=steps(stopped="exit status 1", lines=text.splitlines())),
        Case("probe.allocate", "npu", (), probe=steps({"step": "allocate", "part": "npu:0", "error": text})),
    ]
    for case in cases:
        result = results_of(case, tmp_path / case.check)[0]
        assert result.status.value == "failure", case
        assert result.cause is not None
        assert cause in result.cause.render("en"), (case.check, result)
        assert result.commands[0] == command, case.check
        assert result.source


def test_what_a_library_is_called_is_never_run(tmp_path: Path) -> None:
    """The text of a failure is not ours: what it names goes into a command as one word."""
    text = "OSError: /tmp/$(reboot);x.so: cannot allocate memory in static TLS block"
    case = Case("python.import", "npu", (), machine={**npu(), "imported": {"error": text, "version": ""}})
    (result,) = results_of(case, tmp_path)
    assert result.commands == ("export LD_PRELOAD='/tmp/$(reboot);x.so':$LD_PRELOAD",)


def test_a_check_that_breaks_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(context: CheckContext) -> Iterator[Result]:
        raise ValueError("no such line")

    context = context_of(Case("system.clock", "npu", ()), tmp_path)
    checks = [replace(all_checks()[0], run=broken), all_checks()[0]]
    first, *rest = examine(context, checks).results
    assert first.status.value == "unknown"
    assert "ValueError: no such line" in first.what.render("en")
    assert rest
