"""Comparison of operators with the CPU, and the search for NaN: torchferry's own tools, by the vendor's names.

Source: torch_musa/utils/compare_tool.py, the same from v2.0.0 to 2.7.1: names, arguments and results. What the tools
print is torchferry's. A call that fails is left as a folder of torchferry's (`torchferry replay`), and as the manual's
two files (9.1.5), `<operator>_inputs.pkl` and `<operator>_outputs.pkl`; the functions that take the first take both.
"""

import pickle as _pickle
import re as _re
from pathlib import Path as _Path

import torch as _torch
from torch.utils import _pytree

from torchferry import numerics as _numerics
from torchferry.core.messages import say as _say
from torchferry.numerics import ModuleInfo, open_module_tracker
from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)
__all__ = [
    "CompareWithCPU",
    "ModuleInfo",
    "NanInfTracker",
    "compare_for_single_op",
    "nan_inf_track_for_single_op",
    "open_module_tracker",
]

_DEVICE = "musa"
_INPUTS = _re.compile(r"torch\.ops\.(?P<operator>\w+\.\w+?(?:\.\w+)?)_inputs(?:_rank\d+)?\.pkl")


def _refuse_others(owner, others):
    """Raise for arguments that the plugin does not take; its manual prints one of them."""
    for name in others:
        problem = f"{owner}.__init__() got an unexpected keyword argument {name!r}"
        if name == "target_op":
            problem += ": " + str(_say("no version of torch_musa takes it, though its manual does; write target_list"))
        raise _events.refusal(TypeError(problem))


class CompareWithCPU(_numerics.CompareWithCPU):
    """Compares operators with the CPU, with the arguments of the plugin's."""

    def __init__(
        self,
        enabled=True,
        atol=0.001,
        rtol=0.001,
        target_list=None,
        white_list=None,
        dump_error_data=False,
        verbose=True,
        enable_ranks=None,
        should_log_to_file=False,
        output_dir="",
        start_step=None,
        end_step=None,
        **others,
    ):
        _refuse_others("CompareWithCPU", others)
        super().__init__(
            atol=atol,
            rtol=rtol,
            verbose=verbose,
            enabled=enabled,
            target_list=target_list,
            white_list=white_list,
            start_step=start_step,
            end_step=end_step,
            should_log_to_file=should_log_to_file,
            output_dir=output_dir or ".",
            enable_ranks=enable_ranks,
            dump_error_data=dump_error_data,
        )

    def _write_call(self, folder, call, verdict):
        """Write the call as torchferry's folder and as the manual's files, and return where it is, or why it is not."""
        where = super()._write_call(folder, call, verdict)
        try:
            _write_files(_Path(folder), call)
        except (OSError, TypeError, AttributeError, RuntimeError, _pickle.PicklingError) as error:
            return _say("{first}; {second}", first=where, second=_say("no .pkl files: {error}", error=error))
        return where


def _write_files(folder, call):
    """Write the inputs and the results of a call by the manual's names; nothing where one cannot be pickled."""
    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    values = [result.fetched.tensor for result in call.results]
    stem = f"torch.ops.{call.operator.name.removesuffix('.default')}"
    contents = {"inputs": {"args": tuple(args), "kwargs": kwargs}, "outputs": values[0] if len(values) == 1 else values}
    pickled = {folder / f"{stem}_{kind}.pkl": _pickle.dumps(value) for kind, value in contents.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in pickled.items():
        path.write_bytes(data)


class NanInfTracker(_numerics.NanInfTracker):
    """Says where NaN and infinities come from, with the arguments of the plugin's."""

    def __init__(
        self,
        enabled=True,
        target_list=None,
        white_list=None,
        enable_ranks=None,
        should_log_to_file=False,
        output_dir="",
        dump_error_data=False,
        start_step=None,
        end_step=None,
        **others,
    ):
        _refuse_others("NanInfTracker", others)
        super().__init__(
            enabled,
            target_list=target_list,
            white_list=white_list,
            enable_ranks=enable_ranks,
            should_log_to_file=should_log_to_file,
            output_dir=output_dir or ".",
            dump_error_data=dump_error_data,
            start_step=start_step,
            end_step=end_step,
        )


def compare_for_single_op(inputs_data_save_path, op_func, atol, rtol):
    """Run an operator on written inputs and compare it with the CPU: whether it is right, arguments, and its result."""
    return _numerics.compare_for_single_op(_written(inputs_data_save_path), op_func, atol, rtol, device=_DEVICE)


def nan_inf_track_for_single_op(inputs_data_save_path, op_func):
    """Run an operator on written inputs: whether NaN or Inf is in them or in its result, arguments, and the result."""
    _, args, kwargs, out = _numerics.nan_inf_track_for_single_op(
        _written(inputs_data_save_path), op_func, device=_DEVICE
    )
    values = [value for value in _pytree.tree_leaves((args, kwargs, out)) if isinstance(value, _torch.Tensor)]
    return not all(bool(_torch.isfinite(value).all()) for value in values), args, kwargs, out


def _written(path):
    """Return the dump of an operator: the file, or the folder that the tools above left in its place, the last one."""
    path = _Path(path)
    named = _INPUTS.fullmatch(path.name)
    if path.exists() or named is None:
        return path
    pattern = _re.compile(_re.escape(named["operator"]) + r"(?:\.default)?-(\d+)")
    folders = {each: found for each in path.parent.glob("*") if (found := pattern.fullmatch(each.name)) is not None}
    return max(folders, key=lambda each: int(folders[each][1]), default=path)
