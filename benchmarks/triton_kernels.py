"""Small kernels, each with one thing that a card may refuse; docstrings: a signature, and what is expected on npu."""

import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """*bf16,*bf16,i32,BLOCK=1024 -> accepted."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n)
    tl.store(y_ptr + o, x + x, mask=o < n)


@triton.jit
def row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """*fp32,*fp32,i32,BLOCK=2048 -> accepted."""
    o = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(y_ptr + row, tl.sum(tl.load(x_ptr + row * n + o, mask=o < n, other=0.0), axis=0))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr):
    """*fp16,*fp16,*fp32,M=64 -> accepted."""
    i = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)))


@triton.jit
def wide_product(a_ptr, b_ptr, c_ptr, M: tl.constexpr):
    """*fp16,*fp16,*fp32,M=256 -> refused."""
    i = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)))


@triton.jit
def wide_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """*fp32,*fp32,i32,BLOCK=65536 -> refused."""
    o = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n)
    tl.store(y_ptr + o, tl.exp(x) + tl.sin(x), mask=o < n)


@triton.jit
def tf32(a_ptr, b_ptr, c_ptr, M: tl.constexpr):
    """*fp32,*fp32,*fp32,M=64 -> refused."""
    i = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i), allow_tf32=True))


@triton.jit
def doubles(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """*fp32,*fp32,i32,BLOCK=1024 -> refused."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n).to(tl.float64)
    tl.store(y_ptr + o, (x * x).to(tl.float32), mask=o < n)


@triton.jit
def small_floats(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """*fp8e5,*fp32,i32,BLOCK=1024 -> refused."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n).to(tl.float32), mask=o < n)


@triton.jit
def gathered(x_ptr, i_ptr, y_ptr, BLOCK: tl.constexpr):
    """*fp32,*i32,*fp32,BLOCK=1024 -> accepted, slow."""
    o = tl.arange(0, BLOCK)
    tl.store(y_ptr + o, tl.load(x_ptr + tl.load(i_ptr + o)))


@triton.jit
def locked(lock_ptr, y_ptr, BLOCK: tl.constexpr):
    """*i32,*fp32,BLOCK=1024 -> accepted, in doubt."""
    o = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + o, tl.load(y_ptr + o) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def assembler(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """*fp32,*fp32,BLOCK=64 -> accepted, in doubt."""
    o = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o)
    y = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + o, y)
