"""What the files of a project are for: one table, which programs, the plugin's import and a hand-over rest on."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.source.project import Project
from torchferry.source.roles import Role, Roles

DEFINES = "import torch\ndef main():\n    print(torch.ones(2))\n"
GUARDED = f"{DEFINES}if __name__ == '__main__':\n    main()\n"
CLICK = "import click\n@click.command()\ndef main():\n    pass\n"
TYPER = "import typer\napp = typer.Typer()\n@app.command()\ndef main():\n    pass\n"


def role(root: Path, path: str, text: str, **others: str) -> str:
    """Return the role of one file of a project, the others of which are given by the names of their modules."""
    for name, content in {path: text, **{f"{name}.py": content for name, content in others.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    found = [file.relative_to(root).as_posix() for file in root.rglob("*.py*")]
    return Roles.read(Project(root, found)).of(path).value


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('__name__ == "__main__"', "script"),
        ('"__main__" == __name__', "script"),
        ('(__name__ == "__main__")', "script"),
        ('(\n    __name__\n    == "__main__"\n)', "script"),
        ('__name__ == "__main__" and not DEBUG', "script"),
        ('__name__ in ("__main__", "__mp_main__")', "script"),
        ('__name__ in {"__main__", "builtins"}', "script"),
        ('__name__ != "other"', "module"),
        ('"__main__" in sys.modules', "module"),
    ],
)
def test_questions_for_the_name_of_the_module(test: str, expected: str, tmp_path: Path) -> None:
    assert role(tmp_path, "a.py", f"{DEFINES}if {test}:\n    setattr(main, 'started', True)\n") == expected


@pytest.mark.parametrize(
    "lines",
    [
        "main()",
        "main ()",
        "for epoch in range(3):\n    main()",
        "while True:\n    main()",
        "with torch.no_grad():\n    y = main()",
        "if CFG.train:\n    main()",
        "if not DEBUG:\n    for fold in range(5):\n        main()",
        "if a:\n    b = 1\nelif c:\n    main()",
        "if a:\n    b = 1\nelse:\n    if c:\n        main()",
        "try:\n    main()\nexcept KeyboardInterrupt:\n    pass",
        "try:\n    import fast\nfinally:\n    main()",
        "raise SystemExit(main())",
        "sys.exit(main())",
        "import fire\nfire.Fire(main)",
        "import typer\ntyper.run(main)",
        f"{CLICK}main()",
        f"{TYPER}app()",
        "import hydra\n@hydra.main(config_path='conf')\ndef train(cfg):\n    pass\ntrain()",
        "from fastcore.script import *\n@call_parse\ndef train():\n    pass",
        "import fastcore.script as fs\n@fs.call_parse\ndef train():\n    pass",
        "@ex.automain\ndef train():\n    pass",
        "import chainlit as cl\n@cl.on_message\nasync def reply(message):\n    pass",
        "import streamlit as st\nst.title('x')",
        "import gradio as gr\nwith gr.Blocks() as demo:\n    gr.Markdown('x')\ndemo.launch()",
        "# %%\nx = main()",
        "# In[1]:\n\n\nx = main()",
        "# In[ ]:\nx: int = main()",
    ],
)
def test_work_without_a_question_for_the_name(lines: str, tmp_path: Path) -> None:
    assert role(tmp_path, "a.py", f"{DEFINES}{lines}\n") == "script"
    if not any(word in lines for word in ("call_parse", "automain")):  # these ask for the name themselves
        assert role(tmp_path, "a.py", f"{DEFINES}{lines}\n", other="import a\n") == "module"


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "x = main()",
        "# In the beginning\nx = main()",
        CLICK,
        TYPER,
        "import hydra\n@hydra.main(config_path='conf')\ndef train(cfg):\n    pass",
        "try:\n    import fast\nexcept ImportError:\n    print('no fast')",
        "try:\n    import fast\nexcept ImportError:\n    fast = main()",
        "try:\n    register(import_backend('x'))\n    main()\nexcept ImportError:\n    pass",
        "if backend:\n    importlib.import_module(backend)",
        "if old:\n    pytest.skip('old', allow_module_level=True)",
        "import numpy as np\nnp.random.seed(777)",
        "if TYPE_CHECKING:\n    import fast",
        "if sys.version_info < (3, 8):\n    raise RuntimeError('too old')",
        "if sys.version_info < (3, 8):\n    sys.exit('too old')",
        "if not found:\n    print('please install it')",
        "if not os.path.exists('out'):\n    os.makedirs('out')",
        "if torch.cuda.is_available():\n    torch.set_default_device('cuda')",
        "with suppress(ImportError):\n    import fast",
        "raise ImportError('moved')",
        "__all__.extend(['main'])",
        "import sys\nsys.path.insert(0, '..')",
        "MODELS.register(main)",
        '"""\nif x:\n    main()\n"""',
    ],
)
def test_what_only_prepares(lines: str, tmp_path: Path) -> None:
    text = f"import os, pytest, sys, torch\nfrom contextlib import suppress\n{DEFINES}{lines}\n"
    assert role(tmp_path, "a.py", text) == "module"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("train.py", GUARDED, "script"),
        ("pkg/__main__.py", "from pkg.cli import main\ncode = main()\n", "script"),
        ("pkg/__init__.py", GUARDED, "module"),
        ("a.pyi", GUARDED, "module"),
        ("conftest.py", GUARDED, "test"),
        ("pkg/conftest.py", "import torch\n", "test"),
        ("tests/helper.py", DEFINES, "test"),
        ("tests/test_net.py", GUARDED, "test"),
        ("benchmarks/speed.py", GUARDED, "test"),
        ("test_net.py", f"import pytest\n{GUARDED}", "test"),
        ("test_net.py", f"from unittest import TestCase\n{GUARDED}", "test"),
        ("net_test.py", f"def test_net():\n    pass\n{GUARDED}", "test"),
        ("test_net.py", GUARDED, "script"),
        ("tools/test_net.py", GUARDED, "script"),
        ("test_net.py", f"import argparse\ndef test_epoch(net):\n    pass\n{GUARDED}", "script"),
        ("test_net.py", f"import argparse\nimport pytest\ndef test_epoch():\n    pass\n{GUARDED}", "test"),
        ("test.py", f"def test_epoch(net):\n    pass\n{GUARDED}", "script"),
        ("evaluate.py", f"import unittest.mock\n{GUARDED}", "script"),
        ("setup.py", "from setuptools import setup\nsetup()\n", "build"),
        ("csrc/setup.py", GUARDED, "build"),
        ("versioneer.py", GUARDED, "build"),
        ("docs/conf.py", "main()\n", "build"),
        (".github/run.py", GUARDED, "build"),
        ("third_party/net/train.py", GUARDED, "module"),
        ("pkg/_vendor/six.py", GUARDED, "module"),
        ("thirdparty/setup.py", GUARDED, "build"),
        ("a.py", f"# torchferry-checksum: 1\n{GUARDED}", "module"),
    ],
)
def test_names_of_files_and_folders(path: str, text: str, expected: str, tmp_path: Path) -> None:
    assert role(tmp_path, path, text) == expected


def test_a_guarded_file_that_is_imported_is_started_too(tmp_path: Path) -> None:
    assert role(tmp_path, "a.py", GUARDED, other="from a import main\n") == Role.SCRIPT


def test_what_is_imported_from_a_folder_on_the_path_is_no_script(tmp_path: Path) -> None:
    text = "import sys\nsys.path.append('lib/tools')\nimport "
    assert role(tmp_path, "lib/tools/a.py", f"{DEFINES}main()\n", **{"bin/run": f"{text}b\n"}) == Role.SCRIPT
    assert role(tmp_path, "lib/tools/a.py", f"{DEFINES}main()\n", **{"bin/run": f"{text}a\n"}) == Role.MODULE


def test_damaged_files_are_no_faults(tmp_path: Path) -> None:
    assert role(tmp_path, "a.py", "main(\n") == "script"
    assert role(tmp_path, "b.py", "if x\n    main(") == "script"
