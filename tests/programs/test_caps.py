"""What is beyond a limit is told: a verdict never rests on what was left out in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.programs.small import BUILT, Files, judged, small
from torchferry.programs.entry_points import finder
from torchferry.programs.evaluation import config_files
from torchferry.programs.imports import computed_names, missing_sources
from torchferry.programs.model import Verdict
from torchferry.programs.references import class_hierarchy, reachable_code
from torchferry.programs.verdicts import judging, unexamined

LACKING = "import torch\nfrom torch.utils.cpp_extension import load_inline\nload_inline('x', cuda_sources='y')\n"


def test_an_archive_of_many_files_is_read_whole_and_one_that_is_too_large_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"train.py": "import ownpack\nownpack.run()\n"}
    with ZipFile(tmp_path / "deps.egg", "w") as archive:
        for number in range(10_001):
            archive.writestr(f"aa{number}.txt", "")
        archive.writestr("ownpack/__init__.py", "")
    program = judged(tmp_path, files)["train.py"]
    assert program.verdict is Verdict.NOT_JUDGED
    assert "the archive deps.egg, which is not opened, has `ownpack`" in program.unread[0].reason.render()
    monkeypatch.setattr(missing_sources, "_LARGEST", 100)
    program = judged(tmp_path, files)["train.py"]
    assert program.verdict is Verdict.NOT_JUDGED
    assert "may be in the archive deps.egg" in program.unread[0].reason.render()


def test_every_absent_submodule_is_named(tmp_path: Path) -> None:
    sections = [f'[submodule "s{number}"]\n\tpath = s{number}\n\turl = x\n' for number in range(300)]
    sections.append(f'[submodule "long"]\n\tpath = {"d/" * 150}long\n\turl = x\n')
    (tmp_path / ".gitmodules").write_text("".join(sections), encoding="utf-8")
    assert len(missing_sources.absent_submodules(tmp_path)) == 301


def test_a_list_of_submodules_that_is_not_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not unexamined._is_unread(tmp_path / ".gitmodules")
    (tmp_path / ".gitmodules").mkdir()
    assert unexamined._is_unread(tmp_path / ".gitmodules")


def test_names_beyond_those_that_are_followed_leave_an_import_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed_names, "_MOST", 2)
    files = {f"m{number}.py": "" for number in range(3)}
    text = (
        "import importlib\nTABLE = {%s}\ndef load(name):\n    return importlib.import_module(TABLE[name])\nload('a')\n"
    )
    for count, is_open in ((2, False), (3, True)):
        names = ", ".join(f"'k{number}': 'm{number}'" for number in range(count))
        folder = tmp_path / str(count)
        modules = small(folder, {**files, "train.py": text % names}).modules()
        modules.follow_computed("train.py")
        assert bool(modules.unfollowed) is is_open


def test_programs_beyond_those_that_are_followed_leave_the_verdict_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "_MOST_STARTED", 2)
    calls = "".join(f"os.system('python p{number}.py')\n" for number in range(3))
    files = {f"p{number}.py": "print(1)\n" for number in range(2)}
    program = judged(tmp_path, {**files, "p2.py": LACKING, "all.py": f"import os\n{calls}"})["all.py"]
    assert program.verdict is Verdict.NOT_JUDGED
    assert program.unread[0].place == "all.py:4"


def test_a_class_with_more_bases_than_are_followed_may_have_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = "".join(f"class C{number}(C{number + 1}):\n    pass\n" for number in range(60))
    text = f"import torch\nclass C60:\n    def f(self):\n        torch.ones(1).cuda()\n{classes}x = C0()\nx.f()\n"
    found = [judged(tmp_path / "a", {"train.py": text})["train.py"].verdict]
    monkeypatch.setattr(class_hierarchy, "_MOST_BASES", 100)
    found.append(judged(tmp_path / "b", {"train.py": text})["train.py"].verdict)
    assert found[0] is found[1]


def test_programs_beyond_those_that_are_judged_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_PROGRAMS", 2)
    verdicts = judged(tmp_path, {f"p{number}.py": "import torch\nprint(torch.ones(1))\n" for number in range(3)})
    assert [each.verdict for each in verdicts.values()] == [Verdict.READY, Verdict.READY, Verdict.NOT_JUDGED]
    assert "only the first 2 were judged" in verdicts["p2.py"].unread[0].reason.render()


# --- a chain says the same, however long it is ---

START = "if __name__ == '__main__':\n"
ATTEMPT = "try:\n    import apex\n    HAS = True\nexcept ImportError:\n    HAS = False\n"


def _kept(first: str, count: int) -> tuple[str, str]:
    """Return assignments that keep a value under one name after the other, and the last name."""
    lines = [f"a0 = {first}", *(f"a{number} = a{number - 1}" for number in range(1, count))]
    return "\n".join(lines) + "\n", f"a{count - 1}"


def _attempted(count: int) -> Files:
    kept, last = _kept("HAS", count)
    return {"train.py": f"import torch\n{ATTEMPT}{kept}torch.ones(2).to('cuda' if {last} else 'cpu')\n"}


def _attempted_elsewhere(count: int) -> Files:
    passing = {f"m{number}.py": f"from m{number - 1} import HAS\n" for number in range(1, count)}
    text = f"import torch\nfrom m{count - 1} import HAS\ndevice = 'cuda' if HAS else 'cpu'\n{START}    print(device)\n"
    return {"m0.py": ATTEMPT, **passing, "train.py": text}


def _asked_of_machine(count: int) -> Files:
    kept, last = _kept("os.environ.get('CUDA_HOME') is not None", count)
    return {"train.py": f"import os, torch\n{kept}x = torch.ones(2)\nif {last}:\n    x = x.cuda()\nprint(x)\n"}


def _asked_by_functions(count: int) -> Files:
    asks = "def f0():\n    return os.environ.get('CUDA_HOME') is not None\n"
    asks += "".join(f"def f{number}():\n    return f{number - 1}()\n" for number in range(1, count))
    return {"train.py": f"import os, torch\n{asks}x = torch.ones(2)\nif f{count - 1}():\n    x = x.cuda()\nprint(x)\n"}


def _wrapped_question(count: int) -> Files:
    path = "str(" * count + "'/dev/nvidia0'" + ")" * count
    return {"train.py": f"import os, torch\nx = torch.ones(2)\nif os.path.exists({path}):\n    print(x)\n"}


def _guarded(count: int) -> Files:
    kept, last = _kept("torch.version.cuda is not None", count)
    return {"train.py": f"import torch\n{kept}x = torch.ones(2)\nif {last}:\n    x = x.cuda()\nprint(x)\n"}


def _method(count: int) -> Files:
    kept, last = _kept("x.cuda", count)
    return {"train.py": f"import torch\nx = torch.ones(2)\n{kept}print({last}())\n"}


def _name_of_type(count: int) -> Files:
    made = " + ".join(["'a'"] * count + ["x.device.type"])
    return {"train.py": f"import torch\ndef {'a' * count}cuda_run(x):\n    return x\nx = torch.ones(2)\n"
                        f"globals()[{made} + '_run'](x)\n"}  # fmt: skip


def _started(count: int) -> Files:
    kept, last = _kept("['python', 'go.py']", count)
    return {"go.py": LACKING, "train.py": f"import subprocess, torch\n{kept}subprocess.run({last})\n"}


def _started_by_functions(count: int) -> Files:
    runs = "def f0(words):\n    subprocess.run(words)\n"
    runs += "".join(f"def f{number}(words):\n    f{number - 1}(words)\n" for number in range(1, count))
    return {"go.py": LACKING, "train.py": f"import subprocess, torch\n{runs}f{count - 1}(['python', 'go.py'])\n"}


def _demanded(count: int) -> Files:
    attempt = ATTEMPT.replace("apex", "fast_ops")
    passing = {f"m{number}.py": f"from m{number - 1} import HAS\n" for number in range(1, count)}
    text = (
        f"import torch\nfrom m{count - 1} import HAS\nif not HAS:\n    raise RuntimeError('no')\nprint(torch.ones(2))\n"
    )
    return {**BUILT, "m0.py": attempt, **passing, "train.py": text}


def _ended_by_functions(count: int) -> Files:
    ends = "def f0():\n    raise RuntimeError('no')\n"
    ends += "".join(f"def f{number}():\n    f{number - 1}()\n" for number in range(1, count))
    attempt = ATTEMPT.replace("apex", "fast_ops")
    text = f"import torch\n{attempt}{ends}if not HAS:\n    f{count - 1}()\nprint(torch.ones(2))\n"
    return {**BUILT, "train.py": text}


def _demanded_by_variable(count: int) -> Files:
    attempt = ATTEMPT.replace("apex", "fast_ops")
    kept, last = _kept("HAS", count)
    text = f"import torch\n{attempt}{kept}if not {last}:\n    raise RuntimeError('no')\nprint(torch.ones(2))\n"
    return {**BUILT, "train.py": text}


def _demanded_by_functions(count: int) -> Files:
    asks = "def f0():\n    return HAS\n"
    asks += "".join(f"def f{number}():\n    return f{number - 1}()\n" for number in range(1, count))
    attempt = ATTEMPT.replace("apex", "fast_ops")
    text = f"import torch\nfrom m import f{count - 1}\nif not f{count - 1}():\n    raise RuntimeError('no')\n"
    return {**BUILT, "m.py": attempt + asks, "train.py": text}


def _requested(count: int) -> Files:
    kept, last = _kept("'cuda'", count)
    return {"train.py": f"import torch\n{kept}print(getattr(torch, {last}).get_device_capability()[0] > 8)\n"}


def _registered(count: int) -> Files:
    passing = {f"m{number}.py": f"from m{number - 1} import *\n" for number in range(1, count)}
    return {
        **BUILT,
        "m0.py": "TABLE = {}\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n",
        **passing,
        "nets.py": f"from m{count - 1} import register\n@register\ndef net():\n    import fast_ops\n",
        "train.py": "import nets\nimport torch\nfrom m0 import TABLE\nTABLE['net']()\n",
    }


def _derived(count: int) -> Files:
    first = "class C0:\n    fast = False\n    def run(self):\n        if self.fast:\n            import fast_ops\n"
    further = "".join(f"class C{number}(C{number - 1}):\n    pass\n" for number in range(1, count))
    last = f"class Last(C{count - 1}):\n    fast = True\nLast().run()\nprint(torch.ones(2))\n"
    return {**BUILT, "train.py": f"import torch\n{first}{further}{last}"}


def _variable(count: int) -> Files:
    kept, last = _kept("'CUDA'", count)
    return {
        "train.py": f"import os, torch\n{kept}os.environ[{last} + '_VISIBLE_DEVICES'] = '0'\nprint(torch.ones(2))\n"
    }


def _cards(count: int) -> Files:
    kept, last = _kept("'GPU-8932f937'", count)
    return {"train.py": f"import os, torch\n{kept}os.environ['CUDA_VISIBLE_DEVICES'] = {last}\nprint(torch.ones(2))\n"}


def _set_often(count: int) -> Files:
    sets = "".join(f"    if k == {number}:\n        cap = (8, {number})\n" for number in range(count * 3))
    asks = "    return x.bfloat16() if cap[0] >= 8 else x\n"
    return {"train.py": f"import torch\ndef get(k, x):\n    cap = torch.cuda.get_device_capability()\n{sets}{asks}"
                        f"{START}    print(get(3, torch.ones(2)))\n"}  # fmt: skip


CHAINS: dict[Callable[[int], Files], Verdict] = {
    _attempted: Verdict.DECISIONS,
    _attempted_elsewhere: Verdict.DECISIONS,
    _asked_of_machine: Verdict.DECISIONS,
    _asked_by_functions: Verdict.DECISIONS,
    _wrapped_question: Verdict.DECISIONS,
    _guarded: Verdict.DECISIONS,
    _method: Verdict.FIXES,
    _name_of_type: Verdict.DECISIONS,
    _started: Verdict.BLOCKED,
    _started_by_functions: Verdict.BLOCKED,
    _demanded: Verdict.BLOCKED,
    _ended_by_functions: Verdict.BLOCKED,
    _demanded_by_variable: Verdict.BLOCKED,
    _demanded_by_functions: Verdict.BLOCKED,
    _requested: Verdict.DECISIONS,
    _registered: Verdict.BLOCKED,
    _derived: Verdict.BLOCKED,
    _variable: Verdict.FIXES,
    _cards: Verdict.DECISIONS,
    _set_often: Verdict.DECISIONS,
}


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.__name__.lstrip("_"))
def test_a_long_chain_is_judged_as_a_short_one(tmp_path: Path, chain: Callable[[int], Files]) -> None:
    for count in (2, 4, 7, 12, 30):
        verdict = judged(tmp_path / str(count), chain(count))["train.py"].verdict
        assert verdict in (CHAINS[chain], Verdict.MAY_NEED), count  # beyond the longest, nobody can tell


def test_each_choice_behind_an_option_is_told(tmp_path: Path) -> None:
    options = "".join(f"p.add_argument('--o{number}', action='store_true')\n" for number in range(15))
    asks = "".join(
        f"if a.o{number}:\n    print(torch.cuda.get_device_capability()[0] > {number})\n" for number in range(15)
    )
    text = f"import argparse, torch\np = argparse.ArgumentParser()\n{options}a = p.parse_args()\n{asks}"
    assert len(judged(tmp_path, {"train.py": text})["train.py"].alternatives) == 15


def test_programs_that_one_line_starts_have_its_options(tmp_path: Path) -> None:
    text = (
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--fast', action='store_true')\n"
        f"{START}    if p.parse_args().fast:\n        import fast_ops\n    print(torch.ones(2))\n"
    )
    for count in (2, 4, 8, 9, 30):
        names = [f"a{number}" for number in range(count)]
        files = {f"{name}.py": text for name in names}
        loop = f"for m in {' '.join(names)}; do\n  python $m.py --fast\ndone\n"
        calls = "go() {\n  python $1.py --fast\n}\n" + "".join(f"go {name}\n" for name in names)
        scripts = {
            "loop": {"run.sh": loop},
            "function": {"run.sh": calls},
            "script": {"run.sh": "python $1.py --fast\n", "all.sh": "".join(f"bash run.sh {name}\n" for name in names)},
        }
        for how, script in scripts.items():
            found = judged(tmp_path / f"{how}{count}", {**BUILT, **files, **script})
            assert {each.verdict for each in found.values()} == {Verdict.BLOCKED}, (how, count)


def test_files_of_gin_beyond_those_that_are_read_leave_a_parameter_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_files, "_MOST", 4)
    text = (
        "import gin, sys, torch\n@gin.configurable\ndef run(fast=False):\n    if fast:\n        import fast_ops\n"
        f"{START}    gin.parse_config_file(sys.argv[1])\n    run()\n"
    )
    for count in (2, 6):
        more = {f"c/b{number}.gin": "run.slow = True\n" for number in range(count)}
        files = {**BUILT, **more, "c/z.gin": "run.fast = True\n", "train.py": text}
        assert judged(tmp_path / str(count), files)["train.py"].verdict is Verdict.MAY_NEED


def test_an_own_method_is_known_behind_many_variables(tmp_path: Path) -> None:
    for count in (2, 12):
        kept, last = _kept("Net()", count)
        text = f"class Net:\n    def cuda(self):\n        return self\n{kept}{last}.cuda()\n"
        assert judged(tmp_path / str(count), {"train.py": f"import torch\n{text}"})["train.py"].verdict is Verdict.READY


def test_code_behind_functions_that_are_not_followed_counts_as_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = "".join(f"def f{number}():\n    f{number + 1}()\n" for number in range(4))
    text = f"import torch\n{chain}def f4():\n    torch.cuda.synchronize()\nif __name__ == '__main__':\n    print(1)\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict is Verdict.READY, "nobody calls f0"
    monkeypatch.setattr(reachable_code, "_MOST_UNITS", 3)
    program = judged(tmp_path, {"train.py": text})["train.py"]
    assert (program.verdict, program.fixes) == (Verdict.FIXES, 2), "the call and the import of the plugin"
