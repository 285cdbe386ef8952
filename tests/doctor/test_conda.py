"""Which of a machine's conda environments has the plugin, and what is typed to use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.recorded import Case, commands, context_of, python, variables
from tests.vendors.sdaa.doctor import CONDA, of_conda
from torchferry.doctor.conda import environments

ENVIRONMENT = "/root/miniconda3/envs/torch_env"
EXAMINE = "torchferry doctor --target sdaa --python"


@pytest.mark.parametrize(
    ("machine", "typed"),
    [
        (of_conda("", ""), [f"conda activate {ENVIRONMENT}", f"{EXAMINE} {ENVIRONMENT}/bin/python"]),
        (of_conda("/envs/paddle_env", "/envs/paddle_env"), [f"conda activate {ENVIRONMENT}"]),
        (of_conda("/envs/torch_env", ""), [f"{EXAMINE} {ENVIRONMENT}/bin/python"]),  # it is active: nothing to activate
        (python(), [f"conda activate {ENVIRONMENT}"]),  # no shell of conda's
        (variables(CONDA_PREFIX="/data/old[1]"), [f"{EXAMINE} '/data/old[1]/bin/python'"]),
        (of_conda("", "/envs/torch_env", plugin=True), []),
    ],
    ids=["base", "another", "active but not examined", "no shell of conda's", "quoted", "examined"],
)
def test_the_environment_with_the_plugin_is_named(machine: dict[str, object], typed: list[str], tmp_path: Path) -> None:
    said = commands("python.interpreter", "sdaa", tmp_path, CONDA, **machine)
    assert said[: len(typed)] == typed
    assert bool(said) == bool(typed)


def test_environments_are_listed_as_conda_lists_them(tmp_path: Path) -> None:
    machine = variables(CONDA_PREFIX="/srv/conda/envs/mine", CONDA_DEFAULT_ENV="mine", HOME="/root")
    files = {**CONDA, "/srv/conda/bin/python": "", "/srv/conda/envs/mine/bin/python": ""}
    listed = environments(context_of(Case("python.interpreter", "sdaa", (), files, machine=machine), tmp_path).host)
    assert [(one.name, one.prefix) for one in listed] == [
        ("mine", "/srv/conda/envs/mine"),
        ("base", "/root/miniconda3"),
        ("paddle_env", "/root/miniconda3/envs/paddle_env"),
        ("torch_env", "/root/miniconda3/envs/torch_env"),
        ("tvm-build", "/root/miniconda3/envs/tvm-build"),
        ("/srv/conda", "/srv/conda"),
        ("/data/old[1]", "/data/old[1]"),  # of ~/.conda/environments.txt; what was removed is left out
    ]
