"""A command line in Python: `os.system("CUDA_VISIBLE_DEVICES=0 python x.py")`, `subprocess.run([...])`.

The rules for scripts read what a program passes to `os.system`, `os.popen`, `subprocess`, or a shell of `asyncio` or
IPython:
variables of CUDA, `--device cuda`, launchers, packages that are installed. Assembled strings are read as far as the
file contains them: f-strings, `%`, `.format`, sums, lists, variables, and what the file gives to a function that
starts its argument. Only literal text of the file is rewritten. Programs of CUDA are PRC101.

Why: The command that the program starts requests CUDA, although the rest was migrated.

References:
- table env
- table tools
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.rules.base import Context, PythonContext, Rule
from torchferry.rules.config.attention_setting import AttentionSetting
from torchferry.rules.config.compile_setting import CompileSetting
from torchferry.rules.config.loader_setting import LoaderSetting
from torchferry.rules.container.card_access import CardAccess
from torchferry.rules.dependencies.cuda_build import CudaBuild
from torchferry.rules.dependencies.install_command import InstallCommand
from torchferry.rules.device.strings import literal_span
from torchferry.rules.environment.shell_environment import ShellEnvironment
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import Portability
from torchferry.rules.library.bitsandbytes_settings import BitsandbytesSettings
from torchferry.rules.shell.device_option import DeviceOption
from torchferry.rules.shell.embedded_python import EmbeddedPython, code_for_python
from torchferry.rules.shell.framework_option import FrameworkOption
from torchferry.rules.shell.launcher_option import LauncherOption
from torchferry.source.kinds import Kind
from torchferry.source.python_commands import started_commands
from torchferry.source.text import SourceText

_RULES: tuple[Rule, ...] = (
    ShellEnvironment(),
    DeviceOption(),
    LauncherOption(),
    CardAccess(),
    EmbeddedPython(),
    FrameworkOption(),
    InstallCommand(),
    CudaBuild(),
    BitsandbytesSettings(),
    CompileSetting(),
    AttentionSetting(),
    LoaderSetting(),
)


class CommandInPython(Rule):
    """Finds command lines in Python that mean CUDA."""

    CODE = "SHL105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("check the command"),)
    PORTABILITY = Portability.DECIDES
    WORDS = ("os.system", "os.popen", "subprocess", "create_subprocess", "import system", "import popen", "get_ipython")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield what the rules for scripts find in the command lines."""
        code = [
            self.finding(context, literal_span(context, node), _in_python(message), Grade.MANUAL)
            for node, message in code_for_python(context)
            if exemption_reason(context, node) is None
        ]
        yield from code
        view, started_calls = started_commands(context.file, context.names)
        text = "\n".join(f" {line} " for line in map(str.strip, view.split("\n")) if line)
        rules = [rule for rule in _RULES if any(word in text for word in rule.words(context.target, context.options))]
        if not rules:  # ahead of what else decides about a call, which may lead into other files
            return
        commands = [
            command
            for started in started_calls
            if exemption_reason(context, started.call) is None
            for command in started.commands
        ]
        if not commands:
            return
        shown = _CommandView(context, view)
        shown.commands = list({command.words[:1] or command.assignments: command for command in commands}.values())
        for rule in rules:
            for finding in rule.check(shown):
                if not isinstance(rule, EmbeddedPython) or not _is_within(finding, code):
                    yield finding._replace(code=self.CODE, message=_in_python(finding.message), blocker=False)


def _in_python(message: Message) -> Message:
    return say("a command line in Python: {message}", message=message)


def _is_within(finding: Finding, others: list[Finding]) -> bool:
    """Whether a finding is at a place that another one speaks of."""
    line = finding.location.line
    return any(other.location.line <= line <= other.location.end_line for other in others)


class _CommandView(Context):
    """The command lines of a Python file, with places as the file counts them."""

    def __init__(self, context: PythonContext, view: str) -> None:
        super().__init__(context.path, Kind.SHELL, SourceText(view), context.target, context.options)
        self._whole = context
        self.project = context.project

    def location(self, start: int, end: int) -> Location:
        """Return the location of a span of offsets in the Python file."""
        return self._whole.location(start, end)

    def snippet(self, start: int, end: int) -> str:
        """Return the text of a span in the Python file, its first line at most."""
        return self._whole.snippet(start, end)
