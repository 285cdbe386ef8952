"""Cards passed to a container with NVIDIA's options: `docker run --gpus all`, `runtime: nvidia`, `nvidia.com/gpu: 1`.

So do the settings of tools that build or start containers: `gpu: true` and `cuda: "12.1"` in `cog.yaml`,
`cuda_version` in `bentofile.yaml`, `use_gpu` and `accelerator` of Truss, `accelerators` of SkyPilot, `runArgs` in
`devcontainer.json`, and labels by which Kubernetes chooses a node, `nvidia.com/gpu.product: A100`.

The option needs NVIDIA's container runtime. The vendor has its own runtime, or the device nodes and the driver are
mounted by hand.

Why: Docker refuses the option without NVIDIA's runtime, or the container starts without a card.

References:
- table tools
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, is_of_service
from torchferry.source.kinds import Kind
from torchferry.source.setting import Setting
from torchferry.source.settings import settings

_RUNTIMES = frozenset({"docker", "podman", "nerdctl", "nvidia-docker", "docker-compose"})
_NV_RUNTIMES = frozenset({"singularity", "apptainer"})
_OPTION = lazy_regex(r"--gpus=.|--runtime=nvidia\Z|--device=(?:/dev/nvidia|nvidia\.com/)")


class CardAccess(Rule):
    """Finds options that give NVIDIA cards to a container."""

    CODE = "CNT102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("give it the target's cards"),)
    WORDS = ("nvidia", "gpu", "--nv", "cuda:", "cuda_version", "accelerator")
    KINDS = (*JOB_KINDS, Kind.JSON)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        if context.kind is Kind.JSON:
            places = {*self._development(context)}
        else:
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
                or _selects_node(setting)
                or _of_builder(context.path, setting)
            ):
                yield setting.start, setting.end, f"{key}: {value}"

    def _development(self, context: Context) -> Iterator[tuple[int, int, str]]:
        """Yield the options that an editor gives to the container of `devcontainer.json`."""
        if not context.path.rpartition("/")[2].endswith("devcontainer.json"):
            return
        for setting in settings(context.kind, context.text):
            if setting.key == "runArgs" and (_OPTION.match(setting.value) or setting.value == "--gpus"):
                yield setting.start, setting.end, setting.value


def _selects_node(setting: Setting) -> bool:
    """Whether a setting of Kubernetes asks for a node with NVIDIA cards, by a label or by what must match one."""
    if "nodeSelector" in setting.path[:-1]:
        return setting.key.startswith("nvidia.com/") or setting.value.lower().startswith("nvidia")
    return setting.key == "key" and "matchExpressions" in setting.path and setting.value.startswith("nvidia.com/")


def _of_builder(path: str, setting: Setting) -> bool:
    """Whether a setting of a tool that builds or starts containers asks for a card of NVIDIA, or for CUDA in it."""
    value = setting.value.lower()
    if value in _NO:
        return False
    keys = _BUILDERS.get(path.rpartition("/")[2], ())
    if setting.path in keys:
        return True
    if setting.path[-2:] in _RESOURCES:
        return setting.key == "use_gpu" or _NVIDIA_CARD.match(setting.value) is not None
    return False


_NO = frozenset({"", "false", "no", "off", "none", "null", "~", "0"})
_BUILDERS = {
    "cog.yaml": (("build", "gpu"), ("build", "cuda"), ("build", "cudnn")),
    "bentofile.yaml": (("docker", "cuda_version"), ("resources", "gpu"), ("service", "resources", "gpu")),
}
"""Files of tools, and the paths of their settings that mean CUDA."""

_RESOURCES = (
    ("resources", "use_gpu"),
    ("resources", "accelerator"),
    ("resources", "accelerators"),
    ("resources", "gpu_type"),
)
_NVIDIA_CARD = lazy_regex(
    r"\{?[\"' ]*(?:nvidia-)?(?:[ABHLTVPK]\d{1,3}[A-Za-z]?\b|[GB]B?200\b|RTX|tesla)", re.IGNORECASE
)
"""A card of NVIDIA by its name: `A100:8`, `H100`, `L40S`, `nvidia-tesla-t4`."""
