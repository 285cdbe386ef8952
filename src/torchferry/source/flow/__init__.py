"""Where a string goes: whether a literal such as `"cuda"` reaches a device, and if not, what it is instead.

A literal is judged by its context, from the inside out: the call it is an argument of, the comparison it is a
side of, the name it is assigned to and that name's uses, the parameter it is a default of, the function that
returns it and that function's callers, and across files where a name is imported. Only what is decided is
rewritten; what is not is reported.

    trace        what comes out, and the path of one trace
    values       whether an expression holds a device (or a collective backend)
    calls        arguments of calls
    storage      assignments, parameters, results
    containers   lists, dictionaries, items
    conditions   comparisons and alternatives
    tracer       the class that follows a value, one context at a time
    contexts     the same, with what judges each kind of node
"""

from torchferry.source.flow.contexts import Flow
from torchferry.source.flow.trace import Trace, TraceResult

__all__ = ["Flow", "Trace", "TraceResult"]
