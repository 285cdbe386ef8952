"""Is it the build of torch that the plugin wants? A CUDA build brings code for cards that are not here."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.installing import install_commands
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped, unverified

CODE = "python.torch_build"
RANK = 3
SIDE = "python"
TITLE = say_in("check", "build of torch")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Compare torch's own word for its build with what the vendor wants."""
    if not patient.torch:
        yield skipped(say("there is no torch; see python.torch"))
        return
    wanted = patient.needs.python.build
    values = patient.python.torch or {}
    other = values.get("cuda") or values.get("hip")
    if not wanted:
        yield unverified(say("which build of torch the plugin wants"))
    elif other:
        yield failed(
            say("torch {version} is built for {other}", version=values.get("version"), other=f"CUDA/ROCm {other}"),
            say("the plugin wants the CPU build")
            if wanted == "cpu"
            else say("the plugin wants the vendor's own build of torch"),
            "python -m pip uninstall -y torch",
            *install_commands(patient),
            advice=patient.target.install,
            source=patient.needs.python.source,
        )
    elif wanted == "vendor":
        yield passed(
            say(
                "torch {version} is not built for CUDA; the plugin wants the vendor's own build",
                version=values.get("version"),
            )
        )
    else:
        yield passed(say("torch {version} is not built for CUDA, as the plugin wants", version=values.get("version")))
