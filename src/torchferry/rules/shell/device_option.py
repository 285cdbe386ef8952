"""A device or a collective backend given to a program as an option: `--device cuda:0`, `--dist-backend nccl`.

The program's own code names the target's device after the migration, so the scripts that start it must too. An option
counts when its name says that it takes a device (`--device`, `--map-location`, `trainer.device=`) or a backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import COMMAND_KINDS, commands_of, options, prints_text
from torchferry.source.lexicon import COLLECTIVE_SPELLING, DEVICE_SPELLING, lexicon


class DeviceOption(Rule):
    """Finds options of commands whose value is a CUDA device or NCCL."""

    CODE = "SHL101"
    CHINESE = """以选项给程序的设备或集合通信后端：`--device cuda:0`、`--dist-backend nccl`。

迁移后程序自己的代码使用目标平台的设备名，启动它的脚本也必须如此。选项名表明它接受设备（`--device`、
`--map-location`、`trainer.device=`）或后端时才改写。
"""
    WORDS = ("cuda", "nccl")
    KINDS = COMMAND_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        target = context.target
        for command in commands_of(context):
            if prints_text(command):
                continue
            for name, value, start in options(command):
                if DEVICE_SPELLING.match(value) and lexicon("device").names(name):
                    old, new = cuda.DEVICE_TYPE, target.backend.DEVICE_TYPE
                elif COLLECTIVE_SPELLING.match(value) and lexicon("collective").names(name):
                    old, new = value, target.backend.COLLECTIVE
                else:
                    continue
                message = say(
                    "option `{name}` is given `{value}`; on {target} it is `{use}`",
                    name=name,
                    value=value,
                    target=target.title,
                    use=new + value[len(old) :],
                )
                span = (start, start + len(value))
                yield self.finding(context, span, message, Grade.SAFE, [Edit(start, start + len(old), new)])
