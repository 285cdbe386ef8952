"""The pytest file runs without torchferry, passes where the device is right, and fails where it is wrong."""

from __future__ import annotations

import ast
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT, run_snippet
from tests.warm_python import ferry, instead, python
from torchferry.core.errors import TorchferryError
from torchferry.numerics import compare_for_single_op, nan_inf_track_for_single_op, replay

aten = torch.ops.aten

_ALONE = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torchferry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.modules.pop("torchferry", None)
sys.meta_path.insert(0, Without())
import pytest
sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--import-mode=importlib", *sys.argv[1:]]))
"""


def pytest_alone(*folders: Path, **environment: str) -> str:
    """Run the pytest files of directories in a Python that finds no torchferry, and return what is said."""
    kept = {key: value for key, value in ENVIRONMENT.items() if key not in {"DEVICE", "IMPORT"}}
    settings = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    tests = [str(next(folder.glob("test_*.py"))) for folder in folders]
    done = subprocess.run(
        [python(), "-c", _ALONE, *tests],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        cwd=folders[0],
        env={**kept, **settings, **environment},
    )
    return done.stdout + done.stderr


def one(overload: Any, *args: Any, **kwargs: Any) -> Callable[[Path], Path]:
    return lambda folder: replay.write(folder, overload, args, kwargs, None, {})


def generator() -> torch.Generator:
    torch.manual_seed(0)
    return torch.default_generator


CALLS: dict[str, Callable[[Path], Path]] = {
    "addmm": one(aten.addmm.default, torch.randn(8), torch.randn(4, 16), torch.randn(16, 8)),
    "half": one(aten.mm.default, torch.randn(32, 64).half(), torch.randn(64, 32).half()),
    "bfloat16": one(aten._softmax.default, torch.randn(8, 64).bfloat16(), -1, False),
    "in place": one(aten.mul_.Tensor, torch.randn(4, 4).t(), torch.randn(4)),
    "foreach": one(aten._foreach_add_.List, [torch.randn(3), torch.randn(4)], [torch.randn(3), torch.randn(4)]),
    "out": one(aten.add.out, torch.randn(3), torch.randn(3), out=torch.empty(3)),
    "indices": one(aten.index.Tensor, torch.randn(5, 5), [None, torch.tensor([1, 2])]),
    "bool": one(aten.gt.Scalar, torch.randn(50), 0.0),
    "complex": one(aten.mul.Tensor, torch.randn(9, dtype=torch.complex64), 2 - 1j),
    "random": one(aten.native_dropout.default, torch.randn(40, 40), 0.3, True),
    "not finite": one(aten.exp.default, torch.tensor([1e4, -1e4, float("nan"), 1.0])),
    "convolution": one(
        aten.convolution.default,
        *(torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3), None),
        *([1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ),
    "float8": one(aten._to_copy.default, torch.randn(30), dtype=torch.float8_e4m3fn),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("calls")
    return {name: make(folder) for name, make in CALLS.items()}


def test_the_file_runs_without_torchferry_and_passes_on_the_cpu(alone: dict[str, Path]) -> None:
    told = pytest_alone(*alone.values())
    assert f"{len(CALLS)} passed" in told, told


def test_a_cut_directory_fails_and_is_not_passed_over(alone: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(alone["addmm"], tmp_path / "cut"))
    (folder / "tensors.safetensors").write_bytes((folder / "tensors.safetensors").read_bytes()[:-9])
    told = pytest_alone(folder)
    assert "1 failed" in told
    assert "does not contain the expected 512 bytes" in told


def test_the_file_keeps_to_an_old_python_and_names_no_torchferry_import(alone: dict[str, Path]) -> None:
    (test,) = alone["addmm"].glob("test_*.py")
    tree = ast.parse(test.read_text(), feature_version=(3, 8))
    heads = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert heads <= {*sys.stdlib_module_names, "torch", "pytest", "__future__"}


def test_the_file_fails_for_an_unknown_operator_with_the_library_to_import(tmp_path: Path) -> None:
    (tmp_path / "my_ext.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('my_ext::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import my_ext  # type: ignore[import-not-found]  # noqa: F401
    finally:
        sys.path.remove(str(tmp_path))
    folder = replay.write(tmp_path, torch.ops.my_ext.twice.default, (torch.randn(20),), {}, None, {})
    assert replay.read(folder).document["libraries"] == ["my_ext"]
    without = pytest_alone(folder)
    assert "1 failed" in without, without
    assert "has no operator my_ext::twice: import its library (--import my_ext; for pytest IMPORT=my_ext)" in without
    with_library = pytest_alone(folder, IMPORT="my_ext", PYTHONPATH=str(tmp_path))
    assert "1 passed" in with_library, with_library


FAULTS = {
    "addmm": "aten.addmm",
    "half": "aten.mm",
    "in place": "aten.mul_",
    "foreach": "aten._foreach_add_",
    "convolution": "aten.convolution",
}


def test_a_faulty_device_fails_and_a_healthy_one_passes(alone: dict[str, Path]) -> None:
    folders = {name: str(alone[name]) for name in CALLS}
    snippet = f"""
    from pathlib import Path
    from torchferry.numerics import replay
    for name, folder in {folders!r}.items():
        told = replay.judge(replay.read(Path(folder)), device)
        print(name, "|", ",".join(one.status for one in told))
    """
    healthy, _ = run_snippet(snippet)
    assert {status for line in healthy.splitlines() for status in line.split("| ")[1].split(",")} == {"pass"}, healthy
    ordered = ", ".join(f"'op={op},kind=noise,scale=1e-2'" for op in FAULTS.values())
    faulty, _ = run_snippet(snippet, enable=f"faults=({ordered},)")
    wrong = {line.split(" |")[0] for line in faulty.splitlines() if "fail" in line}
    assert wrong == set(FAULTS), faulty


def test_the_file_itself_fails_on_a_faulty_device(alone: dict[str, Path]) -> None:
    (test,) = alone["addmm"].glob("test_*.py")
    command = instead([sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(test)])
    for fault, word in ((["--fault", "op=aten.addmm,kind=noise,scale=1e-2"], "1 failed"), ([], "1 passed")):
        done = subprocess.run(
            [ferry(), "-m", "torchferry", "rehearse", "-t", "npu", *fault, "--", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
            env={**ENVIRONMENT, "DEVICE": "npu"},
        )
        assert word in done.stdout, done.stdout + done.stderr


def fault_in_row(args: list[Any], kwargs: dict[str, Any]) -> bool:
    """What a device does that is wrong where a row has a 7."""
    torch.addmm(*args, **kwargs)
    return bool((args[1] == 7).any())


def test_a_call_is_made_smaller_while_it_fails(tmp_path: Path) -> None:
    a, b = torch.randn(512, 64), torch.randn(64, 96)
    a[333, 5] = 7.0
    folder = replay.write(
        tmp_path, aten.addmm.default, (torch.randn(512, 96), a, b), {}, None, {}, fails=fault_in_row, limit=8000
    )
    document = replay.read(folder).document
    assert document["observed"]["shrunk"]["to"] <= 8000
    call = replay.read(folder)
    bias, left, right = (call.document["tensors"][index]["shape"] for index in range(3))
    assert left[0] == bias[0] < 64
    assert left[1] == right[0]
    replay.run(call)


def test_without_a_callback_a_large_call_is_described_and_made_anew(tmp_path: Path) -> None:
    source = torch.Generator().manual_seed(2)
    big = torch.randn(100, 1000, generator=source) * 3 + 1
    big[0, 0] = float("nan")
    number = torch.randint(5, 9, (1000, 64), generator=source)
    folder = replay.write(tmp_path, aten.mm.default, (big, number.float()), {}, None, {}, limit=1000)
    assert (folder / "tensors.safetensors").stat().st_size < 1000
    call = replay.read(folder)
    made = call.document["storages"]["s0"]["made"]
    assert (made["nan"], round(made["mean"], 1), round(made["std"], 1)) == (1, 1.0, 3.0)
    first, second = replay.run(call)[0], replay.run(call)[0]
    assert torch.equal(first, second)
    assert first.shape == (100, 64)
    assert "1 passed" in pytest_alone(folder)


def test_tensors_that_share_memory_are_not_cut_apart(tmp_path: Path) -> None:
    base = torch.randn(100, 4)
    folder = replay.write(
        tmp_path, aten.add.Tensor, (base, base[:, :]), {}, None, {}, fails=lambda args, kwargs: True, limit=10
    )
    assert replay.read(folder).document["tensors"][0]["shape"] == [100, 4]


def test_names_are_never_used_twice(tmp_path: Path) -> None:
    x = torch.randn(3)
    made: list[Path] = []

    def work() -> None:
        made.extend(replay.write(tmp_path, aten.sin.default, (x,), {}, None, {}) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 40
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in made}


def test_a_folder_that_cannot_be_written_is_said_and_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    args: Any = (tmp_path / "file" / "calls", aten.sin.default, (torch.randn(3),), {}, None, {})
    with pytest.raises(TorchferryError, match="cannot write"):
        replay.write(*args)


def test_a_full_disk_leaves_nothing_half(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(TorchferryError, match="cannot write") as caught:
            replay.write(tmp_path, aten.sin.default, (torch.randn(100_000),), {}, None, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "free some space" in " ".join(caught.value.lines())
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_the_vendors_compare_tools(tmp_path: Path) -> None:
    x = torch.randn(8, 8)
    folder = replay.write(tmp_path, aten.mm.default, (x, x), {}, None, {})
    right, args, kwargs, out = compare_for_single_op(folder, torch.ops.aten.mm, atol=1e-3, rtol=1e-3)
    assert right is True
    assert torch.equal(args[0], x)
    assert kwargs == {}
    assert torch.equal(out, x @ x)
    assert compare_for_single_op(folder / "call.json")[0] is True
    assert compare_for_single_op(folder, atol=0.0, rtol=0.0)[0] is False, "float32 is not what float64 gives"
    made = compare_for_single_op(folder, torch.ops.aten.sub)
    assert torch.equal(made[3], torch.zeros(8, 8))


NOT_FINITE: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "makes NaN": (aten.log.default, (torch.tensor([-1.0, 2.0]),), False),
    "makes Inf": (aten.exp.default, (torch.tensor([1e4]),), False),
    "has NaN before": (aten.sin.default, (torch.tensor([float("nan")]),), True),
    "NaN from Inf": (aten.sub.Tensor, (torch.tensor([float("inf")]), torch.tensor([float("inf")])), False),
    "in place": (aten.sub_.Tensor, (torch.tensor([1.0]), torch.tensor([float("inf")])), True),
    "of half": (aten.mul.Tensor, (torch.tensor([300.0]).half(), torch.tensor([300.0]).half()), False),
    "of float8": (aten.clone.default, (torch.tensor([1.0]).to(torch.float8_e5m2),), True),
    "integers": (aten.add.Tensor, (torch.tensor([1]), torch.tensor([2])), True),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_nan_and_inf_of_its_own(name: str, tmp_path: Path) -> None:
    overload, args, right = NOT_FINITE[name]
    folder = replay.write(tmp_path, overload, args, {}, None, {})
    assert nan_inf_track_for_single_op(folder)[0] is right


def judged(value: Tensor, low: Tensor, truth: Tensor) -> str:
    from torchferry.core.messages import say
    from torchferry.numerics.callfile.judging import _of_values

    return _of_values(say("equal"), value, low, truth, truth).status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda good: good, "pass"),
        (lambda good: good * (1 + 1e-2), "fail"),
        (lambda good: good.nan_to_num() * torch.nan, "fail"),
        (lambda good: good.where(good > -9, good), "pass"),
        (lambda good: torch.cat([good[:-1], good[-1:] * 1.001]), "fail"),
        (lambda good: torch.cat([good[:-1], torch.full((1,), torch.inf)]), "fail"),
    ],
)
def test_one_wrong_element_of_many_is_wrong(change: Callable[[Tensor], Tensor], status: str) -> None:
    truth = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    low = truth.float()
    assert judged(change(low.clone()), low, truth) == status


def torchferry(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python(), "-m", "torchferry", "replay", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        env={**ENVIRONMENT, "TORCHFERRY_LANG": "en"},
    )


def test_the_command(alone: dict[str, Path], tmp_path: Path) -> None:
    right = torchferry(str(alone["addmm"]))
    assert right.returncode == 0, right.stderr
    assert "aten::addmm on cpu" in right.stdout
    assert "pass: result 0" in right.stdout
    wrong = torchferry(str(alone["not finite"]), "--nan")
    assert wrong.returncode == 0, "its argument has NaN already: " + wrong.stdout
    made = replay.write(tmp_path, aten.log.default, (torch.tensor([-1.0]),), {}, None, {})
    assert torchferry(str(made), "--nan").returncode == 1
    nowhere = torchferry(str(alone["addmm"]), "--device", "npu:0")
    assert nowhere.returncode == 2
    assert "device npu:0 is not available on this machine" in nowhere.stderr
    (made / "call.json").write_text("{")
    assert torchferry(str(made)).returncode == 2


def test_an_issue_is_ready_to_be_pasted(alone: dict[str, Path]) -> None:
    text = torchferry(str(alone["addmm"]), "--issue").stdout
    for word in (
        "# `aten.addmm`: replayed on cpu",
        "| result 0, float32[4, 8] | pass |",
        "aten::addmm(Tensor self, Tensor mat1",
        f"| torch | {torch.__version__} | {torch.__version__} |",
        "DEVICE=cpu pytest -s aten.addmm-001/test_aten_addmm.py",
    ):
        assert word in text, text
    assert os.getcwd() not in text
