"""The variables of scripts: tables of what a command becomes, and properties that hold for every script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.shell import commands
from torchferry.source.shell_variables import MOST_ALTERNATIVES, ShellVariables

UNCHANGED = [
    "python train.py --lr 3",
    'python train.py "$@"',
    "python train.py $1 ${2}",
    "python train.py $UNSET",
    "python train.py '$ARGS'",
    "ARGS=--a\npython train.py '$ARGS'",
    "python train.py ${NAME##*/}",
    "python train.py $(cat options.txt)",
]


_STARTS = ("$SCRIPT", "-m", "--module=")


def _started(script: str, is_makefile: bool = False) -> list[str]:
    """Return what the commands of a script that start Python may be."""
    written = sorted(commands(script), key=lambda each: (*each.assignments, *each.words)[0].start)
    variables = ShellVariables(script, is_makefile, written)
    found = []
    for command in written:
        variables.read(command)
        if any(word.value.endswith(".py") or word.value.startswith(_STARTS) for word in command.words):
            found += [" ".join(w.text for w in (*one.assignments, *one.words)) for one in variables.expanded(command)]
    return found


@pytest.mark.parametrize("script", UNCHANGED)
def test_what_no_line_sets_stays(script: str) -> None:
    assert _started(script) == [script.rpartition("\n")[2]]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ARGS=--a\npython t.py $ARGS", ["python t.py --a"]),
        ('ARGS="--a --b 2"\npython t.py ${ARGS} --c', ["python t.py --a --b 2 --c"]),
        ('ARGS="--a --b"\npython t.py "$ARGS"', ["python t.py --a --b"]),
        ('A=--a\nA="$A --b"\npython t.py $A', ["python t.py --a --b"]),
        ("A=--a\nA+=' --b'\npython t.py $A", ["python t.py --a --b"]),
        ('A=(--a 1)\nA+=(--b)\npython t.py "${A[@]}"', ["python t.py --a 1 --b"]),
        ("python t.py ${A:---a}", ["python t.py --a"]),
        ("A=\npython t.py $A --b", ["python t.py --b"]),
        ("LR=3\npython t.py --lr=$LR", ["python t.py --lr=3"]),
        ("SCRIPT=t.py\npython $SCRIPT", ["python t.py"]),
        ("A=--a\nunset A\npython t.py $A", ["python t.py"]),
        ("A=$(cat x)\npython t.py $A", ["python t.py $(A)"]),
        ("read A\npython t.py $A", ["python t.py $(A)"]),
        ("local A=--a\npython t.py $A", ["python t.py --a"]),
        # the environment
        ("export F=1\npython t.py", ["F=1 python t.py"]),
        ("F=1\nexport F\npython t.py", ["F=1 python t.py"]),
        ("declare -x F=1\npython t.py", ["F=1 python t.py"]),
        ("export F=1\nF=2 python t.py", ["F=2 python t.py"]),
        ("F=1\npython t.py", ["python t.py"]),
        ("export F=1\nunset F\npython t.py", ["python t.py"]),
        # what is not always set: the first is what holds without the branch
        ("if [ $1 ]; then\nA=--a\nfi\npython t.py $A", ["python t.py", "python t.py --a"]),
        ("A=--b\nif [ $1 ]; then A=--a; fi\npython t.py $A", ["python t.py --b", "python t.py --a"]),
        ("if [ $1 ]; then A=--a; else A=--b; fi\npython t.py $A", ["python t.py --a", "python t.py --b"]),
        ("if [ $1 ]; then A=--a; elif [ $2 ]; then A=--b; fi\npython t.py $A",
         ["python t.py", "python t.py --a", "python t.py --b"]),
        ("[ $1 ] && A=--a\npython t.py $A", ["python t.py", "python t.py --a"]),
        ("if [ $1 ]; then\nA=--a\npython t.py $A\nfi", ["python t.py --a"]),
        ("if [ $1 ]; then\nA=--a\nelse\npython t.py $A\nfi", ["python t.py $A"]),
        ("for a in x y; do python t.py --m $a; done", ["python t.py --m x", "python t.py --m y"]),
        ("for a in *.txt; do python t.py $a; done", ["python t.py $(a)"]),
        ("for a in 1 2 3 4 5 6 7 8 9; do python t.py --m $a; done", ["python t.py --m $(a)"]),
        ("for a in 1 2 3 4 5 6 7 8 9; do python m$a.py; done", [f"python m{n}.py" for n in range(1, 10)]),
        ("for a in m.a m.b; do python -m $a; done", ["python -m m.a", "python -m m.b"]),
        ("for a in 1 2 3 4 5 6 7 8 9; do python -m m$a --x; done", [f"python -m m{n} --x" for n in range(1, 10)]),
        ("for a in 1 2 3 4 5 6 7 8 9; do torchrun --module=m.m$a; done",
         [f"torchrun --module=m.m{n}" for n in range(1, 10)]),
        ("A=(m1 m2 m3 m4 m5 m6 m7 m8 m9)\nfor a in \"${A[@]}\"; do python -m $a; done",
         [f"python -m m{n}" for n in range(1, 10)]),
        ("for a in 1 2 3 4 5 6 7 8 9; do python -m m --n $a; done", ["python -m m --n $(a)"]),
        ("case $1 in\na) A=--a;;\nb) A=--b;;\nesac\npython t.py $A",
         ["python t.py", "python t.py --a", "python t.py --b"]),
        ("if [ $1 ]; then export F=1; fi\npython t.py", ["F= python t.py", "F=1 python t.py"]),
        # what is given to a function, or set for the script
        ('f() {\npython t.py "$@"\n}\nf --a 1', ["python t.py --a 1"]),
        ("function f {\npython t.py $2 ${@:2} x$1y\n}\nf 1 2 3", ["python t.py 2 2 3 x1y"]),
        ("f() {\npython t.py $1\n}\nf 1\nf 2", ["python t.py 1", "python t.py 2"]),
        ("f() {\npython t.py $@\n}", ["python t.py $@"]),
        ("set -- --a --b\npython t.py $@", ["python t.py --a --b"]),
        ("eval python t.py", ["python t.py"]),
    ],
)  # fmt: skip
def test_what_stands_for_a_variable(script: str, expected: list[str]) -> None:
    assert _started(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ARGS := --a\nall:\n\tpython t.py $(ARGS)\n", ["python t.py --a"]),
        ("all:\n\tpython t.py $(ARGS)\nARGS = --a --b\n", ["python t.py --a --b"]),
        ("A ?= --a\nA += --b\nall:\n\tpython t.py ${A}\n", ["python t.py --a --b"]),
        ("B = 1\nA = --a $(B)\nall:\n\tpython t.py $(A)\n", ["python t.py --a 1"]),
        ("export F = 1\nall:\n\tpython t.py\n", ["F=1 python t.py"]),
        ("all:\n\tpython t.py $(ARGS)\n", ["python t.py ${ARGS}"]),
        ("A = $(shell cat x)\nall:\n\tpython t.py $(A)\n", ["python t.py $(A)"]),
    ],
)
def test_variables_of_make(script: str, expected: list[str]) -> None:
    assert _started(script, is_makefile=True) == expected


_PIECES = st.sampled_from(
    ["A=1", "A=$A$A", "A+=x", "export A", "B=($A $A)", "if x; then", "else", "fi", "for A in $A $B; do", "done", "case",
     "esac", "python t.py $A ${B[@]}", "python t.py $A$A $B", "&&", "unset A", "read A",
     "A() {", "}", "A $A", "set -- $A", "$@ ${@:2} $1", "\n", "\n", "\n", "\n"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=60).map(" ".join))
def test_a_script_of_any_form_ends_in_few_short_commands(script: str) -> None:
    written = [*commands(script)]
    variables = ShellVariables(script, commands=written)
    for command in written:
        variables.read(command)
        found = variables.expanded(command)
        assert 1 <= len(found) <= MOST_ALTERNATIVES
        assert len({(one.assignments, one.words) for one in found}) == len(found)
