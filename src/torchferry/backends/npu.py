"""Huawei Ascend and its plugin torch_npu."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.core.messages import Bilingual

_WHEEL = "torch-npu 2.9.0, 2.13.0 and 2.14.0 wheels (PyPI)"
_BRANCHES = "github.com/Ascend/pytorch branches"
_DOCS = "github.com/Ascend/pytorch@9e73e708ab93 docs"


class Npu(Backend):
    """Ascend 910 series cards with torch_npu over CANN."""

    NAME = "npu"
    TITLE = "Huawei Ascend"
    TITLE_ZH = "华为昇腾"
    ALIASES = ("ascend",)
    PLUGIN = "torch_npu"
    PIP_NAME = "torch-npu"
    INSTALL = Bilingual(
        "install CANN first, then the CPU build of torch and the torch-npu of the same version",
        "先安装 CANN，再安装 CPU 版 torch 和相同版本的 torch-npu",
    )
    AUTOLOAD_SINCE = "2.5.1"
    DEFAULT_VERSION = "2.14.0"
    REDIRECTIONS = ("torch_npu.contrib.transfer_to_npu",)
    DEVICE_TYPE = "npu"
    DISPATCH_KEY = "PrivateUse1"
    NAMESPACE = "torch.npu"
    IMPORT_NAMESPACE = "torch_npu.npu"
    MOVER = "npu"
    PREDICATE = "is_npu"
    DEVICE_GENERATOR = True
    SHARES_TENSORS_SINCE = "2.6.0.post3"
    SHARES_EVENTS_SINCE = "2.6.0.post5"
    DTYPES = {"float64": "limited"}  # noqa: RUF012
    DTYPE_NOTES = {  # noqa: RUF012
        "float64": Bilingual(
            "several operators return float32; compute on the CPU where the last digits matter",
            "部分算子返回 float32；精度要求高的部分请在 CPU 上计算",
        )
    }
    COLLECTIVE = "hccl"
    COMPOSITE_COLLECTIVE = True
    TF32_SWITCH = "torch.npu.matmul.allow_hf32"
    AUTOCAST = True
    PROFILER_ACTIVITY = "torch_npu.profiler.ProfilerActivity.NPU"
    PROFILER_SORT_KEY = None
    EXTENSION_MODULE = "torch_npu.utils.cpp_extension"
    EXTENSION_CLASS = "NpuExtension"
    COMPILER = "the Ascend C compiler of CANN"
    TRITON = "triton-ascend"
    COMPILE_BACKEND = "npu, npugraph_ex, npugraphs"
    ATTENTION = "torch_npu.npu_fusion_attention"
    DRIVER_MODULE = "drv_pcie_host"
    SDK_HOME = "/usr/local/Ascend"

    SOURCES = {  # noqa: RUF012
        "PLUGIN": _WHEEL,
        "PIP_NAME": "https://pypi.org/project/torch-npu/",
        "INSTALL": f"{_DOCS}: installation; COMPATIBILITY.en.md",
        "AUTOLOAD_SINCE": "torch-npu 2.5.1 wheel (PyPI): entry_points.txt, torch.backends; none in 2.4.0",
        "DEFAULT_VERSION": "newest wheel whose torch_npu/npu was read",
        "REDIRECTIONS": f"{_WHEEL}: torch_npu/contrib/transfer_to_npu.py",
        "DEVICE_TYPE": f"{_WHEEL}: rename_privateuse1_backend (2.14.0: torch_npu/_init/registry/backend.py)",
        "DISPATCH_KEY": f"{_WHEEL}: rename_privateuse1_backend (2.14.0: torch_npu/_init/registry/backend.py)",
        "NAMESPACE": f"{_WHEEL}: _register_device_module, which gets torch_npu.npu",
        "IMPORT_NAMESPACE": f"{_WHEEL}: torch_npu/npu/__init__.py",
        "MOVER": f"{_WHEEL}: generate_methods_for_privateuse1_backend(for_module=True)",
        "PREDICATE": f"{_WHEEL}: torch_npu/utils/hif8_tensor.py:278",
        "DEVICE_GENERATOR": f"{_WHEEL}: torch_npu/npu/random.py",
        "SHARES_TENSORS_SINCE": (
            f"{_BRANCHES} v2.6.0-7.2.0 (2.6.0.post3) and later, v2.1.0-7.2.0 (2.1.0.post17) too: torch_npu/"
            "multiprocessing/reductions.py; docs/zh/developer_notes/memory_management/memory_sharing_ipc.md: with HDK "
            "25.3.RC1 and CANN 8.3.RC1 or later, and not on Ascend 950DT"
        ),
        "SHARES_EVENTS_SINCE": f"{_BRANCHES} v2.6.0-7.3.0 (2.6.0.post5) and later: torch_npu/csrc/npu/Event.cpp",
        "DTYPES": f"{_DOCS}: native_apis (operators with limits)",
        "DTYPE_NOTES": f"{_DOCS}: native_apis (operators with limits)",
        "COLLECTIVE": f"{_WHEEL}: register_backend (2.14.0: torch_npu/_init/registry/distributed.py)",
        "COMPOSITE_COLLECTIVE": f"{_WHEEL}: torch_npu/contrib/transfer_to_npu.py rewrites it so",
        "TF32_SWITCH": f"{_WHEEL}: torch_npu/npu/npu_config.py (_allowHF32Matmul, _allowHF32Conv)",
        "AUTOCAST": f"{_WHEEL}: torch_npu/npu/amp",
        "PROFILER_ACTIVITY": f"{_WHEEL}: torch_npu/profiler/__init__.py",
        "PROFILER_SORT_KEY": f"{_DOCS}: native_api/pytorch_2-13-0/torch-profiler.md (key_averages: no)",
        "EXTENSION_MODULE": f"{_WHEEL}: torch_npu/utils/cpp_extension.py:11",
        "EXTENSION_CLASS": f"{_WHEEL}: torch_npu/utils/cpp_extension.py:11",
        "COMPILER": "CANN documentation: Ascend C operator development",
        "TRITON": "https://pypi.org/project/triton-ascend/",
        "COMPILE_BACKEND": f"{_WHEEL}: entry_points.txt, group torch_dynamo_backends",
        "ATTENTION": f"{_WHEEL}; transformers v4.57 integrations/npu_flash_attention.py calls it",
        "DRIVER_MODULE": "Huawei support document EDOC1100438838",
        "SDK_HOME": f"{_DOCS}: installation",
    }
