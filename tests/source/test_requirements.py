"""Requirements: names and places, in every form that installers read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counted_calls import grows_linearly
from torchferry.source.requirements import in_command, in_lines, requirement
from torchferry.source.shell import commands

WHEEL = "flash_attn-2.5.8+cu122torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
ONE = [
    ("Flash_Attn", "flash-attn", ""),
    ("torch==2.1 --hash=sha256:aa", "torch", "==2.1"),
    ("torch >= 2.7.1; sys_platform == 'linux'", "torch", ">= 2.7.1"),
    ("torch>=1.7,!=2.0 , <3", "torch", ">=1.7,!=2.0 , <3"),
    ("torch (>=1.0)", "torch", "(>=1.0)"),
    ("a[b,c]>=1;x", "a", ">=1"),
    ("flash-attn --no-build-isolation", "flash-attn", ""),
    ("torch-scatter -f https://x/y", "torch-scatter", ""),
    ("pytorch=1.8.0=py3.8_cuda11.1_cudnn8.0.5_0", "pytorch", "=1.8.0=py3.8_cuda11.1_cudnn8.0.5_0"),
    ("apex @ git+https://x/y.git@abc", "apex", "@ git+https://x/y.git@abc"),
    ("git+https://github.com/Dao-AILab/flash-attention.git@v2.5", "flash-attention", None),
    ("git+ssh://git@github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch", "tiny-cuda-nn", None),
    ("git+https://x/y.git#egg=apex", "apex", None),
    (f"https://x/releases/{WHEEL}", "flash-attn", None),
    ("https://x/whl/cu118/torch-2.1.0%2Bcu118-cp310-cp310-linux_x86_64.whl", "torch", None),
    (f"./wheels/{WHEEL}", "flash-attn", None),
]


@pytest.mark.parametrize(("text", "name", "specifier"), ONE)
def test_one_requirement(text: str, name: str, specifier: str | None) -> None:
    found = requirement(text, 0, len(text))
    assert found is not None
    assert (found.name, found.specifier) == (name, text if specifier is None else specifier)


@pytest.mark.parametrize(
    "text", ["", "# apex", "-r apex.txt", "./apex", "two words", "https://x/", "https://x//", "==1.0"]
)
def test_what_is_no_requirement(text: str) -> None:
    assert requirement(text, 0, len(text)) is None


LINES = [
    ("flash-attn==1 \\\n  --hash=sha256:a \\\n  --hash=b\nnumpy", ["flash-attn", "numpy"]),
    ("-e git+https://x/y.git#egg=apex\n-r x\n-c y\n", ["git+https://x/y.git#egg=apex"]),
    ("# c \\\napex\t# x\r\ncupy\r\n\r\n", ["apex", "cupy"]),
]


@pytest.mark.parametrize(("text", "expected"), LINES)
def test_lines(text: str, expected: list[str]) -> None:
    assert [text[found.start : found.end] for found in in_lines(text)] == expected


COMMANDS = [
    ("python -m pip install -U apex 'xformers>=1' \"cupy[x]\"", ["apex", "xformers", "cupy"]),
    ("pip3.10 install -r apex -f cupy torch", ["torch"]),
    ("uv pip install -e git+https://x/apex.git", ["git+https://x/apex.git"]),
    ("conda create -n apex python=3.8 cudatoolkit=11.3 -c cupy", ["python", "cudatoolkit"]),
    ("poetry add apex", ["apex"]),
    ("npm install apex", []),
    ("apt-get install pip apex", []),
    ("conda env create -f apex", []),
    ("docker create apex", []),
]


@pytest.mark.parametrize(("text", "expected"), COMMANDS)
def test_commands(text: str, expected: list[str]) -> None:
    found = [text[found.start : found.end] for command in commands(text) for found in in_command(command)]
    assert found == expected


@given(st.text(alphabet="ab1-_.[]=<>~!@:/ ;#\\\n\r\t'\"+%") | st.text())
def test_any_text_is_survived_and_names_are_inside(text: str) -> None:
    for found in in_lines(text):
        assert 0 <= found.start < found.end <= found.line_end <= len(text)


HOSTILE = ["a" + " " * 100_000 + "b", "a==" + " " * 100_000 + "b", "a-" * 50_000 + "!", "https://" + "/a@" * 50_000]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_take_linear_time(text: str) -> None:
    assert grows_linearly(lambda part: requirement(part, 0, len(part)), text)
