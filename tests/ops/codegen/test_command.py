"""`torchferry ops codegen`: files appear whole, nobody's work is replaced, the sample device works."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")

from torchferry.cli.ops_codegen import command
from torchferry.core.errors import TorchferryError
from torchferry.ops.codegen.generate import CodegenOptions, generate
from torchferry.rehearsal import build

SAMPLE = Path(__file__).parent / "sample"
TRIL = "- func: tril\n- func: tril_\n- func: tril.out\n  dispatch:\n    PrivateUse1: TrilOut\n"
LERP = "- func: lerp.Tensor\n- func: lerp_.Tensor\n- func: lerp.Tensor_out\n"


def run(folder: Path, *options: str, text: str = TRIL) -> Result:
    (folder / "functions.yaml").write_text(text, encoding="utf-8")
    arguments = [str(folder / "functions.yaml"), "--namespace", "at::acme", "--out", str(folder / "out"), *options]
    return CliRunner().invoke(command, arguments)


def test_files_are_written_once(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 0
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "AcmeNativeFunctions.h",
        "RegisterAcme_0.cpp",
        "skeletons.cpp",
    ]
    for path in out.iterdir():
        os.utime(path, ns=(1, 1))
    assert "is up to date" in run(tmp_path).stderr
    assert {path.stat().st_mtime_ns for path in out.iterdir()} == {1}
    table = json.loads(run(tmp_path, "-f", "json").stdout)
    assert table["kinds"] == {"LegacyMeta": 3}
    assert {row["file"] for row in table["operators"]} == {"RegisterAcme_0.cpp"}
    assert not [row for row in table["operators"] if row["is_written"]]


def test_a_written_kernel_has_no_skeleton(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "tril.cpp").write_text(
        '// TORCH_IMPL_FUNC(Other)\nTORCH_IMPL_FUNC(TrilOut)(const Tensor& a) { "x(){"; }\n'
    )
    assert run(tmp_path).exit_code == 0
    done = run(tmp_path, "--kernels", str(kernels))
    assert done.exit_code == 0
    assert "skeletons.cpp is removed" in done.stderr
    assert not (tmp_path / "out" / "skeletons.cpp").exists()


def test_shards_divide_the_registrations(tmp_path: Path) -> None:
    assert run(tmp_path, "--shards", "2", text=TRIL + LERP).exit_code == 0
    texts = [(tmp_path / "out" / f"RegisterAcme_{index}.cpp").read_text() for index in (0, 1)]
    assert [text.count('m.impl("') for text in texts] == [3, 3]
    assert run(tmp_path, "--shards", "1", text=TRIL + LERP).exit_code == 0
    assert not (tmp_path / "out" / "RegisterAcme_1.cpp").exists()


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("not implemented", "not done"))


def foreign(path: Path) -> None:
    path.write_text("mine\n")


def linked(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def opened(path: Path) -> None:
    path.with_name(f".#{path.name}").symlink_to("somebody@host.1")


@pytest.mark.parametrize(
    ("change", "words", "forced"),
    [
        (edited, "was edited since", True),
        (foreign, "did not write it", True),
        (linked, "is a link", False),
        (opened, "there is its lock file .#skeletons.cpp", True),
    ],
)
def test_nobodys_work_is_replaced(tmp_path: Path, change: object, words: str, forced: bool) -> None:
    assert run(tmp_path).exit_code == 0
    out = tmp_path / "out"
    change(out / "skeletons.cpp")  # type: ignore[operator]
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.exists()}
    done = run(tmp_path, text=TRIL.replace("TrilOut", "Other"))
    assert isinstance(done.exception, TorchferryError)
    assert words in str(done.exception)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.exists()} == before
    assert (run(tmp_path, "--force", text=TRIL.replace("TrilOut", "Other")).exit_code == 0) == forced


def test_nothing_is_written_without_need(tmp_path: Path) -> None:
    assert run(tmp_path, "--dry-run").exit_code == 0
    done = run(tmp_path, text=TRIL + "- func: trill\n")
    assert isinstance(done.exception, TorchferryError)
    assert not (tmp_path / "out").exists()
    assert run(tmp_path, "--leave-out", text=TRIL + "- func: trill\n").exit_code == 1
    assert (tmp_path / "out" / "RegisterAcme_0.cpp").exists()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample device, built once for each state of its sources and of what is generated."""
    options = CodegenOptions(SAMPLE / "functions.yaml", "PrivateUse1", "at::sample", (SAMPLE,))
    generated = generate(options)
    assert generated.skeletons == frozenset()
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    sources = [path.read_bytes() for path in sorted(SAMPLE.iterdir()) if path.suffix in {".h", ".cpp", ".yaml"}]
    digest = hashlib.sha256(b"".join([*sources, *generated.files.values()])).hexdigest()
    recipe = build.recipe()

    def make(folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "torchferry", "ops", "codegen", str(options.functions), "--namespace", "at::sample",
             "--out", str(folder / "gen"), "--kernels", str(SAMPLE), "--build", str(folder / "libsample.so")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    compiler = hashlib.sha256(recipe.compiler_version.encode()).hexdigest()
    key = f"sample-{recipe.torch_version}-{digest[:16]}-{compiler[:8]}"
    return build.folder_in_cache(key, make, "libsample.so") / "libsample.so"


@pytest.mark.rehearsal
def test_the_sample_device_does_what_each_kind_should(sample: Path) -> None:
    script = Path(__file__).with_name("sample_checks.py")
    done = subprocess.run([sys.executable, str(script), str(sample)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) == 15
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "ok"} == {}
