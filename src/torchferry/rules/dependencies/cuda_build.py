"""A CUDA build of torch asked for: `torch==2.1.0+cu118`, an index of CUDA wheels, `pytorch-cuda=11.8`.

It brings gigabytes of CUDA libraries, and some plugins refuse to load beside it. The target wants the CPU build of the
torch version that its plugin names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import COMMAND_KINDS
from torchferry.rules.dependencies.listed import LIST_KINDS

_BUILD = re.compile(
    r"(?P<pin>\btorch(?:vision|audio)?[ \t]*==[ \t]*(?P<version>[\d.]+)\+cu\d+)"
    r"|(?P<index>https?://[^\s\"']*(?:/cu\d{2,3}\b|torch-[\d.]+\+cu\d+)[^\s\"']*)"
)


class CudaBuild(Rule):
    """Finds pins and package indices of torch's CUDA builds."""

    CODE = "DEP102"
    CHINESE = """要求 CUDA 构建的 torch：`torch==2.1.0+cu118`、CUDA wheel 的软件源、`pytorch-cuda=11.8`。

它会带来数 GB 的 CUDA 库，有些插件拒绝与之一起加载。目标平台需要的是插件所指定版本的 CPU 构建。
"""
    WORDS = ("+cu", "/cu1", "/cu9", "/cu2")
    KINDS = (*LIST_KINDS, *COMMAND_KINDS)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each, comments left out."""
        for match in _BUILD.finditer(context.text):
            line = context.text.rfind("\n", 0, match.start()) + 1
            if context.text[line : match.start()].lstrip().startswith("#"):
                continue
            span = match.span()
            if match["index"]:
                message = say(
                    "`{found}` serves CUDA builds; on {target} {install}",
                    found=match["index"],
                    target=context.target.title,
                    install=context.target.install,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            row = context.target.row("versions", f"torch=={match['version']}")
            message = say("`{found}` is a CUDA build", found=match["pin"])
            if row.use:
                message = say(
                    "`{found}` is a CUDA build; on {target} use the CPU build with `{plugin}`",
                    found=match["pin"],
                    target=context.target.title,
                    plugin=row.use,
                )
            yield self.finding(context, span, noted(message, row.remark or context.target.install), Grade.MANUAL)
