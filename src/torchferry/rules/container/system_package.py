"""A system package of CUDA that a script or an image installs: `apt-get install libnccl2 cuda-toolkit-12-1`.

It installs CUDA's libraries or compiler, which nothing uses on the target. The package sources of the machine may not
have it, and then the build stops. Use the vendor's toolkit instead; the vendor's image usually contains it.

Why: The build of the image stops, or gigabytes are installed that nothing uses.

References:
- table tools
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, prints_text
from torchferry.source.shell import Command

_INSTALLERS = frozenset({"apt", "apt-get", "aptitude", "yum", "dnf", "microdnf", "zypper", "apk"})
_PACKAGE = lazy_regex(
    r"(?P<package>(?:lib)?(?:cuda|cudnn|nccl|cublas|cufft|curand|cusolver|cusparse|cutensor|nvinfer|nvjpeg)[\w.+-]*"
    r"|nvidia-[\w.+-]+|nsight-[\w.+-]+|tensorrt[\w.+-]*|datacenter-gpu-manager[\w.+-]*)(?:=\S*)?\Z"
)
_SOURCE = lazy_regex(r"https?://developer\.(?:download\.)?nvidia\.com/\S*?(?=[\"'\s;|&)]|\Z)")


class SystemPackage(Rule):
    """Finds installations of CUDA's system packages, and where they are fetched from."""

    CODE = "CNT103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use the target's package"), say("leave the package out"))
    WORDS = ("cuda", "cudnn", "nccl", "nvidia", "nvinfer", "tensorrt", "cublas", "nsight", "datacenter-gpu")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each package and each address."""
        for command in commands_of(context):
            if not prints_text(command):
                for start, end in _places(context.text, command):
                    message = say(
                        "`{found}` installs CUDA itself, which {target} does not use; install its own toolkit instead",
                        found=context.text[start:end],
                        target=context.target.title,
                    )
                    yield self.finding(context, (start, end), message, Grade.MANUAL)


def _places(text: str, command: Command) -> Iterator[tuple[int, int]]:
    words = command.words
    verb = next((index for index, word in enumerate(words) if word.value in ("install", "add")), -1)
    installs = verb > 0 and any(word.value.rpartition("/")[2] in _INSTALLERS for word in words[:verb])
    for word in words[verb + 1 :] if installs else ():
        match = _PACKAGE.match(word.text)
        if match is not None:
            yield word.start, word.start + match.end("package")
    for word in words:
        if " " not in word.text:
            match = _SOURCE.search(text, word.start, word.end)
            if match is not None:
                yield match.span()
