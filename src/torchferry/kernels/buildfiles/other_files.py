"""MANIFEST.in, pyproject.toml, meson.build and Bazel's files: what can be added, and what a person has to write."""

from __future__ import annotations

import re

from torchferry.core import toml
from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.kernels.buildfiles.model import BuildSettings, PortedBuildFile, Renaming, ReviewList, disjoint
from torchferry.source.text import SourceText

_MANIFEST_LINE = lazy_regex(
    r"^[ \t]*(?:include|recursive-include|graft|global-include)[ \t]+(?P<rest>[^\n\r#]+)", re.MULTILINE
)
_WORDS = lazy_regex(r"\S+")
_CUDA_WORD = lazy_regex(r"(?i)(?<!\w)\w*(?:cuda|nvcc|cublas|cudnn|nccl)\w*|(?<![\w./*-])[\w./*-]+\.cuh?\b")
_NOT_CODE = lazy_regex(r"#[^\n]*")


def port_manifest(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what becomes of a MANIFEST.in: the ported folders and endings are added behind those of CUDA.

    In a copy for the target alone they take their place. Where the port lies beside the sources these are still needed,
    by the builds for the CPU and for other makers' cards.
    """
    renaming = Renaming(settings, path)
    if settings.facts.kernels != "port":
        return PortedBuildFile(path)
    source = SourceText(text)
    edits = []
    lines = set(text.splitlines())
    for match in _MANIFEST_LINE.finditer(text):
        line = match.group()
        if line.split()[0] == "recursive-include" and renaming.is_ignored(match["rest"].split()[0]):
            continue  # its patterns are of a folder without a port
        ported = _WORDS.sub(lambda word: renaming.ported_name(word.group().rstrip("/")), line)
        if ported != _WORDS.sub(lambda word: word.group().rstrip("/"), line) and ported not in lines:
            if settings.style == "replace" and not settings.folders:
                edits.append(Edit(match.start(), match.end(), ported))
            else:
                edits.append(Edit(match.end(), match.end(), f"{source.newline}{ported}"))
    return PortedBuildFile(path, disjoint(edits))


def port_pyproject(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what a person has to know of the build requirements: nothing is changed, they are pip's to install."""
    review = ReviewList(path, SourceText(text))
    try:
        document = toml.loads(text)
    except (toml.TOMLDecodeError, RecursionError) as error:
        review.add(0, "build-unread", say("this is not TOML: {reason}", reason=str(error)[:200]))
        return PortedBuildFile(path, (), review.items())
    system = document.get("build-system")
    requires = system.get("requires") if isinstance(system, dict) else None
    names = [str(each) for each in requires] if isinstance(requires, list) else []
    torch = next((name for name in names if name.replace(" ", "").lower().startswith("torch")), "")
    if torch:
        plugin = settings.target.backend.PLUGIN
        message = say(
            "the build requires `{torch}`, and pip may install another version than {plugin} needs: "
            "build with `pip install --no-build-isolation .`",
            torch=torch,
            plugin=plugin,
        )
        review.add(max(text.find(torch), 0), "build-requirement", message)
    _report_words(text, review, "build-requirement")
    return PortedBuildFile(path, (), review.items())


def review_meson(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return where a Meson file means CUDA: Meson has CUDA as a language, and none of the targets."""
    return _reviewed(path, text, "build-meson")


def review_bazel(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return where a file of Bazel means CUDA."""
    return _reviewed(path, text, "build-bazel")


def _reviewed(path: str, text: str, kind: str) -> PortedBuildFile:
    review = ReviewList(path, SourceText(text))
    _report_words(text, review, kind)
    return PortedBuildFile(path, (), review.items())


def _report_words(text: str, review: ReviewList, kind: str) -> None:
    """Put the lines with a word of CUDA on the review list, comments left out."""
    code = _NOT_CODE.sub(lambda match: " " * len(match.group()), text)
    for match in _CUDA_WORD.finditer(code):
        message = say("`{word}` means CUDA: write by hand what the target needs here", word=match.group()[:80])
        review.add(match.start(), kind, message)
