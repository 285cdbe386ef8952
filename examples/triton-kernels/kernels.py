"""Three Triton kernels as people write them for an NVIDIA card, and what launches them."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32}, num_warps=4),
        triton.Config({"BM": 64, "BN": 64, "BK": 32}, num_warps=8),
        triton.Config({"BM": 128, "BN": 256, "BK": 64}, num_warps=8),
        triton.Config({"BM": 256, "BN": 256, "BK": 64}, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    columns = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (start + k)[None, :], mask=(start + k)[None, :] < K, other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * N + columns[None, :], mask=(start + k)[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def gram_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + place)
    product = tl.dot(x, tl.trans(x), allow_tf32=True)
    tl.store(out_ptr + place, product)


def main():
    x = torch.randn(4096, device="cuda")
    total = torch.empty_like(x)
    add_kernel[(4,)](x, x, total, x.numel(), BLOCK=1024)

    a = torch.randn(300, 200, dtype=torch.float16, device="cuda")
    b = torch.randn(200, 500, dtype=torch.float16, device="cuda")
    c = torch.empty(300, 500, dtype=torch.float16, device="cuda")
    matmul_kernel[lambda meta: (triton.cdiv(300, meta["BM"]), triton.cdiv(500, meta["BN"]))](a, b, c, 300, 500, 200)

    square = torch.randn(64, 64, device="cuda")
    gram_kernel[(1,)](square, torch.empty_like(square), SIZE=64)


if __name__ == "__main__":
    main()
