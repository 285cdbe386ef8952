"""What programs load by entry points: the project's own, wherever they are declared, and those of other packages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.small import Files, judged, small
from torchferry.programs.imports.packaging_metadata import LARGEST_DOCUMENT
from torchferry.programs.imports.setup_scripts import DeclaredPoint, points_in_text
from torchferry.programs.model import Verdict

NETS = {"lab/__init__.py": "", "lab/nets.py": "def fast():\n    import cupy\ndef slow():\n    pass\n"}
LOADS = (
    "from importlib.metadata import entry_points\nimport torch\nfor point in entry_points(group='lab.nets'):\n"
    "    point.load()()\n"
)
ENTRY = "fast = lab.nets:fast"
SETUP = "from setuptools import setup\n{}setup(name='lab', entry_points={})\n"


def setup(value: str, before: str = "") -> Files:
    return {"setup.py": SETUP.format(before, value)}


DECLARED: dict[str, Files] = {
    "a table": {"pyproject.toml": "[project.entry-points.'lab.nets']\nfast = 'lab.nets:fast'\n"},
    "poetry": {"pyproject.toml": "[tool.poetry.plugins.'lab.nets']\nfast = 'lab.nets:fast'\n"},
    "flit": {"pyproject.toml": "[tool.flit.entrypoints.'lab.nets']\nfast = 'lab.nets:fast'\n"},
    "a file of pyproject": {
        "pyproject.toml": "[tool.setuptools.dynamic]\nentry-points = {file = ['points.ini']}\n",
        "points.ini": f"[lab.nets]\n{ENTRY}\n",
    },
    "setup.cfg": {"setup.cfg": f"[options.entry_points]\nconsole_scripts =\n  x = lab:x\nlab.nets =\n    {ENTRY}\n"},
    "setup.cfg in one line": {"setup.cfg": f"[options.entry_points]\nlab.nets = {ENTRY}\n"},
    "pbr": {"setup.cfg": f"[entry_points]\nlab.nets =\n    {ENTRY}\n"},
    "a file of setup.cfg": {
        "setup.cfg": "[options]\nentry_points = file: points.ini\n", "points.ini": f"[lab.nets]\n{ENTRY}\n",
    },
    "lists": setup(f"{{'lab.nets': ['{ENTRY}']}}"),
    "a text": setup(f"'''\n  [console_scripts]\n  x = lab:x\n  [lab.nets]\n  {ENTRY}\n'''"),
    "a text in a list": setup(f"{{'lab.nets': '''\n{ENTRY}\n'''}}"),
    "a variable": setup("POINTS", f"POINTS = {{'lab.nets': ['{ENTRY}']}}\n"),
    "variables": setup("{GROUP: NETS}", f"GROUP = 'lab.nets'\nNETS = ['{ENTRY}']\n"),
    "a sum": setup("{'lab.nets': A + B}", f"A = ['slow = lab.nets:slow']\nB = ['{ENTRY}']\n"),
    "a branch": setup("{'lab.nets': B if x else []}", f"B = ['{ENTRY}']\n"),
    "an item": setup("P", f"P = {{}}\nP['lab.nets'] = ['{ENTRY}']\n"),
    "what is added": setup("P", f"P = {{'lab.nets': []}}\nP['lab.nets'].append('{ENTRY}')\n"),
    "what is added to a list": setup("{'lab.nets': L}", f"L = []\nL.append('{ENTRY}')\n"),
    "what is put in": setup("P", f"P = {{}}\nP.setdefault('lab.nets', []).extend(['{ENTRY}'])\n"),
    "a table in a table": setup("{**A, 'other': []}", f"A = {{'lab.nets': ['{ENTRY}']}}\n"),
    "a comprehension": setup("{'lab.nets': [f'{n} = lab.nets:{n}' for n in ('fast', 'slow')]}"),
    "arguments": {"setup.py": "from setuptools import setup\nARGUMENTS = {'name': 'lab'}\n"
                  f"ARGUMENTS['entry_points'] = {{'lab.nets': ['{ENTRY}']}}\nsetup(**ARGUMENTS)\n"},
    "a call of dict": {"setup.py": "from setuptools import setup\n"
                       f"setup(**dict(entry_points={{'lab.nets': ['{ENTRY}']}}))\n"},
    "another module": {**setup("POINTS", "from lab.points import POINTS\n"),
                       "lab/points.py": f"POINTS = {{'lab.nets': ['{ENTRY}']}}\n"},
    "a file of setup.py": {**setup("open('points.ini').read()"), "points.ini": f"[lab.nets]\n{ENTRY}\n"},
}  # fmt: skip


@pytest.mark.parametrize("files", DECLARED.values(), ids=DECLARED)
def test_what_packaging_files_declare_is_loaded(files: Files, tmp_path: Path) -> None:
    program = judged(tmp_path, {**NETS, **files, "train.py": LOADS})["train.py"]
    assert [each.what for each in (*program.blockers, *program.optional)] == ["cupy"]
    assert program.unresolved == ()


def test_packages_below_folders_declare_theirs(tmp_path: Path) -> None:
    files = {f"packages/lab/{name}": text for name, text in {**NETS, **DECLARED["lists"]}.items()}
    program = judged(tmp_path, {**files, "train.py": LOADS})["train.py"]
    assert [each.what for each in (*program.blockers, *program.optional)] == ["cupy"]


@pytest.mark.parametrize(
    "files",
    [
        setup("points()"),
        setup("{'lab.nets': points()}"),
        setup("{'lab.nets': ['%s = lab.nets:%s' % (n, n) for n in names]}"),
        setup("{group(): ['a = lab:slow']}"),
        setup("{**POINTS}", "from other import POINTS\n"),
        setup("P", "P = {}\nfor name in names():\n    P[name] = ['a = lab:slow']\n"),
        setup("open('absent.ini').read()"),
        {"setup.cfg": "[options]\nentry_points = file: absent.ini\n"},
        {"setup.py": "setup(entry_points={'lab.nets': [}\n"},
        {"pyproject.toml": "[project.entry-points.'lab.nets']\nfast = lab.nets:fast\n"},
        {"setup.cfg": "[options.entry_points]\nlab.nets =\n" + "#" * LARGEST_DOCUMENT},
        {"setup.cfg": "[options.entry_points]\nlab.nets =\n    fast = %(fast)s\n"},
    ],
)
def test_entry_points_that_cannot_be_told_are_said(files: Files, tmp_path: Path) -> None:
    program = judged(tmp_path, {**NETS, **files, "train.py": LOADS})["train.py"]
    assert [str(place) for place in program.unresolved] == ["train.py:3:1"]
    (said,) = program.unread
    assert said.reason.render("en").startswith(
        "loads plugins of the project, some of which could not be resolved: entry_"
    )
    assert [each.what for each in program.alternatives] == ["cupy"]


METADATA = "import torch\nfrom importlib.metadata import entry_points\nprint(torch.ones(2))\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("for p in entry_points(group='zoo.nets'):\n    p.load()\n", "`zoo.nets`"),
        ("for p in entry_points().select(group='zoo.nets'):\n    p.load()\n", "`zoo.nets`"),
        ("for p in entry_points()['zoo.nets']:\n    p.load()\n", "`zoo.nets`"),
        ("eps = entry_points()\nfound = eps.select(group='zoo.nets') if x else eps.get('zoo.nets', [])\n"
         "nets = {p.name: p for p in found}\n", "`zoo.nets`"),
        ("G = 'zoo.nets'\ndef nets():\n    return [p.load() for p in entry_points(group=G)]\n", "`zoo.nets`"),
        ("def nets(group):\n    return entry_points(group=group)\nnets('zoo.nets')\n", "`zoo.nets`"),
        ("for p in entry_points(group='zoo.nets'):\n    if p.name == 'x':\n        net = p.load\n", "`zoo.nets`"),
        ("net = next(iter(entry_points(group='zoo.nets', name='x'))).load()\n", "`zoo.nets`"),
        ("for p in entry_points():\n    if p.group == 'zoo.nets':\n        p.load()\n", "`zoo.nets`"),
        ("for p in entry_points(group=x):\n    p.load()\n", "could not be resolved"),
        ("for p in entry_points():\n    p.load()\n", "could not be resolved"),
        ("import pkg_resources\nfor p in pkg_resources.iter_entry_points('zoo.nets'):\n    p.load()\n", "`zoo.nets`"),
        ("import pkg_resources\nnet = pkg_resources.load_entry_point('zoo', 'zoo.nets', 'x')\n", "`zoo.nets`"),
        ("import pluggy\npm = pluggy.PluginManager('zoo')\npm.load_setuptools_entrypoints('zoo.nets')\n", "`zoo.nets`"),
        ("from stevedore import driver\nnet = driver.DriverManager(namespace='zoo.nets', name='x').driver\n",
         "`zoo.nets`"),
        ("from importlib.metadata import distributions\nfor d in distributions():\n    for p in d.entry_points:\n"
         "        if p.group == 'zoo.nets':\n            p.load()\n", "`zoo.nets`"),
        ("from compat import entry_points as points\nfor p in points(group='zoo.nets'):\n    p.load()\n", "`zoo.nets`"),
    ],
)  # fmt: skip
def test_plugins_of_other_packages_are_said(text: str, reason: str, tmp_path: Path) -> None:
    files = {**NETS, **DECLARED["a table"], "compat.py": METADATA, "train.py": METADATA + text}
    program = judged(tmp_path, files)["train.py"]
    assert len(program.unresolved) == 1
    assert reason in program.unread[0].reason.render("en")


@pytest.mark.parametrize(
    "text",
    [
        "print([p.name for p in entry_points(group='zoo.nets')])\n",
        "print(len(entry_points(group='zoo.nets')), entry_points().groups)\n",
        "nets = entry_points(group='zoo.nets')\nif not nets:\n    print(0)\nif 'x' in nets.names:\n    print('x')\n",
        "for p in sorted(entry_points(group='zoo.nets')):\n    print(p.name, p.value, p.dist)\n",
        "for p in entry_points(group='torch.backends'):\n    p.load()\n",
        "for p in entry_points(group='pygments.lexers'):\n    p.load()\n",
        "for p in entry_points(group='console_scripts'):\n    p.load()\n",
        "def entry_points(group):\n    return []\nfor p in entry_points('zoo.nets'):\n    p.load()\n",
        "print(parser.entry_points(group='zoo.nets'))\n",
    ],
)
def test_what_loads_nothing_and_what_uses_no_card_is_not_spoken_of(text: str, tmp_path: Path) -> None:
    imports = "" if "def entry_points" in text else "from importlib.metadata import entry_points\n"
    program = judged(tmp_path, {"train.py": f"import torch\n{imports}print(torch.ones(2))\n{text}"})["train.py"]
    assert program.verdict is Verdict.READY
    assert program.unresolved == ()


def test_plugins_of_others_do_not_lead_into_the_project(tmp_path: Path) -> None:
    """Only what may be the project's own is looked for in it."""
    text = LOADS.replace("lab.nets", "zoo.nets")
    files = {"train.py": text, "other.py": "import cupy\n"}
    assert judged(tmp_path / "a", files)["train.py"].alternatives == ()
    files["train.py"] = text.replace("'zoo.nets'", "input()")
    assert [each.what for each in judged(tmp_path / "b", files)["train.py"].alternatives] == ["cupy"]


def test_a_comprehension_names_each_command_once(tmp_path: Path) -> None:
    listed = "[f'lab-{n} = lab.cli:{n}' for n in ('train', 'test')]"
    cli = "import torch\ndef train():\n    pass\ndef test():\n    pass\n"
    files = {"lab/__init__.py": "", "lab/cli.py": cli, **setup(f"{{'console_scripts': {listed}}}")}
    found = small(tmp_path, files).programs()
    assert {(each.name, each.function) for each in found} == {("lab-train", "train"), ("lab-test", "test")}


NAMES = st.from_regex(r"[a-z][a-z_.-]{0,8}[a-z]", fullmatch=True)
TABLES = st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=3), max_size=3)


@given(TABLES)
def test_a_table_is_the_same_however_it_is_written(tables: dict[str, dict[str, str]]) -> None:
    """What a text with sections lists is what Python's own reader of metadata finds in it."""
    values = {g: {n: v.replace("-", "_") for n, v in table.items()} for g, table in tables.items()}
    lines = [line for g, table in values.items() for line in (f"[{g}]", *(f"  {n} = {v}" for n, v in table.items()))]
    wanted = [DeclaredPoint(g, n, v) for g, table in values.items() for n, v in table.items()]
    assert [*points_in_text("\n".join(lines))] == wanted


def test_hostile_setup_scripts_end(tmp_path: Path) -> None:
    loops = "A = B\nB = A\nC = {**C, 'x': [*D]}\nD = [*D, *D]\n"
    deep = "+".join(["['a = b:c']"] * 300)
    for number, text in enumerate((f"{loops}setup(entry_points=A)\nsetup(entry_points=C)\n",
                                   f"setup(entry_points={{'lab.nets': {deep}}})\n")):  # fmt: skip
        ast.parse(text)
        program = judged(tmp_path / str(number), {**NETS, "setup.py": text, "train.py": LOADS})["train.py"]
        assert program.unresolved
