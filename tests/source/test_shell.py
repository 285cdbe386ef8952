"""Shell text: what is a command and what is a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counted_calls import grows_linearly
from torchferry.core.budget import DEEPEST, TooCostlyError, budget_for_file
from torchferry.source.inner_commands import with_inner
from torchferry.source.shell import Heredoc, commands, parts

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
    ("x=$((1 << 20)); ls", [["x=$((1 << 20))", "|"], ["ls"]]),
    ("((a << b))\nls", [["((a << b))"], ["ls"]]),
    ("A=(--x 1\n  # no\n  --y)\nls", [["A=", "|", "--x", "1", "--y"], ["A=(--x 1\n  # no\n  --y)", "|"], ["ls"]]),
    ("A=()", [["A=()", "|"]]),
    ("cat <<EOF\nno end\nls", [["cat"], ["no", "end"], ["ls"]]),
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


HEREDOCS = [
    ("cat <<EOF > x.sh\na $B\nEOF\nls", [(["cat", "x.sh"], "a $B\n", True)]),
    ("python - <<'PY' && ls\na\nPY\n", [(["python", "-"], "a\n", False)]),
    ("x=$(cat <<-\\END\n\ta\n\tEND\n)", [(["cat"], "\ta\n", False)]),
    ("a <<A; b <<B\n1\nA\n2\nB\n", [(["a"], "1\n", True), (["b"], "\n2\n", True)]),
    ("read x <<< EOF\nEOF", []),
    ("echo $((1 << EOF))\nEOF", []),
]


@pytest.mark.parametrize(("text", "expected"), HEREDOCS)
def test_here_documents_belong_to_their_command(text: str, expected: list[object]) -> None:
    found = [
        ([word.text for word in part.command.words], text[part.start : part.end], part.expands)
        for part in parts(text)
        if isinstance(part, Heredoc)
    ]
    assert found == expected


INNER = [
    ('bash -c "a && b"', ["a", "b"]),
    ("ssh host 'a; b'", ["a", "b"]),
    ('CMD="a --x 1"', ["a"]),
    ('export CMD="a --x 1"', ["a"]),
    ('HELP="a --x 1"', []),
    ('log "a b"', []),
    ("cat > x.sh <<EOF\na b\nEOF", ["a"]),
    ("cat <<EOF\na b\nEOF", []),
    ("bash <<EOF\na b\nEOF", ["a"]),
    ("bash -c \"ssh h 'a b'\"", ["ssh", "a"]),
]


@pytest.mark.parametrize(("text", "expected"), INNER)
def test_commands_inside_commands(text: str, expected: list[str]) -> None:
    found = list(with_inner(text, parts(text)))
    assert [command.program for command in found][1:] == expected


def _nested(levels: int) -> str:
    """Return a command in as many here-documents, one inside of another."""
    begins = "".join(f"bash <<E{level}\n" for level in range(levels))
    return begins + "python t.py\n" + "".join(f"E{level}\n" for level in reversed(range(levels)))


@pytest.mark.parametrize("levels", [1, 4, 5, 9, 60])
def test_commands_are_read_however_deep_they_stand(levels: int) -> None:
    text = _nested(levels)
    assert [command.program for command in with_inner(text, parts(text))] == ["bash"] * levels + ["python"]


def test_more_levels_than_are_read_are_said() -> None:
    text = _nested(DEEPEST + 2)
    with budget_for_file(), pytest.raises(TooCostlyError):
        list(with_inner(text, parts(text)))


def test_many_command_lines_beside_one_another_are_no_levels() -> None:
    text = "eval " + "'a b' " * 2 * DEEPEST
    assert len(list(with_inner(text, parts(text)))) == 1 + 2 * DEEPEST


@given(st.text(alphabet="ab $(){}`'\"\\;&|<>#\n\r\t=EOF-c"))
def test_commands_inside_any_text_are_where_they_say(text: str) -> None:
    for command in with_inner(text, parts(text)):
        for word in (*command.assignments, *command.words):
            assert text[word.start : word.end] == word.text


@given(st.text(alphabet="ab $(){}`'\"\\;&|<>#\n\r\t=E"))
def test_any_text_is_survived_and_words_are_where_they_say(text: str) -> None:
    for command in commands(text):
        for word in (*command.assignments, *command.words):
            assert text[word.start : word.end] == word.text


@pytest.mark.parametrize(
    "text",
    [
        "a $( " * 50_000,
        "x" * 500_000,
        "((a" * 50_000,
        "A=(" * 50_000,
        "<<A " * 50_000 + "\n",
        "".join(f"a <<A{index}\n" for index in range(20_000)),
        "cat <<A\nA\n" * 20_000,
        "'" + "a b " * 50_000,
    ],
    ids=lambda text: text[:8].strip(),
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert grows_linearly(lambda part: list(with_inner(part, parts(part))), text)
