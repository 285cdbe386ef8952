"""The profiler: `ProfilerActivity.CUDA`, `use_cuda`, the keys that tables are sorted by."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.autograd import profiler as autograd_profiler

from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.messages import noted, say
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find


def patch(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.profiler` and `torch.autograd.profiler`."""
    activity = _activity(resolver)
    if activity is not None:
        row = resolver.target.api("torch.profiler.profile")
        if row.status in REWRITTEN and row.use not in {"", "torch.profiler.profile"}:
            plugin_profiler = find(row.use)
            if isinstance(plugin_profiler, type) and not hasattr(plugin_profiler, "__getattr__"):
                patches.set(plugin_profiler, "__getattr__", _lacking(row, resolver.target))
            # a view: the plugin's own profiler is built on torch's
            patches.set_view(torch.profiler, "profile", _with_activities(plugin_profiler, activity), policy)
        else:
            for kind in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):
                patches.set(kind, "__init__", _with_activities(kind.__init__, activity))
        supported = _supported(torch.profiler.supported_activities, activity)
        patches.set_view(torch.profiler, "supported_activities", supported, policy)
    older = autograd_profiler.profile
    patches.set(older, "__init__", _with_device(older.__init__, resolver.devices.card))


def _activity(resolver: Resolver) -> Any:
    """Return the replacement of `ProfilerActivity.CUDA`, or None where there is none."""
    row = resolver.target.api("torch.profiler.ProfilerActivity.CUDA")
    if row.status not in REWRITTEN:
        return None
    try:
        return find(row.use)
    except NotThereError:
        return None


def _lacking(row: Row, target: Target) -> Callable[[Any, str], NoReturn]:
    """Return what the plugin's profiler says of what torch's has and it lacks, such as `key_averages`."""
    theirs = frozenset(dir(torch.profiler.profile))

    def lacking(self: Any, name: str) -> NoReturn:
        if name in theirs:
            text = say("{target} has no `{name}`", target=target.title, name=f"{row.name}.{name}")
            raise AttributeError(f"torchferry: {noted(text, row.remark)}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    return lacking


def _supported(original: Callable[[], Any], activity: Any) -> Callable[[], Any]:
    """Return what can be recorded, under the names that `activities` takes."""

    @functools.wraps(original)
    def supported_activities() -> Any:
        activities = set(original())
        records_card = activity in activities or type(activity) is not torch.profiler.ProfilerActivity
        return activities | {torch.profiler.ProfilerActivity.CUDA} if records_card else activities

    return supported_activities


def _translated(activities: Any, activity: Any) -> Any:
    if activities is None:
        return None
    kind = type(activity)
    counterparts = {torch.profiler.ProfilerActivity.CUDA: activity}
    if kind is not torch.profiler.ProfilerActivity:
        counterparts[torch.profiler.ProfilerActivity.CPU] = kind.CPU
    return [counterparts.get(wanted, wanted) for wanted in activities]


def _with_activities(original: Callable[..., Any], activity: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "activities" in kwargs:
            kwargs["activities"] = _translated(kwargs["activities"], activity)
        return original(*args, **kwargs)

    return call


def _with_device(original: Callable[..., Any], card: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None, **kwargs: Any) -> None:
        if use_cuda or use_device == "cuda":
            use_device = card
        original(self, enabled, use_device=use_device, **kwargs)

    return init
