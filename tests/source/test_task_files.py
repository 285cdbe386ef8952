"""The commands in the files of task runners, shown at their own places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.shell import commands
from torchferry.source.task_files import has_tasks, task_view

TOX = "[tox]\nenvlist = a\ncommands = python no.py\n[testenv:a]\ndescription = python no.py\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("tox.ini", f"{TOX}commands = python t.py --x\n", ["python t.py --x"]),
        ("tox.ini", f"{TOX}commands =\n    pip list\n    # python no.py\n    python t.py\ndeps =\n    python no.py\n",
         ["pip list", "python t.py"]),
        ("tox.ini", f"{TOX}commands_pre = a\ncommands_post=b\n", ["a", "b"]),
        ("tox.ini", f"{TOX}commands =\n    - python t.py\n    py3,!gpu: python u.py\n", ["python t.py", "python u.py"]),
        ("tox.ini", f"{TOX}commands =\n    python t.py \\\n        --x\n", ["python t.py --x"]),
        ("tox.ini", f"{TOX}commands = {{envpython}} {{toxinidir}}/t.py {{posargs}}\n", ["python t.py"]),
        ("tox.ini", f"{TOX}commands = python t.py {{posargs:--x 1}}\n", ["python t.py --x 1"]),
        ("tox.ini", f"{TOX}commands = python t.py {{env:A:--y}} {{[base]x}}\n", ["python t.py --y $xxxxxxxx"]),
        ("a/setup.cfg", "[metadata]\ncommands = a\n[testenv]\ncommands = b c\n[x]\ncommands = d\n", ["b c"]),
        ("pyproject.toml", '[tool.tox]\nlegacy_tox_ini = """\n[testenv]\ncommands = a b\n"""\nx = "c"\n', ["a b"]),
        ("pyproject.toml", '[tool.tox.env.a]\ncommands = [["a", "b"], ["c"]]\n[x]\ncommands = ["d"]\n', ["a b", "c"]),
        ("pyproject.toml", '[tool.tox.env.a]\ncommands = [\n  ["a",\n   "b"],\n  ["c"],\n]\n', ["a b", "c"]),
        ("tox.toml", '[env_run_base]\ncommands = [["a", "b"]]\ndescription = "c"\n', ["a b"]),
        ("pyproject.toml", '[tool.poe.tasks]\na = "b c"\nd = {cmd = "e f", help = "g h"}\ni.shell = "j"\n',
         ["b c", "e f", "j"]),
        ("pyproject.toml", '[tool.pdm.scripts]\na = ["b", "c"]\n[tool.hatch.envs.x.scripts]\nd = ["e f", "g h"]\n',
         ["b c", "e f", "g h"]),
        ("pyproject.toml", '[project.scripts]\na = "b:c"\n', []),
        ("justfile", "x := 'a'\n# no\nrun *args: build\n    @python t.py {{x}} {{ args }}\n\n    - b\n",
         ["x := 'a'", "x", "args", "python t.py $(x) $(args)", "b"]),
        ("noxfile.py", "def a(session):\n    session.run('a', \"b\", *session.posargs, external=True)\n    run('c')\n",
         ["a b"]),
        ("noxfile.py", "s.run(\n    'a',\n    '-m',\n    f'{x}',\n    'b c',\n)\ns.install('d')\n", ["a -m 'b c'"]),
        ("noxfile.py", "def (", []),
        ("package.json", '{"name": "a b", "scripts": {"x": "python t.py --x", "y": "A=1 b \\"c d\\" && e"}}\n',
         ["python t.py --x", 'b "c d"', "e"]),
        ("web/package.json", '{"scripts": ["a", {"b": "c", "d": 1}], "dependencies": {"e": "f"}}\n', ["a", "c"]),
        ("package.json", '{"scripts": {"x": "a",\n  "y": "b"\n', ["a", "b"]),
    ],
)  # fmt: skip
def test_commands_that_tasks_run(path: str, text: str, expected: list[str]) -> None:
    assert has_tasks(path)
    view = task_view(path, text)
    found = [" ".join(word.text for word in command.words) for command in commands(view) if command.words]
    assert found == expected
    assert len(view) == len(text)
    assert [len(line) for line in view.split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    "path", ["train.py", "config.toml", "setup.py", "a.ini", "packages.json", "Makefile", "justfile.md"]
)
def test_other_files_have_no_tasks(path: str) -> None:
    assert not has_tasks(path)


@given(
    st.sampled_from(["tox.ini", "pyproject.toml", "tox.toml", "justfile", "noxfile.py", "package.json"]),
    st.text(alphabet="[]testnvcomads=:{}/\"'\\\n\r ,.#-()run é"),
)
def test_any_text_keeps_its_lines(path: str, text: str) -> None:
    begin = {"tox.ini": "[testenv]\ncommands =", "justfile": "a:\n  ", "noxfile.py": "s.run("}.get(path, "")
    view = task_view(path, begin + text)
    assert [len(line) for line in view.split("\n")] == [len(line) for line in (begin + text).split("\n")]
