"""The autocast lists: which operators run in low precision, in float32, or in the widest type they are given.

Source: torch 2.13 aten/src/ATen/autocast_mode.h, the lists for CUDA (AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32,
AT_FORALL_FP32_SET_OPT_DTYPE, AT_FORALL_PROMOTE). A plugin registers its own copies of them.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from torchferry.rehearsal.native import Native

KEY = "AutocastPrivateUse1"
"""The key of torch's dispatcher under which a plugin's autocast is."""

LOWER = [
    "_convolution.deprecated",
    "_convolution",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "einsum",
    "mm",
    "mv",
    "linalg_vecdot",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "linalg_multi_dot",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "_scaled_dot_product_flash_attention",
    "scaled_dot_product_attention",
]
FLOAT32 = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "rms_norm",
    "group_norm",
    "frobenius_norm.dim",
    "nuclear_norm",
    "nuclear_norm.dim",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "norm.names_ScalarOpt_dim",
]
FLOAT32_SET_OPTION = [
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "sum",
    "sum.dim_IntList",
]
PROMOTE = [
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
    "cat",
    "stack",
]
BANNED = ["binary_cross_entropy"]


def without_autocast() -> contextlib.AbstractContextManager[None]:
    """Return a context in which the device's autocast has ended: a kernel computes in the dtypes that it names."""
    guard: contextlib.AbstractContextManager[None] = torch._C._ExcludeDispatchKeyGuard(_keys())
    return guard


@functools.cache
def _keys() -> Any:
    return torch._C.DispatchKeySet(torch._C._dispatch_key_parse(KEY))


def register(native: Native) -> None:
    """Give the device its autocast kernels."""
    for policy, operators in enumerate((LOWER, FLOAT32, FLOAT32_SET_OPTION, PROMOTE, BANNED)):
        for operator in operators:
            native.set_autocast(operator, policy)
