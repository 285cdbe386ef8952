"""The outputs stage: images, arrays and texts that a run wrote, held against those of the baseline."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchferry.acceptance.acceptfile import OutputTerms
from torchferry.acceptance.gates import Gate, GateMaker
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.situation import Situation, UnjudgedError, is_fresh, needed_run
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_text
from torchferry.core.folders import files_below
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import counted
from torchferry.core.record import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_FILES = 10_000

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
"""`rtol` and `atol` by dtype: the table in the documentation of `torch.testing.assert_close`; others must be equal."""

_SIGMA, _RADIUS, _K1, _K2 = 1.5, 5, 0.01, 0.03
"""Window and constants of the structural similarity (Wang et al. 2004, IEEE Transactions on Image Processing 13(4))."""

_HASHED, _LOW = 32, 8
"""Side of the picture that is hashed, and of its lowest frequencies: 64 bits (the hash `phash` of ImageHash)."""


DEFAULT_PSNR = 60.0
"""Least peak signal-to-noise ratio in dB where nothing else is stated: 6 % of the values one of 255 levels apart.

Float32 that rounds otherwise stays above it, and 1 % of noise in the weights below (docs/en/accepting.md, Outputs).
"""

_MOST_PIXELS = 1 << 26
"""Pixels of a picture; each takes 32 bytes when two pictures are compared."""

_LARGEST_ARCHIVE = 16 << 30
"""Bytes that the contents of an archive of arrays may have."""

_MARGIN = 6.0
"""What the target may be below the baseline's own rounding, in dB: twice the amplitude of the difference."""


class PairVerdict(NamedTuple):
    """How two files stand.

    Attributes:
        good: Whether they are alike.
        measured: How far they are apart, in words.
        badness: How bad that is, for sorting.
        resized: Whether they are pictures of different sizes.
    """

    good: bool
    measured: Message
    badness: float
    resized: bool = False


def outputs(situation: Situation) -> list[Gate]:
    """Hold each folder of outputs against its reference."""
    if not situation.file.outputs:
        raise UnjudgedError(say("the accept file has no [[gates.outputs]]"))
    run = needed_run(situation)
    return [_folder(situation, run, terms) for terms in situation.file.outputs]


def _folder(situation: Situation, run: AcceptanceRun, terms: OutputTerms) -> Gate:
    judge = GateMaker("outputs", run.name)
    wanted = _wanted(terms)
    reference = situation.file.root / terms.reference
    if not reference.is_dir():
        return judge.unjudged(
            terms.folder, say("the reference folder {path} does not exist", path=terms.reference), wanted=wanted
        )
    found = (path for path in files_below(reference) if path.match(terms.pattern))
    if "**" in terms.pattern:  # which `match` does not know before Python 3.13
        found = reference.rglob(terms.pattern)
    names = sorted(path.relative_to(reference) for path in found if path.is_file())
    if not names:
        reason = say(
            "no file in the reference folder {path} matches {pattern}", path=terms.reference, pattern=terms.pattern
        )
        return judge.unjudged(terms.folder, reason, wanted=wanted)
    if len(names) > _MOST_FILES:
        reason = say(
            "the reference folder has too many files (limit: {count}): choose some with `pattern`", count=_MOST_FILES
        )
        return judge.unjudged(terms.folder, reason, wanted=wanted)
    if not any((reference / name).stat().st_size for name in names):
        return judge.unjudged(terms.folder, say("the files in the reference folder are empty"), wanted=wanted)
    limited = terms.psnr is None and not terms.rounding  # by the default
    try:
        terms = _with_limit(situation, terms, names)
    except UnjudgedError as error:
        return judge.unjudged(terms.folder, error.reason, wanted=wanted)
    wanted = _wanted(terms)
    worst: PairVerdict | None = None
    bad = 0
    for name in counted(say("comparing outputs"), names):
        verdict = _pair(run, run.where / terms.folder / name, reference / name, terms)
        if not verdict.good:
            bad += 1
        if worst is None or verdict.badness > worst.badness:
            worst = verdict._replace(measured=say("{name}: {text}", name=name.as_posix(), text=verdict.measured))
    assert worst is not None
    count = say_plural("{count} file", "{count} files", count=len(names))
    measured = say("{files}, the worst {worst}", files=count, worst=worst.measured)
    reason = say_plural("{count} file differs from the reference", "{count} files differ from the reference", count=bad)
    if worst.resized:
        reason = say("{text}; run it with the settings of the reference, such as the image size", text=reason)
    elif bad and terms.kind == "image" and limited and math.isfinite(worst.badness):
        reason = say(
            "{text}; if the program computes below float32, state `rounding`: a folder with the "
            "baseline's images computed again with another rounding",
            text=reason,
        )
    return judge.held(not bad, terms.folder, measured, wanted, reason, float(bad), 0.0)


def _with_limit(situation: Situation, terms: OutputTerms, names: Sequence[Path]) -> OutputTerms:
    """Return terms that state the ratio: what they say, what the baseline's own rounding leaves, or the default.

    Raises:
        UnjudgedError: an image of the rounding is missing, or cannot be read.
    """
    if terms.kind != "image" or terms.psnr is not None:
        return terms
    if not terms.rounding:
        return replace(terms, psnr=DEFAULT_PSNR)
    root = situation.file.root
    least = math.inf
    for name in counted(say("comparing outputs"), names):
        again = root / terms.rounding / name
        try:
            if again.samefile(root / terms.reference / name):
                raise UnjudgedError(
                    say(
                        "{path} is the reference itself; `rounding` needs images that were computed again",
                        path=again.relative_to(root),
                    )
                )
            ratio = _psnr(_pixels(again), _pixels(root / terms.reference / name))
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise UnjudgedError(
                say("{path} cannot be read: {error}", path=f"{terms.rounding}/{name.as_posix()}", error=error)
            ) from None
        least = min(least, ratio)
    return replace(terms, psnr=min(least - _MARGIN, DEFAULT_PSNR))


def _wanted(terms: OutputTerms) -> Message:
    if terms.kind == "image" and terms.psnr is None and terms.rounding:
        return say("as close to the reference as the images in {folder} (`rounding`)", folder=terms.rounding)
    if terms.kind == "image":
        return say(
            "PSNR of at least {psnr} dB, SSIM of at least {ssim}, hash distance of at most {bits} bits",
            psnr=f"{DEFAULT_PSNR if terms.psnr is None else terms.psnr:.4g}",
            ssim=f"{terms.ssim:g}",
            bits=terms.hash_distance,
        )
    if terms.kind == "array":
        if terms.rtol is None and terms.atol is None:
            return say("within the tolerances of torch.testing.assert_close for the dtype")
        return say("within rtol {rtol}, atol {atol}", rtol=f"{terms.rtol or 0:g}", atol=f"{terms.atol or 0:g}")
    return say("the same lines")


def _pair(run: AcceptanceRun, own: Path, reference: Path, terms: OutputTerms) -> PairVerdict:
    compare: Callable[[Path, Path, OutputTerms], PairVerdict] = {
        "image": _images,
        "array": _arrays,
        "text": _texts,
    }[terms.kind]
    try:
        if not own.is_file():
            return PairVerdict(False, say("it is missing"), math.inf)
        if own.samefile(reference):
            return PairVerdict(False, say("it is the reference itself"), math.inf)
        if not is_fresh(own, run):
            return PairVerdict(False, say("it is older than the run"), math.inf)
        return compare(own, reference, terms)
    except (OSError, ValueError, KeyError, SyntaxError, EOFError) as error:
        text = str(error) or type(error).__name__
        return PairVerdict(False, say("it cannot be read: {error}", error=text[:200]), math.inf)


def needed(module: str, title: str) -> Any:
    """Return a module of the extra `acceptance`.

    Raises:
        TorchferryError: it is not installed.
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise TorchferryError(
            say("{title} is needed to compare outputs", title=title),
            say("install it: {command}", command="pip install 'torchferry[acceptance]'"),
        ) from None


# --- images ---


def _images(own: Path, reference: Path, terms: OutputTerms) -> PairVerdict:
    first, second = _pixels(own), _pixels(reference)
    if first.shape != second.shape:
        sizes = ["x".join(map(str, array.shape[1::-1])) for array in (first, second)]
        return PairVerdict(
            False, say("{own} pixels, the reference has {other}", own=sizes[0], other=sizes[1]), math.inf, resized=True
        )
    psnr = _psnr(first, second)
    similarity = ssim(first, second)
    distance = int((perceptual_hash(own) != perceptual_hash(reference)).sum())
    assert terms.psnr is not None
    good = psnr >= terms.psnr and similarity >= terms.ssim and distance <= terms.hash_distance
    measured = say(
        "PSNR {psnr} dB, SSIM {ssim}, hash distance {bits}",
        psnr="∞" if math.isinf(psnr) else f"{psnr:.1f}",
        ssim=f"{similarity:.4f}",
        bits=distance,
    )
    return PairVerdict(good, measured, -psnr + (0 if good else 1e6))


def _psnr(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the peak signal-to-noise ratio of two pictures in dB.

    Raises:
        ValueError: their sizes differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"{first.shape[1]}x{first.shape[0]} and {second.shape[1]}x{second.shape[0]} pixels")
    error = float(((first - second) ** 2).mean())
    return math.inf if error == 0 else -10 * math.log10(error)


def _pixels(path: Path) -> NDArray[Any]:
    """Return a picture as height, width, channels between 0 and 1."""
    numpy, image = needed("numpy", "numpy"), needed("PIL.Image", "Pillow")
    with _refused_as_damage(), image.open(path) as picture:
        _refuse_wide(picture)
        deep = picture.mode.startswith(("I", "F"))
        array = numpy.asarray(picture if deep else picture.convert("RGBA"), dtype="float64")
    scale = 65535.0 if deep and array.max(initial=0) > 255 else 255.0
    pixels: NDArray[Any] = array.reshape(*array.shape[:2], -1) / scale
    return pixels


def _refuse_wide(picture: Any) -> None:
    """Refuse a picture whose pixels would fill the memory, before they are unpacked."""
    width, height = picture.size
    if width * height > _MOST_PIXELS:
        raise ValueError(f"{width}x{height} pixels; more than {_MOST_PIXELS} are not read")


@contextlib.contextmanager
def _refused_as_damage() -> Iterator[None]:
    """Raise ValueError for whatever a library says of a file that a run wrote: each has its own errors for damage."""
    try:
        yield
    except (OSError, ValueError, KeyError, SyntaxError, EOFError, TorchferryError):
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}"[:200]) from None


def ssim(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the mean structural similarity of two pictures, of the mean of their channels.

    Args:
        first: Height, width, channels, between 0 and 1.
        second: The same shape.

    Pictures that are smaller than the window have one window, the whole.
    """
    numpy = needed("numpy", "numpy")
    x, y = first.mean(axis=2), second.mean(axis=2)
    ticks = numpy.arange(-_RADIUS, _RADIUS + 1)
    window = numpy.exp(-(ticks**2) / (2 * _SIGMA**2))
    window /= window.sum()

    def blurred(array: NDArray[Any]) -> NDArray[Any]:
        if min(array.shape) < len(window):
            whole: NDArray[Any] = numpy.full((1, 1), array.mean())
            return whole
        for axis in (0, 1):
            views = numpy.lib.stride_tricks.sliding_window_view(array, len(window), axis=axis)
            array = views @ window
        return array

    mean_x, mean_y = blurred(x), blurred(y)
    var_x, var_y = blurred(x * x) - mean_x**2, blurred(y * y) - mean_y**2
    both = blurred(x * y) - mean_x * mean_y
    c1, c2 = _K1**2, _K2**2
    values = ((2 * mean_x * mean_y + c1) * (2 * both + c2)) / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))
    return float(values.mean())


def perceptual_hash(path: Path) -> NDArray[Any]:
    """Return 64 bits of a picture: which of its lowest frequencies are above their median."""
    numpy = needed("numpy", "numpy")
    image = needed("PIL.Image", "Pillow")
    with _refused_as_damage(), image.open(path) as picture:
        _refuse_wide(picture)
        small = numpy.asarray(
            picture.convert("L").resize((_HASHED, _HASHED), image.Resampling.LANCZOS), dtype="float64"
        )
    ticks = numpy.arange(_HASHED)
    cosines = numpy.cos(math.pi * (2 * ticks[None, :] + 1) * ticks[:, None] / (2 * _HASHED))
    low = (cosines @ small @ cosines.T)[:_LOW, :_LOW]
    bits: NDArray[Any] = low > numpy.median(low)
    return bits


# --- arrays and texts ---


def _arrays(own: Path, reference: Path, terms: OutputTerms) -> PairVerdict:
    numpy = needed("numpy", "numpy")
    first, second = _loaded(own), _loaded(reference)
    if first.keys() != second.keys():
        names = sorted(first.keys() ^ second.keys())
        return PairVerdict(
            False, say("arrays that only one of the two files has: {names}", names=", ".join(names[:3])), math.inf
        )
    if not any(array.size for array in first.values()):
        return PairVerdict(False, say("its arrays are empty"), math.inf)
    worst, good = 0.0, True
    for name, array in first.items():
        other = second[name]
        if array.shape != other.shape or array.dtype != other.dtype:
            text = say(
                "{own}, the reference has {other}",
                own=f"{array.dtype}{list(array.shape)}",
                other=f"{other.dtype}{list(other.shape)}",
            )
            return PairVerdict(False, text, math.inf)
        rtol, atol = _TOLERANCES.get(str(array.dtype), (0.0, 0.0))
        if terms.rtol is not None or terms.atol is not None:
            rtol, atol = terms.rtol or 0.0, terms.atol or 0.0
        if array.dtype.kind not in "fc":
            good = good and (bool((array == other).all()) if not (rtol or atol) else _close(array, other, rtol, atol))
        else:
            good = good and _close(array, other, rtol, atol)
        if array.dtype.kind in "fciub" and array.size:
            wide = "complex128" if array.dtype.kind == "c" else "float64"
            with numpy.errstate(all="ignore"):
                apart = numpy.abs(array.astype(wide) - other.astype(wide))
            worst = max(worst, float(apart.max())) if not numpy.isnan(apart).any() else math.nan
    return PairVerdict(good, say("largest difference {value}", value=f"{worst:.3g}"), worst + (0 if good else 1e9))


def _close(first: NDArray[Any], second: NDArray[Any], rtol: float, atol: float) -> bool:
    numpy = needed("numpy", "numpy")
    wide = "complex128" if first.dtype.kind == "c" else "float64"
    return bool(numpy.allclose(first.astype(wide), second.astype(wide), rtol=rtol, atol=atol, equal_nan=True))


def _loaded(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file; nothing in it is run."""
    numpy = needed("numpy", "numpy")
    if path.suffix not in (".npy", ".npz", ".safetensors"):
        raise ValueError(f"{path.suffix or path.name} is not .npy, .npz or .safetensors")
    load_tensors = needed("safetensors.numpy", "safetensors").load_file if path.suffix == ".safetensors" else None
    with _refused_as_damage():
        if load_tensors is not None:
            return dict(load_tensors(path))
        if path.suffix == ".npz":
            _refuse_large(path)
            with numpy.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            if not all(isinstance(array, numpy.ndarray) for array in arrays.values()):
                raise ValueError("it holds something that is no array")
            return arrays
        # mapped: the memory that its header asks for is not taken before the file is known to have it
        return {"": numpy.load(path, allow_pickle=False, mmap_mode="r")}


def _refuse_large(path: Path) -> None:
    """Refuse an archive whose contents would fill the memory."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _LARGEST_ARCHIVE:
        raise ValueError(f"its contents have {size} bytes; more than {_LARGEST_ARCHIVE} are not read")


def _texts(own: Path, reference: Path, terms: OutputTerms) -> PairVerdict:
    first, second = (read_text(path, errors="replace").rstrip().split("\n") for path in (own, reference))
    for number, (line, other) in enumerate(zip(first, second, strict=False), 1):
        if line.rstrip() != other.rstrip():
            return PairVerdict(False, say("line {number} differs: {line}", number=number, line=line.strip()[:80]), 1.0)
    if len(first) != len(second):
        return PairVerdict(
            False, say("length in lines: {own}, that of the reference: {other}", own=len(first), other=len(second)), 1.0
        )
    return PairVerdict(True, say("the same"), 0.0)
