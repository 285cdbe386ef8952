"""What kernels are launched with: as it is written on the command line, in code, and by a rehearsal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.triton.projects import HEAD, request_for, signatures
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.triton.recorded import read_launches, recorded_signatures
from torchferry.triton.signatures import given_signatures

KERNEL = (
    "@triton.jit\ndef add(x_ptr, y_ptr, n, eps, BLOCK: tl.constexpr, FLAG: tl.constexpr = True):\n"
    "    o = tl.arange(0, BLOCK)\n    p = x_ptr + o\n    tl.store(y_ptr + o, tl.load(p, mask=o < n) + eps)\n"
)


def shown(folder: Path, text: str) -> tuple[str, tuple[str, ...]]:
    _, _, kernels = request_for(folder, {"k.py": HEAD + KERNEL})
    (signature,) = given_signatures([text], kernels)["k.py", "add"]
    return ", ".join(f"{each.name}={each.text}" for each in signature.arguments), signature.unknown


GIVEN = [
    ("add: *fp32,*bf16,i32,fp32,BLOCK=1024", "x_ptr=*fp32, y_ptr=*bf16, n=i32, eps=fp32, BLOCK=1024, FLAG=True", ()),
    ("k.py:add: *fp32,*fp32,i32,fp32,BLOCK=1", None, ()),
    ("add: *fp32,*fp32,i32:16,0.5,BLOCK=1024,FLAG=False",
     "x_ptr=*fp32, y_ptr=*fp32, n=i32:16, eps=0.5, BLOCK=1024, FLAG=False", ()),
    ("add: eps=1e-5,n=i64,x_ptr=*fp8e5,y_ptr=*i1,BLOCK=2",
     "x_ptr=*fp8e5, y_ptr=*i1, n=i64, eps=1e-05, BLOCK=2, FLAG=True", ()),
    ("add: *fp32,None,i32", "x_ptr=*fp32, y_ptr=None, n=i32, FLAG=True", ("eps", "BLOCK")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "unknown"), GIVEN)
def test_given(tmp_path: Path, text: str, wanted: str | None, unknown: tuple[str, ...]) -> None:
    if wanted is None:
        with pytest.raises(UsageError):
            shown(tmp_path, text)
        return
    assert shown(tmp_path, text) == (wanted, unknown)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("*fp32", "no kernel is named"),
        ("mul: *fp32", "no kernel `mul`"),
        ("add: *fp33", "no type and no value"),
        ("add: u8,*fp32", "no number becomes `u8`"),
        ("add: *fp32,*fp32,i32,fp32,i32", "takes 4 arguments"),
        ("add: x_ptr=*fp32,x_ptr=*fp32", "given twice"),
        ("add: size=*fp32", "no parameter `size`"),
        ("add: __import__('os')", "no type and no value"),
        ("add: " + "(" * 2000, "no type and no value"),
    ],
)
def test_a_signature_that_cannot_be_read(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(UsageError) as raised:
        shown(tmp_path, text)
    assert part in raised.value.message.render("en")


LAUNCHES = [
    ("x = torch.randn(4, dtype=torch.float16)\nadd[(1,)](x, torch.empty_like(x), x.numel(), 1e-5, BLOCK=64)",
     "x_ptr=*fp16, y_ptr=*fp16, n=i32, eps=1e-05, BLOCK=64, FLAG=True", ()),
    ("def f(a, n: int, e: float):\n    y = a.half()\n    add[lambda m: (1,)](a, y[0], n, e, 64)",
     "x_ptr=*?, y_ptr=*fp16, n=i32, eps=fp32, BLOCK=64, FLAG=True", ("x_ptr",)),
    ("def f(a, k):\n    rows, columns = a.shape\n"
     "    add[(rows,)](a, a, columns // 2, k, BLOCK=triton.next_power_of_2(columns))",
     "x_ptr=*?, y_ptr=*?, n=i32, FLAG=True", ("x_ptr", "y_ptr", "eps", "BLOCK")),
    ("SIZE = 32\nx = torch.zeros(3).to(torch.bfloat16).cuda()\n"
     "add[(2,)](x, x.view(-1), 7, 0.5, BLOCK=SIZE * 2, num_warps=8)",
     "x_ptr=*bf16, y_ptr=*bf16, n=7, eps=0.5, BLOCK=64, FLAG=True", ()),
]  # fmt: skip


@pytest.mark.parametrize(("launch", "wanted", "unknown"), LAUNCHES)
def test_launches_in_the_code(tmp_path: Path, launch: str, wanted: str, unknown: tuple[str, ...]) -> None:
    code = f"import torch, triton\nfrom k import add\n{launch}\n"
    (signature,) = signatures(tmp_path, {"k.py": HEAD + KERNEL, "run.py": code})["add"]
    assert ", ".join(f"{each.name}={each.text}" for each in signature.arguments) == wanted
    assert signature.unknown == unknown
    assert "run.py:" in signature.origin.render("en")
    assumed = signatures(tmp_path, {"k.py": HEAD + KERNEL, "run.py": code}, assume="fp16")["add"][0]
    assert assumed.is_assumed is ("*?" in wanted)
    assert set(assumed.unknown) == set(unknown) - {"x_ptr", "y_ptr"}


def launch_of(**changes: object) -> dict[str, object]:
    arguments = [
        {"name": "x_ptr", "kind": "tensor", "type": "bfloat16", "aligned": False},
        {"name": "y_ptr", "kind": "tensor", "type": "float32"},
        {"name": "n", "kind": "scalar", "type": "i32", "value": 4096},
        {"name": "eps", "kind": "scalar", "type": "fp32"},
        {"name": "BLOCK", "kind": "value", "value": 64},
    ]
    launch = {"kernel": "add", "file": "/elsewhere/k.py", "line": 4, "place_file": "/elsewhere/run.py", "place_line": 3}
    return {**launch, "times": 2, "arguments": arguments, **changes}


def test_recorded_launches(tmp_path: Path) -> None:
    _, _, kernels = request_for(tmp_path, {"k.py": HEAD + KERNEL})
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"triton_launches": [launch_of(), launch_of(kernel="gone")]}), encoding="utf-8")
    found, others = recorded_signatures(read_launches(file).launches, kernels, tmp_path)
    (signature,) = found["k.py", "add"]
    assert [each.text for each in signature.arguments] == ["*bf16", "*fp32", "i32:16", "fp32", "64"]
    assert not signature.arguments[0].is_aligned
    assert signature.unknown == ()
    assert others == ["gone"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"triton_launches": [{"kernel": 3}]}', json.dumps({"triton_launches": [launch_of(times="x")]})],
)
def test_a_file_without_launches_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TorchferryError, match="holds no launches"):
        read_launches(file)


def test_an_argument_that_no_signature_can_have_is_unknown(tmp_path: Path) -> None:
    _, _, kernels = request_for(tmp_path, {"k.py": HEAD + KERNEL})
    strange = launch_of(arguments=[{"name": "x_ptr", "kind": "unknown", "type": "TensorDescriptor"}])
    found, _ = recorded_signatures([strange], kernels, tmp_path)
    assert found["k.py", "add"][0].unknown == ("x_ptr", "y_ptr", "n", "eps", "BLOCK")
