"""`torchferry ops new`: what is begun compiles, is tested, and works on a device that torch does not know."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.warm_python import ferry, python

pytest.importorskip("torch")

from torchferry.cli.ops_new import command
from torchferry.core.errors import TorchferryError
from torchferry.ops.codegen.building import Build, build_library
from torchferry.ops.codegen.generate import CodegenOptions, generate
from torchferry.ops.codegen.upstream import torch_folder
from torchferry.rehearsal import build

BEGUN = [
    ("tril", "legacy-meta"),
    ("erfinv", "legacy"),
    ("triu", "customized"),
    ("avg_pool2d", "customized"),
    ("add.Tensor", "override"),
    ("nonzero", "unstructured"),
    ("view_as_real", "shared"),
    ("mish", "fallback"),
]
"""An operator for each kind; two that are customized, because one has values that torch's preparation computes."""

SCHEMA = "acme::scale(Tensor x, float by, int n=2) -> Tensor"

NOT_WRITTEN = """\
import pytest, torch, torch_musa
torch.ops.load_library(__file__.replace("test_not_written.py", "libacme.so"))
x = torch.rand(3, 3, device="musa")

@pytest.mark.parametrize("name, call", [
    ("erfinv.out", lambda: torch.erfinv(x)), ("triu.out", lambda: x.triu_()), ("add_.Tensor", lambda: x.add_(x)),
    ("nonzero", lambda: torch.nonzero(x)), ("avg_pool2d.out", lambda: torch.nn.functional.avg_pool2d(x[None], 2)),
])
def test_raises_with_the_name(name, call):
    with pytest.raises(NotImplementedError, match=f"aten::{name} is not implemented on acme yet"):
        call()
"""


def new(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--out", str(folder)])


def begin(folder: Path, operator: str, kind: str) -> None:
    done = new(folder, operator, "--kind", kind, "--namespace", "at::acme", "-t", "musa")
    assert done.exit_code == 0, (done.output, done.exception)


def replaced(path: Path, old: str, text: str) -> None:
    before = path.read_text()
    assert before.count(old) == 1
    path.write_text(before.replace(old, text))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an operator of each kind and one of our own, `tril` and `scale` written, and the library."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("begun")
    for operator, kind in BEGUN:
        begin(folder, operator, kind)
    kernel = folder / "tril.cpp"
    replaced(kernel, '  TORCH_CHECK_NOT_IMPLEMENTED(false, "aten::tril.out is not implemented on acme yet");',
             "  out.copy_(at::tril(self.cpu(), diagonal));")  # fmt: skip
    kernel.write_text(f"#include <ATen/ops/tril.h>\n{kernel.read_text()}")
    own = folder / "own"
    assert new(own, "-t", "sdaa", SCHEMA).exit_code == 0
    replaced(
        own / "scale.py", 'raise NotImplementedError("acme::scale has no CPU reference yet")', "return x * (by * n)"
    )
    replaced(own / "scale.py", "    x, by, n = inputs", "    x, ctx.by, ctx.n = inputs")
    replaced(own / "scale.py", 'raise NotImplementedError("acme::scale has no gradient yet")',
             "return of_result * ctx.by * ctx.n, None, None")  # fmt: skip
    generated = generate(CodegenOptions(folder / "functions.yaml", "PrivateUse1", "at::acme", (folder,)))
    assert not generated.skeletons
    for name, data in generated.files.items():
        (folder / name).write_bytes(data)
    # one file for the compiler: what all of them include is read once
    parts = [*sorted(folder.glob("*.cpp")), own / "scale_host.cpp"]
    together = "".join(f'#include "{path.relative_to(folder)}"\n' for path in parts)
    together += (
        "void launch_scale(void*, float* result, float* x, int64_t count, double by, int64_t n) {\n"
        "  for (int64_t i = 0; i < count; ++i) result[i] = x[i] * by * n;\n}\n"
    )
    recipe = build.recipe()
    told = [path.read_bytes() for path in [*parts, folder / "AcmeNativeFunctions.h"]]
    digest = hashlib.sha256(b"".join([*told, together.encode(), recipe.compiler_version.encode()])).hexdigest()

    def make(place: Path) -> None:
        source = folder / "together.cc"
        source.write_text(together)
        build_library(Build((source,), (folder,), torch_folder(), ("-O0",)), place / "libacme.so")

    library = build.folder_in_cache(f"new-{recipe.torch_version}-{digest[:16]}", make, "libacme.so") / "libacme.so"
    shutil.copy(library, folder / "libacme.so")
    shutil.copy(library, own / "scale_card.so")
    return folder


def rehearsed(folder: Path, target: str, *tests: str) -> subprocess.CompletedProcess[str]:
    command = [ferry(), "-m", "torchferry", "rehearse", "-t", target, "--"]
    return subprocess.run(
        [*command, python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder / "site")},
    )  # fmt: skip


@pytest.mark.rehearsal
def test_an_operator_passes_its_opinfo_test(begun: Path) -> None:
    (begun / "site").mkdir(exist_ok=True)
    if find_spec("expecttest") is None:  # torch's own samples import it for what is not used here
        text = "import unittest\nclass TestCase(unittest.TestCase):\n    pass\n"
        (begun / "site" / "expecttest.py").write_text(text)
    (begun / "test_not_written.py").write_text(NOT_WRITTEN)
    done = rehearsed(begun, "musa", "test_tril.py", "test_mish.py", "test_view_as_real.py", "test_not_written.py")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = int(done.stdout.rpartition(" passed")[0].split()[-1])
    assert passed > 60, done.stdout


@pytest.mark.rehearsal
def test_an_operator_of_ones_own_passes_its_test(begun: Path) -> None:
    done = rehearsed(begun / "own", "sdaa", "test_scale.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
    # without the plugin, what needs no card is tested
    words = [python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_scale.py"]
    plain = subprocess.run([*words, "-k", "definition"], cwd=begun / "own", capture_output=True, text=True, check=False)
    assert "4 passed" in plain.stdout, plain.stdout + plain.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trill", "--namespace", "at::acme"], "unknown operator `trill`"),
        (["tril"], "neither --namespace nor --target"),
        (["nonzero", "--kind", "legacy-meta", "-t", "musa"], "does not have `nonzero` in structured form"),
        (["tril", "--kind", "unstructured", "-t", "musa"], "has `tril` in structured form"),
        (["nonzero", "--kind", "shared", "-t", "musa"], "nonzero_cpu"),
        (["lerp.Tensor", "--kind", "legacy", "-t", "musa"], "several stubs"),
        (["erfinv", "--kind", "legacy", "--stub", "erfinv_stab", "-t", "musa"], "declare no stub `erfinv_stab`"),
        (["acme::scale(Tensor x) -> Tensor"], "without a target"),
        (["acme::scale(Tensor x) -> Tensor", "-t", "ptex"], "is not public"),
        (["scale(Tensor x) -> Tensor", "-t", "npu"], "is not an operator schema"),
        (["acme::scale(Tensor x -> Tensor", "-t", "npu"], "is not an operator schema"),
        (["aten::scale(Tensor x) -> Tensor", "-t", "npu"], "belongs to torch"),
        (["acme::scale(Tensor(a!) x) -> ()", "-t", "npu"], "no skeleton can be written"),
        (["acme::scale(Tensor x, str y) -> Tensor", "-t", "npu"], "`str y`"),
    ],
)
def test_what_cannot_begin_is_said_and_leaves_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = new(tmp_path / "out", *arguments)
    assert isinstance(done.exception, TorchferryError), done.output
    assert says in "\n".join(done.exception.lines())
    assert not (tmp_path / "out").exists()


def test_a_skeleton_lists_the_steps_of_the_library_that_is_named(tmp_path: Path) -> None:
    done = new(tmp_path, "add.Tensor", "--kind", "override", "-t", "musa", "--library", "mudnn")
    assert done.exit_code == 0, done.output
    functional, out, in_place = (tmp_path / "add.cpp").read_text().split("\n}\n")[:3]
    steps = re.findall(r"// \d\. (.*)", functional)
    words = ("device", "guard", "contiguous", "make the result", "describe", "run")
    assert [step for step, word in zip(steps, words, strict=True) if word not in step] == []
    for given in (out, in_place):
        assert re.findall(r"// \d\. (.*)", given) == [step for step in steps if step != "make the result"]
    (tmp_path / "list.yaml").write_text("- func: nonzero\n  dispatch:\n    PrivateUse1: Nonzero\n")
    generated = generate(CodegenOptions(tmp_path / "list.yaml", "PrivateUse1", "at::acme", library="mudnn"))
    assert b"CHECK_MUDNN_STATUS" in generated.files["skeletons.cpp"]
    with pytest.raises(TorchferryError, match="mudn"):
        generate(CodegenOptions(tmp_path / "list.yaml", "PrivateUse1", "at::acme", library="mudn"))


def test_nobodys_file_is_replaced(tmp_path: Path) -> None:
    begin(tmp_path, "tril", "legacy-meta")
    (tmp_path / "triu.cpp").write_text("mine\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments, says in (
        (("tril_", "--kind", "override"), "functions.yaml:3: the list already has `tril`"),
        (("triu",), "triu.cpp exists"),
    ):
        done = new(tmp_path, *arguments, "-t", "musa")
        assert says in str(done.exception)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "functions.yaml").write_text("functions:\n- func: abs\n  fallback: cpu\nheaders: [a.h]\n")
    done = new(tmp_path, "erfinv", "--kind", "fallback", "-t", "musa")
    assert isinstance(done.exception, TorchferryError)
    assert "- func: erfinv.out\n  fallback: cpu" in "\n".join(done.exception.lines())
