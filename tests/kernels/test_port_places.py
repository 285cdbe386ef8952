"""Where a port lands and what it leaves: links, whole projects, rules alone, a check, flags and names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.backends.target import Target
from torchferry.cli import cli
from torchferry.core.errors import UsageError
from torchferry.kernels.buildfiles import port_build_file
from torchferry.kernels.buildfiles.model import BuildSettings
from torchferry.kernels.ported_tree import port_tree
from torchferry.kernels.simple_porting import SimplePorting
from torchferry.source.text import apply_edits

KERNEL = "#include <cuda_runtime.h>\n__global__ void k(float* x) { x[0] = 1; }\n"
MUSA = Target.named("musa")
HEAD = "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*map(str, words), "--lang", "en"])
    return done.exit_code, done.output


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in a folder of its own, with sources that another folder links to."""
    root = tmp_path / "project"
    for name in ("csrc", "binding"):
        (root / name).mkdir(parents=True)
    (root / "csrc" / "k.cu").write_text(KERNEL)
    (root / "torchferry.toml").write_text("")
    return root


@pytest.mark.parametrize("as_text", [False, True], ids=["a link", "the text of a link, as git writes it"])
def test_a_link_in_the_project_is_ported_with_what_it_points_to(project: Path, as_text: bool) -> None:
    link = project / "binding" / "k.cu"
    if as_text:
        link.write_text("../csrc/k.cu")
    else:
        link.symlink_to("../csrc/k.cu")
    code, output = run("port", project / "binding", "-t", "musa")
    assert (code, "1 kernel" in output) == (0, True), output
    written = project / "binding_musa" / "k.mu"
    assert written.read_text() == KERNEL.replace("cuda", "musa")
    assert not written.is_symlink()
    assert run("undo", project)[0] == 0
    assert run("port", project / "binding", "-t", "musa", "--in-place")[0] == 0
    assert link.is_symlink() is not as_text
    assert (project / "csrc" / "k.cu").read_text() == KERNEL


def test_a_link_out_of_the_project_is_not_read_and_no_success(project: Path) -> None:
    outside = project.parent / "secret.cu"
    outside.write_text("void secret() { }\n")
    (project / "csrc" / "z.cu").symlink_to(outside)
    (project / "csrc" / "y.txt").symlink_to(outside)
    ported = port_tree(project / "csrc", MUSA)
    assert [(item.path, item.kind) for item in ported.items] == [("z.cu", "not-read")]
    assert ported.by_hand == ["z.cu"]
    assert not any(b"secret" in file.after for file in ported.files)


def test_a_whole_project_is_not_ported_beside_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(UsageError, match="would lie outside of it"):
        CliRunner().invoke(cli, ["port", ".", "-t", "musa"], catch_exceptions=False)
    assert sorted(os.listdir(project.parent)) == ["project"]
    assert run("port", ".", "-t", "musa", "--check")[0] == 1
    assert run("port", ".", "-t", "musa", "--in-place")[0] == 0
    assert (project / "csrc" / "k.mu").is_file()
    assert run("undo", ".")[0] == 0
    assert run("port", ".", "-t", "musa", "--out", project.parent / "elsewhere")[0] == 0


RULES = {
    "__NVCC__": "__MUSACC__",
    ".is_cuda()": ".is_privateuseone()",
    "::cuda::": "::musa::",
    ", CUDA,": ", PrivateUse1,",
    "#include <ATen/cuda/CUDAContext.h>": '#include "torch_musa/csrc/aten/musa/MUSAContext.h"',
    "_CU_H_": "_MU_H_",
}
SOURCE = """#include <ATen/cuda/CUDAContext.h>
#ifdef __NVCC__
bool f(at::Tensor x) { cudaFree(0); return x.is_cuda() && at::cuda::warp_size(); }
TORCH_LIBRARY_IMPL(a, CUDA, m) { }
#endif
"""


def test_the_users_rules_hold_without_the_targets(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "csrc" / "a.cpp").write_text(SOURCE)
    SimplePorting(project / "csrc", mapping_rule=RULES, drop_default_mapping=True).run()
    expected = SOURCE.replace("<ATen/cuda/CUDAContext.h>", '"torch_musa/csrc/aten/musa/MUSAContext.h"')
    for old, new in RULES.items():
        expected = expected.replace(old, new)
    assert (project / "csrc_musa" / "a.cpp").read_text() == expected
    assert "`_CU_H_` -> `_MU_H_`" in capsys.readouterr().err
    rules = project / "rules.json"
    rules.write_text(json.dumps(RULES))
    words = ("port", project / "csrc", "-t", "musa", "--map", rules, "--drop-default-map", "--gate", "tokens")
    _, output = run(*words, "--out", project / "other")
    assert "passed; files that passed: 2" in output
    assert "not applied: `_CU_H_`" in output


def test_a_check_tells_what_would_change_from_what_needs_hands(project: Path) -> None:
    words = ("port", project / "csrc", "-t", "musa")
    assert "1 file would change" in run(*words, "--check")[1]
    run(*words)
    code, output = run(*words, "--check")
    assert (code, "nothing would change" in output, "hands, which" in output) == (0, True, False)
    (project / "csrc" / "k.cu").write_text(KERNEL + "#if CUDA_VERSION > 1\n#endif\n")
    run(*words)
    code, output = run(*words, "--check")
    assert (code, "nothing would change" in output, "1 file to edit by hand, which" in output) == (1, True, True)
    done = CliRunner().invoke(cli, [*map(str, words), "--check", "-f", "json"])
    assert json.loads(done.stdout)["would_change"] == []


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ('CUDAExtension("ops", ["ops/a.cu"])', 'MUSAExtension("ops", ["ops_musa/a.mu"])'),
        ('CUDAExtension(name="ops", sources=["ops/a.cu"])', 'MUSAExtension(name="ops", sources=["ops_musa/a.mu"])'),
        ('MODULE_NAME = "ops"', 'MODULE_NAME = "ops"'),
        ('src_dir = "ops"', 'src_dir = "ops_musa"'),
        ('make_ext("ops", 1)', 'make_ext("ops", 1)'),
        ('glob.glob(os.path.join("ops", "*.cu"))', 'glob.glob(os.path.join("ops_musa", "*.mu"))'),
        ('args = {"nvcc": ["-O3", "-lineinfo", "--threads", "4", "-Xptxas", "-v"]}', 'args = {"mcc": ["-O3"]}'),
        ('args = {"nvcc": ["--threads", n, "-O2"]}', 'args = {"mcc": ["-O2"]}'),
        ('args = {"nvcc": ["-Xcompiler", "-fPIC", "-maxrregcount=64"]}', 'args = {"mcc": ["-fPIC"]}'),
        (
            'args = {"nvcc": ["--threadsafe", "-tests", "-std=c++17"]}',
            'args = {"mcc": ["--threadsafe", "-tests", "-std=c++17"]}',
        ),
    ],
)
def test_names_stay_importable_and_flags_of_cudas_compiler_go(line: str, result: str) -> None:
    text = f'{HEAD}import os, glob\nsetup(ext_modules=[CUDAExtension("x", ["ops/b.cu"])])\n{line}\n'
    settings = BuildSettings(MUSA, "replace", {"ops": "ops_musa"})
    ported = apply_edits(text, port_build_file("setup.py", text, settings).edits)
    assert ported.rstrip().split("\n")[-1] == result
    assert 'os.environ["MUSA_ARCH"] = str(get_musa_arch())' in ported


def test_the_flag_that_changes_results_is_told() -> None:
    text = f'{HEAD}args = {{"nvcc": ["--use_fast_math"]}}\nsetup(ext_modules=[CUDAExtension("x", ["ops/b.cu"])])\n'
    done = port_build_file("setup.py", text, BuildSettings(MUSA, "branch", {"ops": "ops_musa"}))
    assert [item.kind for item in done.review] == ["build-flag"]


def test_the_written_branch_runs(project: Path) -> None:
    """The script as it is written sets what the vendor's builder asks for, and only with the target's variable."""
    text = f'{HEAD}setup(name="x", ext_modules=[CUDAExtension("x", ["csrc/k.cu"])])\n'
    (project / "setup.py").write_text(text)
    run("port", project / "csrc", "-t", "musa", "--build", project / "setup.py")
    written = (project / "setup.py").read_text()
    names = {"setup": "lambda **k: print(k)", "CUDAExtension": "print", "MUSAExtension": "print", "BuildExtension": "1"}
    stand_ins = "\n".join(f"{name} = {value}" for name, value in names.items()) + "\nget_musa_arch = lambda: 22\n"
    body = "\n".join("" if "import" in row and "os" not in row.split() else row for row in written.split("\n"))
    body = body.replace("if FORCE_MUSA:\n\n", "if FORCE_MUSA:\n    pass\n")
    for value, arch in (("1", "22"), ("0", "None")):
        code = f"{stand_ins}{body}\nprint(os.environ.get('MUSA_ARCH'))"
        env = {**os.environ, "FORCE_MUSA": value}
        env.pop("MUSA_ARCH", None)
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.split("\n")[-2:-1] == [arch], done.stderr
