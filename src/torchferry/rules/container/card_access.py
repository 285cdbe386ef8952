"""Cards passed to a container with NVIDIA's options: `docker run --gpus all`, `runtime: nvidia`, `nvidia.com/gpu: 1`.

The option needs NVIDIA's container runtime. The vendor has its own runtime, or the device nodes and the driver are
mounted by hand.

Why: Docker refuses the option without NVIDIA's runtime, or the container starts without a card.

References:
- table tools
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, is_of_service
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

_RUNTIMES = frozenset({"docker", "podman", "nerdctl", "nvidia-docker", "docker-compose"})
_NV_RUNTIMES = frozenset({"singularity", "apptainer"})
_OPTION = lazy_regex(r"--gpus=.|--runtime=nvidia\Z|--device=(?:/dev/nvidia|nvidia\.com/)")


class CardAccess(Rule):
    """Finds options that give NVIDIA cards to a container."""

    CODE = "CNT102"
    EFFECT = Effect.RAISES
    WORDS = ("nvidia", "gpu", "--nv")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        places = {*self._commands(context)}
        if context.kind in (Kind.COMPOSE, Kind.YAML) and not is_of_service(context.path):
            places |= {*self._settings(context)}
        for start, end, spelling in sorted(places):
            yield self.finding(context, (start, end), self._message(context, spelling), Grade.MANUAL)

    def _message(self, context: Context, spelling: str) -> Message:
        backend = context.target.backend
        message = say(
            "`{found}` gives NVIDIA cards to the container; {target} has device nodes {nodes}",
            found=spelling,
            target=context.target.title,
            nodes=backend.DEVICE_NODES,
        )
        variable = backend.CONTAINER_VISIBLE_DEVICES
        if variable is not None and not isinstance(variable, Unknown):
            message = say("{message}, and its runtime reads {variable}", message=message, variable=variable)
        return noted(message, context.target.row("tools", "nvidia-docker").remark)

    def _commands(self, context: Context) -> Iterator[tuple[int, int, str]]:
        for command in commands_of(context):
            programs = {word.value.rpartition("/")[2].lstrip("@-") for word in command.words[:4]}
            runs = bool(_RUNTIMES & programs)
            if not runs and not _NV_RUNTIMES & programs:
                continue
            for index, word in enumerate(command.words):
                following = command.words[index + 1] if index + 1 < len(command.words) else None
                if not runs:
                    if word.text == "--nv":
                        yield word.start, word.end, word.text
                elif _OPTION.match(word.value):
                    yield word.start, word.end, word.text
                elif following is not None and _OPTION.match(f"{word.value}={following.value}"):
                    yield word.start, following.end, f"{word.text} {following.text}"

    def _settings(self, context: Context) -> Iterator[tuple[int, int, str]]:
        for setting in settings(context.kind, context.text):
            key, value = setting.key, setting.value
            if (
                (value == "nvidia" and key in ("runtime", "driver", "default-runtime", "runtimeClassName"))
                or (key == "capabilities" and value == "gpu")
                or (key == "gpus" and context.kind is Kind.COMPOSE)
                or (key == "devices" and value.startswith(("/dev/nvidia", "nvidia.com/")))
                or (key.startswith("nvidia.com/gpu") and {"limits", "requests", "resources"} & set(setting.path))
            ):
                yield setting.start, setting.end, f"{key}: {value}"
