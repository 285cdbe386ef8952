"""What operators of a vendor's plugin give, beside another formula on the CPU. Run inside a rehearsal, by the test."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

Case = Callable[[Any], tuple[Any, Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def moved(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.detach().to("npu").requires_grad_(tensor.requires_grad) for tensor in tensors]


@case
def activations(npu: Any) -> tuple[Any, Any]:
    x = drawn(6, 8)
    (card,) = moved(x)
    first, second = x[:, :4], x[:, 4:]
    got = [
        *(npu.fast_gelu(card), npu.npu_fast_gelu(card), npu.npu_silu(card), npu.npu_mish(card)),
        *(npu.npu_gelu(card), npu.npu_gelu(card, approximate="tanh"), npu.npu_gelu_mul(card), npu.npu_swiglu(card)),
        npu.npu_silu_(card.clone()),
    ]
    normal = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    bent = 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    expected = [
        *(x / (1 + torch.exp(-1.702 * x)), x / (1 + torch.exp(-1.702 * x)), x / (1 + torch.exp(-x))),
        *(x * torch.tanh(torch.log1p(torch.exp(x))), x * normal, x * bent, first * normal[:, :4] * second),
        *(first / (1 + torch.exp(-first)) * second, x / (1 + torch.exp(-x))),
    ]
    return got, expected


@case
def gradients_of_activations(npu: Any) -> tuple[Any, Any]:
    x, grad = drawn(3, 8).requires_grad_(), drawn(3, 8, seed=1)
    formulas: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "npu_fast_gelu": lambda v: v * torch.sigmoid(1.702 * v),
        "npu_mish": torch.nn.functional.mish,
        "npu_silu": torch.nn.functional.silu,
        "npu_gelu": torch.nn.functional.gelu,
    }
    got, expected = [], []
    for name, formula in formulas.items():
        card, card_grad = moved(x, grad)
        forward, backward = getattr(npu, name), getattr(npu, f"{name}_backward")
        wanted = torch.autograd.grad(formula(x), x, grad)[0]
        more = (forward(card.detach()),) if name == "npu_silu" else ()
        got += [torch.autograd.grad(forward(card), card, card_grad)[0], backward(card_grad, card.detach(), *more)]
        expected += [wanted, wanted]
    return got, expected


@case
def root_mean_square_norms(npu: Any) -> tuple[Any, Any]:
    x, y, gamma = drawn(2, 3, 8), drawn(2, 3, 8, seed=1), drawn(8).abs()
    cards = moved(x, y, gamma)

    def normal(value: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return value / torch.sqrt((value * value).sum(-1, keepdim=True) / 8 + 1e-6) * scale

    leaf, weight = x.clone().requires_grad_(), gamma.clone().requires_grad_()
    wanted = torch.autograd.grad(normal(leaf, weight), (leaf, weight), y)
    result, inverse = npu.npu_rms_norm(cards[0], cards[2])
    got = [
        *(result, npu.npu_gemma_rms_norm(cards[0], cards[2])[0]),
        *npu.npu_add_rms_norm(cards[0], cards[1], cards[2])[::2],
        *npu.npu_rms_norm_backward(cards[1], cards[0], cards[2], inverse),
    ]
    return got, [normal(x, gamma), normal(x, gamma + 1), normal(x + y, gamma), x + y, *wanted]


@case
def layer_and_group_norms(npu: Any) -> tuple[Any, Any]:
    x, y, gamma, beta = drawn(4, 6), drawn(4, 6, seed=1), drawn(6), drawn(6, seed=2)
    image, grad = drawn(2, 6, 5), drawn(2, 6, 5, seed=3)
    cards = moved(x, y, gamma, beta, image, grad)
    layer = torch.nn.functional.layer_norm
    leaves = [leaf.clone().requires_grad_() for leaf in (x, y, gamma, beta)]
    mean, inverse, deep = npu.npu_deep_norm(cards[0], cards[1], cards[3], cards[2], 0.5)
    deep_leaves = torch.autograd.grad(
        layer(0.5 * leaves[0] + leaves[1], (6,), leaves[2], leaves[3], 1e-6), leaves, torch.ones(4, 6)
    )
    swish_leaves = [leaf.clone().requires_grad_() for leaf in (image, gamma, beta)]
    swished = torch.nn.functional.silu(
        torch.nn.functional.group_norm(swish_leaves[0], 3, swish_leaves[1], swish_leaves[2])
    )
    ones = torch.ones(4, 6, device="npu")
    swish, *statistics = npu.npu_group_norm_swish(cards[4], 3, cards[2], cards[3])
    got = [
        *npu.npu_add_layer_norm(*cards[:4], additional_output=True)[::3],
        *(deep, *npu.npu_deep_norm_backward(ones, *cards[:3], mean, inverse, 0.5)),
        *(swish, npu.npu_group_norm_silu(cards[4], cards[2], cards[3], 3)[0]),
        *npu.npu_group_norm_swish_grad(cards[5], cards[4], 3, cards[2], cards[3], *statistics, [True] * 3),
    ]
    expected = [
        *(layer(x + y, (6,), gamma, beta), x + y, layer(0.5 * x + y, (6,), gamma, beta, 1e-6)),
        *(deep_leaves[0], deep_leaves[1], deep_leaves[3], deep_leaves[2], swished, swished),
        *torch.autograd.grad(swished, swish_leaves, grad),
    ]
    return got, expected


@case
def attention(npu: Any) -> tuple[Any, Any]:
    query, key, value, grad = (drawn(2, 4, 5, 8, seed=seed).requires_grad_() for seed in range(4))
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    cards = moved(query, key, value, grad)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, ~hidden)
    wanted = torch.autograd.grad(expected, (query, key, value), grad)
    options = {"scale": 8**-0.5, "atten_mask": hidden.to("npu")}
    fused = npu.npu_fusion_attention(*cards[:3], 4, "BNSD", **options)[0]
    plain = [card.detach() for card in cards]
    got = [
        *(fused, *torch.autograd.grad(fused, cards[:3], cards[3])),
        *(npu.npu_fusion_attention_v2(*plain[:3], 4, "BNSD", **options)[0],),
        *npu.npu_fusion_attention_grad(*plain, 4, "BNSD", scale_value=8**-0.5, atten_mask=options["atten_mask"])[:3],
        npu.npu_prompt_flash_attention(
            *plain[:3], atten_mask=hidden.to("npu"), num_heads=4, scale_value=8**-0.5, input_layout="BNSD"
        ),
        npu.npu_fused_infer_attention_score(
            *plain[:3], atten_mask=hidden.to("npu"), num_heads=4, scale=8**-0.5, input_layout="BNSD"
        )[0],
        npu.npu_incre_flash_attention(
            *(plain[0][:, :, :1], *plain[1:3]), num_heads=4, scale_value=8**-0.5, input_layout="BNSD"
        ),
    ]
    whole = torch.nn.functional.scaled_dot_product_attention(query[:, :, :1], key, value)
    return got, [expected, *wanted, expected, *wanted, expected, expected, whole]


@case
def parts_of_attention_together(npu: Any) -> tuple[Any, Any]:
    scores, values = drawn(3, 8), drawn(8, 4)
    parts = [
        (part.logsumexp(-1), part.softmax(-1) @ value)
        for part, value in ((scores[:, :5], values[:5]), (scores[:, 5:], values[5:]))
    ]
    got = npu.npu_attention_update([part[0].to("npu") for part in parts], [part[1].to("npu") for part in parts], 1)
    return list(got), [scores.softmax(-1) @ values, scores.logsumexp(-1)]


@case
def steps_of_optimisers(npu: Any) -> tuple[Any, Any]:
    value, grad = drawn(7), drawn(7, seed=1)
    state = [tensor.to("npu") for tensor in (value, torch.zeros(7), torch.zeros(7))]
    parameter = torch.nn.Parameter(value.clone())
    optimizer = torch.optim.AdamW([parameter], lr=0.1, weight_decay=0.02)
    for step in range(3):
        parameter.grad = grad * (step + 1)
        optimizer.step()
        npu.npu_apply_adam_w.out(
            *(0.9**step, 0.999**step, 0.1, 0.02, 0.9, 0.999, 1e-8, (grad * (step + 1)).to("npu"), None, False, False),
            out=state,
        )
    kept = optimizer.state[parameter]
    return state, [parameter.detach(), kept["exp_avg"], kept["exp_avg_sq"]]


@case
def products(npu: Any) -> tuple[Any, Any]:
    x, weight, bias, image, kernel = drawn(6, 4), drawn(5, 4), drawn(5), drawn(2, 4, 7, 7), drawn(6, 2, 3, 3)
    experts = drawn(3, 4, 5)
    cards = moved(x, weight, bias, image, kernel, experts)
    ends = [2, 2, 6]
    wanted = torch.cat([x[:2] @ experts[0], x[2:2] @ experts[1], x[2:] @ experts[2]])
    counts = {"split_item": 3, "group_type": 0, "group_list_type": 1}
    got = [
        npu.npu_linear(*cards[:3]),
        *npu.npu_linear_backward(npu.npu_linear(*cards[:3]), *cards[:2]),
        npu.npu_conv2d(cards[3], cards[4], None, [2, 2], [1, 1], [1, 1], 2),
        npu.npu_bmmV2(cards[5], cards[5].transpose(1, 2), []),
        *npu.npu_grouped_matmul(
            [cards[0]], [cards[5]], group_list=torch.tensor(ends).to("npu"), split_item=3, group_type=0
        ),
        *npu.npu_grouped_matmul([cards[0]], [cards[5]], group_list=torch.tensor([2, 0, 4]).to("npu"), **counts),
        npu.npu_ffn(cards[0], cards[1].t().contiguous(), cards[1], "relu"),
    ]
    linear = torch.nn.functional.linear(x, weight, bias)
    expected = [
        *(linear, linear @ weight, linear.t() @ x, torch.nn.functional.conv2d(image, kernel, None, 2, 1, 1, 2)),
        *(torch.einsum("bij,bkj->bik", experts, experts), wanted, wanted, (x @ weight.t()).clamp(min=0) @ weight),
    ]
    return got, expected


@case
def routing(npu: Any) -> tuple[Any, Any]:
    x, tokens = drawn(5, 8), drawn(5, 3)
    weights, experts, _ = npu.npu_moe_gating_top_k_softmax(x.to("npu"), None, 2)
    wanted = x.softmax(-1).topk(2, -1)
    permuted, places = npu.npu_moe_token_permute(tokens.to("npu"), experts)
    order = experts.cpu().reshape(-1).argsort(stable=True)
    back = npu.npu_moe_token_unpermute(permuted, places, weights)
    got = [weights, experts.float(), permuted, back, npu.npu_moe_token_unpermute(permuted, places)]
    total = tokens * wanted[0].sum(-1, keepdim=True)
    return got, [wanted[0], wanted[1].float(), tokens[order // 2], total, tokens.repeat_interleave(2, 0)]


@case
def shapes(npu: Any) -> tuple[Any, Any]:
    x = drawn(2, 3, 4)
    (card,) = moved(x)
    turned = npu.npu_confusion_transpose(card, [1, 0, 2], [3, 8], True)
    got = [
        *(turned, npu.npu_confusion_transpose_backward(turned, [1, 0, 2], [2, 3, 4], True)),
        *(npu.npu_transpose(card, [2, 0, 1]), npu.npu_pad(card, [0, 0, 1, 0, 0, 2]), npu.npu_sort_v2(card)),
        *(npu.npu_one_hot(torch.tensor([1, 0, 2]).int().to("npu"), depth=3), npu.npu_max(card, 1)[0]),
        *(npu.npu_broadcast(card[:, :1], [2, 5, 4]), npu.npu_slice(card, [0, 1, 0], [2, 2, 4])),
        *(npu.npu_format_cast(card, 29), npu.npu_sign_bits_unpack(npu.npu_sign_bits_pack(card, 1), 1, torch.float32)),
    ]
    padded = torch.zeros(2, 4, 6)
    padded[:, 1:, :4] = x
    expected = [
        *(torch.einsum("ijk->jik", x).reshape(3, 8), x, torch.einsum("ijk->kij", x), padded, x.sort(-1).values),
        *(torch.eye(3)[[1, 0, 2]], x.amax(1), x[:, :1].repeat(1, 5, 1), x[:, 1:], x, x.sign().reshape(1, -1)),
    ]
    return got, expected


@case
def quantised(npu: Any) -> tuple[Any, Any]:
    x = drawn(4, 6)
    narrow, scale = npu.npu_dynamic_quant(x.to("npu"))
    whole = torch.randint(-9, 9, (4, 6), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    other = whole.t().contiguous()
    tenth = torch.full((6,), 0.1, device="npu")
    got = [
        *(narrow.float() * scale.unsqueeze(-1), scale),
        npu.npu_quantize(x.to("npu"), tenth, torch.zeros_like(tenth), torch.qint8, 1).float(),
        npu.npu_quant_matmul(*moved(whole, other, torch.ones(4)), output_dtype=torch.float16).float(),
    ]
    steps = x.abs().amax(-1, keepdim=True) / 127
    expected = [
        *((x / steps).round() * steps, steps.squeeze(-1), (x / 0.1).round().clamp(-128, 127)),
        (whole.int() @ other.int()).float(),
    ]
    return got, expected


@case
def boxes(npu: Any) -> tuple[Any, Any]:
    first = torch.tensor([[0.0, 0, 4, 4], [2, 2, 6, 6], [9, 9, 10, 10]])
    overlap = torch.tensor([[1, 4 / 28, 0], [4 / 28, 1, 0], [0, 0, 1]])
    scored = torch.cat((first[[0, 0, 2]] + torch.tensor([[0.0], [0.1], [0.0]]), torch.tensor([[0.5], [0.9], [0.1]])), 1)
    around = 1 - (36 - 28) / 36 - 1 + 4 / 28
    got = [
        npu.npu_iou(first.to("npu"), first.to("npu")),
        npu.npu_nms_with_mask(scored.to("npu"), 0.5)[2].float(),
        npu.npu_giou(first[:1].t().to("npu"), first[1:2].t().to("npu")),
        npu.npu_bounding_box_encode(first[:1].to("npu"), first[1:2].to("npu"), *(0.0,) * 4, *(1.0,) * 4),
    ]
    return got, [overlap, torch.tensor([1.0, 0.0, 1.0]), torch.tensor([[around]]), torch.tensor([[0.4, 0.4, 0.0, 0.0]])]


@case
def losses(npu: Any) -> tuple[Any, Any]:
    x, labels, target = drawn(4, 5), drawn(4, 5, seed=1).softmax(-1), torch.tensor([0, 3, 1, 4])
    hidden = torch.zeros(4, 5, dtype=torch.bool)
    hidden[:, 3:] = True
    loss, logarithms, *_ = npu.npu_cross_entropy_loss(x.to("npu"), target.to("npu"))
    leaf = x.clone().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(leaf, target)
    got = [
        *(loss, logarithms, npu.npu_cross_entropy_loss_backward(torch.ones(1).to("npu"), logarithms, target.to("npu"))),
        *(npu.npu_softmax_cross_entropy_with_logits(x.to("npu"), labels.to("npu")),),
        npu.npu_scaled_masked_softmax(x[None, None].to("npu"), hidden[None, None].to("npu"), 2.0, False)[0, 0],
    ]
    masked = (2 * x[:, :3]).softmax(-1)
    expected = [
        *(wanted.reshape(1), x.log_softmax(-1), torch.autograd.grad(wanted, leaf)[0]),
        *(-(labels * x.log_softmax(-1)).sum(-1), torch.cat((masked, torch.zeros(4, 2)), 1)),
    ]
    return got, expected


def differences() -> Iterator[str]:
    operators = torch.ops.npu
    for name, function in CASES.items():
        got, expected = function(operators)
        if len(got) != len(expected):
            yield f"{name}: {len(got)} results, {len(expected)} expected"
        for place, (result, wanted) in enumerate(zip(got, expected, strict=False)):
            if result.device.type != "npu":
                yield f"{name}[{place}]: on {result.device}"
            try:
                torch.testing.assert_close(result.detach().cpu(), wanted.detach(), rtol=2e-5, atol=2e-6)
            except AssertionError as error:
                yield f"{name}[{place}]: " + " ".join(str(error).split())
        print("looked at", name)


if __name__ == "__main__":
    found = list(differences())
    print("\n".join(found))
    sys.exit(bool(found))
