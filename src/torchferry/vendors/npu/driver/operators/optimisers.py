"""Steps of optimisers that the plugin computes in one operator.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu (npu_apply_adam, npu_bert_apply_adam) and
the expected values of test/test_base_ops/test_apply_adam.py, test_apply_adam_w.py and test_npu_bertapplyadam.py.
"""

from __future__ import annotations

import torch

from torchferry.rehearsal.driver.references import refuse


def npu_apply_adam_out(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    use_locking: bool | None,
    use_nesterov: bool | None,
    out: list[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Change m += (1 - b1)(g - m), v += (1 - b2)(g² - v), var -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + e)."""
    var, m, v = out
    rest = 1 - float(beta1_power)
    rate = float(lr) * (1 - float(beta2_power)) ** 0.5 / rest if rest else float("inf")
    m.add_((grad - m) * (1 - float(beta1)))
    v.add_((grad * grad - v) * (1 - float(beta2)))
    direction = m * float(beta1) + grad * (1 - float(beta1)) if use_nesterov else m
    var.sub_(direction * rate / (v.sqrt() + float(epsilon)))
    return var, m, v


def npu_apply_adam_w_out(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    max_grad_norm: torch.Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
    out: list[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Change var, m and v as AdamW does; the powers are of the step before, `max_grad_norm` has AMSGrad's maxima."""
    var, m, v = out
    wanted = -grad if maximize else grad
    first, second = float(beta1), float(beta2)
    m.mul_(first).add_(wanted, alpha=1 - first)
    v.mul_(second).addcmul_(wanted, wanted, value=1 - second)
    largest = v
    if amsgrad:
        if max_grad_norm is None:
            refuse("npu::npu_apply_adam_w", "amsgrad without max_grad_norm")
        largest = torch.maximum(max_grad_norm, v, out=max_grad_norm)
    deviation = (largest / (1 - float(beta2_power) * second)).sqrt_().add_(float(epsilon))
    var.mul_(1 - float(lr) * float(weight_decay))
    var.addcdiv_(m, deviation, value=-float(lr) / (1 - float(beta1_power) * first))
    return var, m, v


def npu_bert_apply_adam_out(
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: torch.Tensor,
    max_grad_norm: float,
    global_grad_norm: float,
    weight_decay: float,
    step_size: float | None,
    adam_mode: int,
    out: list[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Change var, m and v: Adam without the correction of the first steps, with weight decay and clipping."""
    if adam_mode != 0:
        refuse("npu::npu_bert_apply_adam", f"adam_mode={adam_mode}")
    var, m, v = out
    clipped = grad
    if float(max_grad_norm) > 0 and float(global_grad_norm) > float(max_grad_norm):
        clipped = grad * (float(max_grad_norm) / float(global_grad_norm))
    m.mul_(float(beta1)).add_(clipped, alpha=1 - float(beta1))
    v.mul_(float(beta2)).addcmul_(clipped, clipped, value=1 - float(beta2))
    var.sub_((m / (v.sqrt() + float(epsilon)) + float(weight_decay) * var) * float(lr))
    return var, m, v


OPERATORS = {
    "npu_apply_adam.out": npu_apply_adam_out,
    "npu_apply_adam_w.out": npu_apply_adam_w_out,
    "npu_bert_apply_adam.out": npu_bert_apply_adam_out,
}
