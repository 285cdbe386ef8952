"""An image of CUDA that a container is built or started from: `FROM nvcr.io/nvidia/pytorch:22.10-py3`.

It contains CUDA, cuDNN and a torch built for them, but not the vendor's toolkit. The vendor has its own images. Their
tags name the toolkit and often the card, so you must choose one.

Why: The container starts without the vendor's driver libraries and toolkit, so torch finds no card.

References:
- table images
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, is_of_service
from torchferry.source.dockerfile import instructions
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

_IMAGE = lazy_regex(
    r"(?P<name>[a-z0-9][\w./#-]*?(?::\d+/[\w./-]+?)?)(?::(?P<tag>[\w.${}-]+))?(?P<digest>@sha256:\w+)?\Z"
)
_FROM = lazy_regex(r"(?:--platform=\S+[ \t]+)?(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)
_DEFAULT = lazy_regex(r"\w+=[\"']?(?P<image>[\w./:@${}-]+)")
_VALUE = lazy_regex(
    r"(?:[A-Za-z_]\w*(?:\+|[:?!]|::)?=|--[\w-]+=)?[\"']?(?:\$\{\w+:?[-=])?(?:docker://)?(?P<image>[a-z0-9][\w./:@#${-]*)"
)
_RUNTIMES = frozenset({"docker", "podman", "nerdctl", "nvidia-docker", "singularity", "apptainer", "srun", "kubectl"})
_KEYS = frozenset({"image", "base_image", "docker_image", "container", "container_image"})


class BaseImage(Rule):
    """Finds images of CUDA."""

    CODE = "CNT101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("start from the target's image"),)
    WORDS = ("nvidia", "cuda", "pytorch/pytorch", "gpu")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each image."""
        for start, end in sorted(set(self._images(context))):
            match = _IMAGE.match(context.text[start:end])
            if match is None:
                continue
            name = _name_of(match)
            if _is_known(name) or re.search(r"cuda|nvidia", match.group(), re.IGNORECASE):
                yield self._report(context, (start, end), name, match.group())

    def _report(self, context: Context, span: tuple[int, int], name: str, image: str) -> Finding:
        row = context.target.row("images", name)
        target = context.target.title
        if row.use:
            message = say("`{found}` is an image for CUDA; for {target} start from `{use}`", found=image, target=target,
                          use=row.use)  # fmt: skip
        else:
            message = say(
                "`{found}` is an image for CUDA; start from the image of {target}", found=image, target=target
            )
        return self.finding(context, span, noted(message, row.remark if row.use else None), Grade.MANUAL)

    def _images(self, context: Context) -> Iterator[tuple[int, int]]:
        text = context.text
        if context.kind is Kind.DOCKERFILE:
            yield from _in_dockerfile(text)
        elif context.kind in (Kind.COMPOSE, Kind.YAML) and not is_of_service(context.path):
            for setting in settings(context.kind, text):
                if setting.key in _KEYS or (setting.key.isupper() and "args" in setting.path):
                    match = _VALUE.match(setting.value)
                    image = _IMAGE.match(match["image"]) if match is not None else None
                    if match is not None and (context.kind is Kind.COMPOSE or (image is not None and _is_sure(image))):
                        yield setting.start + match.start("image"), setting.start + match.end("image")
        for command in commands_of(context):
            runs = any(word.value.rpartition("/")[2] in _RUNTIMES for word in command.words[:4])
            for word in (*command.assignments, *(command.words if runs else ())):
                match = _VALUE.match(word.text)
                image = _IMAGE.match(match["image"]) if match is not None else None
                if match is not None and image is not None and _is_sure(image):
                    yield word.start + match.start("image"), word.start + match.end("image")


def _in_dockerfile(text: str) -> Iterator[tuple[int, int]]:
    """Yield the images that stages are built on, and the defaults of arguments; stages of the file are none."""
    stages: set[str] = set()
    for instruction in instructions(text):
        pattern = {"FROM": _FROM, "ARG": _DEFAULT}.get(instruction.keyword)
        match = pattern.match(text, instruction.start, instruction.end) if pattern is not None else None
        if match is None:
            continue
        is_word = pattern is _DEFAULT and match["image"].isalnum()  # `ARG DEVICE=cuda` names no image
        if match["image"].lower() not in stages and not is_word:
            yield match.span("image")
        if pattern is _FROM and match["stage"]:
            stages.add(match["stage"].lower())


def _name_of(image: re.Match[str]) -> str:
    """Return the name of an image, as docker writes it: enroot has `#` behind the registry."""
    return image["name"].replace("#", "/", 1).removeprefix("docker.io/")


def _is_known(name: str) -> bool:
    return name in cuda.groups("images")["base"].names


def _is_sure(image: re.Match[str]) -> bool:
    """Whether a word of a command is an image and no path: it has a tag, or its name is one of an image."""
    name = _name_of(image)
    tagged = bool(image["tag"] or image["digest"]) and "/" in name
    return tagged or _is_known(name) or name.startswith(("nvcr.io/", "nvidia/"))
