"""A seeded generator of the device, in code for every device: `torch.Generator("cuda").manual_seed(seed)`.

`migrate --style portable` writes `device_utils.create_generator(seed)`. It is a generator of the device, or of the CPU
where there is no accelerator; where a device has none it says so, and what to do instead. A generator of a numbered
card, one that is seeded elsewhere, and one of a device that a variable names stay as they are, with their device
rewritten. The numbers differ from those of a CUDA card on every other vendor's.

Why: Not every device has generators, and torch's own error does not say what to do instead.

References:
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.exemptions import exemption_reason

_NAME = "create_generator"


class PortableGenerator(Rule):
    """Finds generators of the device that are seeded where they are created."""

    CODE = "RNG104"
    EFFECT = Effect.RAISES
    WORDS = ("Generator",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where one vendor's names are written."""
        return self.WORDS if writes_manager(target) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for _, generator, seeded in seeded_generators(context):
            start, _ = context.file.span(seeded)
            opening = context.text.index("(", context.file.span(generator)[1])
            use = f"{context.target.module}.{_NAME}"
            message = say(
                "`{found}` is `{use}` on every device",
                found="torch.Generator(...).manual_seed",
                use=use,
            )
            edits = [Edit(start, opening, use)]
            imports = portable_imports(context)
            yield self.finding(context, (start, opening), message, Grade.SAFE, edits, imports=imports)


def writes_manager(target: Target) -> bool:
    """Whether functions of the device manager can be written: the portable names of torch itself have none."""
    return bool(target.module) and not target.module.startswith("torch.")


def seeded_generators(context: PythonContext) -> Iterator[tuple[ast.Constant, ast.Call, ast.Call]]:
    """Yield the device string, the generator and the whole call of each `torch.Generator("cuda").manual_seed(seed)`."""
    if not writes_manager(context.target):
        return
    for name, generator in calls_to(context):
        if name != "torch.Generator":
            continue
        keyword = keyword_of(generator, "device")
        device = generator.args[0] if generator.args else keyword.value if keyword is not None else None
        attribute = context.file.parents.get(generator)
        seeded = context.file.parents.get(attribute) if attribute is not None else None
        if (
            isinstance(device, ast.Constant)
            and device.value == "cuda"
            and len(generator.args) + len(generator.keywords) == 1
            and isinstance(attribute, ast.Attribute)
            and attribute.attr == "manual_seed"
            and isinstance(seeded, ast.Call)
            and seeded.func is attribute
            and len(seeded.args) == 1
            and not seeded.keywords
            and not isinstance(seeded.args[0], ast.Starred)
            and "#" not in context.text[slice(*context.file.span(attribute))]
            and exemption_reason(context, device) is None
        ):
            yield device, generator, seeded


def is_seeded_generator(context: PythonContext, node: ast.AST) -> bool:
    """Whether a device string goes with the generator that it is given to."""
    return any(device is node for device, _, _ in seeded_generators(context))
