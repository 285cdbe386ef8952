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


_PORTABLE = {
    "a type of tensors or storages has no portable name": (
        "probe_default_tensor_*", "probe_storage_class", "probe_tensor_class_with_*", "probe_type_*",
    ),
    "a storage moves by the vendor's method alone": ("probe_*typed_storage", "probe_cuda_of_*Storage*"),
    "the method `cuda` as a value has no portable name": (
        "probe_getattr", "probe_map_over_tensors", "probe_method_in_a_variable",
    ),
    "a pattern of `match` takes literals alone": ("probe_device_is_matched",),
    "portable names are those that most plugins have": (
        "probe_ExternalStream*", "probe_StreamContext*", "probe_external_stream", "probe_stream_handle",
        "probe_allocator", "probe_caching_allocator_*", "probe_get_allocator_backend*", "probe_default_generators",
        "probe_memory_fraction", "probe_get_per_process_memory_fraction*",
        "probe_peer", "probe_can_device_access_peer*",
        "probe_sync_mode", "probe_*et_sync_debug_mode*",
        "probe_current_blas_handle*", "probe_reset_*_host_memory_stats*", "probe_utilization*",
    ),
    "portable names are public ones": ("probe_memory_history",),
    "pools of memory have no portable name": ("probe_MemPool*", "probe_use_mem_pool*"),
}  # fmt: skip
"""Why portable code has no name for something, and the probes that ask for it: the report says so."""

_UNVERIFIED = (
    "probe_allocator", "probe_default_generators", "probe_external_stream", "probe_group_of_both", "probe_lazy_call",
    "probe_memory", "probe_memory_*", "probe_out_of_memory", "probe_nvtx", "probe_peer", "probe_storage_class",
    "probe_stream_handle", "probe_sync_mode", "probe_tensor_class_with_*", "probe_type_*",
)  # fmt: skip
"""Probes of names that nobody has verified on a plugin that is not public."""

_PTEX = {
    "the plugin has no types of tensors, and no method in place of `cuda`: a person writes dtype and device": (
        ("migrated", "told*", ("probe_type_*", "probe_map_over_tensors", "probe_method_in_*", "probe_getattr")),
    ),
    "the fix is unsafe, and not asked for": (
        ("migrated", "told*", ("probe_saved_and_loaded", "probe_loaded_by_a_function")),
    ),
    "the plugin has its own torch.distributed, for which portable code has no name": (
        ("portable", "told*", ("probe_barrier",)),
    ),
    "portable code tries the dtype, and says 0 of a figure that is not told; the plugin has no such function": (
        ("portable", "true", ("probe_bf16", "probe_bf16_emulated")),
        ("portable", "[[]false, false]", ("probe_memory",)),
        ("portable", "[[]true, false]", ("probe_memory_stats",)),
    ),
    "the plugin has no streams, and answers so; the redirect has the name, which raises when it is called": (
        ("portable", "[[]true, false, true]", ("probe_hasattr",)),
    ),
    "the plugin has no namespace in place of torch.cuda: a person decides what is asked": (
        ("migrated", "told*", ("probe_hasattr",)),
    ),
    "the plugin has its own mixed precision, and torch's is one for a person": (
        ("migrated", "told*", ("probe_autocast_questions",)),
    ),
    "torch 1.10, which the plugin is for, takes a number for CUDA's device; a later one asks which card it knows": (
        ("run", "raises: RuntimeError: Cannot access accelerator*", ("probe_device_from_number",)),
    ),
    "torch 1.10, which the plugin is for, asks for CUDA alone; a later one asks for `torch.xla`": (
        ("*", "raises: AttributeError: module 'torch' has no attribute 'xla'", ("probe_checkpoint",)),
    ),
    "the plugin raises no error of torch's own class, so `except` catches nothing": (
        ("run", "raises: RuntimeError: [[]enforce fail*", ("probe_out_of_memory",)),
    ),
    "torch leaves the device out, and its own error names the argument or the device": (
        ("run", "raises: BufferError: Cannot pack tensors on xla*", ("probe_dlpack",)),
        ("run", "raises: RuntimeError: `fused=True` requires*", ("probe_fused_optimizer",)),
        ("run", "raises: RuntimeError: pin_memory=True requires*", ("probe_made_pinned",)),
        ("run", "raises: NotImplementedError: Could not run*PyTorch itself makes no such*", ("probe_sparse",)),
    ),
}  # fmt: skip
"""Why a way does otherwise on a plugin for an old torch with device type `xla`: way, outcome, and the probes."""

EXPECTED = (
    *(
        Expected(probe, "ptex", way, outcome, reason)
        for reason, rows in _PTEX.items()
        for way, outcome, probes in rows
        for probe in probes
    ),
    *(Expected(probe, "*", "portable", "told*", reason) for reason, probes in _PORTABLE.items() for probe in probes),
    *(
        Expected(probe, "sdaa", way, "told*", "the fix is unsafe, and not asked for; the redirect tries the name")
        for probe in _UNVERIFIED
        for way in ("migrated", "portable")
    ),
    Expected("probe_default_tensor_*", "*", "migrated", "told*", "the default is CUDA's type alone: a person chooses"),
    *(
        row
        for way in ("migrated", "portable")
        for row in (
            Expected("probe_names_in_a_dictionary", "*", way, "told*", "the fix is unsafe, and not asked for"),
            Expected("probe_loaded_by_a_table", "*", way, "told*", "which device a file names, its writer knows"),
            Expected("probe_custom_operator", "*", way, "told*", "a kernel registered for CUDA is the program's own"),
        )
    ),
    *(
        Expected("probe_nvtx", target, "migrated", "told*", "the redirect makes marks, and code makes none")
        for target in ("musa", "ptex")
    ),
    Expected("probe_memory", "gcu", "migrated", "told*", "the redirect leaves ipc_collect out; code is for a person"),
    Expected("probe_get_device_capability*", "npu*", "run", "told*", "the plugin answers None, which none expects"),
    Expected(
        "probe_allocator_*_setting", "* wheel", "run", "raises: ValueError: Unrecognized key*",
        "torch itself reads CUDA's variable for every accelerator, and its error names the key",
    ),
    *(
        Expected("probe_subgroup_of_bound_device", target, "*", "raises*", "torch has no gloo for a bound card")
        for target in ("npu*", "musa*", "gcu*", "sdaa*")
    ),
    *(
        Expected("probe_flex_attention", target, "*", "*", "the simulated plugin leaves torch's list alone")
        for target in ("npu", "musa", "gcu", "sdaa", "ptex")
    ),
    *(
        Expected("probe_processors", "sdaa", way, "raises: AttributeError*", "the fields are not published")
        for way in ("migrated", "portable")
    ),
    Expected("probe_Event*", "sdaa", "*", "raises: TypeError*", "the simulated class is one that nobody has read"),
)  # fmt: skip
