"""What `torch.gcu.tunable` answers: nothing is tuned on the card, and nearly every function says so in a warning.

Source: github.com/sunnygui-L/torch-gcu@e63ff282355f: torch_gcu/gcu/tunable.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

_QUIET = ("is_enabled", "tuning_is_enabled")
_ANSWERS: dict[str, object] = {
    "enable": None,
    "is_enabled": False,
    "tuning_enable": None,
    "tuning_is_enabled": False,
    "set_max_tuning_duration": None,
    "get_max_tuning_duration": 0,
    "set_max_tuning_iterations": None,
    "get_max_tuning_iterations": 0,
    "set_filename": None,
    "get_filename": "",
    "get_results": ("", "", "", 0.0),
    "get_validators": ("", ""),
    "write_file_on_exit": None,
    "write_file": False,
    "read_file": False,
}


def functions() -> dict[str, Callable[..., object]]:
    """Return the functions by name."""
    return {name: _answering(name, answer) for name, answer in _ANSWERS.items()}


def _answering(name: str, answer: object) -> Callable[..., object]:
    def answering(*args: Any, **kwargs: Any) -> object:
        if name not in _QUIET:
            warnings.warn(f"torch.gcu.tunable.{name}: the plugin does not support tuning", stacklevel=2)
        return answer

    answering.__name__ = answering.__qualname__ = name
    return answering
