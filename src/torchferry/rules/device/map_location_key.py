"""A `map_location` dictionary whose keys name CUDA devices: `{"cuda:0": "cuda:%d" % rank}`.

The keys name the devices from which the tensors in the file were saved. For a checkpoint from a CUDA machine they are
right as they are. One that the migrated program saves names the target's device, finds no key, and is loaded to where
it was saved from: every process loads to the first card. Write both keys, or `map_location="cpu"`.

Why: With several processes, all of them load the checkpoint to the first card, which may run out of memory.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value
from torchferry.source.lexicon import DEVICE_SPELLING


class MapLocationKey(Rule):
    """Finds keys of `map_location` that name CUDA devices."""

    CODE = "DEV108"
    EFFECT = Effect.WRONG
    WORDS = ("map_location",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each dictionary, at its first such key."""
        for keyword in context.file.keywords.get("map_location", ()):
            if not isinstance(keyword.value, ast.Dict) or exemption_reason(context, keyword) is not None:
                continue
            device = context.target.backend.DEVICE_TYPE
            named = {string_value(key) or "" for key in keyword.value.keys}
            for key in keyword.value.keys:
                spelling = string_value(key)
                if key is None or spelling is None or not DEVICE_SPELLING.match(spelling):
                    continue
                use = device + spelling[len(cuda.DEVICE_TYPE) :]
                if use in named:
                    break
                message = say(
                    "the key `{found}` names the device in the file; a checkpoint saved on {target} names `{use}`",
                    found=spelling,
                    target=context.target.title,
                    use=use,
                )
                yield self.finding(context, context.file.span(key), message, Grade.MANUAL)
                break
