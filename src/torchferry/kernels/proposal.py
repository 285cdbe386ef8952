"""The project's own names with CUDA in them, as a file of rules that the user edits and passes back."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say
from torchferry.kernels.ported_tree import PortedTree

_MOST_PLACES = 6
_MOST_NAMES = 200


def proposed_name(name: str, device: str) -> str:
    """Return a name with the device in place of CUDA: `MMCV_WITH_CUDA` -> `MMCV_WITH_MUSA` for `musa`."""
    return name.replace("CUDA", device.upper()).replace("Cuda", device.capitalize()).replace("cuda", device)


def proposal(ported: PortedTree, lang: str) -> str:
    """Return the rules that the project may need, as TOML: what its build sets first, the rest commented out."""
    return "\n".join(_lines(ported, lang)) + "\n"


def _lines(ported: PortedTree, lang: str) -> Iterator[str]:
    device = ported.target.backend.DEVICE_TYPE
    yield "# " + say("names of the project that have CUDA in them; edit, then pass the file back with --map").render(
        lang
    )
    yield "[names]"
    for name, places in sorted(ported.guards.items()):
        shown = ", ".join(f"{path}:{line}" for path, line in places[:_MOST_PLACES])
        more = f" (+{len(places) - _MOST_PLACES})" if len(places) > _MOST_PLACES else ""
        yield "# " + say(
            "used in conditions at {places}; define the new name where the build defines the old one",
            places=shown + more,
        ).render(lang)
        use = proposed_name(name, device)
        yield f'{name} = "{use}"' if use != name else f'# {name} = ""'
    most = sorted(ported.own_names.items(), key=lambda item: (-item[1], item[0]))  # the same order in each run
    others = [(name, count) for name, count in most[:_MOST_NAMES] if name not in ("cuda", "is_cuda")]
    if others:
        yield ""
        yield "# " + say("names that the project defines itself: they work as they are").render(lang)
    for name, count in others:
        yield f'# {name} = "{proposed_name(name, device)}"  # {count}'
