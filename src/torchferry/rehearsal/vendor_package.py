"""The former name of `facade_support`: packages of vendors that are written to it go on to work."""

from torchferry.rehearsal.facade_support import (
    Switches,
    add_profiler_activity,
    become,
    extensions_unavailable,
    missing,
    redirect,
    round_products,
    start,
    stated_version,
    stubs,
)

__all__ = [
    "Switches",
    "add_profiler_activity",
    "become",
    "extensions_unavailable",
    "missing",
    "redirect",
    "round_products",
    "start",
    "stated_version",
    "stubs",
]
