"""Projects that are damaged, endless or made to be slow: no crash, bounded work, and what was not followed is said."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.programs.small import BUILT, MAIN, Files, judged, small, write
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.programs.entry_points.finder import programs_of
from torchferry.programs.entry_points.launch_commands import StartingCommands
from torchferry.programs.evaluation.conditions import Conditions
from torchferry.programs.evaluation.object_kinds import Object
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.evaluation.program_facts import MOST_STEPS
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.settings_classes import SettingsFiles
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Verdict
from torchferry.programs.syntax.parameters import Expression
from torchferry.programs.verdicts.judging import judge
from torchferry.rules.file_result import FileResult
from torchferry.source.kinds import Kind
from torchferry.source.outline import outline
from torchferry.source.project import Project
from torchferry.source.roles import Roles

DEEP = 3_000
CUDA = "import torch\ntorch.cuda.synchronize()\n"


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "import b\n" + MAIN, "b.py": "import c\n", "c.py": "import a, b\n"},
        {"a.py": "from b import *\n" + MAIN, "b.py": "from a import *\n"},
        {"a.py": "from a import *\n" + MAIN},
        {"p/__init__.py": "from . import p\nfrom .p import *\n", "p/p.py": "from p import p\n", "a.py": "import p\n" + MAIN},  # noqa: E501
        {"a.py": "FLAG = FLAG\nif FLAG:\n    import cupy\n" + MAIN},
        {"a.py": "import b\nif b.X:\n    import cupy\n" + MAIN, "b.py": "from a import Y as X\n"},
        {"a.py": "from b import X as Y\nif Y:\n    import cupy\n" + MAIN, "b.py": "from a import Y as X\n"},
        {"a.py": "def f(x):\n    if x:\n        import cupy\n    f(x)\nf(f)\n" + MAIN},
        {"a.py": "def f(x=None):\n    g(x)\ndef g(x=None):\n    f(x)\n    if x:\n        import cupy\nf()\n" + MAIN},
        {"a.py": "class A(B):\n    def f(self):\n        import cupy\nclass B(A):\n    pass\nB().f()\n" + MAIN},
        {"a.py": "def ok():\n    return ok()\nif ok():\n    import cupy\n" + MAIN},
        {"a.py": "x = {'k': x['k']}\nif x['k']:\n    import cupy\n" + MAIN},
        {"a.py": "import importlib\ndef f(n):\n    n = n + n\n    importlib.import_module(n)\n    f(n)\n" + MAIN},
        {"a.py": "import importlib\nn = 'x'\nwhile n:\n    n = n + '.' + n\n    importlib.import_module(n)\n" + MAIN},
        {"random/__init__.py": "import random\n", "a.py": "import random\n" + MAIN},
        {"a.py": "from . import b\nfrom ... import c\nfrom ....d import e\n" + MAIN},
        {"a.py": "import importlib\nimportlib.import_module()\n__import__()\nimportlib.import_module(*x)\n" + MAIN},
        {"a.py": "import importlib\nimportlib.import_module('')\nimportlib.import_module('....')\n" + MAIN},
        {"a.py": MAIN, "pyproject.toml": "[project.scripts]\nx = 3\n= broken", "setup.cfg": "[options.entry_points", "setup.py": "("},  # noqa: E501
        {"a.py": MAIN, "pyproject.toml": '[project.scripts]\na = ":"\nb = "a:"\nc = "..:x"\nd = "a"\n'},
        {"a.py": MAIN, "conf.yaml": "{{{{[[[[: : :\n\t- - -", "b.json": "{" * 100},
        {"a.py": MAIN, "demo.ipynb": "{not json", "run.sh": "python a.py 'unclosed\n$(((", "README.md": "```\npython a.py"},  # noqa: E501
        {"a.py": MAIN + "\nmatch x:\n    case [1, *_] if y:\n        import cupy\n    case {'a': 1}:\n        import cupy\n"},  # noqa: E501
    ],
    ids=lambda files: next(iter(files.values()))[:50],
)  # fmt: skip
def test_what_turns_in_circles_or_is_broken(files: Files, tmp_path: Path) -> None:
    assert judged(tmp_path, files).keys() >= {"a.py"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.py", "def broken(:\n"),
        ("net.py", "x = " + "(" * DEEP + ")" * DEEP + "\n"),
        ("net.py", "x = " + "-" * 60_000 + "1\n"),
        ("net.py", "x = 'a\0b'\n"),
    ],
    ids=["syntax", "brackets", "minus", "zero"],
)
def test_what_does_not_parse_is_not_judged(name: str, text: str, tmp_path: Path) -> None:
    found = judged(tmp_path, {"a.py": "import net\n" + MAIN, name: CUDA + text})["a.py"]
    assert found.verdict is Verdict.NOT_JUDGED
    assert [unread.place for unread in found.unread] == [name]


def test_what_is_no_text_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_bytes(CUDA.encode() + b"\xff\xfe\x00\x80 = 1\n")
    found = judged(tmp_path, {"a.py": "import net\n" + MAIN})["a.py"]
    assert found.verdict is Verdict.NOT_JUDGED
    assert [unread.place for unread in found.unread] == ["net.py"]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{' ' * level}if x{level}:\n" for level in range(90)) + " " * 90 + "import cupy\n",
        "x = " + " + ".join(["1"] * 900) + "\nif x:\n    import cupy\n",
        "if " + "not " * 900 + "x:\n    import cupy\n",
        "if " + " and ".join(f"x{index}" for index in range(2_000)) + ":\n    import cupy\n",
        "x0 = 1\n" + "".join(f"x{index + 1} = x{index}\n" for index in range(2_000)) + "if x2000:\n    import cupy\n",
        "def f0():\n    import cupy\n" + "".join(f"def f{n + 1}():\n    f{n}()\n" for n in range(1_500)) + "f1500()\n",
        "if a:\n    pass\n" + "".join(f"elif a == {index}:\n    pass\n" for index in range(400)) + "else:\n    import cupy\n",  # noqa: E501
        "class A0:\n    def f(self):\n        import cupy\n"
        + "".join(f"class A{index + 1}(A{index}):\n    pass\n" for index in range(300)) + "A300().f()\n",
    ],
    ids=["ifs", "sum", "nots", "ands", "variables", "calls", "elifs", "classes"],
)  # fmt: skip
def test_what_is_deep(text: str, tmp_path: Path) -> None:
    assert "a.py" in judged(tmp_path, {"a.py": text + MAIN})


PARSER = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
LOADS = "import yaml\nimport torch\ncfg = yaml.safe_load(open('{}'))\nif cfg['fast']:\n    import cupy\n"
MANY = range(20)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.py": PARSER + "".join(f"parser.add_argument('--o{n}', action='store_true')\n" for n in range(2_000))
          + "args = parser.parse_args()\nif args.o1999:\n    import cupy\n"}, "OPTION"),
        ({"a.py": PARSER + "g0 = parser\n" + "".join(f"g{n + 1} = g{n}.add_argument_group('x')\n" for n in range(400))
          + "g400.add_argument('--fast', action='store_true')\nargs = parser.parse_args()\nif args.fast:\n"
          "    import cupy\n"}, "OPTION"),
        ({"a.py": LOADS.format("a.yaml"), "a.yaml": "fast: false\n" + "x: 1234567890\n" * 400_000}, "CHOSEN"),
        ({"a.py": LOADS.format("a.yaml"), "a.yaml": "".join(f"{' ' * n}k{n}:\n" for n in range(1_000))}, "CHOSEN"),
        ({"a.py": LOADS.format("a.json"), "a.json": '{"fast":' * 100_000}, "CHOSEN"),
        ({"a.py": LOADS.format("a.yaml"), "a.yaml": "_base_: a.yaml\nslow: 1\n"}, "CHOSEN"),
        ({"a.py": LOADS.format("../../../etc/a.yaml"), "a.yaml": "fast: false\n"}, "CHOSEN"),
        ({"a.py": "import hydra\nimport torch\n@hydra.main(config_path='c', config_name='a')\ndef main(cfg):\n"
          "    if cfg.fast:\n        import cupy\nmain()\n", "c/a.yaml": "defaults:\n  - a\n  - /a\n  - _self_\n"},
         "CHOSEN"),
        ({"a.py": "import torch\ncfg = cfg\ncfg.a = cfg\ncfg.a.a = cfg.a\nif cfg.a.a.fast:\n    import cupy\n"}, "CHOSEN"),  # noqa: E501
        ({"a.py": "import torch\nclass A(B):\n    pass\nclass B(A):\n    def __init__(self):\n        self.x = self.y\n"
          "        self.y = self.x\nif A().x.fast:\n    import cupy\n"}, "CHOSEN"),
        ({"a.py": "import torch\nt0 = {'x': 1}\n" + "".join(f"t{n + 1} = {{**t{n}, **t{n}, **t{n}}}\n" for n in MANY)
          + "if t20['fast']:\n    import cupy\n"}, "CHOSEN"),
        ({"a.py": "import torch\ndef g0(a, b):\n    return a\n"
          + "".join(f"def g{n + 1}(a, b):\n    if a:\n        return g{n}(a, b)\n    return g{n}(b, a)\n" for n in MANY)
          + "if g20(torch.load('x'), 1).fast:\n    import cupy\n"}, "CHOSEN"),
        ({"a.py": "import torch\n" + "".join(
            f"def f{n}(c):\n    if c.fast:\n        import cupy\n"
            + "".join(f"    return f{k}(f{(k * 7 + n) % 20}(c))\n" for k in MANY if k != n) for n in MANY)
          + "f0(torch.load('x'))\n"}, "CHOSEN"),
        ({"a.py": "import torch\nif x" + ".a" * 900 + ".fast:\n    import cupy\n"}, "CHOSEN"),
    ],
    ids=["options", "groups", "large", "deep", "open", "own base", "outside", "hydra", "stored", "bases", "unpacked",
         "returned", "handed on", "attributes"],
)  # fmt: skip
def test_what_an_object_is_is_looked_for_within_bounds(
    files: Files, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[list[int]] = []
    of, told = Objects.of, Conditions.evaluate

    def counted(self: Objects, where: Expression, depth: int = 0) -> tuple[Object, ...] | None:
        looked[-1][0] += 1
        return of(self, where, depth)

    def asked(self: Conditions, *given: object) -> object:
        looked.append([0])
        return told(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Objects, "of", counted)
    monkeypatch.setattr(Conditions, "evaluate", asked)
    program = judged(tmp_path, files)["a.py"]
    found = [
        obstacle.call_path.reachability.name
        for obstacle in (*program.blockers, *program.optional)
        if obstacle.what == "cupy"
    ]
    assert found == [expected]
    assert max((count for (count,) in looked), default=0) < 3 * MOST_STEPS


class Counted(Project):
    """Counts how often files are parsed and read."""

    times_parsed = 0
    times_read = 0

    def file(self, path: str):  # type: ignore[no-untyped-def]
        self.times_parsed += path not in self._files
        return super().file(path)

    def text(self, path: str):  # type: ignore[no-untyped-def]
        self.times_read += path not in self._texts
        return super().text(path)


def _modules(root: Path, files: Files) -> tuple[Modules, Counted, list[FileResult]]:
    write(root, files)
    project = Counted(root, [path for path in files if path.endswith(".py")])
    examined = [
        FileResult(path, Kind.PYTHON, outline=outline(path, text.encode()))
        for path, text in files.items()
        if path.endswith(".py")
    ]
    settings = SettingsFiles(root, [path for path in files if path.endswith((".yaml", ".json"))])
    return (
        Modules(project, [item.outline for item in examined if item.outline is not None], settings),
        project,
        examined,
    )


def _programs(modules: Modules, examined: list[FileResult]) -> list[str]:
    choice = registry.choose("npu")
    target = Target(choice.backend, choice.version)
    commands = StartingCommands(modules.project.root, modules, target).started(examined)
    roles = Roles.read(modules.project)
    return [each.path for each in programs_of(Sources(modules.project), modules, examined, roles, commands)]


def test_ten_thousand_modules(tmp_path: Path) -> None:
    files = {f"p{n // 100}/m{n}.py": f"import p{(n + 1) % 10_000 // 100}.m{(n + 1) % 10_000}\n" for n in range(10_000)}
    files["train.py"] = "import p0.m0\nif __name__ == '__main__':\n    pass\n"
    modules, project, examined = _modules(tmp_path, files)
    assert len(modules.closure("train.py")) == 10_001
    assert _programs(modules, examined) == ["train.py"]
    assert project.times_parsed < 10


def test_ten_thousand_loaders_end(tmp_path: Path) -> None:
    text = "import importlib\ndef load(name):\n    return importlib.import_module(name)\nload(x)\n"
    files = {f"m{n}.py": text for n in range(600)}
    files["train.py"] = "".join(f"import m{n}\n" for n in range(600))
    modules, project, _ = _modules(tmp_path, files)
    assert len(modules.closure("train.py")) == 601
    assert len(modules.unfollowed) == 600
    assert project.times_read < 200_000


def test_a_registry_of_two_thousand_names(tmp_path: Path) -> None:
    nets = {f"nets/net{n}.py": f"from registry import register\n@register('net{n}')\nclass Net{n}:\n    pass\n"
            for n in range(2_000)}  # fmt: skip
    files = {
        **nets,
        "registry.py": "NETS = {}\ndef register(name):\n    return lambda net: NETS.setdefault(name, net)\n",
        "nets/__init__.py": "import importlib, os\nfor name in os.listdir(os.path.dirname(__file__)):\n"
        "    importlib.import_module('nets.' + name[:-3])\n",
        "train.py": "import nets\nfrom registry import NETS\nprint(NETS['net7']())\n",
    }
    modules, project, _ = _modules(tmp_path, files)
    assert len(modules.closure("train.py")) == 2_003
    assert modules.unfollowed == {}
    assert project.times_parsed < 10


def test_a_readme_of_a_hundred_thousand_commands(tmp_path: Path) -> None:
    files = {"train.py": MAIN, "README.md": "```bash\n" + "python train.py\n" * 60_000 + "```\n"}
    (program,) = small(tmp_path, files).programs()
    assert [start.place for start in program.starts] == ["README.md:2"]


def test_a_readme_that_names_all_files(tmp_path: Path) -> None:
    files = {f"tools/m{n}.py": MAIN for n in range(300)}
    text = "".join(f"cd a{n}\npython m{n}.py --a{n} `x`\n`python m{n}.py`\n" for n in range(300))
    found = small(tmp_path, {**files, "README.md": f"```\n{text}```\n{text}"}).programs()
    assert len(found) == 300
    assert all(program.starts for program in found)


@pytest.mark.parametrize("unit", ["`python ", "$(", "    python -m ", "cd ", "```\n", "`", "$ python x.py \\\n"])
def test_a_readme_that_repeats_itself(unit: str, tmp_path: Path) -> None:
    found = small(tmp_path, {"train.py": MAIN, "README.md": "python train.py -m \n" + unit * 20_000}).programs()
    assert [program.path for program in found] == ["train.py"]


def test_settings_that_name_everything(tmp_path: Path) -> None:
    files = {f"nets/net{n}.py": "class Net:\n    pass\n" for n in range(500)}
    files |= {f"conf/c{n}.yaml": "".join(f"- target: nets.net{m}.Net\n" for m in range(500)) for n in range(40)}
    files["conf/deep.yaml"] = "defaults:\n" + "".join(f"  - c{n}\n  - deep\n" for n in range(400))
    files["train.py"] = (
        "import hydra\n@hydra.main(config_path='conf', config_name='deep')\ndef main(cfg):\n    hydra.utils.instantiate(cfg)\n"  # noqa: E501
    )
    modules, project, _ = _modules(tmp_path, files)
    assert len(modules.closure("train.py")) == 501
    settings = modules.settings.of_program("train.py", files["train.py"], ())
    assert len(settings) == 41
    assert len(modules.closure("train.py", settings=settings)) == 501
    assert project.times_parsed < 600


def test_a_package_that_shadows_the_standard_library(tmp_path: Path) -> None:
    files = {**BUILT, "train.py": "import platform\n" + MAIN, "platform/__init__.py": "import fast_ops\n"}
    assert judged(tmp_path, files)["train.py"].verdict is Verdict.BLOCKED
    files = {**BUILT, "train.py": "import platform\n" + MAIN, "other/platform/__init__.py": "import fast_ops\n"}
    assert judged(tmp_path / "second", files)["train.py"].verdict is Verdict.READY


def test_thousands_of_programs_are_counted(tmp_path: Path) -> None:
    files = {f"m{n}.py": "import torch\nprint(1)\n" for n in range(450)}
    project = small(tmp_path, files)
    assert len(project.programs()) == 450
    verdicts = Counter(each.verdict for each in judge(project.analysis, project.target))
    assert verdicts == {Verdict.READY: 400, Verdict.NOT_JUDGED: 50}


def test_nothing_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    assert ast.parse(text)
    judged(tmp_path, {"setup.py": text, "train.py": text + MAIN, "conftest.py": text, "sitecustomize.py": text})
    assert not marker.exists()
