"""Lines that a card refuses by what its vendor publishes of its kernels, and lines that it takes."""

from __future__ import annotations

from typing import NamedTuple


class Limited(NamedTuple):
    """A line that a kernel does not take.

    Attributes:
        name: Names the line.
        code: The line; see `BEGINNING` for the names in it.
        functions: The functions of the vendor's library that refuse it: with the simulated plugin, and with the
            vendor's own where it is another.
        source: Where it is published: the page of the function, or who met it.
        card: The card.
    """

    name: str
    code: str
    functions: tuple[str, ...]
    source: str
    card: str = "910B"


BEGINNING = (
    "import torch, torch_npu",
    "from torch import nn",
    "from torch.nn import functional as F",
    "d = 'npu'",
    "row, square = torch.ones(3).double().to(d), torch.ones(3, 3).double().to(d)",
    "whole = torch.ones(3, 3, dtype=torch.int64, device=d)",
    "image = torch.ones(1, 2, 8, 8).double().to(d)",
)
"""How such a program begins."""

_NN, _MATH = "github.com/hicann/ops-nn", "github.com/hicann/ops-math"

LIMITED = (
    Limited(
        "a product of integers", "whole @ whole", ("aclnnMm", "aclnnMatmul"), f"{_NN} matmul/mat_mul_v3/docs/aclnnMm.md"
    ),
    Limited(
        "a product in float64",
        "square @ square",
        ("aclnnMm", "aclnnMatmul"),
        f"{_NN} matmul/mat_mul_v3/docs/aclnnMm.md",
    ),
    Limited(
        "a batch of products in float64",
        "torch.bmm(square[None], square[None])",
        ("aclnnBatchMatMul",),
        f"{_NN} matmul/batch_mat_mul_v3/docs/aclnnBatchMatMul.md",
    ),
    Limited(
        "a convolution in float64",
        "nn.Conv2d(2, 2, 3).double().to(d)(torch.ones(1, 2, 8, 8).double().to(d))",
        ("aclnnConvolution",),
        f"{_NN} conv/convolution_forward/docs/aclnnConvolution.md",
    ),
    Limited(
        "a layer norm in float64",
        "nn.LayerNorm(8).double().to(d)(torch.ones(2, 8).double().to(d))",
        ("aclnnFastLayerNorm", "aclnnLayerNorm"),
        f"{_NN} norm/layer_norm_v4/docs",
    ),
    Limited(
        "a group norm in float64",
        "nn.GroupNorm(2, 8).double().to(d)(torch.ones(2, 8, 4).double().to(d))",
        ("aclnnGroupNorm",),
        f"{_NN} norm/group_norm/docs/aclnnGroupNorm.md",
    ),
    Limited(
        "a batch norm in float64",
        "nn.BatchNorm2d(2).double().to(d)(torch.ones(2, 2, 4, 4).double().to(d))",
        ("aclnnBatchNorm",),
        f"{_NN} norm/batch_norm_v3/docs/aclnnBatchNorm.md",
    ),
    Limited(
        "exp minus one in float64", "torch.expm1(row)", ("aclnnExpm1",), "github.com/sgl-project/sglang issue 29011"
    ),
    Limited(
        "repeats of float64",
        "torch.ones(3, 2).double().to(d).repeat_interleave(2, dim=1)",
        ("aclnnRepeatInterleaveInt", "aclnnRepeatInterleaveIntWithDim"),
        f"{_NN} index/repeat_interleave/docs",
    ),
    Limited(
        "an index into complex numbers",
        "torch.ones(3, 2, dtype=torch.complex64).to(d)[whole[0]]",
        ("aclnnIndex",),
        f"{_NN} index/index/docs/aclnnIndex.md; vllm-project/vllm-omni issue 4911",
    ),
    Limited(
        "a gather of complex numbers",
        "torch.ones(3, 2, dtype=torch.complex128).to(d).gather(0, torch.zeros(1, 2, dtype=torch.long).to(d))",
        ("aclnnGather",),
        f"{_NN} index/gather_elements_v2/docs/aclnnGather.md",
    ),
    Limited(
        "random integers without a sign",
        "torch.randint(0, 9, (3,), dtype=torch.uint64, device=d)",
        ("aclnnInplaceRandom",),
        "github.com/Ascend/pytorch issue 158",
    ),
    Limited(
        "random complex numbers in half",
        "torch.randn(3, dtype=torch.complex32, device=d)",
        ("aclnnInplaceNormal",),
        f"{_MATH} random/dsa_random_normal/docs/aclnnInplaceNormal.md",
    ),
    Limited(
        "nine dimensions",
        "torch.ones([2] * 9).to(d).permute(*reversed(range(9))).contiguous()",
        ("aclnnInplaceCopy",),
        "github.com/sgl-project/sglang issue 14159",
    ),
    Limited(
        "a cast to eight bits",
        "torch.ones(4, 4, device=d).to(torch.float8_e4m3fn)",
        ("aclnnCast",),
        f"{_MATH} math/cast/docs/aclnnCast.md",
    ),
    Limited("a sort of float64", "row.sort()", ("aclnnSort",), f"{_MATH} math/sort/docs/aclnnSort.md"),
    Limited("a roll of float64", "row.roll(1)", ("aclnnRoll",), f"{_MATH} conversion/roll/docs/aclnnRoll.md"),
    Limited("a rectifier of float64", "F.relu(row)", ("aclnnRelu",), f"{_NN} activation/relu/docs"),
    Limited("a silu of float64", "F.silu(row)", ("aclnnSilu",), f"{_NN} activation/swish/docs"),
    Limited("a mish of float64", "F.mish(row)", ("aclnnMish",), f"{_NN} activation/mish/docs"),
    Limited(
        "a loss of float64", "F.mse_loss(row, row)", ("aclnnMseLoss",), f"{_NN} loss/mse_loss/docs/aclnnMseLoss.md"
    ),
    Limited(
        "a pooling of float64",
        "F.max_pool2d(torch.ones(1, 1, 4, 4).double().to(d), 2, return_indices=True)",
        ("aclnnMaxPool2dWithIndices", "aclnnMaxPool2dWithMask"),
        f"{_NN} pooling/max_pool3d_with_argmax_v2/docs",
    ),
    Limited(
        "an inverse error function of float64", "torch.erfinv(row - 1)", ("aclnnErfinv",), f"{_MATH} math/erfinv/docs"
    ),
    Limited("the k-th value of float64", "row.kthvalue(1)", ("aclnnKthvalue",), f"{_MATH} math/kthvalue"),
    Limited("a median of float64", "row.median()", ("aclnnMedian",), f"{_MATH} math/median"),
    Limited("a histogram of float64", "row.histc(2)", ("aclnnHistc",), f"{_MATH} math/histogram"),
    Limited("a softplus of float64", "F.softplus(row)", ("aclnnSoftplus",), f"{_NN} activation/softplus_v2"),
    Limited(
        "a likelihood of float64",
        "F.nll_loss(square, whole[0] - 1)",
        ("aclnnNLLLoss",),
        f"{_NN} loss/nll_loss/docs/aclnnNLLLoss.md",
    ),
    Limited(
        "a linear layer in float64",
        "nn.Linear(3, 3).double().to(d)(square)",
        ("aclnnAddmm",),
        f"{_NN} matmul/mat_mul_v3/docs/aclnnAddmm&aclnnInplaceAddmm.md",
    ),
    Limited(
        "a linear layer of integers",
        "F.linear(whole, whole)",
        ("aclnnMatmul",),
        f"{_NN} matmul/mat_mul_v3/docs/aclnnMatmul.md",
    ),
    Limited(
        "a product of bytes",
        "torch.ones(3, 3, dtype=torch.int8, device=d) @ torch.ones(3, 3, dtype=torch.int8, device=d)",
        ("aclnnMatmul",),
        f"{_NN} matmul/mat_mul_v3/docs/aclnnMatmul.md",
    ),
    Limited(
        "a batch of products with a sum in float64",
        "torch.baddbmm(square[None], square[None], square[None])",
        ("aclnnBaddbmm",),
        f"{_NN} matmul/batch_mat_mul_v3/docs/aclnnBaddbmm&aclnnInplaceBaddbmm.md",
    ),
    Limited(
        "a convolution along one dimension in float64",
        "F.conv1d(torch.ones(1, 2, 8).double().to(d), torch.ones(2, 2, 3).double().to(d))",
        ("aclnnConvolution",),
        f"{_NN} conv/convolution_forward/docs/aclnnConvolution.md",
    ),
    Limited(
        "a transposed convolution in float64",
        "F.conv_transpose2d(image, torch.ones(2, 2, 3, 3).double().to(d))",
        ("aclnnConvolution",),
        f"{_NN} conv/convolution_forward/docs/aclnnConvolution.md",
    ),
    Limited(
        "a convolution of volumes in float64",
        "F.conv3d(image[None], torch.ones(1, 1, 2, 2, 2).double().to(d))",
        ("aclnnConvolution",),
        f"{_NN} conv/convolution_forward/docs/aclnnConvolution.md",
    ),
    Limited(
        "an adaptive pooling of float64",
        "F.adaptive_avg_pool2d(image, 2)",
        ("aclnnAdaptiveAvgPool2d",),
        f"{_NN} pooling/adaptive_avg_pool2d/docs/aclnnAdaptiveAvgPool2d.md",
    ),
    Limited(
        "a bicubic interpolation of float64",
        "F.interpolate(image, scale_factor=2, mode='bicubic')",
        ("aclnnUpsampleBicubic2d",),
        "github.com/hicann/ops-cv image/upsample_bicubic2d/docs/aclnnUpsampleBicubic2d.md",
    ),
    Limited(
        "a GELU of float64",
        "F.gelu(row)",
        ("aclnnGelu",),
        f"{_NN} activation/gelu/docs/aclnnGelu.md",
    ),
    Limited(
        "a hard swish of float64",
        "F.hardswish(row)",
        ("aclnnHardswish",),
        f"{_NN} activation/hard_swish/docs/aclnnHardswish&aclnnInplaceHardswish.md",
    ),
    Limited(
        "a binary cross entropy of float64",
        "F.binary_cross_entropy(row, row)",
        ("aclnnBinaryCrossEntropy",),
        f"{_NN} loss/binary_cross_entropy/docs/aclnnBinaryCrossEntropy.md",
    ),
    Limited(
        "a smooth loss of float64",
        "F.smooth_l1_loss(row, row * 2)",
        ("aclnnSmoothL1Loss",),
        f"{_NN} loss/smooth_l1_loss_v2/docs/aclnnSmoothL1Loss.md",
    ),
    Limited(
        "a divergence of float64",
        "F.kl_div(square, square)",
        ("aclnnKlDiv",),
        f"{_MATH} math/kl_div_v2/docs/aclnnKlDiv.md",
    ),
    Limited(
        "the order of float64",
        "row.argsort()",
        ("aclnnSort",),
        f"{_MATH} math/sort/docs/aclnnSort.md",
    ),
    Limited(
        "a mask over complex numbers",
        "torch.ones(3, dtype=torch.complex64).to(d).masked_fill(row > 0, 0)",
        ("aclnnInplaceMaskedFillScalar",),
        f"{_MATH} conversion/masked_fill/docs/aclnnInplaceMaskedFillScalar.md",
    ),
    Limited(
        "a sum of short integers without a sign",
        "torch.ones(3, dtype=torch.int32).to(torch.uint16).to(d) + 1",
        ("aclnnAdd",),
        f"{_MATH} math/add/docs/aclnnAdd&aclnnInplaceAdd.md",
    ),
    Limited(
        "a sum of nine dimensions",
        "torch.ones([2] * 9).to(d) + torch.ones([2] * 9).to(d)",
        ("aclnnAdd",),
        f"{_MATH} math/add/docs/aclnnAdd&aclnnInplaceAdd.md",
    ),
    Limited(
        "a softmax of nine dimensions",
        "torch.softmax(torch.ones([2] * 9).to(d), 0)",
        ("aclnnSoftmax",),
        f"{_NN} activation/softmax_v2/docs/aclnnSoftmax.md",
    ),
    Limited(
        "attention in float64",
        "F.scaled_dot_product_attention(image, image, image)",
        ("aclnnMatmul",),
        f"{_NN} matmul/mat_mul_v3/docs/aclnnMatmul.md",
    ),
    Limited(
        "the gradient of an embedding in float64",
        "nn.Embedding(3, 3).double().to(d)(whole[0]).sum().backward()",
        ("aclnnEmbeddingDenseBackward",),
        f"{_NN} index/embedding_dense_grad/docs/aclnnEmbeddingDenseBackward.md",
    ),
    Limited(
        "distances in float64",
        "torch.cdist(square, square)",
        ("aclnnCdist",),
        f"{_MATH} math/cdist/docs/aclnnCdist.md",
    ),
    Limited(
        "an inverse in float64",
        "square.inverse()",
        ("aclnnInverse",),
        f"{_NN} index/matrix_inverse/docs/aclnnInverse.md",
    ),
    Limited(
        "a variance of float64",
        "row.var()",
        ("aclnnVarCorrection",),
        f"{_MATH} math/reduce_var/docs/aclnnVarCorrection.md",
    ),
    Limited(
        "a cast to bfloat16 where the card has none",
        "torch.ones(3, device=d).bfloat16()",
        ("aclnnCast",),
        "github.com/hiyouga/LLaMA-Factory issues 7489 and 7522",
        card="310P",
    ),
    Limited(
        "a cast to bfloat16 where the card has none",
        "torch.ones(3, device=d).bfloat16()",
        ("aclnnCast",),
        f"{_MATH} math/cast/docs/aclnnCast.md",
        card="910A",
    ),
)

TAKEN = {
    "float64 on the device is float32 there": "x = whole.double() @ whole.double()\nassert x.dtype == torch.float32",
    "an empty tensor": "torch.expm1(row[:0])",
    "a number on the CPU": "torch.ones(3, device=d) * torch.tensor(2.0, dtype=torch.float64)",
    "eight bits that are moved and read": "torch.ones(3).to(torch.float8_e4m3fn).to(d).cpu()",
    "rotations without complex numbers": "x = torch.ones(2, 4, device=d); torch.cat((-x[..., 2:], x[..., :2]), -1)",
    "a running sum of truths": "torch.ones(3, dtype=torch.bool, device=d).cumsum(0)",
    "integers through a linear scale": "(torch.ones(3, dtype=torch.int8, device=d).float() * 0.1).round()",
    "half": "nn.LayerNorm(8).to(d, torch.bfloat16)(torch.ones(2, 8, device=d, dtype=torch.bfloat16))",
    "an index by truths": "x = torch.ones(3, 2, device=d); x[x > 0] = 0; x[torch.tensor([0, 2], device=d)]",
}
"""What a 910B takes."""


MUSA = {
    "F.avg_pool2d(torch.ones(1, 4, 4, device=d).half().requires_grad_(), 2).sum().backward()": "AvgPool2dBwd",
    "nn.Conv2d(2, 2, 3).double().to(d)(torch.ones(1, 2, 8, 8).double().to(d))": "Convolution",
    "nn.LayerNorm(3).double().to(d)(square)": "NativeLayerNorm",
    "nn.GroupNorm(1, 3).double().to(d)(square)": "NativeGroupNorm",
    "torch.addcdiv(row, row, row)": "AddcDiv",
    "torch.ones(3, dtype=torch.uint8, device=d).clamp(0, 1)": "Clamp",
    "square.requires_grad_().log_softmax(0).sum().backward()": "LogSoftmaxDataBwd",
}
"""What torch_musa 2.7.1 refuses in its own C++ (github.com/MooreThreads/torch_musa), and its function."""


def program(cards: tuple[str, ...] = ("910B",)) -> tuple[str, dict[int, Limited]]:
    """Return a program that does what the cards refuse and catches it, and which line has which."""
    lines = [*BEGINNING]
    places: dict[int, Limited] = {}
    for limited in LIMITED:
        if limited.card in cards:
            places[len(lines) + 2] = limited
            lines += ["try:", f"    {limited.code}", "except Exception as error:", "    print(type(error).__name__)"]
    return "\n".join(lines) + "\n", places
