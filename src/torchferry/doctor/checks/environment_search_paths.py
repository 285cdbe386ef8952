"""Do variables that name folders name the current one, which every program then looks into?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.core.tool_environment import SEARCH_PATHS, absolute_entries
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, warned


@check("environment.search-paths", rank=2, side="host", title=say_in("check", "search paths"))
def environment_search_paths(context: CheckContext) -> Iterator[Result]:
    """Look for empty and relative entries, which torchferry leaves out when it starts something."""
    ok = True
    for name in SEARCH_PATHS:
        value = context.host.environment.get(name, "")
        kept = absolute_entries(value)
        if value and kept != value:
            ok = False
            yield warned(
                say("{name} has an empty or relative entry: {value}", name=name, value=value),
                say(
                    "such an entry depends on the current folder: programs may load files from there; torchferry "
                    "ignores the entry"
                ),
                f"export {name}={shlex.quote(kept)}" if kept else f"unset {name}",
                advice=say("write each folder that programs need as an absolute path"),
            )
    if ok:
        yield passed(say("no search path has an empty or relative entry"))
