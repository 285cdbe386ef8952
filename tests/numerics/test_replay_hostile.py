"""Directories that were cut, changed or made to do harm are refused, with what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from torchferry.core.errors import TorchferryError
from torchferry.numerics import replay

aten = torch.ops.aten


def good(folder: Path) -> Path:
    return replay.write(folder, aten.add.Tensor, (torch.ones(4), torch.ones(4)), {"alpha": 2.0}, None, {})


def change(**values: Any) -> Callable[[Path], None]:
    """Replace entries of `call.json`; `a__0__b` goes down."""

    def apply(folder: Path) -> None:
        path = folder / "call.json"
        document = json.loads(path.read_text())
        for key, value in values.items():
            *way, last = [int(part) if part.isdigit() else part for part in key.split("__")]
            place = document
            for part in way:
                place = place[part]
            place[last] = value
        path.write_text(json.dumps(document))

    return apply


def text(content: str | bytes, name: str = "call.json") -> Callable[[Path], None]:
    return lambda folder: void((folder / name).write_bytes(content.encode() if isinstance(content, str) else content))


def void(_: object) -> None:
    pass


def tensors(edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "tensors.safetensors"
        path.write_bytes(edit(path.read_bytes()))

    return apply


def header(**rows: Any) -> Callable[[Path], None]:
    def edit(data: bytes) -> bytes:
        size = int.from_bytes(data[:8], "little")
        head = {**json.loads(data[8 : 8 + size]), **rows}
        made = json.dumps(head).encode()
        return len(made).to_bytes(8, "little") + made + data[8 + size :]

    return tensors(edit)


def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return apply


def entry(first: int, last: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [4], "data_offsets": [first, last]}


def operator(name: str, overload: str = "") -> Callable[[Path], None]:
    return change(operator=name, overload=overload)


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    # cut off or missing
    "no call": (lambda folder: (folder / "call.json").unlink(), "cannot be read"),
    "no tensors": (lambda folder: (folder / "tensors.safetensors").unlink(), "cannot be read"),
    "empty call": (text(""), "is not JSON"),
    "half a call": (lambda folder: text((folder / "call.json").read_text()[:200])(folder), "is not JSON"),
    "no text": (text(b"\xff\xfe\x00"), "is not JSON"),
    "a list": (text("[]"), "no object"),
    "NaN": (text('{"format": NaN}'), "is not JSON"),
    "number of many digits": (text('{"format": ' + "9" * 9000 + "}"), "is not JSON"),
    "nested past parsing": (text("[" * 200000), "is not JSON"),
    "nested": (change(args=json.loads("[" * 90 + "]" * 90)), "nested more than 40 deep"),
    "orders to the terminal": (change(where={"module": "\x1b]0;owned\x07"}), "control characters"),
    "orders in a name": (change(where={"\x1b[2J": 1}), "control characters"),
    "half a character": (change(device="\ud800"), "half a character (a lone surrogate) in `device`"),
    "half a character inside": (change(args__0={"text": ["\udfff"]}), "in `args[0].text[0]`"),
    "half a character in a name": (change(where={"\ud800": 1}), "half a character (a lone surrogate) in `where`"),
    "another format": (change(format=2), "has format 2"),
    "format is true": (change(format="1"), "has format '1'"),
    "empty tensors": (text("", "tensors.safetensors"), "incomplete"),
    "seven bytes": (text("1234567", "tensors.safetensors"), "incomplete"),
    "cut tensors": (tensors(lambda data: data[:-1]), "does not contain"),
    "header past the end": (tensors(lambda data: (2**63).to_bytes(8, "little") + data[8:]), "incomplete"),
    "header of nothing": (tensors(lambda data: (0).to_bytes(8, "little") + data[8:]), "is not JSON"),
    "header of rubbish": (tensors(lambda data: data[:8] + b"\x00" * len(data[8:])), "is not JSON"),
    # entries
    "entry missing": (header(s0=None), "no entry `s0`"),
    "entry outside": (header(s0=entry(10**9, 10**9 + 16)), "does not contain"),
    "entry below": (header(s0=entry(-16, 0)), "does not contain"),
    "entry backwards": (header(s0=entry(16, 0)), "does not contain"),
    "entry too small": (header(s0=entry(0, 8)), "does not contain"),
    "entry of floats": (header(s0={"data_offsets": [0.0, 16.0]}), "no entry `s0`"),
    # files that are none
    "call is a link": (instead("call.json", lambda path: path.symlink_to("/etc/passwd")), "not a plain file"),
    "tensors are a link": (
        instead("tensors.safetensors", lambda path: path.symlink_to("/dev/zero")),
        "not a plain file",
    ),
    "call is a pipe": (instead("call.json", os.mkfifo), "not a plain file"),
    "call is a folder": (instead("call.json", os.mkdir), "not a plain file"),
    # tensors
    "outside of the storage": (change(tensors__0__offset=1), "reaches byte 20 of storage `s0`, which has 16"),
    "stride outside": (change(tensors__0__stride=[2]), "reaches byte 28"),
    "shape outside": (change(tensors__0__shape=[5]), "reaches byte 20"),
    "wider dtype": (change(tensors__0__dtype="float64"), "reaches byte 32"),
    "negative stride": (change(tensors__0__stride=[-1]), "tensors[0].stride"),
    "negative shape": (change(tensors__0__shape=[-1]), "tensors[0].shape"),
    "shape of floats": (change(tensors__0__shape=[4.0]), "tensors[0].shape"),
    "shape of bools": (change(tensors__0__shape=[True]), "tensors[0].shape"),
    "shape is none": (change(tensors__0__shape=None), "tensors[0].shape"),
    "sizes that do not match": (change(tensors__0__shape=[2, 2]), "tensors[0].stride"),
    "sizes past all numbers": (change(tensors__0__shape=[2**70]), "tensors[0].shape"),
    "overflow": (change(tensors__0__shape=[2**61, 2**61], tensors__0__stride=[2**61, 2**61]), "reaches byte"),
    "repeated without end": (change(tensors__0__shape=[2**40], tensors__0__stride=[0]), "the limit is"),
    "many sides": (change(tensors__0__shape=[1] * 65, tensors__0__stride=[1] * 65), "tensors[0].shape"),
    "negative offset": (change(tensors__0__offset=-1), "tensors[0].offset"),
    "unknown dtype": (change(tensors__0__dtype="Tensor.__class__"), "no dtype `Tensor.__class__`"),
    "unknown storage": (change(tensors__0__storage="../../etc/passwd"), "tensors[0].storage"),
    "tensor is text": (change(tensors__0="s0"), "tensors[0]"),
    "storage of a negative size": (change(storages__s0__bytes=-1), "storages.s0"),
    "storage without end": (change(storages__s0__bytes=2**60), "storages.s0"),
    "made without end": (change(storages__s0={"bytes": 2**50, "dtype": "float32", "device": "cpu", "made": {}}), "s0"),
    "storage with a path": (change(storages={"../x": {"bytes": 4, "dtype": "float32", "device": "cpu"}}), "`../x`"),
    "storages are a list": (change(storages=[]), "`storages`"),
    "written arguments of Python": (change(written=[["__class__", 0]]), "`written`"),
    "arguments are text": (change(args="os.system"), "`args`"),
    # the operator
    "unknown operator": (operator("aten::no_such"), "no operator aten::no_such"),
    "unknown overload": (operator("aten::add", "no_such"), "no operator aten::add.no_such"),
    "attribute of Python": (operator("aten::__class__"), "no operator aten::__class__"),
    "overload of Python": (operator("aten::add", "__init__"), "no operator aten::add.__init__"),
    "attribute of torch.ops": (operator("__class__::mro"), "no operator"),
    "name with a path": (operator("../aten::add"), "not the name of an operator"),
    "name with dots": (operator("aten::add.out.x"), "not the name of an operator"),
    "no namespace": (operator("add"), "not the name of an operator"),
    "code": (operator("aten::add", "Tensor, __import__('os')"), "not the name of an operator"),
    "kept by TorchScript": (operator("aten::save"), "no operator aten::save"),
    "opens files": (operator("aten::from_file"), "opens files"),
    "waits for others": (operator("c10d::barrier"), "communicates with other processes"),
    "library of its own": (operator("my_ext::fused"), "--import"),
    # values
    "unknown tag": (change(args__0={"python": "print(1)"}), "has an invalid value"),
    "two tags": (change(args__0={"tensor": 0, "float": "1"}), "has an invalid value"),
    "tensor that is not there": (change(args__0={"tensor": 99}), "has an invalid value"),
    "tensor from the end": (change(args__0={"tensor": -1}), "has an invalid value"),
    "tensor true": (change(args__0={"tensor": True}), "has an invalid value"),
    "float of code": (change(args__0={"float": "__import__('os')"}), "has an invalid value"),
    "half a complex": (change(args__0={"complex": ["1"]}), "has an invalid value"),
    "dtype of Python": (change(args__0={"dtype": "__class__"}), "has an invalid value"),
    "layout of Python": (change(args__0={"layout": "load"}), "has an invalid value"),
    "format of Python": (change(args__0={"memory_format": "save"}), "has an invalid value"),
    "generator of rubbish": (
        change(args__0={"generator": {"device": "cpu", "seed": 1, "state": 0}}),
        "has an invalid value",
    ),
    "random state of rubbish": (change(draws=True, random={"cpu": 0}), "random state"),
    "random state that is not there": (change(draws=True, random={"cpu": 7}), "has an invalid value"),
    "made of rubbish": (change(storages__s0__made={"seed": "x"}), "has an invalid value"),
    "device of rubbish": (change(storages__s0__device="nowhere:0", device="cpu"), ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_directories_are_refused(name: str, tmp_path: Path) -> None:
    make, word = HOSTILE[name]
    folder = good(tmp_path)
    make(folder)
    if name == "device of rubbish":  # where a tensor was decides nothing but whether it moves
        assert replay.run(replay.read(folder))[0].tolist() == [3.0] * 4
        return
    with pytest.raises(TorchferryError) as caught:
        replay.run(replay.read(folder))
    assert word in str(caught.value)
    assert str(folder) in str(caught.value) or "is not replayed" in str(caught.value)


def test_a_pipe_in_place_of_tensors_does_not_hang(tmp_path: Path) -> None:
    folder = good(tmp_path)
    instead("tensors.safetensors", os.mkfifo)(folder)
    with pytest.raises(TorchferryError, match="not a plain file"):
        replay.read(folder)


def test_nothing_of_a_directory_is_imported(tmp_path: Path) -> None:
    folder = good(tmp_path)
    change(libraries=["antigravity", "this"], operator="my::op")(folder)
    import sys

    with pytest.raises(TorchferryError, match="--import"):
        replay.run(replay.read(folder))
    assert not {"antigravity", "this"} & set(sys.modules)


@pytest.mark.parametrize("cut", range(0, 900, 41))
def test_every_cut_of_both_files_is_refused(cut: int, tmp_path: Path) -> None:
    for name in ("call.json", "tensors.safetensors"):
        folder = good(tmp_path)
        data = (folder / name).read_bytes()
        if cut >= len(data):
            continue
        (folder / name).write_bytes(data[:cut])
        with pytest.raises(TorchferryError):
            replay.run(replay.read(folder))
