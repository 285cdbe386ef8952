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
def masks_of_inference(npu: Any) -> tuple[Any, Any]:
    query, key, value = (drawn(2, 4, 3, 8, seed=seed) for seed in range(3))
    one = query[:, :, :1]
    of_batch = torch.tensor([[True, False, False], [False, False, True]])
    square = torch.stack([torch.eye(3).bool(), torch.eye(3).flip(0).bool()])
    both = torch.ops.npu.npu_fused_infer_attention_score
    options = {"num_heads": 4, "input_layout": "BNSD"}
    cards = moved(query, key, value, one, of_batch, square)
    compressed = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1)
    got = [
        both(cards[3], *cards[1:3], atten_mask=cards[4], **options)[0],
        npu.npu_incre_flash_attention(cards[3], *cards[1:3], atten_mask=cards[4], **options),
        both(*cards[:3], atten_mask=cards[5], **options)[0],
        npu.npu_prompt_flash_attention(*cards[:3], atten_mask=cards[5], next_tokens=9, **options),
        *(both(cards[3], *cards[1:3], atten_mask=compressed, sparse_mode=mode, **options)[0] for mode in (2, 3, 4)),
        both(cards[3], *cards[1:3], atten_mask=cards[4], pre_tokens=0, next_tokens=0, **options)[0],
    ]
    narrow = by_rows(one, key, value, of_batch[:, None])
    wide = by_rows(query, key, value, square)
    return got, [*(narrow, narrow, wide, wide), *[by_rows(one, key, value, torch.zeros(2, 1, 3).bool())] * 3, narrow]


def by_rows(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Return attention with the scale 1, a row at a time, from the keys that it sees; zeros where it sees none."""
    result = torch.zeros_like(query)
    for batch in range(query.shape[0]):
        for row in range(query.shape[2]):
            seen = [place for place in range(key.shape[2]) if not hidden[batch, row, place]]
            if seen:
                weights = torch.einsum("hd,hkd->hk", query[batch, :, row], key[batch][:, seen]).softmax(-1)
                result[batch, :, row] = torch.einsum("hk,hkd->hd", weights, value[batch][:, seen])
    return result


@case
def sparse_modes_of_inference(npu: Any) -> tuple[Any, Any]:
    query, key, value = drawn(2, 2, 4, 8), drawn(2, 2, 6, 8, seed=1), drawn(2, 2, 6, 8, seed=2)
    cards = moved(query, key, value)
    compressed = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1)
    whole = torch.zeros(4, 6, dtype=torch.bool, device="npu")
    queries, keys = [4, 2], [6, 3]
    limits = {2: (99, 0), 3: (99, 0), 4: (1, 0), 0: (1, 1)}
    got, expected = [], []
    for mode, (before, after) in limits.items():
        options = {
            "num_heads": 2,
            "input_layout": "BNSD",
            "sparse_mode": mode,
            "atten_mask": compressed if mode else whole,
        }
        tokens = {"pre_tokens": before, "next_tokens": after} if mode in (0, 4) else {}
        lengths = {"actual_seq_lengths": queries, "actual_seq_lengths_kv": keys}
        got += [
            npu.npu_prompt_flash_attention(*cards, **options, **tokens, **lengths),
            npu.npu_fused_infer_attention_score(*cards, **options, **tokens, **lengths)[0],
        ]
        hidden = torch.ones(2, 4, 6, dtype=torch.bool)
        for batch in range(2):
            right = keys[batch] - queries[batch] if mode in (3, 4) else 0
            for row in range(queries[batch]):
                for place in range(keys[batch]):
                    hidden[batch, row, place] = not -before <= place - row - right <= after
        expected += [by_rows(query, key, value, hidden)] * 2
    hidden = torch.ones(2, 4, 6, dtype=torch.bool).triu(1)
    first = npu.npu_prompt_flash_attention(*cards, num_heads=2, input_layout="BNSD", atten_mask=whole)
    free = npu.npu_prompt_flash_attention(*cards, num_heads=2, input_layout="BNSD", next_tokens=0)
    return [*got, first, free], [
        *expected,
        by_rows(query, key, value, hidden),
        by_rows(query, key, value, hidden & False),
    ]


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
        npu.npu_slice(card, [0, 1, 0], [2, 2, 4], out=torch.zeros(2, 2, 4).to("npu")),
        *(npu.npu_format_cast(card, 29), npu.npu_sign_bits_unpack(npu.npu_sign_bits_pack(card, 1), 1, torch.float32)),
    ]
    padded = torch.zeros(2, 4, 6)
    padded[:, 1:, :4] = x
    expected = [
        *(torch.einsum("ijk->jik", x).reshape(3, 8), x, torch.einsum("ijk->kij", x), padded, x.sort(-1).values),
        *(torch.eye(3)[[1, 0, 2]], x.amax(1), x[:, :1].repeat(1, 5, 1), x[:, 1:], x[:, 1:], x, x.sign().reshape(1, -1)),
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
def numbers_of_types(npu: Any) -> tuple[Any, Any]:
    x = drawn(3, 4)
    narrow = (x * 9).to(torch.int8)
    ones = torch.ones(1, device="npu")
    wanted = {256: torch.float32, 257: torch.float16, 283: torch.bfloat16, 6: torch.float32, 5: torch.float16}
    products = [
        npu.npu_quant_matmul(*moved(narrow, narrow.t().contiguous()), ones, output_dtype=number) for number in wanted
    ]
    whole = {258: torch.int8, 259: torch.int32, 260: torch.uint8, 0: torch.uint8, 1: torch.int8, 3: torch.int32}
    rounded = [npu.npu_quantize(x.to("npu"), ones / 9, None, number, 1) for number in whole]
    for tensor, dtype in zip([*products, *rounded], [*wanted.values(), *whole.values()], strict=True):
        assert tensor.dtype == dtype, (tensor.dtype, dtype)
    steps = (x * 9).round()
    return [*products, *rounded], [
        *((narrow.int() @ narrow.int().t()).to(dtype) for dtype in wanted.values()),
        *((steps.clamp(min=0) if dtype == torch.uint8 else steps).to(dtype) for dtype in whole.values()),
    ]


@case
def axes_of_scales(npu: Any) -> tuple[Any, Any]:
    x, last, before = drawn(2, 4, 4) * 9, torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, 3, 4])
    cards = moved(x, last)
    got = [npu.npu_quantize(*cards, None, torch.qint8, axis, False).float() for axis in (-2, -1, 0, 1, 2)]
    got.append(npu.npu_quantize(cards[0], cards[1], None, torch.qint8, 1, True).float())
    by_last = torch.einsum("bij,j->bij", x, last).round().clamp(-128, 127)
    by_middle = torch.einsum("bij,i->bij", x, before).round().clamp(-128, 127)
    divided = torch.einsum("bij,i->bij", x, 1 / before).round()
    return got, [by_middle, *[by_last] * 4, divided]


@case
def bits_of_dropout(npu: Any) -> tuple[Any, Any]:
    x = drawn(5, 29).abs() + 1
    result, mask = npu._npu_dropout(x.to("npu"), 0.25)
    back = npu.npu_dropout_backward(torch.ones_like(result), mask, 0.25)
    assert (mask.dtype, tuple(mask.shape)) == (torch.uint8, (32,)), mask
    kept = result.cpu() != 0
    places = [
        sum(1 << bit for bit in range(8) if place + bit < 145 and kept.view(-1)[place + bit])
        for place in range(0, 256, 8)
    ]
    everything = torch.tensor([98] + [0] * 15, dtype=torch.uint8, device="npu")
    shown = npu.npu_dropout_backward(torch.ones(4, device="npu"), everything, 0.5)
    return [result, back, mask, shown], [
        *(torch.where(kept, x / 0.75, 0), kept / 0.75, torch.tensor(places, dtype=torch.uint8)),
        torch.tensor([0.0, 2.0, 0.0, 0.0]),
    ]


@case
def gradients_of_gates(npu: Any) -> tuple[Any, Any]:
    x, grad, matrix = drawn(3, 8), drawn(3, 4), drawn(8, 8, seed=3)
    cos, sin, turn = drawn(3, 8, seed=4), drawn(3, 8, seed=5), drawn(3, 8, seed=6)
    cards = moved(x, grad, matrix, cos, sin, turn)
    leaf = x.clone().requires_grad_()
    first, second = leaf[:, :4], leaf[:, 4:]
    swish = first / (1 + torch.exp(-first)) * second
    bent = 0.5 * second * (1 + torch.tanh(math.sqrt(2 / math.pi) * (second + 0.044715 * second**3))) * first
    leaves = [tensor.clone().requires_grad_() for tensor in (x, cos, sin)]
    swapped = torch.stack((-leaves[0][:, 1::2], leaves[0][:, ::2]), -1).flatten(1)
    neighbours = torch.autograd.grad(leaves[0] * leaves[1] + swapped * leaves[2], leaves, turn)
    got = [
        npu.npu_swiglu_backward(cards[1], cards[0]),
        npu.npu_geglu_grad(cards[1], cards[0], npu.npu_geglu(cards[0])[1]),
        *npu.npu_rotary_mul_backward(cards[5], cards[0], *cards[3:5], "interleave"),
        npu.npu_ffn(cards[0], cards[2], cards[2], "fastgelu"),
    ]
    inner = x @ matrix
    expected = [
        *(torch.autograd.grad(swish, leaf, grad)[0], torch.autograd.grad(bent, leaf, grad)[0], *neighbours),
        (inner / (1 + torch.exp(-1.702 * inner))) @ matrix,
    ]
    return got, expected


@case
def rotation_by_a_matrix(npu: Any) -> tuple[Any, Any]:
    if "rotate" not in {argument.name for argument in npu.npu_rotary_mul.default._schema.arguments}:
        return [], []
    x, cos, sin, grad, matrix = (drawn(8, 8, seed=seed) for seed in range(5))
    cards = moved(x, cos, sin, grad, matrix)
    given = [card.detach().requires_grad_() for card in cards[:3]]
    result = npu.npu_rotary_mul(*given, "half", cards[4])
    leaves = [tensor.clone().requires_grad_() for tensor in (x, cos, sin)]
    wanted = leaves[0] * leaves[1] + leaves[0] @ matrix * leaves[2]
    derived = torch.autograd.grad(result, given, cards[3])
    return [result, *derived], [wanted, *torch.autograd.grad(wanted, leaves, grad)]


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


def refusals(npu: Any) -> Iterator[str]:
    """Look at what is refused: a call, and what has to be in the error."""
    x, square = drawn(4, 4).to("npu"), drawn(1, 1, 32, 32).to("npu")
    lists = torch.tensor([[1, 2]], device="npu")
    hidden = square > 0
    heads = drawn(1, 1, 4, 8).to("npu")
    options = {"num_heads": 1, "input_layout": "BNSD"}
    compressed = "needs the compressed atten_mask of 2048 x 2048"
    cross = "is_cross=True (pass is_cross=False)"
    shows = "(make them agree)"
    grouped = "group_list_type=2 (pass the ends of the groups with 0"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: npu.npu_moe_gating_top_k(x, 2, renorm=1), "npu::npu_moe_gating_top_k with renorm=1"),
        (lambda: npu.npu_scaled_masked_softmax(square, hidden, 1.0, True), "softmax with fixed_triu_mask=True"),
        (
            lambda: npu.npu_scaled_masked_softmax_backward(square, square, hidden, 1.0, True),
            "softmax_backward with fixed_triu_mask=True",
        ),
        (lambda: npu.npu_giou(x, x, False, True), f"npu::npu_giou with {cross}"),
        (lambda: npu.npu_diou(x, x, False, True), f"npu::npu_diou with {cross}"),
        (lambda: npu.npu_ciou(x, x, False, True), f"npu::npu_ciou with {cross}"),
        (
            lambda: npu.npu_grouped_matmul([x], [x], group_list=lists, group_list_type=2, group_type=0),
            f"npu::npu_grouped_matmul with {grouped}",
        ),
        (
            lambda: npu.npu_grouped_matmul_add_(x, x, x, lists, group_list_type=2),
            f"npu::npu_grouped_matmul_add_ with {grouped}",
        ),
        *(
            (
                lambda mode=mode, mask=mask: npu.npu_prompt_flash_attention(
                    *[heads] * 3, atten_mask=mask, sparse_mode=mode, **options
                ),
                compressed,
            )
            for mode in (2, 3, 4)
            for mask in (None, hidden)
        ),
        (lambda: npu.npu_fused_infer_attention_score(*[heads] * 3, sparse_mode=3, **options), compressed),
        (lambda: npu.npu_fusion_attention(*[heads] * 3, 1, "BNSD", atten_mask=x > 99, next_tockens=0), shows),
        (lambda: npu.npu_fusion_attention(*[heads] * 3, 1, "BNSD", atten_mask=x > 99, pre_tockens=1), shows),
    ]
    for place, (call, words) in enumerate(calls):
        answer = answer_of(call)
        if words not in answer:
            yield f"refusal {place}, {words}: {answer}"


def answer_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except (NotImplementedError, RuntimeError) as error:
        return str(error)
    return "computed"


def differences() -> Iterator[str]:
    operators = torch.ops.npu
    yield from refusals(operators)
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
