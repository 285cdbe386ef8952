"""PTX by instruction: C++ for what is a line of it, and one sentence a kernel about what its design rests on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends.target import Target
from torchferry.kernels.ported_tree import port_tree
from torchferry.kernels.ptx import lop3_expression, ptx_use
from torchferry.kernels.tokens import SourceTokens


@given(st.integers(0, 255))
def test_a_lop3_in_cpp_has_its_truth_table(table: int) -> None:
    text = lop3_expression(table)
    assert set(text) <= set("abc~&|^() 0")
    assert eval(text, {"a": 0xF0, "b": 0xCC, "c": 0xAA}) & 0xFF == table


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(x) : "r"(a));', "in C++: lop3.b32: (a & b) | c"),
        ('asm volatile("mov.u32 %0, %%laneid;" : "=r"(x));', "in C++: %laneid: threadIdx.x % warpSize"),
        ('asm("prmt.b32 %0, %1, %2, %3;" : "=r"(x));', "`__byte_perm(a, b, s)`"),
        ('asm("fma.rn.f16x2 %0, %1, %2, %3;\\n" : "=r"(x));', "in C++: fma.rn.f16x2: `__hfma2(a, b, c)`"),
        ('asm("ex2.approx.f32 %0, %1;" : "=f"(x));', "exp2f(a), with other last bits"),
        ('asm("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(x));', "`__threadfence()`"),
        ('asm("mma.sync.aligned.m16n8k16.row.col.f32 "\n "{%0}, {%1};" : "=f"(x));', "`mma.sync.aligned`: the design"),
        ('asm("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"(p));', "`cp.async.cg`: the design"),
        ('asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(x));', "cvta.to.shared"),
        ('asm("@p bra L1; L1: zap.b32 %0;" : "=r"(x));', "`zap.b32`: no C++ for it is known here"),
        ('asm volatile("" ::: "memory");', "`asm` (uses: 1)"),
        ('asm("mul.hi.u32 %0' + " x" * 3 + '" : "=r"(x)', "in C++: mul.hi.u32"),
    ],
)
def test_what_stands_in_place_of_an_instruction(code: str, message: str) -> None:
    assert message in str(ptx_use(SourceTokens(code), 0).message())


FILES = {
    "help.cuh": (
        "#pragma once\n"
        '__device__ inline void mma(float* c) { asm volatile("mma.sync.aligned.m16n8k16 %0;" : "+f"(c[0])); }\n'
        '__device__ int lut(int a) { int r; asm("lop3.b32 %0, %1, %1, %1, 0x96;" : "=r"(r) : "r"(a)); return r; }\n'
        "__device__ int twice(int a) { return lut(lut(a)); }\n"
    ),
    "a.cu": (
        '#include "help.cuh"\n'
        "__global__ void tiles(float* c) { mma(c); c[0] += lut(1); }\n"
        "__global__ void bits(int* x) { x[0] = twice(x[1]); }\n"
        "__global__ void plain(int* x) { x[0] = 1; }\n"
    ),
}


def test_one_sentence_a_kernel_across_files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ported = port_tree(tmp_path, Target.named("musa"))
    assert [(item.line, str(item.message)) for item in ported.items if item.kind == "ptx-kernel"] == [
        (2, "the kernel `tiles` rests on mma: a new kernel is needed"),
        (3, "the kernel `bits` needs C++ in place of its PTX (places: 1): lop3.b32"),
    ]
    assert ported.by_hand == ["a.cu", "help.cuh"]
