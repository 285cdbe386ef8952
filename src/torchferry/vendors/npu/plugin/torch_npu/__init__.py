"""The package torch_npu as a program sees it, over a simulated Ascend card.

Names follow the torch-npu 2.9.0 and 2.13.0 wheels (PyPI), read statically.
"""

# ruff: noqa: E402 - torch may load this package while it is itself being imported


def _autoload() -> None:
    """Do nothing: torch calls it when it loads plugins by itself, which is inside the import of torch below."""


import os as _os

import torch as _torch

from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__)
__version__ = _facade_support.stated_version()

npu = _torch.npu

from torch_npu import _namespace as _namespace_names

_namespace_names.complete(npu, _plugin)

from torch_npu import _C, contrib, distributed, optim, profiler, utils
from torch_npu import _fused as _fused

# Private operators that torch_npu/utils/exposed_api.py exports; contents.toml lists public names alone.
_attention = ("score", "score_v2")
globals().update(
    _facade_support.stubs(
        __name__,
        [
            "_npu_dropout",
            *(f"_npu_fused_infer_attention_{form}_get_max_workspace" for form in _attention),
            *(f"_npu_fused_infer_attention_{form}_infer_output" for form in _attention),
            *(("_lstm_npu", "_lstm_npu_backward") if _plugin.at_least("2.13.0") else ()),
        ],
    )
)
if _plugin.target.shares_tensors() is True:
    from torch_npu import multiprocessing as multiprocessing
globals().update(_fused.OPERATORS)

_torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(_torch.Tensor.npu)
_torch.distributed.is_hccl_available = distributed.is_hccl_available

__all__ = ["_C", "contrib", "distributed", "npu", "optim", "profiler", "utils"]
__getattr__ = _facade_support.missing(__name__)

if _os.environ.get("TORCH_TRANSFER_TO_NPU") == "1":
    _facade_support.redirect("TORCH_TRANSFER_TO_NPU=1")
