"""A CUDA program that uses what old and new versions of torch have differently; `torchferry run` runs it."""

import torch
from torch.cuda.amp import GradScaler, autocast, custom_bwd, custom_fwd
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Product(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    @custom_bwd
    def backward(ctx, gradient):
        left, right = ctx.saved_tensors
        assert (left @ right).dtype is torch.float16
        return gradient @ right.t(), left.t() @ gradient


class Exact(torch.autograd.Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, value):
        assert value.dtype is torch.float32
        return value * 2

    @staticmethod
    @custom_bwd
    def backward(ctx, gradient):
        return gradient * 2


def main() -> None:
    left = torch.randn(4, 4, device="cuda", requires_grad=True)
    right = torch.randn(4, 4, device="cuda", requires_grad=True)
    assert left.is_cuda
    with torch.autocast("cuda", dtype=torch.float16):
        product = Product.apply(left, right)
        assert product.dtype is torch.float16
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_gpu_dtype() is torch.float16
        exact = Exact.apply(product)
    exact.sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler()
    for _ in range(3):
        with autocast():
            labels = torch.arange(3, device="cuda")
            loss = torch.nn.functional.cross_entropy(model(torch.ones(3, 4, device="cuda")), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert torch.isfinite(loss)

    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    event.record(stream)
    with torch.cuda.stream(stream):
        left * 2
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    assert event.query()
    assert torch.cuda.memory_allocated() > 0

    torch.cuda.manual_seed(1)
    with torch.random.fork_rng():
        torch.rand(2, device="cuda")
    forked = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(1)
    assert torch.equal(forked, torch.rand(2, device="cuda"))
    generator = torch.Generator(device="cuda").manual_seed(3)
    torch.randn(2, generator=generator, device="cuda")

    for reentrant in (True, False):
        checkpoint(lambda value: (value @ right).relu(), left, use_reentrant=reentrant).sum().backward()
    for (batch,) in DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True, num_workers=1):
        assert batch.is_pinned()
        assert batch.cuda(non_blocking=True).is_cuda
    query = torch.randn(2, 4, 16, 32, device="cuda", requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    print("everything ran")


if __name__ == "__main__":
    main()
