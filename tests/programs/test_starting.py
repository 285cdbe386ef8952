"""Programs that other programs start: their verdict is a part of that of who starts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.small import MAIN, Files, judged
from tests.programs.test_judging import chain, needs
from torchferry.programs.model import Verdict

START = "import os\nimport subprocess\nimport sys\n{}\nif __name__ == '__main__':\n    {}\n"
TRAIN = {"train.py": f"import fast_ops\n{MAIN}", "setup.py": "from torch.utils.cpp_extension import CUDAExtension\n"
         "CUDAExtension('fast_ops', ['a.cu'])\n"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (START.format("", "os.system('python train.py --steps 2')"), "ALWAYS"),
        (START.format("", "os.system('python train.py -s ' + sys.argv[1] + ' --eval')"), "ALWAYS"),
        (START.format("", "os.system(f'python train.py -s {sys.argv[1]}')"), "ALWAYS"),
        (START.format("", "subprocess.run([sys.executable, 'train.py', '--steps', '2'])"), "ALWAYS"),
        (START.format("", "subprocess.check_call('torchrun --nproc_per_node 2 train.py', shell=True)"), "ALWAYS"),
        (START.format("", "subprocess.Popen(['python', '-m', 'train'])"), "ALWAYS"),
        (START.format("", "subprocess.check_call([sys.executable, '-m', 'train', '-n', '3'])"), "ALWAYS"),
        (START.format("def f():\n    os.system('python train.py')", "f()"), "ALWAYS"),
        (START.format("def f():\n    os.system('python train.py')", "pass"), "NEVER"),
        (START.format("import argparse\np = argparse.ArgumentParser()\np.add_argument('--train', action='store_true')\n"
                      "args = p.parse_args()\nif args.train:\n    os.system('python train.py')", "pass"), "OPTION"),
        (START.format("", "os.execvp('python', ['python', 'train.py', '--steps', '2'])"), "ALWAYS"),
        (START.format("", "os.execl(sys.executable, 'python', 'train.py')"), "ALWAYS"),
        (START.format("", "os.spawnv(os.P_WAIT, sys.executable, ['python', 'train.py'])"), "ALWAYS"),
        (START.format("", "os.spawnlp(os.P_WAIT, 'python', 'python', 'train.py')"), "ALWAYS"),
        (START.format("", "exec(open('train.py').read())"), "ALWAYS"),
        (START.format("", "exec(compile(open('train.py').read(), 'train.py', 'exec'), globals())"), "ALWAYS"),
        (START.format("import runpy", "runpy.run_path('train.py', run_name='__main__')"), "ALWAYS"),
        (START.format("import runpy", "runpy.run_module('train')"), "ALWAYS"),
        (START.format("def exec(x):\n    pass", "exec(open('train.py').read())"), "NEVER"),
        (START.format("", "print(open('train.py').read())"), "NEVER"),
        (START.format("", "os.system('cp train.py /tmp')"), "NEVER"),
        (START.format("", "print('python train.py')"), "NEVER"),
        (START.format("", "os.system('python other.py')"), "NEVER"),
    ],
)  # fmt: skip
def test_what_a_started_program_needs(text: str, need: str, tmp_path: Path) -> None:
    assert needs(judged(tmp_path, {**TRAIN, "all.py": text})["all.py"]) == need


@pytest.mark.parametrize(
    ("cell", "need"),
    [
        ("%run train.py --steps 2", "ALWAYS"),
        ("!python train.py", "ALWAYS"),
        ("!cat train.py", "NEVER"),
        ("!python setup.py install", "NEVER"),
        ("# !python train.py", "NEVER"),
    ],
)
def test_what_a_notebook_starts(cell: str, need: str, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [f"import torch\n{cell}\n"]}]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    program = judged(tmp_path, {**TRAIN, "all.ipynb": notebook})["all.ipynb"]
    assert needs(program) == need
    if need == "ALWAYS":
        assert chain(program) == "all.ipynb:cell 1:2 -> train.py:1"


def test_a_cell_behind_an_end_is_run_again(tmp_path: Path) -> None:
    source = [["!pip install x\n", "exit()\n"], ["import torch\n", "import fast_ops\n"]]
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": lines} for lines in source]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert needs(judged(tmp_path, {**TRAIN, "all.ipynb": notebook})["all.ipynb"]) == "ALWAYS"


def test_the_chain_goes_through_both_programs(tmp_path: Path) -> None:
    program = judged(tmp_path, {**TRAIN, "all.py": START.format("", "os.system('python train.py')")})["all.py"]
    assert program.verdict is Verdict.BLOCKED
    assert chain(program) == "all.py:6 -> train.py:1"


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"train.py": "import torch\nprint(torch.ones(2).cuda())\n"}, Verdict.FIXES),
        ({"train.py": "import jax\nprint(jax.devices())\n"}, Verdict.NOT_JUDGED),
        ({"train.py": MAIN}, Verdict.READY),
        ({"train.py": "import os\nos.system('python all.py')\n"}, Verdict.READY),
        ({"train.py": "import os\nos.system('python train.py')\n"}, Verdict.READY),
    ],
)
def test_the_verdict_of_what_is_started(files: Files, verdict: Verdict, tmp_path: Path) -> None:
    program = judged(tmp_path, {**files, "all.py": START.format("", "os.system('python train.py')")})["all.py"]
    assert program.verdict is verdict


def test_changes_of_a_program_that_is_started_twice_count_once(tmp_path: Path) -> None:
    files = {"train.py": "import torch\nprint(torch.ones(2).cuda())\n"}
    once = START.format("", "os.system('python train.py')")
    programs = judged(tmp_path, {**files, "once.py": once, "all.py": f"{once}    os.system('python train.py -b 2')\n"})
    assert programs["all.py"].fixes == programs["once.py"].fixes == programs["train.py"].fixes


@pytest.mark.parametrize(("script", "verdict"), [("setup.py", Verdict.READY), ("make.py", Verdict.DECISIONS)])
def test_a_program_that_installs_the_project_does_not_need_what_that_lists(
    script: str, verdict: Verdict, tmp_path: Path
) -> None:
    files = {"all.py": START.format("", f"os.system('python {script} develop')"),
             script: "import torch\nfrom setuptools import setup\nsetup(install_requires=['torch'])\n"
             "torch.compile(torch.nn.Linear(2, 2), mode='reduce-overhead')\n"}  # fmt: skip
    assert judged(tmp_path, files)["all.py"].verdict is verdict


NOTEBOOK = json.dumps({
    "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1,
               "source": ["import torch\n", "print(torch.ones(2).cuda())\n"]}],
    "metadata": {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}},
    "nbformat": 4, "nbformat_minor": 5,
})  # fmt: skip
CUDA = "import torch\nif __name__ == '__main__':\n    print(torch.ones(2).cuda())\n"
OLD = "def f(async=1):\n    pass\nif __name__ == '__main__':\n    f()\n"


@pytest.mark.parametrize(
    ("files", "verdicts"),
    [
        # a project that lies among documents has its programs there
        ({"docs/a/net.ipynb": NOTEBOOK, "docs/a/train.py": CUDA}, {"docs/a/net.ipynb", "docs/a/train.py"}),
        ({"docs/a/net.ipynb": NOTEBOOK, "train.py": CUDA}, {"train.py"}),
        ({"docs/a/net.ipynb": NOTEBOOK, "lab/__init__.py": "import torch\n"}, {"lab"}),
        # what nobody can parse is a program all the same
        ({"old.py": OLD, "train.py": CUDA}, {"old.py", "train.py"}),
        ({"old.py": OLD.partition("if")[0], "train.py": CUDA}, {"train.py"}),
        ({"tests/old.py": OLD, "train.py": CUDA}, {"train.py"}),
    ],
)
def test_programs_among_documents_and_unread_ones(files: Files, verdicts: set[str], tmp_path: Path) -> None:
    found = judged(tmp_path, files)
    assert set(found) == verdicts
    assert all(each.verdict is (Verdict.NOT_JUDGED if path == "old.py" else found[path].verdict)
               for path, each in found.items())  # fmt: skip
