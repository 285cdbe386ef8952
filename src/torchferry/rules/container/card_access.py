"""Cards given to a container the NVIDIA way: `docker run --gpus all`, `runtime: nvidia`.

The option asks for NVIDIA's container runtime. The vendor has a runtime of its own, or the device nodes and the driver
are mounted by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import COMMAND_KINDS, commands_of
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings


class CardAccess(Rule):
    """Finds options that give NVIDIA cards to a container."""

    CODE = "CNT102"
    CHINESE = """以 NVIDIA 的方式把卡交给容器：`docker run --gpus all`、`runtime: nvidia`。

该选项需要 NVIDIA 的容器运行时。厂商有自己的运行时，或需手工挂载设备节点与驱动。
"""
    WORDS = ("--gpus", "nvidia", "gpu")
    KINDS = (*COMMAND_KINDS, Kind.COMPOSE)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        places = self._compose(context) if context.kind is Kind.COMPOSE else self._commands(context)
        for start, end in places:
            yield self.finding(context, (start, end), self._message(context, start, end), Grade.MANUAL)

    def _message(self, context: Context, start: int, end: int) -> Message:
        backend = context.target.backend
        message = say(
            "`{found}` gives NVIDIA cards to the container; {target} has device nodes {nodes}",
            found=context.text[start:end],
            target=context.target.title,
            nodes=backend.DEVICE_NODES,
        )
        variable = backend.CONTAINER_VISIBLE_DEVICES
        if variable is not None and not isinstance(variable, Unknown):
            message = say("{message}, and its runtime reads {variable}", message=message, variable=variable)
        return noted(message, context.target.row("tools", "nvidia-docker").remark)

    def _commands(self, context: Context) -> Iterator[tuple[int, int]]:
        for command in commands_of(context):
            if not {"docker", "podman", "nvidia-docker", "docker-compose"} & {w.value for w in command.words[:2]}:
                continue
            for index, word in enumerate(command.words):
                following = command.words[index + 1] if index + 1 < len(command.words) else None
                if word.text == "--gpus" and following is not None:
                    yield word.start, following.end
                elif word.text.startswith("--gpus=") or word.value == "--runtime=nvidia":
                    yield word.start, word.end
                elif word.text == "--runtime" and following is not None and following.value == "nvidia":
                    yield word.start, following.end

    def _compose(self, context: Context) -> Iterator[tuple[int, int]]:
        for setting in settings(context.kind, context.text):
            nvidia = setting.value == "nvidia" and setting.key in ("runtime", "driver", "default-runtime")
            if nvidia or (setting.key == "capabilities" and setting.value == "gpu"):
                yield setting.start, setting.end
