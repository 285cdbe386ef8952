"""Shell text: what is a command and what is a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.shell import commands

LINES = [
    ("# nvidia-smi", []),
    ("python train.py --device cuda # cuda", [["python", "train.py", "--device", "cuda"]]),
    ("A=1 B=2 python x.py", [["A=1", "B=2", "|", "python", "x.py"]]),
    ("CUDA_VISIBLE_DEVICES=0,1", [["CUDA_VISIBLE_DEVICES=0,1", "|"]]),
    ("export A=1; echo done && ls | wc -l", [["export", "A=1"], ["echo", "done"], ["ls"], ["wc", "-l"]]),
    ("python a.py \\\n  --x 1 \\\r\n  --y", [["python", "a.py", "--x", "1", "--y"]]),
    ("echo 'a; b' \"c && d\"", [["echo", "'a; b'", '"c && d"']]),
    ('N=$(nvidia-smi -L | wc -l)', [["nvidia-smi", "-L"], ["wc", "-l"], ["N=$(nvidia-smi -L | wc -l)", "|"]]),
    ('echo "n: $(nvidia-smi -L)"', [["nvidia-smi", "-L"], ["echo", '"n: $(nvidia-smi -L)"']]),
    ("x=`nproc`", [["nproc"], ["x=`nproc`", "|"]]),
    ("cat <<EOF\nnvidia-smi\nEOF\nls", [["cat"], ["ls"]]),
    ("cat <<'A B'\nls", [["cat", "'A B'"], ["ls"]]),
    ("a > out 2>&1", [["a", "out", "2"], ["1"]]),
    ("if [ -n \"$X\" ]; then ls; fi", [["if", "[", "-n", '"$X"', "]"], ["then", "ls"], ["fi"]]),
    ("http://x/#frag a#b", [["http://x/#frag", "a#b"]]),
    ("'unclosed", [["'unclosed"]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LINES)
def test_commands(text: str, expected: list[list[str]]) -> None:
    found = [
        [word.text for word in command.assignments]
        + (["|"] if command.assignments else [])
        + [word.text for word in command.words]
        for command in commands(text)
    ]
    assert found == expected


@given(st.text(alphabet="ab $(){}`'\"\\;&|<>#\n\r\t=E"))
def test_any_text_is_survived_and_words_are_where_they_say(text: str) -> None:
    for command in commands(text):
        for word in (*command.assignments, *command.words):
            assert text[word.start : word.end] == word.text


def test_long_lines_take_linear_time() -> None:
    assert sum(1 for _ in commands("a $( " * 100_000)) > 0
    assert sum(1 for _ in commands("x" * 1_000_000)) == 1
