"""The effort of a port: by class of API, in percent, per file and whole, without a file that is written."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchferry.backends.target import Target
from torchferry.cli import port
from torchferry.core.errors import UsageError
from torchferry.kernels.effort import ApiClass, PlaceCounts, api_class, effort_of
from torchferry.kernels.effort_report import EFFORT_FORMATS, render_effort
from torchferry.kernels.ported_tree import PortedTree, port_tree

MUSA = Target.named("musa")
KERNEL = """#include <cuda_runtime.h>
#include "mine.cuh"
__global__ void k(float* a) {
  asm volatile("mma.sync.aligned.m16n8k16;" ::);
  a[threadIdx.x % 32] = __shfl_sync(0xffffffff, a[0], 1);
}
void run(cudaStream_t s) {
  cudaMalloc(0, 1); cudaMalloc(0, 2);
  cublasSgemmXYZ();
  getCurrentCUDAStream();
  cudaNobodyKnows();
}
"""


def tree(root: Path, **files: str) -> PortedTree:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_bytes(text.encode("latin-1"))
    return port_tree(root, MUSA)


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("cudaMalloc", ApiClass.RUNTIME),
        ("cuMemAlloc", ApiClass.RUNTIME),
        ("CUdeviceptr", ApiClass.RUNTIME),
        ("CUDA_R_16F", ApiClass.RUNTIME),
        ("cublasSgemm", ApiClass.LIBRARIES),
        ("CUBLAS_OP_N", ApiClass.LIBRARIES),
        ("nvtxRangePush", ApiClass.LIBRARIES),
        ("CUDAGuard", ApiClass.TORCH),
        ("at::cuda::warp_size", ApiClass.TORCH),
        ("AT_CUDA_CHECK", ApiClass.TORCH),
        ("__shfl_sync", ApiClass.DEVICE),
        ("< <<", ApiClass.DEVICE),
        ("> >>", ApiClass.DEVICE),
        ("<cuda.h>", ApiClass.HEADERS),
        ('"cuda.h"', ApiClass.HEADERS),
    ],
)
def test_a_name_has_a_class(name: str, which: ApiClass) -> None:
    assert api_class(name) is which


def test_what_is_renamed_needs_what_its_item_says(tmp_path: Path) -> None:
    effort = effort_of(tree(tmp_path, a__cu=KERNEL, mine__cuh="#pragma once\n", plain__cpp="int main() {}\n"))
    classes = effort.classes
    assert classes[ApiClass.RUNTIME].renamed == 3  # two calls and the type
    assert classes[ApiClass.RUNTIME].by_hand == 1  # the name that nothing explains
    assert classes[ApiClass.PTX].by_hand == 2  # the instruction, and the kernel that rests on it
    assert classes[ApiClass.LIBRARIES].renamed == 0
    assert list(effort.files) == ["a.cu"]
    assert effort.of_file("a.cu") == effort.whole


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                (
                    "cudaMalloc(a);",
                    "cublasFoo();",
                    "asm(",
                    '"x";',
                    "__shfl(1);",
                    "#if CUDA_VERSION > 1\n",
                    "'",
                    "/*",
                    "\r\n",
                )
            )
        ).map("\n".join),
        max_size=3,
    )
)
def test_classes_and_files_add_up(tmp_path: Path, texts: list[str]) -> None:
    for file in tmp_path.iterdir():
        file.unlink()
    ported = tree(tmp_path, **{f"f{number}__cu": text for number, text in enumerate(texts)})
    effort = effort_of(ported)
    total = PlaceCounts()
    for path in effort.files:
        total = total.plus(effort.of_file(path))
    assert total == effort.whole
    by_class = PlaceCounts()
    for places in effort.classes.values():
        by_class = by_class.plus(places)
    assert by_class == effort.whole
    assert effort.whole.all >= sum(map(len, ported.edits.values()))
    assert not effort.whole.all or abs(sum(effort.whole.percent()) - 100) <= 0.2
    assert bool(effort.whole.by_hand) == bool(ported.by_hand)


def test_every_form_says_the_same(tmp_path: Path) -> None:
    ported = tree(tmp_path, **{"a__cu": KERNEL, "=1+1__cu": KERNEL})
    whole = effort_of(ported).whole
    document = json.loads(render_effort(ported, "json", "en"))
    assert document["whole"]["places"] == whole.all == sum(file["places"] for file in document["files"])
    rows = list(csv.DictReader(io.StringIO(render_effort(ported, "csv", "en").lstrip("\ufeff"), newline="")))
    assert sum(int(row["places"]) for row in rows if row["path"] and row["class"]) == whole.all
    assert int(rows[-1]["places"]) == whole.all
    assert {row["path"] for row in rows} == {"", "a.cu", "'=1+1.cu"}  # no formula
    shares = [f"{share:.1f}" for share in whole.percent()]
    for form in ("text", "html"):
        assert all(share in render_effort(ported, form, "zh") for share in shares)


@pytest.mark.parametrize("form", EFFORT_FORMATS)
def test_nothing_is_written(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.cu").write_text(KERNEL)
    result = CliRunner().invoke(port.command, ["csrc", "--target", "musa", "--analyse", "-f", form])
    assert result.exit_code == 1, result.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.cu", "csrc"]
    assert (tmp_path / "csrc" / "a.cu").read_text() == KERNEL


@pytest.mark.parametrize(
    "options", [["--analyse", "--diff"], ["--analyse", "--in-place"], ["--analyse", "-f", "sarif"], ["-f", "csv"]]
)
def test_options_that_exclude_each_other(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "a.cu").write_text(KERNEL)
    result = CliRunner().invoke(port.command, [str(tmp_path), "--target", "musa", *options])
    assert isinstance(result.exception, UsageError)
