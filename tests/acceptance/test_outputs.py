"""Images, arrays and texts against a reference: alike, spoiled, of other sizes, missing, stale, hostile."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchferry.acceptance.acceptfile import AcceptFile, Baseline, OutputTerms, RunCommand
from torchferry.acceptance.outputs import outputs, perceptual_hash, ssim
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.situation import Situation
from torchferry.backends.target import Target

numpy = pytest.importorskip("numpy")


def judged(root: Path, terms: OutputTerms, started: str = "2020-01-01T00:00:00Z") -> Any:
    """Return the gate of a folder of outputs."""
    file = AcceptFile(root / "x.toml", {}, {}, {}, Baseline(), {"target": RunCommand(("true",))}, outputs=(terms,))
    situation = Situation(file, Target.named("npu"), None, root, lambda message: None)
    situation._main = AcceptanceRun("target", ("true",), ".", root, started, 1.0, 0, root / "log")
    (gate,) = outputs(situation)
    return gate


def picture(seed: int = 0, size: int = 48, noise: float = 0.0) -> Any:
    across, down = numpy.meshgrid(numpy.linspace(0, 6, size), numpy.linspace(0, 4, size))
    plain = 128 + 60 * numpy.sin(across + seed) * numpy.cos(down)
    spoiled = plain + numpy.random.default_rng(1).normal(0, noise, plain.shape) if noise else plain
    return numpy.clip(numpy.stack([spoiled, plain, plain.T], -1), 0, 255).astype("uint8")


def save_image(path: Path, pixels: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    pytest.importorskip("PIL.Image").fromarray(pixels).save(path)


@pytest.mark.parametrize(
    ("own", "status", "said"),
    [
        (picture(), "green", "PSNR ∞ dB, SSIM 1.0000, hash distance 0"),
        (picture(noise=0.1), "green", "PSNR 6"),
        (picture(noise=1.0), "red", "PSNR 5"),  # what 1 % of noise in the weights leaves is no rounding
        (picture(noise=60.0), "red", "PSNR"),
        (picture(seed=2), "red", "hash"),
        (picture(size=40), "red", "40x40 pixels, the reference has 48x48"),
    ],
)
def test_images(own: Any, status: str, said: str, tmp_path: Path) -> None:
    save_image(tmp_path / "reference" / "a.png", picture())
    save_image(tmp_path / "out" / "a.png", own)
    gate = judged(tmp_path, OutputTerms("image", "out", "reference", "*.png"))
    assert gate.status.value == status
    assert said in gate.measured.render("en")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (picture(size=40), "such as the image size"),
        (None, "1 file differs from the reference"),
        (picture(seed=2), "`r"),
    ],
)
def test_the_reason_of_red_images_fits_what_is_wrong(own: Any, said: str, tmp_path: Path) -> None:
    save_image(tmp_path / "reference" / "a.png", picture())
    (tmp_path / "out").mkdir()
    if own is not None:
        save_image(tmp_path / "out" / "a.png", own)
    reason = judged(tmp_path, OutputTerms("image", "out", "reference", "*.png")).reason
    assert reason is not None
    assert said in reason.render("en")
    assert ("image size" in reason.render("en")) == ("image size" in said)


@pytest.mark.parametrize(
    ("rounding", "noise", "status"),
    [(2.0, 3.0, "green"), (2.0, 8.0, "red"), (0.0, 0.1, "green"), (0.0, 1.0, "red"), (None, 0.1, "not-judged")],
)
def test_images_beside_the_rounding_of_the_baseline(
    rounding: float | None, noise: float, status: str, tmp_path: Path
) -> None:
    save_image(tmp_path / "reference" / "a.png", picture())
    save_image(tmp_path / "out" / "a.png", picture(noise=noise))
    if rounding is not None:
        save_image(tmp_path / "again" / "a.png", picture(noise=rounding))
    gate = judged(tmp_path, OutputTerms("image", "out", "reference", "*.png", rounding="again"))
    assert gate.status.value == status, gate


def test_figures_of_images(tmp_path: Path) -> None:
    first = picture().astype(float) / 255
    assert ssim(first, first) == pytest.approx(1)
    assert 0 < ssim(first, numpy.clip(first + numpy.random.default_rng(0).normal(0, 0.1, first.shape), 0, 1)) < 0.95
    save_image(tmp_path / "a.png", picture())
    save_image(tmp_path / "b.png", picture(size=96))
    bits = (perceptual_hash(tmp_path / "a.png") != perceptual_hash(tmp_path / "b.png")).sum()
    assert bits <= 8  # another size is the same picture


def array(path: Path, values: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    numpy.save(path, values)


ONES = numpy.ones((2, 3), dtype="float32")


@pytest.mark.parametrize(
    ("own", "options", "status"),
    [
        (ONES, {}, "green"),
        (ONES + numpy.float32(1e-6), {}, "green"),
        (ONES + numpy.float32(1e-3), {}, "red"),
        (ONES + numpy.float32(1e-3), {"rtol": 1e-2}, "green"),
        (ONES.astype("float16"), {}, "red"),  # another dtype is another result
        (ONES[:1], {}, "red"),
        (ONES * numpy.float32("nan"), {}, "red"),
        (None, {}, "red"),
    ],
)
def test_arrays(own: Any, options: dict[str, Any], status: str, tmp_path: Path) -> None:
    array(tmp_path / "reference" / "a.npy", ONES)
    if own is not None:
        array(tmp_path / "out" / "a.npy", own)
    gate = judged(tmp_path, OutputTerms("array", "out", "reference", "*.npy", **options))
    assert gate.status.value == status
    assert gate.value == (0.0 if status == "green" else 1.0)


def hostile(path: Path) -> None:
    numpy.save(path, numpy.array([os.system], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (hostile, "Python objects"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (lambda path: path.mkdir(), "missing"),
        (lambda path: path.symlink_to("/dev/zero"), "missing"),
    ],
)
def test_what_is_no_array(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    array(tmp_path / "reference" / "a.npy", ONES)
    (tmp_path / "out").mkdir()
    make(tmp_path / "out" / "a.npy")
    gate = judged(tmp_path, OutputTerms("array", "out", "reference", "*.npy"))
    assert gate.status.value == "red"
    assert said in gate.measured.render("en")


DAMAGED = {
    "an archive that is none": ("a.npz", b"PK\x05\x06", "BadZipFile"),
    "a header that is no Python": ("a.npy", b"\x93NUMPY\x01\x00\x06\x00{'''\n\n", "TokenError"),
    "more numbers than the file has": (
        "a.npy",
        b"\x93NUMPY\x01\x00\x46\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**9,), }".replace(b"10**9", b"1000000000").ljust(69)
        + b"\n",
        "greater than file size",
    ),
    "a picture without end": (
        "a.bmp",
        b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 1 << 16, 1 << 15, 1, 24) + bytes(24),
        "pixels",
    ),
}


@pytest.mark.parametrize(("name", "data", "said"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_told_whatever_a_library_says(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    kind = "image" if name.endswith(".bmp") else "array"
    for folder in ("out", "reference"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(data)
    (tmp_path / "reference" / name).write_bytes(data + b" ")
    gate = judged(tmp_path, OutputTerms(kind, "out", "reference"))
    assert gate.status.value == "red"
    assert said in gate.measured.render("en")


def test_an_output_of_an_earlier_run_is_none(tmp_path: Path) -> None:
    for folder in ("reference", "out"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("one\ntwo\n")
    terms = OutputTerms("text", "out", "reference")
    assert judged(tmp_path, terms).status.value == "green"
    assert "older than the run" in judged(tmp_path, terms, "2999-01-01T00:00:00Z").measured.render("en")
    (tmp_path / "out" / "a.txt").write_text("one\n2\n")
    assert "line 2 differs" in judged(tmp_path, terms).measured.render("en")


def test_without_a_reference_nothing_is_judged(tmp_path: Path) -> None:
    assert judged(tmp_path, OutputTerms("text", "out", "reference")).status.value == "not-judged"
    (tmp_path / "reference").mkdir()
    assert judged(tmp_path, OutputTerms("text", "out", "reference")).status.value == "not-judged"


def test_a_comparison_of_nothing_or_with_itself_is_not_green(tmp_path: Path) -> None:
    for name in ("out", "same", "empty", "none"):
        (tmp_path / name).mkdir()
    numpy.save(tmp_path / "out" / "a.npy", numpy.ones(0))
    numpy.save(tmp_path / "none" / "a.npy", numpy.ones(0))
    (tmp_path / "same" / "a.npy").hardlink_to(tmp_path / "out" / "a.npy")
    (tmp_path / "empty" / "a.npy").write_bytes(b"")
    for kind, reference, status, said in (
        ("array", "none", "red", "its arrays are empty"),
        ("text", "out", "red", "the reference itself"),
        ("text", "same", "red", "the reference itself"),
        ("text", "empty", "not-judged", "are empty"),
    ):
        gate = judged(tmp_path, OutputTerms(kind, "out", reference))
        assert (gate.status.value, said in f"{gate.measured} {gate.reason}") == (status, True), (reference, gate)
