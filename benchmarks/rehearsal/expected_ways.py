"""Why a way may do otherwise with a probe than the others: each row leaves some outcomes out of the comparison."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Expected(NamedTuple):
    """Outcomes that are right as they are.

    Attributes:
        probe: Pattern of the probe's name.
        setting: Pattern of the target, with `wheel` where its plugin is the vendor's own.
        way: The way, or `*`.
        outcome: Pattern of what comes of it.
        reason: Why that is right.
    """

    probe: str
    setting: str
    way: str
    outcome: str
    reason: str

    def holds(self, probe: str, setting: str, way: str, outcome: str) -> bool:
        """Whether the row is about an outcome."""
        found = (probe, setting, way, outcome)
        return all(fnmatchcase(text, pattern) for text, pattern in zip(found, self[:4], strict=True))


EXPECTED = (
    Expected("*", "*", "portable", "told*", "portable code has what every plugin has; the report says what is missing"),
    Expected("probe_default_tensor_*", "*", "migrated", "told*", "the default is CUDA's type alone: a person chooses"),
    Expected("probe_names_in_a_dictionary", "*", "migrated", "told*", "the fix is unsafe, and not asked for"),
    Expected("probe_loaded_by_a_table", "*", "migrated", "told*", "which device a file names, its writer knows"),
    Expected("probe_custom_operator", "*", "migrated", "told*", "a kernel registered for CUDA is the program's own"),
    Expected("probe_get_device_capability*", "npu*", "run", "told*", "the plugin answers None, which none expects"),
    Expected(
        "probe_allocator_*_setting", "* wheel", "run", "raises: ValueError: Unrecognized key*",
        "torch itself reads CUDA's variable for every accelerator, and its error names the key",
    ),
    Expected("probe_subgroup_of_bound_device", "npu*", "run", "raises*", "torch has no gloo for a bound card"),
    Expected("probe_flex_attention", "npu", "*", "raises*", "the simulated plugin leaves torch's list alone"),
)  # fmt: skip
