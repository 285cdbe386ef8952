"""Which programs a project has: how people start them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, MAIN, Files, judged, small
from tests.programs.test_judging import needs
from torchferry.programs.model import Form
from torchferry.programs.verdicts.judging import judge
from torchferry.source.roles import Role

WORK = "import torch\nfor step in range(3):\n    print(torch.ones(step))\n"
DEFINES = "import torch\ndef main():\n    print(torch.ones(2))\n"
PACKAGE = {"tool/__init__.py": "", "tool/cli.py": DEFINES, "tool/train.py": DEFINES}


def programs(root: Path, files: Files) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the programs of a project: for each title the file and the places of the commands that start it."""
    found = small(root, files).programs()
    return {program.title: (program.path, tuple(start.place for start in program.starts)) for program in found}


@pytest.mark.parametrize(
    ("files", "titles"),
    [
        ({"train.py": MAIN}, {"train.py"}),
        ({"train.py": "import torch\nif '__main__' == __name__:\n    torch.ones(2)\n"}, {"train.py"}),
        ({"train.py": WORK}, {"train.py"}),
        ({"train.py": WORK, "eval.py": "import train\nprint(train.step)\n"}, {"eval.py"}),
        ({"train.py": MAIN, "eval.py": "import train\nif __name__ == '__main__':\n    train.f()\n"},
         {"train.py", "eval.py"}),
        ({"train.py": MAIN, "model.py": DEFINES}, {"train.py"}),
        ({"train.py": MAIN, "tests/test_train.py": MAIN, "test_model.py": "import pytest\n",
          "benchmarks/speed.py": MAIN,
          "docs/conf.py": WORK, "setup.py": WORK, "conftest.py": WORK, ".ci/run.py": MAIN}, {"train.py"}),
        ({"test/a.py": MAIN, "test/b.py": MAIN, "README.md": "`python test/a.py`"}, {"test/a.py", "test/b.py"}),
        ({"test/a.py": MAIN, "test/b.py": MAIN, "test/c.py": "import pytest\n", "README.md": "`python test/a.py`"},
         {"test/a.py"}),
        ({"train.py": MAIN, "test/a.py": MAIN, "test/b.py": MAIN}, {"train.py"}),
        ({"pkg/__init__.py": WORK, "pkg/main.py": MAIN}, {"pkg/main.py"}),
        ({"pkg/__init__.py": "", "pkg/__main__.py": "from pkg.cli import main\nmain()\n", "pkg/cli.py": DEFINES},
         {"pkg/__main__.py"}),
        ({"tools/train.py": "import torch\nimport _init_paths\n" + MAIN, "tools/_init_paths.py": "import sys\n"
          "sys.path.insert(0, 'lib')\n"}, {"tools/train.py"}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_files_that_are_started(files: Files, titles: set[str], tmp_path: Path) -> None:
    assert set(programs(tmp_path, files)) == titles


@pytest.mark.parametrize(
    "line",
    ["sys.path.append('..')", "warnings.filterwarnings('ignore')", "register_model(Net)", "MODELS.register(Net)",
     "logging.basicConfig()", "torch.set_num_threads(1)", "logger.setLevel('INFO')",
     '"""\nwith much to say\nfor everybody (here)\n"""'],
)  # fmt: skip
def test_what_only_prepares_is_no_program(line: str, tmp_path: Path) -> None:
    text = f"import logging, sys, warnings\nimport torch\nlogger = logging.getLogger()\n{line}\n{DEFINES}"
    assert set(programs(tmp_path, {"train.py": MAIN, "pkg/net.py": text})) == {"train.py"}


@pytest.mark.parametrize(
    ("path", "text", "readme", "is_program"),
    [
        ("test_net.py", MAIN, "", True),
        ("tools/test_net.py", MAIN, "", True),
        ("tests/test_net.py", MAIN, "", False),
        ("test_net.py", MAIN + "def test_forward():\n    pass\n", "", False),
        ("test_net.py", "import unittest\n" + MAIN, "", False),
        ("test_net.py", DEFINES, "python test_net.py", True),
        ("benchmarks/speed.py", MAIN, "python benchmarks/speed.py --n 2", True),
        ("tests/test_net.py", "import pytest\n" + MAIN, "python tests/test_net.py", False),
        ("setup.py", WORK, "python setup.py develop", False),
    ],
)
def test_evaluation_is_no_test(path: str, text: str, readme: str, is_program: bool, tmp_path: Path) -> None:
    files = {"train.py": MAIN, path: text, "README.md": f"```bash\n{readme}\n```\n"}
    assert (path in programs(tmp_path, files)) is is_program


@pytest.mark.parametrize(
    ("where", "command", "path"),
    [
        ("run.sh", "cd a && python train.py", "a/train.py"),
        ("run.sh", "cd a/\npython train.py\ncd ../b\npython train.py --second", "a/train.py b/train.py"),
        ("run.sh", "cd a\ncd ..\npython train.py", "train.py"),
        ("run.sh", "pushd a\npopd\npython train.py", "train.py"),
        ("run.sh", "cd tool\npython train.py", "train.py"),
        ("run.sh", "(cd b; python train.py)", "b/train.py"),
        ("a/run.sh", "python train.py", "a/train.py"),
        ("a/run.sh", "python ../train.py", "train.py"),
        ("a/run.sh", "cd ..\npython train.py", "train.py"),
        ("a/run.sh", 'cd "$(dirname "$0")/../b"\npython train.py', "b/train.py"),
        ("a/run.sh", 'cd $(dirname $0)\npython train.py', "a/train.py"),
        ("a/run.sh", "cd ${ROOT}/b; python train.py", "b/train.py"),
        ("a/run.sh", "cd /workspace/b; python train.py", "b/train.py"),
        ("a/run.sh", 'python "$(dirname "$0")/train.py"', "a/train.py"),
        ("a/run.sh", "python /app/b/train.py", "b/train.py"),
        ("README.md", "```\ncd b\n```\nthen\n```\npython train.py\n```\n", "b/train.py"),
        ("README.md", "`python a/train.py` or `python b/train.py`", "a/train.py b/train.py"),
        ("job.yaml", "spec:\n  command: [python, b/train.py]\n", "b/train.py"),
        ("job.yaml", "run: |\n  cd a\n  python train.py\n", "a/train.py"),
        ("Dockerfile", "FROM x\nRUN cd b && python train.py\n", "b/train.py"),
        ("run.sh", "python c/../a/train.py", "a/train.py"),
        ("run.sh", "python ../../train.py", None),
    ],
)  # fmt: skip
def test_the_folder_that_a_command_runs_in(where: str, command: str, path: str | None, tmp_path: Path) -> None:
    files = {"train.py": DEFINES, "a/train.py": DEFINES, "b/train.py": DEFINES, where: command}
    found = small(tmp_path, files).programs()
    assert {each.path for each in found if each.starts} == set((path or "").split())


PROJECT = '[project]\nname = "tool"\nversion = "1"\n[project.scripts]\ntool-train = "tool.cli:main"\n'


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"pyproject.toml": PROJECT}, "pyproject.toml:5"),
        ({"pyproject.toml": '[tool.poetry]\nname = "tool"\n[tool.poetry.scripts]\ntool-train = "tool.cli:main"\n'},
         "pyproject.toml:4"),
        ({"pyproject.toml": '[project.gui-scripts]\ntool-train = "tool.cli:main"\n'}, "pyproject.toml:2"),
        ({"setup.cfg": "[metadata]\nname = tool\n[options.entry_points]\nconsole_scripts =\n"
          "    tool-train = tool.cli:main\n[flake8]\nmax = 2\n"}, "setup.cfg:5"),
        ({"setup.py": "from setuptools import setup\nsetup(name='tool', entry_points={\n"
          "    'console_scripts': ['tool-train=tool.cli:main'],\n})\n"}, "setup.py:3"),
        ({"setup.py": "from setuptools import setup\nsetup(name='tool', entry_points='''\n[console_scripts]\n"
          "tool-train=tool.cli:main\n''')\n"}, "setup.py:4"),
        ({"setup.py": "import setuptools\nENTRY = {'console_scripts': ['tool-train = tool.cli:main']}\n"
          "setuptools.setup(name='tool', entry_points=ENTRY)\n"}, "setup.py:2"),
        ({"setup.py": "from setuptools import setup\nsetup(entry_points={'console_scripts': [\n"
          "  'tool-train = tool.cli:main [fast]']})\n"}, "setup.py:3"),
    ],
    ids=["project", "poetry", "gui", "cfg", "setup", "text", "variable", "extra"],
)  # fmt: skip
def test_console_scripts(files: Files, place: str, tmp_path: Path) -> None:
    found = small(tmp_path, {**PACKAGE, **files}).programs()
    assert [(each.title, each.path, each.function, each.form) for each in found] == [
        ("tool-train", "tool/cli.py", "main", Form.CONSOLE)
    ]
    assert [start.place for start in found[0].starts] == [place]


def test_a_console_script_below_src(tmp_path: Path) -> None:
    files = {f"src/{name}": text for name, text in PACKAGE.items()}
    assert programs(tmp_path, {**files, "pyproject.toml": PROJECT}) == {
        "tool-train": ("src/tool/cli.py", ("pyproject.toml:5",))
    }


def test_two_console_scripts_of_one_file(tmp_path: Path) -> None:
    text = PROJECT + 'tool-test = "tool.cli:test"\n'
    assert set(programs(tmp_path, {**PACKAGE, "pyproject.toml": text})) == {"tool-train", "tool-test"}


HOUSE = {"bench.py": "import torch\nprint(torch.ones(2).cuda())\n",
         **dict.fromkeys(("conftest.py", "tools/export.py", "tools/test_net.py", "tests/test_net.py", "setup.py",
                          "third_party/net/run.py"),
                         "import torch\nif __name__ == '__main__':\n    print(torch.ones(2).cuda())\n")}  # fmt: skip


def test_programs_and_the_plugins_import_rest_on_the_same_roles(tmp_path: Path) -> None:
    found = small(tmp_path, HOUSE, with_rules=True)
    entry_points = found.analysis.entry_points
    programs = {program.path: program.role for program in found.programs()}
    assert programs == dict.fromkeys(("bench.py", "tools/export.py", "tools/test_net.py"), Role.SCRIPT)
    assert entry_points == {**programs, "conftest.py": Role.TEST, "tests/test_net.py": Role.TEST}
    imports = {finding.location.path for finding in found.analysis.findings if finding.code == "IMP101"}
    assert imports == set(entry_points)


@pytest.mark.parametrize(
    ("files", "roles"),
    [
        ({"train.py": MAIN, "README.md": "```\npython train.py\n```\n"}, {"train.py": "script"}),
        ({"train.py": DEFINES, "README.md": "```\npython train.py\n```\n"}, {"train.py": "launched"}),
        ({"train.py": WORK, "eval.py": "import train\n", "run.sh": "python train.py"}, {"train.py": "launched"}),
        ({"app.py": DEFINES, "README.md": "Run `chainlit run app.py -w`.\n"}, {"app.py": "launched"}),
        ({"app.py": DEFINES, "README.md": "Run `streamlit run app.py`.\n"}, {"app.py": "launched"}),
        ({"app.py": DEFINES, "README.md": "Run `gradio app.py`.\n"}, {"app.py": "launched"}),
        ({"api/app.py": DEFINES, "README.md": "Run `fastapi dev api/app.py --port 80`.\n"}, {"api/app.py": "launched"}),
        ({"api/app.py": DEFINES, "README.md": "```\nuvicorn api.app:app --port 80\n```\n"}, {"api/app.py": "launched"}),
        ({"api/app.py": DEFINES, "run.sh": "cd api && gunicorn -w 4 app:make\n"}, {"api/app.py": "launched"}),
        ({"app.py": "import torch\nfrom fastapi import FastAPI\napp = FastAPI(title='x')\n"}, {"app.py": "script"}),
        ({"app.py": "import torch\nimport flask\napp = flask.Flask(__name__)\n", "run.py": f"import app\n{MAIN}"},
         {"run.py": "script"}),
        ({"pkg/__init__.py": "", "pkg/__main__.py": DEFINES}, {"pkg/__main__.py": "script"}),
        ({**PACKAGE, "pyproject.toml": "[project.scripts]\ntool = 'tool.cli:main'\n"},
         {"tool/cli.py": "console script"}),
        ({"tool/__init__.py": ""}, {"tool/__init__.py": "library"}),
        ({"third_party/net/train.py": MAIN, "train.py": MAIN}, {"train.py": "script"}),
        ({"third_party/net/train.py": MAIN, "third_party/net/run.sh": "python train.py", "train.py": MAIN},
         {"train.py": "script"}),
        ({"third_party/net/train.py": MAIN, "run.sh": "python third_party/net/train.py", "train.py": MAIN},
         {"third_party/net/train.py": "launched", "train.py": "script"}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_roles_of_programs(files: Files, roles: dict[str, str], tmp_path: Path) -> None:
    assert {each.path: each.role.value for each in small(tmp_path, files).programs()} == roles


@pytest.mark.parametrize(("path", "role"), [("tests/test_net.py", "test"), ("setup.py", "build"), ("net.py", "script")])
def test_what_the_user_names_is_a_program_whatever_it_is_for(path: str, role: str, tmp_path: Path) -> None:
    found = small(tmp_path, {"train.py": MAIN, path: DEFINES})
    programs = {each.program.path: each.program.role.value for each in judge(found.analysis, found.target, [path])}
    assert programs == {"train.py": "script", path: role}


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("@ex.automain\ndef main():\n    import fast_ops\n", "ALWAYS"),
        ("from fastcore.script import call_parse\n@call_parse\ndef main():\n    import fast_ops\n", "ALWAYS"),
        ("@ex.capture\ndef main():\n    import fast_ops\nprint(1)\n", "NEVER"),
        ("import chainlit as cl\n@cl.on_message\nasync def reply(message):\n    import fast_ops\n", "CHOSEN"),
        ("import torch\napp = torch.load('x')\n@app.whatever\ndef reply(x):\n    import fast_ops\nprint(1)\n",
         "CHOSEN"),
    ],
)  # fmt: skip
def test_functions_that_decorators_start(text: str, need: str, tmp_path: Path) -> None:
    assert needs(judged(tmp_path, {**BUILT, "a.py": text})["a.py"]) == need
    importing = judged(tmp_path, {**BUILT, "a.py": text, "b.py": f"import a\n{MAIN}"})["b.py"]
    assert needs(importing) != "ALWAYS", "only the file that is started starts them"


def test_a_served_application_runs_what_it_does_at_its_start(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom fastapi import FastAPI\napp = FastAPI()\n@app.on_event('startup')\ndef begin():\n"
        "    import fast_ops\n"
    )
    assert needs(judged(tmp_path, {**BUILT, "a.py": text})["a.py"]) == "ALWAYS"


TREE = {"train.py": DEFINES, "tools/train_net.py": DEFINES, "tool/__init__.py": "", "tool/run.py": DEFINES,
        "tool/cli/__init__.py": "", "tool/cli/__main__.py": DEFINES, "scripts/eval.py": DEFINES}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python train.py", "train.py"),
        ("python3 ./train.py --lr 1", "train.py"),
        ("python -u train.py", "train.py"),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", "train.py"),
        ("nohup python train.py > log.txt 2>&1 &", "train.py"),
        ("srun --gres=gpu:1 python train.py", "train.py"),
        ("uv run train.py", "train.py"),
        ("poetry run python train.py", "train.py"),
        ("conda run -n env python train.py", "train.py"),
        ("python tools/train_net.py --config-file x.yaml", "tools/train_net.py"),
        ("python -m tool.run", "tool/run.py"),
        ("python -m tool.cli", "tool/cli/__main__.py"),
        ("python3.10 -m tool.run --x 1", "tool/run.py"),
        ("python -m torch.distributed.launch --nproc_per_node=8 tools/train_net.py", "tools/train_net.py"),
        ("python -m torch.distributed.run --nproc_per_node 8 -m tool.run", "tool/run.py"),
        ("torchrun --nproc_per_node=8 train.py", "train.py"),
        ("torchrun --standalone -m tool.run", "tool/run.py"),
        ("torchrun --nproc_per_node=8 --module tool.run", "tool/run.py"),
        ("accelerate launch --config_file c.yaml train.py --x", "train.py"),
        ("accelerate launch -m tool.run", "tool/run.py"),
        ("deepspeed --num_gpus 8 train.py --deepspeed ds.json", "train.py"),
        ("deepspeed --module tool.run", "tool/run.py"),
        ("mpirun -np 4 python train.py", "train.py"),
        ("horovodrun -np 4 python train.py", "train.py"),
        ("ipython train.py", "train.py"),
        ("streamlit run train.py -- --x 1", "train.py"),
        ("chainlit run train.py -w", "train.py"),
        ("./train.py", "train.py"),
        ("cd tools && python train_net.py", "tools/train_net.py"),
        ("cd tools; python train_net.py", "tools/train_net.py"),
        ("pushd scripts; python eval.py; popd", "scripts/eval.py"),
        ("PYTHONPATH=. python scripts/eval.py", "scripts/eval.py"),
        ('python "$(dirname "$0")/train.py"', "train.py"),
        ("python $(dirname $0)/tools/train_net.py", "tools/train_net.py"),
        ("python ${ROOT}/scripts/eval.py", "scripts/eval.py"),
        ("python $ROOT/scripts/eval.py", "scripts/eval.py"),
        ("python /workspace/tool/scripts/eval.py", "scripts/eval.py"),
        ("xvfb-run -a python train.py", "train.py"),
        ("nsys profile -o out python train.py", "train.py"),
        ("kernprof -l train.py", "train.py"),
        ("python -m pdb train.py", "train.py"),
        ("python train.py +model.x=1 data=imagenet", "train.py"),
        ("if [ -f x ]; then python train.py; fi", "train.py"),
        ("for i in 1 2; do python train.py --seed $i; done", "train.py"),
        ("bash -c 'python train.py'", "train.py"),
        ('bash -c "sh -c \\"python train.py\\""', "train.py"),
        ("screen -dmS run python train.py", "train.py"),
        ("time python train.py", "train.py"),
        ("sudo -E python train.py", "train.py"),
        ("python -c 'import torch'", None),
        ("python -m pip install tool.run", None),
        ("pip install -r train.py", None),
        ("cat train.py", None),
        ("vim tools/train_net.py", None),
        ("git add train.py", None),
        ("echo python train.py", None),
        ("pytest train.py", None),
        ("python -m pytest train.py", None),
        ("python -m black train.py", None),
        ("chmod +x train.py", None),
        ("python missing.py", None),
    ],
)
def test_commands_of_a_shell_script(command: str, path: str | None, tmp_path: Path) -> None:
    found = small(tmp_path, {**TREE, "run.sh": f"#!/bin/bash\n{command}\n"}).programs()
    started = {each.path: {start.place for start in each.starts} for each in found if each.starts}
    assert started == ({path: {"run.sh:2"}} if path is not None else {})


CELL = (
    '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [%s]}], "metadata": {}, "nbformat": 4}'
)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("README.md", "# Tool\n\n```bash\npython train.py --epochs 2\n```\n", "README.md:4"),
        ("README.md", "Run\n\n    $ python train.py\n", "README.md:3"),
        ("README.md", "```\n$ git clone x\n$ python train.py\n```\n", "README.md:3"),
        ("README.rst", "Run::\n\n    python train.py\n", "README.rst:3"),
        ("README.md", "To train:\n\n    python train.py --epochs 2\n", "README.md:3"),
        ("README.md", "To train run `python train.py --epochs 2`.\n", "README.md:1"),
        ("docs/train.md", "```bash\npython train.py\n```\n", "docs/train.md:2"),
        ("Makefile", "train:\n\tpython train.py\n", "Makefile:2"),
        ("Makefile", "train:\n\t@python train.py\n", "Makefile:2"),
        ("Dockerfile", "FROM x\nRUN python train.py\n", "Dockerfile:2"),
        ("Dockerfile", 'FROM x\nCMD ["python", "train.py"]\n', "Dockerfile:2"),
        ("Dockerfile", 'FROM x\nENTRYPOINT ["python", "-u", "/app/train.py"]\n', "Dockerfile:2"),
        (
            "docker-compose.yml",
            "services:\n  app:\n    image: x\n    command: python train.py\n",
            "docker-compose.yml:4",
        ),
        ("job.slurm", "#!/bin/bash\n#SBATCH --gres=gpu:1\nsrun python train.py\n", "job.slurm:3"),
        ("tox.ini", "[testenv]\ncommands = python train.py\n", "tox.ini:2"),
        ("setup.cfg", "[testenv:train]\ncommands =\n    python train.py\n", "setup.cfg:3"),
        ("tox.toml", '[env.train]\ncommands = [["python", "train.py"]]\n', "tox.toml:2"),
        ("pyproject.toml", '[tool.poe.tasks]\ntrain = "python train.py"\n', "pyproject.toml:2"),
        ("noxfile.py", "def train(session):\n    session.run('python', 'train.py')\n", "noxfile.py:2"),
        ("justfile", "train:\n    @python train.py\n", "justfile:2"),
        ("Taskfile.yml", "tasks:\n  train:\n    cmds:\n      - python train.py\n", "Taskfile.yml:4"),
        ("Procfile", "worker: python train.py\n", "Procfile:1"),
        (
            ".github/workflows/ci.yml",
            "jobs:\n  a:\n    steps:\n      - run: python train.py\n",
            ".github/workflows/ci.yml:4",
        ),
        (".gitlab-ci.yml", "train:\n  script:\n    - python train.py\n", ".gitlab-ci.yml:3"),
        ("demo.ipynb", CELL % '"!python train.py --x 1"', "demo.ipynb:cell 1:1"),
        ("demo.ipynb", CELL % '"%run train.py"', "demo.ipynb:cell 1:1"),
        ("demo.ipynb", CELL % '"%%bash\\n", "python train.py"', "demo.ipynb:cell 1:2"),
    ],
)
def test_documents_that_say_a_command(name: str, text: str, place: str, tmp_path: Path) -> None:
    found = small(tmp_path, {"train.py": DEFINES, name: text}).programs()
    assert [start.place for each in found if each.path == "train.py" for start in each.starts] == [place]


def test_what_a_service_says_is_no_option_of_the_users(tmp_path: Path) -> None:
    steps = "jobs:\n  a:\n    steps:\n      - run: python train.py --device cpu\n"
    files = {"train.py": DEFINES, ".github/workflows/ci.yml": steps}
    (program,) = (each for each in small(tmp_path, files).programs() if each.path == "train.py")
    assert [start.arguments for start in program.starts] == [("--device", "cpu")]
    assert program.arguments == ()


def test_commands_of_people_come_before_those_of_services(tmp_path: Path) -> None:
    steps = "jobs:\n  a:\n    steps:\n      - run: python train.py --device cpu\n"
    files = {"train.py": DEFINES, ".github/workflows/ci.yml": steps, "tools/deep/run.sh": "python train.py --x\n"}
    (program,) = (each for each in small(tmp_path, files).programs() if each.path == "train.py")
    assert program.arguments == ("--x",)


def test_what_stands_behind_the_program_is_kept(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node=2 train.py --use-flash \\\n    --attn sdpa\n"
    found = small(tmp_path, {"train.py": MAIN, "run.sh": text}).programs()
    assert found[0].starts[0].arguments == ("--use-flash", "--attn", "sdpa")


def test_documents_come_first(tmp_path: Path) -> None:
    readme = "```bash\npython eval.py\n```\n"
    found = small(tmp_path, {"a.py": MAIN, "eval.py": MAIN, "train.py": MAIN, "README.md": readme}).programs()
    assert [each.title for each in found] == ["eval.py", "a.py", "train.py"]


@pytest.mark.parametrize(
    ("files", "titles"),
    [
        ({"tool/__init__.py": "from .net import Net\n", "tool/net.py": "class Net:\n    pass\n"}, {"tool"}),
        ({"src/tool/__init__.py": "", "src/tool/net.py": "class Net:\n    pass\n"}, {"tool"}),
        ({"tool/__init__.py": "", "tool/ops/__init__.py": "", "tool/ops/nms.py": "x = 1\n"}, {"tool"}),
        ({"tool/__init__.py": "", "other/__init__.py": ""}, {"tool", "other"}),
        ({"net.py": "class Net:\n    pass\n"}, {"net.py"}),
        ({"net.py": "import layers\n", "layers.py": "x = 1\n"}, {"net.py"}),
        ({"tool/__init__.py": "", "tests/__init__.py": "", "setup.py": WORK}, {"tool"}),
    ],
)  # fmt: skip
def test_libraries(files: Files, titles: set[str], tmp_path: Path) -> None:
    found = small(tmp_path, files).programs()
    assert {each.title for each in found} == titles
    assert {each.form for each in found} == {Form.LIBRARY}
