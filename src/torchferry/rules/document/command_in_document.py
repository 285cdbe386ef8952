"""A command in a README that the target does not understand: `pip install flash-attn`, `--device cuda`, `nvidia-smi`.

Only code blocks and lines with a `$` prompt are looked at, and never the prose. The commands are reported, and
rewritten when that is asked for with `--rewrite-documents`, by the rules for scripts.

Why: A reader who follows the document on the target installs packages or starts commands that fail.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.config.attention_setting import AttentionSetting
from torchferry.rules.config.loader_setting import LoaderSetting
from torchferry.rules.container.base_image import BaseImage
from torchferry.rules.container.card_access import CardAccess
from torchferry.rules.container.system_package import SystemPackage
from torchferry.rules.dependencies.cuda_build import CudaBuild
from torchferry.rules.dependencies.install_command import InstallCommand
from torchferry.rules.environment.shell_environment import ShellEnvironment
from torchferry.rules.library.bitsandbytes_settings import BitsandbytesSettings
from torchferry.rules.process.shell_program import ShellProgram
from torchferry.rules.shell.device_option import DeviceOption
from torchferry.rules.shell.embedded_python import EmbeddedPython
from torchferry.rules.shell.framework_option import FrameworkOption
from torchferry.rules.shell.launcher_option import LauncherOption
from torchferry.rules.shell.video_codec import VideoCodec
from torchferry.source.kinds import Kind
from torchferry.source.markdown import command_view
from torchferry.source.text import SourceText

_RULES: tuple[Rule, ...] = (
    ShellEnvironment(),
    ShellProgram(),
    DeviceOption(),
    LauncherOption(),
    CardAccess(),
    BaseImage(),
    SystemPackage(),
    EmbeddedPython(),
    FrameworkOption(),
    InstallCommand(),
    CudaBuild(),
    BitsandbytesSettings(),
    AttentionSetting(),
    LoaderSetting(),
    VideoCodec(),
)


class CommandInDocument(Rule):
    """Finds commands in documents that mean CUDA."""

    CODE = "DOC101"
    EFFECT = Effect.RAISES
    KINDS = (Kind.MARKDOWN,)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The words of the rules for scripts."""
        return tuple(sorted({word for rule in _RULES for word in rule.words(target, options)}))

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield what the rules for scripts find in the code blocks."""
        view = SourceText(command_view(context.text))
        commands = Context(context.path, Kind.SHELL, view, context.target, context.options)
        spoken_of = [
            rule for rule in _RULES if any(word in view.text for word in rule.words(context.target, context.options))
        ]
        for rule in spoken_of:
            for finding in rule.check(commands):
                message = say("a command in a document: {message}", message=finding.message)
                rewritten = context.options.rewrite_documents
                yield finding._replace(
                    code=self.CODE,
                    message=message,
                    grade=finding.grade if rewritten else Grade.NOTE,
                    edits=finding.edits if rewritten else (),
                    blocker=False,
                    effect=finding.effect if rewritten else Effect.UNKNOWN,  # nobody may run it
                )
