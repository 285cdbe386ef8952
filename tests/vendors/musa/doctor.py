"""Recorded machines with Moore Threads cards, and what the checks of the doctor say of them."""

from __future__ import annotations

from tests.doctor.recorded import INSIDE, KERNEL, SHM, Case, companions, node, python, tool, variables
from tests.vendors.musa.outputs import MUSA_DENIED, MUSA_S80, MUSA_S4000_SHORT
from torchferry.core.subprocesses import ProcessResult

MUSA_PCI = {
    "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x1ed5\n",
    "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
}
MUDNN_GONE = (
    "Traceback (most recent call last):\n"
    "ImportError: libmudnn.so.1: cannot open shared object file: No such file or directory\n"
)


def musa(version: str, **more: str) -> dict[str, object]:
    """Return an interpreter that has torch and torch_musa of one version."""
    return python(
        modules={"torch": "/t", "torch_musa": "/m"},
        distributions={"torch": version, "torch-musa": version, **more},
        torch={"version": version, "cuda": None, "hip": None},
    )


def musa_sdk(version: str) -> dict[str, str]:
    """Return the file in which the MUSA SDK states its version (docs.mthreads.com, ONNX Runtime for MUSA)."""
    return {"/usr/local/musa/version.json": f'{{\n  "musa_toolkits": {{\n    "version": "{version}"\n  }}\n}}\n'}


CASES = [
    Case("driver.pci", "musa", (("ok", "1 card on the PCI bus"),), MUSA_PCI),
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
        (("warning", "has no file of it"),),
        {"/lib/modules/5.4.0-42-generic/updates/dkms/mtgpu.ko": "", "/proc/modules": "mtgpu 1 0\n"},
    ),
    Case("driver.iommu", "musa", (("warning", "the IOMMU is off"),), MUSA_PCI),
    Case("driver.iommu", "musa", (("ok", "is on"),), {**MUSA_PCI, "/sys/kernel/iommu_groups/0/": ""}),
    Case(
        "node.access",  # torch_musa developer manual 11.1: the user is not in the group
        "musa",
        (("failure", "mia may not open /dev/dri/renderD128"),),
        {"/etc/group": "root:x:0:\nrender:x:109:\n"},
        machine={"nodes": {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=109, usable=False)}},
    ),
    Case("tool.present", "musa", (("ok", "1.14.0 shows 1 device"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case(
        "tool.present", "musa", (("failure", "fails"),), machine=tool("mthreads-gmi", ProcessResult(1, "", MUSA_DENIED))
    ),
    Case("card.health", "musa", (("unknown", "nobody"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case("card.memory_size", "musa", (("ok", "every card"),), machine=tool("mthreads-gmi", MUSA_S80)),
    Case(
        "card.memory_size",
        "musa",
        (("failure", "shows 32768 MiB instead of 49152"),),
        machine=tool("mthreads-gmi", MUSA_S4000_SHORT),
    ),
    Case(
        "sdk.installed",
        "musa",
        (("ok", "MUSA SDK 5.2.0"),),
        {"/usr/local/musa/version.json": '{\n  "musa_toolkits": {\n    "version": "5.2.0"\n  }\n}\n'},
    ),
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
    Case("container.shared_memory", "musa", (("warning", "65536 MiB"),), INSIDE, machine={"rooms": {"/dev/shm": SHM}}),
    Case("container.runtime", "musa", (("warning", "is not registered"),), machine={"outputs": {"docker info": ""}}),
    Case(
        "container.runtime",
        "musa",
        (("unknown", "cannot be parsed"),),
        {"/etc/docker/daemon.json": "{runtimes"},
        machine={"outputs": {"docker info": ""}},
    ),
    Case(
        "python.import",
        "musa",
        (("failure", "import torch_musa fails"),),
        machine={
            **python(modules={"torch": "/t", "torch_musa": "/m"}),
            "imported": {"error": MUDNN_GONE, "version": ""},
        },
    ),
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
            distributions={"torch": "2.5.0", "torch-musa": "1.1.0"}, torch={"version": "2.5.0"}, modules={"torch": "/t"}
        ),
    ),
    Case(
        "python.companions",
        "musa",
        (("ok", "torchvision 0.24.1.post1+musa5.2.0"), ("unknown", "table does not have torchaudio 7.0; for torch")),
        machine=companions("2.9.1+musa5.2.0", torchvision="0.24.1.post1+musa5.2.0", torchaudio="7.0"),
    ),
    Case("python.sdk", "musa", (("ok", "fits MUSA SDK 5.2.0"),), musa_sdk("5.2.0"), machine=musa("2.9.1")),
    Case("python.sdk", "musa", (("failure", "built for MUSA SDK >=5.1.0"),), musa_sdk("4.3.4"), machine=musa("2.9.1")),
    Case("python.sdk", "musa", (("unknown", "is known only with"),), musa_sdk("5.2.0"), machine=musa("2.7.1")),
    Case("python.shadowed", "musa", (("warning", "/work/torch_musa"),), {"/work/torch_musa/": ""}),
    Case(  # a build of the vendor's own may be newer than its number: what was tried counts
        "python.numpy",
        "musa",
        (("ok", "torch 2.2.0"),),
        machine={**musa("2.2.0", numpy="2.0.1"), "imported": {"error": "", "version": "2.2.0", "numpy": ""}},
    ),
]
