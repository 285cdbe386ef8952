"""Is it the build of torch that the plugin wants? A CUDA build brings code for cards that are not here."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.installing import install_commands
from torchferry.doctor.result import Result, failed, passed, skipped, unverified


@check("python.torch_build", rank=3, side="python", title=say_in("check", "build of torch"), needs_card=True)
def python_torch_build(context: CheckContext) -> Iterator[Result]:
    """Compare torch's own word for its build with what the vendor wants."""
    if not context.torch:
        yield skipped(say("there is no torch; see python.torch"))
        return
    wanted = context.requirements.python.build
    values = context.python.torch or {}
    other = values.get("cuda") or values.get("hip")
    if not wanted:
        yield unverified(say("which build of torch the plugin needs"))
    elif other:
        yield failed(
            say("torch {version} is built for {other}", version=values.get("version"), other=f"CUDA/ROCm {other}"),
            say("the plugin needs the CPU build")
            if wanted == "cpu"
            else say("the plugin needs the vendor's own build of torch"),
            "python -m pip uninstall -y torch",
            *install_commands(context),
            advice=context.target.install,
            source=context.requirements.python.source,
        )
    elif wanted == "vendor":
        yield passed(
            say(
                "torch {version} is not built for CUDA; the plugin needs the vendor's own build",
                version=values.get("version"),
            )
        )
    else:
        yield passed(
            say("torch {version} is not built for CUDA, as the plugin requires", version=values.get("version"))
        )
