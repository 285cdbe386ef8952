"""Faults to order: each kind does what it says, from the call on that it says."""

from __future__ import annotations

import pytest

from tests.rehearsal.child import run_snippet

pytest.importorskip("torch")
pytestmark = pytest.mark.rehearsal


def faults(*texts: str) -> str:
    """Return the argument of `enable`."""
    return f"devices=2, faults={texts!r}"


def test_spoiled_results() -> None:
    out, _ = run_snippet(
        """
        ones = torch.ones(1000, device=device)
        error = (torch.exp(ones).cpu() / torch.exp(torch.ones(1))).sub(1).abs().max().item()
        print("noise", 0.005 < error <= 0.0101)
        held = ones.clone().exp_()
        print("noise in place", not torch.equal(held, held.mean().expand_as(held)))
        square = torch.ones(3, 4, device=device)
        print("nan", torch.sin(square).isnan().any(1).tolist())
        values = torch.arange(12.0, device=device).view(3, 4)
        flipped = torch.cos(values)
        print("stride", flipped.stride(), torch.allclose(flipped.cpu(), torch.cos(values.cpu())))
        print("right", torch.equal(torch.mm(square, square.t()).cpu(), torch.full((3, 3), 4.0)))
        """,
        enable=faults(
            "op=aten.exp,kind=noise,scale=0.01", "op=exp_,kind=noise", "op=aten::sin,kind=nan", "op=cos,kind=stride"
        ),
    )
    assert out.splitlines() == [
        "noise True",
        "noise in place True",
        "nan [True, False, False]",
        "stride (1, 3) True",
        "right True",
    ]


def test_the_first_calls_go_right() -> None:
    out, _ = run_snippet(
        """
        values = torch.ones(2, 2, device=device)
        print([torch.addmm(values, values, values).isnan().any().item() for _ in range(5)])
        """,
        enable=faults("op=aten.addmm,kind=nan,after=3"),
    )
    assert out == "[False, False, False, True, True]\n"


def test_calls_that_raise_or_take_long() -> None:
    out, _ = run_snippet(
        """
        import time
        values = torch.ones(2, device=device)
        try:
            torch.tanh(values)
        except RuntimeError as error:
            print(error)
        begin = time.perf_counter()
        values.sinh()
        print(time.perf_counter() - begin >= 0.2)
        """,
        enable=faults("op=aten.tanh,kind=raise", "op=aten.sinh,kind=slow,scale=0.2"),
    )
    assert "SDAA error in aten::tanh" in out
    assert "injected by --fault" in out
    assert out.endswith("True\n")


def test_running_out_of_memory_at_a_certain_allocation() -> None:
    out, _ = run_snippet(
        """
        kept = []
        try:
            for _ in range(10):
                kept.append(torch.empty(4, device=device))
        except torch.OutOfMemoryError as error:
            print(len(kept), "injected by --fault" in str(error))
        print(torch.empty(4, device=device).shape)
        """,
        enable=faults("kind=oom,after=5"),
    )
    assert out.splitlines() == ["5 True", "torch.Size([4])"]


def test_the_process_dies() -> None:
    out, _ = run_snippet(
        """
        values = torch.ones(2, device=device)
        print("before", flush=True)
        values.exp2()
        print("after", flush=True)
        """,
        status=70,
        enable=faults("op=aten.exp2,kind=die"),
    )
    assert out == "before\n"


@pytest.mark.parametrize(("rank", "spoiled"), [("0", False), ("1", True)])
def test_a_fault_of_one_rank(rank: str, spoiled: bool) -> None:
    out, _ = run_snippet(
        "print(torch.ones(2, device=device).exp().isnan().any().item())",
        enable=faults("op=aten.exp,kind=nan,rank=1"),
        environment={"RANK": rank},
    )
    assert out == f"{spoiled}\n"
