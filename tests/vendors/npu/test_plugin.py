"""The simulated torch_npu: fused operators, optimizers, the profiler, and what is noted of missing names."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.rehearsal.facade_process import Process, first

pytestmark = pytest.mark.rehearsal

ATTENTION = """
import torch_npu
torch.manual_seed(0)
q, k, v = (torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3))
causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
full = torch.nn.functional.scaled_dot_product_attention(q, k, v)
compressed = torch.triu(torch.ones(2048, 2048), 1).bool().npu()
layouts = {
    "BNSD": (lambda t: t, lambda t: t),
    "BSND": (lambda t: t.transpose(1, 2), lambda t: t.transpose(1, 2)),
    "BSH": (lambda t: t.transpose(1, 2).flatten(2), lambda t: t.unflatten(2, (4, 8)).transpose(1, 2)),
    "SBH": (lambda t: t.permute(2, 0, 1, 3).flatten(2), lambda t: t.unflatten(2, (4, 8)).permute(1, 2, 0, 3)),
}
for layout, (there, back) in layouts.items():
    given = [there(t.npu()) for t in (q, k, v)]
    result = torch_npu.npu_fusion_attention(*given, 4, layout, scale=8**-0.5)
    assert len(result) == 7 and result[1].shape == (2, 4, 6, 8) and result[3].numel() == 0
    torch.testing.assert_close(back(result[0]).cpu(), full)
    for mode in (2, 3):
        options = {"scale": 8**-0.5, "atten_mask": compressed, "sparse_mode": mode}
        masked = torch_npu.npu_fusion_attention(*given, 4, layout, **options)
        torch.testing.assert_close(back(masked[0]).cpu(), causal)
mask = torch.triu(torch.ones(6, 6), 1).bool().npu()
given = [t.npu() for t in (q, k, v)]
masked = torch_npu.npu_fusion_attention(*given, 4, "BNSD", scale=8**-0.5, atten_mask=mask)
torch.testing.assert_close(masked[0].cpu(), causal)
same = {"scale": 8**-0.5, "atten_mask": mask, "pre_tockens": 6, "next_tockens": 0}
torch.testing.assert_close(torch_npu.npu_fusion_attention(*given, 4, "BNSD", **same)[0].cpu(), causal)
for other in ({"pre_tockens": 2}, {"atten_mask": torch.zeros_like(mask)}, {"next_tockens": -1}):
    try:
        torch_npu.npu_fusion_attention(*given, 4, "BNSD", **{**same, **other})
    except NotImplementedError as error:
        assert "make them agree" in str(error), error
    else:
        raise AssertionError(other)
    torch_npu.npu_fusion_attention(*given, 4, "BNSD", **{**same, **other, "sparse_mode": 1})
band = torch_npu.npu_fusion_attention(
    *given, 4, "BNSD", scale=8**-0.5, atten_mask=compressed, sparse_mode=4, pre_tockens=6, next_tockens=0
)
torch.testing.assert_close(band[0].cpu(), causal)
few = torch_npu.npu_fusion_attention(given[0], given[1][:, :2], given[2][:, :2], 4, "BNSD", scale=8**-0.5)[0]
grouped = torch.nn.functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
torch.testing.assert_close(few.cpu(), grouped)
packed = [t.npu().transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
ends = [6, 12]
result = torch_npu.npu_fusion_attention(
    *packed, 4, "TND", scale=8**-0.5, atten_mask=compressed, sparse_mode=3, actual_seq_qlen=ends, actual_seq_kvlen=ends
)[0]
torch.testing.assert_close(result.unflatten(0, (2, 6)).transpose(1, 2).cpu(), causal)
with torch.autocast("npu", dtype=torch.bfloat16):  # it ends at the operator, as at a kernel
    inside = torch_npu.npu_fusion_attention(*given, 4, "BNSD", scale=8**-0.5, atten_mask=mask)[0]
torch.testing.assert_close(inside.cpu(), causal)
torch_npu.npu_fusion_attention(*given, 4, "BNSD", scale=8**-0.5)[0].sum().backward()
expected = torch.autograd.grad(full.sum(), q)[0]
torch.testing.assert_close(q.grad, expected)
"""

FORMULAS = """
import torch_npu
x, gamma = torch.randn(2, 3, 8), torch.randn(8)
result, inverse = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), epsilon=1e-5)
torch.testing.assert_close(result.cpu(), torch.nn.functional.rms_norm(x, (8,), gamma, 1e-5))
assert inverse.shape == (2, 3, 1)
torch.testing.assert_close(torch_npu.npu_swiglu(x.npu()).cpu(), torch.nn.functional.silu(x[..., :4]) * x[..., 4:])
activated = torch.nn.functional.gelu(x[..., 4:], approximate="tanh")
product, gelu = torch_npu.npu_geglu(x.npu(), dim=-1, approximate=1)
torch.testing.assert_close((product.cpu(), gelu.cpu()), (x[..., :4] * activated, activated))
angle = torch.randn(2, 3, 4)
cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
turned = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu()).cpu()
torch.testing.assert_close(torch.view_as_complex(torch.stack(turned.chunk(2, -1), -1)),
    torch.view_as_complex(torch.stack(x.chunk(2, -1), -1)) * torch.polar(torch.ones(2, 3, 4), angle))
matrix = torch.randn(8, 8)
turned = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), rotate=matrix.npu()).cpu()
torch.testing.assert_close(turned, x * cos + x @ matrix * sin)
assert torch_npu.npu_format_cast(x, 29) is x
"""

OPTIMIZERS = """
import torch_npu
for own, torchs, extra in (
    (torch_npu.optim.NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch_npu.optim.NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedAdadelta, torch.optim.Adadelta, {"lr": 0.1}),
):
    ours, theirs = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for parameter, kind in ((ours, own), (theirs, torchs)):
        optimizer = kind([parameter], **extra)
        assert isinstance(optimizer, torchs)
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours, theirs)
    assert isinstance(own([ours], **extra), torch_npu.optim.NpuFusedOptimizerBase)
"""

PRODUCTS = """
indices, values = torch.tensor([[0, 1, 2], [1, 0, 2]]), torch.tensor([1.0, 2.0, 3.0])
mask = torch.sparse_coo_tensor(indices, values, (3, 3)).coalesce().npu()
full = torch.tensor([[0.0, 0, 1], [2, 3, 4], [5, 6, 0]]).npu()
for product, expected in ((mask * full, 4.0), (full * mask, 4.0), (full.sparse_mask(mask), 2.0)):
    assert product.indices().tolist() == [[1], [0]] and product.values().tolist() == [expected], product
assert (mask * 0)._nnz() == 0 and (mask * 2)._values().tolist() == [2, 4, 6]
try:
    torch.mul(mask, mask, out=full)
except RuntimeError as error:
    assert "expected 'out' to be a sparse tensor" in str(error), error
else:
    raise AssertionError
"""

PROFILER = """
import os, tempfile, torch_npu
folder = tempfile.mkdtemp()
activities = [torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU]
with torch_npu.profiler.profile(
    activities=activities,
    schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
    on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder),
    record_shapes=True,
    experimental_config=torch_npu.profiler._ExperimentalConfig(profiler_level=torch_npu.profiler.ProfilerLevel.Level1),
) as profiler:
    for _ in range(3):
        torch.ones(2).npu() + 1
        profiler.step()
assert len(os.listdir(folder)) == 1
"""


def test_npu_operators_optimizers_products_and_profiler(tmp_path: Path) -> None:
    process = Process("npu", tmp_path)
    assert process.run([first("npu"), ATTENTION, FORMULAS, OPTIMIZERS, PRODUCTS, PROFILER]) == ["ok"] * 6


def test_what_was_missing_is_noted(tmp_path: Path) -> None:
    process = Process("npu", tmp_path)
    process.run([first("npu"), "torch.npu.nvtx", "hasattr(torch.npu, 'comm')", "torch.npu.MemPool()"])
    assert ("missing-api", "torch.npu.nvtx") in process.seen
    assert ("not-rehearsed", "torch.npu.MemPool") in process.seen
    assert ("missing-api", "torch.npu.comm") not in process.seen
