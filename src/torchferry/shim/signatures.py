"""The names of a function's parameters, which tell where it takes a device."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any


def parameters(function: Any) -> list[str]:
    """Return the names of the parameters, in order.

    A function of Python is asked for its code alone: `inspect.signature` takes ten times as long, and the start of a
    redirect asks for hundreds.

    Raises:
        TypeError, ValueError: what has no signature, such as some functions of C++.
    """
    known = inspect.unwrap(function, stop=lambda one: hasattr(one, "__signature__"))
    if type(known) is not FunctionType or hasattr(known, "__signature__"):
        return list(inspect.signature(function).parameters)
    code = known.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if code.co_flags & inspect.CO_VARARGS:
        names.insert(code.co_argcount, code.co_varnames[len(names)])
    return names
