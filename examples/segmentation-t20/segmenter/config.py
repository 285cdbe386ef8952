"""Configuration files: Python files whose names are the settings."""

import runpy

import torch
import torch.distributed as dist


def read(path):
    """Return the settings of a file."""
    return {name: value for name, value in runpy.run_path(path).items() if not name.startswith("_")}


def prepare(config, launcher="none"):
    """Set what the file says of the environment, and return the device of this process."""
    if config["env_cfg"].get("cudnn_benchmark"):
        torch.backends.cudnn.benchmark = True
    if launcher == "pytorch":
        dist.init_process_group(**config["env_cfg"]["dist_cfg"])
    return torch.device(config["device"])
