"""Programs that do what a card refuses, one line each: what both judges must tell, and what each one tells of it."""

from __future__ import annotations

from typing import NamedTuple


class Refused(NamedTuple):
    """A line that the card refuses.

    Attributes:
        name: Names the line.
        code: The line; `d` is the first device, and a process group of one rank is there.
        subjects: What the summary says of it has one of these, on either judge.
        only: The judge that knows; empty for both.
    """

    name: str
    code: str
    subjects: tuple[str, ...]
    only: str = ""


REFUSED = (
    Refused("a dtype that the collective library lacks",
            "dist.all_reduce(torch.ones(4, dtype=torch.float64, device=d))", ("float64", "at::kDouble")),
    Refused("a tensor that is not contiguous, in a collective",
            "dist.all_reduce(torch.ones(4, 6, device=d).t())", ("contiguous",), only="plugin"),
    Refused("a name that the plugin lacks", "torch.npu.nvtx.range_push('a')", ("torch.npu.nvtx",)),
    Refused("a device that is not there", "torch.npu.set_device(5)", ("device ordinal 5", "SetDevice")),
    Refused("properties of a device that is not there", "torch.npu.get_device_properties(7)", ("Invalid device id",)),
    Refused("a generator of the CPU for numbers on the card",
            "torch.rand(3, device=d, generator=torch.Generator('cpu'))", ("generator but found 'cpu'",)),
    Refused("tensors of two devices in one operator", "torch.ones(3, device=d) + torch.ones(3)", ("aten::add",)),
    Refused("a module that the plugin lacks", "import torch_npu.nothing_of_it", ("torch_npu.nothing_of_it",)),
    Refused("a tensor on the CPU in a collective", "dist.all_reduce(torch.ones(2))", ("hccl", "device type")),
    Refused("a dtype that no kernel of the card has",
            "torch.ones(2, device=d).to(torch.complex32).to(torch.complex128) @ 3", ()),
)[:-1]  # fmt: skip


def program(judge: str) -> tuple[str, dict[int, Refused]]:
    """Return a program that does all of them and catches what is raised, and which line has which."""
    lines = [
        "import tempfile, torch, torch_npu",
        "import torch.distributed as dist",
        "d = torch.device('npu:0')",
        "dist.init_process_group('hccl', init_method='file://' + tempfile.mktemp(), rank=0, world_size=1)",
    ]
    places: dict[int, Refused] = {}
    for refused in REFUSED:
        if refused.only in ("", judge):
            places[len(lines) + 2] = refused
            lines += ["try:", f"    {refused.code}", "except Exception as error:", "    print(type(error).__name__)"]
    return "\n".join(lines) + "\n", places
