"""Recorded machines with Ascend cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import (
    INSIDE,
    OTHER_PCI,
    PROXY,
    ROOMY,
    SHM,
    Case,
    companions,
    node,
    python,
    steps,
    tool,
    variables,
)
from tests.vendors.npu.outputs import NPU_910B, NPU_910C, NPU_DENIED, NPU_ECC, NPU_SICK
from torchferry.backends import registry
from torchferry.backends.machine import facts
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor.host import Space

MODULES = {"/proc/modules": "drv_pcie_host 40960 1\n"}
NPU_PCI = {
    "/sys/bus/pci/devices/0000:c1:00.0/vendor": "0x19e5\n",
    "/sys/bus/pci/devices/0000:c1:00.0/device": "0xd802\n",
    "/sys/bus/pci/devices/0000:c1:00.0/class": "0x120000\n",
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


def npu(torch: str = "2.9.0+cpu", plugin: str = "2.9.0", cuda: str | None = None, **more: object) -> dict[str, object]:
    """Return an interpreter that has torch and torch_npu."""
    values: dict[str, object] = {
        "modules": {"torch": "/venv/torch/__init__.py", "torch_npu": "/venv/torch_npu/__init__.py"},
        "distributions": {"torch": torch, "torch-npu": plugin},
        "torch": {"version": torch, "cuda": cuda, "hip": None},
        "entry_points": {"torch_npu": "torch_npu:_autoload"},
    }
    return python(**{**values, **more})


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


CASES = [
    Case("driver.pci", "npu", (("ok", "0000:c1:00.0"),), NPU_PCI),
    Case("driver.pci", "npu", (("failure", "no card of vendor 0x19e5"),), OTHER_PCI),
    Case("driver.pci", "npu", (("skipped", "PCI bus is not visible"),)),
    Case("driver.module", "npu", (("ok", "drv_pcie_host is loaded"),), MODULES),
    Case("driver.module", "npu", (("failure", "is not loaded"),)),
    Case("driver.module", "npu", (("skipped", "rehearsal"),), rehearsed=True),
    Case("driver.version", "npu", (("ok", "driver 25.3.rc1"),), DRIVER_FILE),
    Case(
        "driver.version",
        "npu",
        (("failure", "the tool reports 23.0.7"),),
        {**DRIVER_FILE, **INSIDE},
        machine=tool("npu-smi info", NPU_910B),
    ),
    Case("driver.version", "npu", (("unknown", "no known file states its version"),), MODULES),
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
        "node.access",
        "npu",
        (("failure", "may not open"),),
        machine={"nodes": {"/dev/davinci0": node("/dev/davinci0", mode=0o600, usable=False)}},
    ),
    Case("tool.present", "npu", (("ok", "23.0.7 shows 2 devices"),), machine=tool("npu-smi info", NPU_910B)),
    Case("tool.present", "npu", (("ok", "shows 2 devices"),), machine=tool("npu-smi info", NPU_910C)),
    Case("tool.present", "npu", (("failure", "is not on PATH"),)),
    Case(
        "tool.present",
        "npu",
        (("failure", "npu-smi fails"),),
        machine=tool("npu-smi info", ProcessResult(255, NPU_DENIED)),
    ),
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
    Case("card.health", "npu", (("ok", "reports OK for all 2 cards"),), machine=tool("npu-smi info", NPU_910B)),
    Case("card.health", "npu", (("failure", "reports Warning"),), machine=tool("npu-smi info", NPU_SICK)),
    Case(
        "card.memory_errors",
        "npu",
        (("ok", "no uncorrectable memory errors"),),
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
        (("unknown", "card 0"), ("failure", "card 1: 3 uncorrectable memory errors")),
        machine={
            "outputs": {
                "npu-smi info": NPU_910B,
                "npu-smi info -t ecc -i 1": NPU_ECC.replace(
                    "HBM Double Bit Error Count               : 0", "HBM Double Bit Error Count               : 3"
                ),
            }
        },
    ),
    Case(
        "card.temperature", "npu", (("ok", "55, 54 C"), ("unknown", "nobody")), machine=tool("npu-smi info", NPU_910B)
    ),
    Case("card.temperature", "npu", (("warning", "card 1: 96 C"),), machine=tool("npu-smi info", NPU_SICK)),
    Case("card.memory", "npu", (("ok", "free on these cards: 0, 1"),), machine=tool("npu-smi info", NPU_910B)),
    Case("card.memory", "npu", (("warning", "60001 of 65536"), ("ok", "1")), machine=tool("npu-smi info", NPU_SICK)),
    Case("sdk.installed", "npu", (("ok", "CANN 8.5.0"),), CANN),
    Case("sdk.installed", "npu", (("failure", "CANN is not installed"),)),
    Case("sdk.installed", "npu", (("unknown", "no file states"),), ENV_SCRIPT),
    Case(
        "sdk.environment",
        "npu",
        (("ok", "was sourced"),),
        {**ENV_SCRIPT, "/usr/local/Ascend/cann/lib64/": ""},
        machine={"environment": {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann"}},
    ),
    Case("sdk.environment", "npu", (("failure", "was not sourced"),), ENV_SCRIPT),
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
        (("failure", "asks for 2 cards, and a program gets 1: number 5 is not on this host, which has 2 devices"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": "0,5"}, **tool("npu-smi info", NPU_910B)},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("failure", "asks for 2 cards, and a program gets 0: the numbers must rise, and 0 does not"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": "1,0"}},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("failure", "asks for 2 cards, and a program gets 1: a space ends the list"),),
        machine={"environment": {"ASCEND_RT_VISIBLE_DEVICES": "0, 1"}},
    ),
    Case(
        "environment.visible_devices",
        "npu",
        (("warning", "nothing reads `NPU_VISIBLE_DEVICES`: it has no effect; the program sees every card"),),
        machine=variables(NPU_VISIBLE_DEVICES="0"),
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
    Case(  # the tool shows no card: the nodes are counted
        "environment.visible_devices",
        "npu",
        (("failure", "number 7 is not on this host, which has 1 device"),),
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
        (("unknown", "names device 4, but there is 1 device"),),
        INSIDE,
        machine={**variables(ASCEND_RT_VISIBLE_DEVICES="4"), "nodes": {"/dev/davinci4": node("/dev/davinci4")}},
    ),
    Case("environment.search-paths", "npu", (("ok", "no search path has"),), machine=variables(PATH="/usr/bin:/bin")),
    Case(
        "environment.search-paths",
        "npu",
        (
            ("warning", "PATH has an empty or relative entry: :/usr/bin"),
            ("warning", "LD_LIBRARY_PATH has an empty"),
            ("warning", "CPATH"),
        ),
        machine=variables(PATH=":/usr/bin", PYTHONPATH="/opt/site", LD_LIBRARY_PATH="/opt/lib:", CPATH="."),
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
    Case("system.limits", "npu", (("ok", "are high enough"),), machine={"bounds": {"memlock": (-1, -1)}}),
    Case(
        "system.limits",
        "npu",
        (("warning", "memlock is limited to 64 KiB"), ("warning", "nofile is limited to 1024")),
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
    Case(
        "system.clock",
        "npu",
        (("warning", "the clock is 2.5 s slow"),),
        machine=tool("chronyc tracking", "Leap status     : Normal\nSystem time     : 2.5 seconds slow of NTP time\n"),
    ),
    Case("system.clock", "npu", (("unknown", "run this check on the host"),), INSIDE),
    Case("system.host_name", "npu", (("ok", "to a non-loopback address"),), {"/etc/hosts": "10.0.0.4 node1\n"}),
    Case("system.host_name", "npu", (("warning", "only to 127.0.1.1"),), {"/etc/hosts": "127.0.1.1 node1\n"}),
    Case("system.host_name", "npu", (("unknown", "lacks this host's name"),), {"/etc/hosts": "127.0.0.1 localhost\n"}),
    Case("container.mounts", "npu", (("skipped", "no container"),)),
    Case("container.mounts", "npu", (("failure", "/usr/local/dcmi"),), INSIDE),
    Case(
        "container.mounts",
        "npu",
        (("ok", "mounted"),),
        {**INSIDE, **DRIVER_FILE, "/usr/local/dcmi/": "", "/usr/local/Ascend/driver/lib64/": ""},
    ),
    Case("container.ipc", "npu", (("ok", "no `--ipc=host` is needed"),), INSIDE),
    Case("container.shared_memory", "npu", (("ok", "65536 MiB"),), INSIDE, machine={"rooms": {"/dev/shm": SHM}}),
    Case(
        "container.shared_memory",
        "npu",
        (("failure", "64 MiB"),),
        INSIDE,
        machine={"rooms": {"/dev/shm": Space(64 << 20, 64 << 20, True, True)}},
    ),
    Case(
        "container.runtime",  # arthurchiao.art GPU notes 2: daemon.json of an Ascend host
        "npu",
        (("ok", "the runtime ascend is registered"),),
        {"/etc/docker/daemon.json": '{"runtimes": {"ascend": {"path": "/x"}}, "default-runtime": "ascend"}'},
        machine={"outputs": {"docker info": ""}},
    ),
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
    Case("python.import", "npu", (("ok", "import torch_npu"),), machine=npu()),
    Case("python.import", "npu", (("failure", "fails"),), machine={**npu(), "imported": ProcessResult(-11)}),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu()),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu("2.9.0+cpu", "2.9.0.post6")),
    Case("python.versions", "npu", (("failure", "is for torch 2.9.0"),), machine=npu("2.8.0+cpu", "2.9.0")),
    Case("python.versions", "npu", (("unknown", "not in the vendor's table"),), machine=npu("2.9.0", "2.9.0.post99")),
    Case("python.versions", "npu", (("unknown", "neither"),), machine=npu("3.0.0", "3.0.0")),
    Case("python.versions", "npu", (("failure", "torch 2.9.0 needs"),), machine=npu("2.9.0", "2.2.0")),
    Case("python.versions", "npu", (("ok", "belong together"),), machine=npu("2.9.0", "2.9.0+git1a2b3c")),
    Case("python.companions", "npu", (("skipped", "neither"),), machine=npu()),
    Case(
        "python.companions",
        "npu",
        (("ok", "torchvision 0.24.1+cpu belongs to torch 2.9.0"), ("ok", "torchaudio 2.9.0")),
        machine=companions("2.9.0+cpu", torchvision="0.24.1+cpu", torchaudio="2.9.0"),
    ),
    Case(  # torchaudio 2.11 serves every later torch; a torch that is not in the table is judged by its first numbers
        "python.companions",
        "npu",
        (("ok", "torchvision 0.28.7 belongs to torch 2.13.7"), ("ok", "torchaudio 2.11.0")),
        machine=companions("2.13.7", torchvision="0.28.7", torchaudio="2.11.0"),
    ),
    Case(
        "python.companions",
        "npu",
        (("unknown", "unknown which torchvision belongs to torch 3.0.0"),),
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
    Case(
        "python.conflicts",
        "npu",
        (("warning", "triton and triton-ascend are installed over each other"),),
        machine=npu(distributions={"triton": "3.6.0", "triton-ascend": "3.2.0"}),
    ),
    Case(
        "python.conflicts",
        "npu",
        (("ok", "no other plugin"),),
        machine=npu(distributions={"triton-ascend": "3.2.0"}),
    ),
    Case("python.shadowed", "npu", (("ok", "nothing shadows"),)),
    Case("python.numpy", "npu", (("skipped", "missing"),), machine=npu()),
    Case("python.numpy", "npu", (("ok", "torch 2.9.0 works with NumPy 2.1.0"),), machine=numpy("2.9.0+cpu", "2.1.0")),
    Case("python.numpy", "npu", (("ok", "torch 2.1.0 works with NumPy 1.26.4"),), machine=numpy("2.1.0", "1.26.4")),
    Case(  # nothing was imported: the versions tell
        "python.numpy",
        "npu",
        (("warning", "torch 2.1.0 cannot exchange data with NumPy 2.0.1"),),
        machine={**numpy("2.1.0", "2.0.1"), "imported": {"error": MUDNN_GONE, "version": ""}},
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
    Case("python.toolkit", "npu", (("ok", "found: tbe, attrs"),), CANN, machine=cann()),
    Case("python.toolkit", "npu", (("failure", "does not find tbe"),), ENV_SCRIPT, machine=cann(modules={})),
    Case(
        "python.toolkit",
        "npu",
        (("warning", "/venv/bin/python lacks attrs, decorator"),),
        CANN,
        machine=cann(lacking=("attrs", "decorator")),
    ),
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
        "probe.masks",
        "npu",
        (("failure", "mask `boolean`: differs"), ("ok", "additive")),
        probe=steps(
            {"step": "masks", "part": "boolean", "error": "differs"},
            {"step": "masks", "part": "additive", "error": ""},
        ),
    ),
    Case(
        "probe.masks",
        "npu",
        (("warning", "mask `additive with an empty row`: NaN, and 0 on the CPU"),),
        probe=steps({"step": "masks", "part": "additive with an empty row", "error": "NaN, and 0 on the CPU"}),
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
