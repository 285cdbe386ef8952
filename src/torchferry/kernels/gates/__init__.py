"""Gates of a port: what can be checked of it on a machine without the target's compiler.

Three levels, each with what it proves and what it does not: the tokens of each file are compared with the original's
(`audit.py`); each file is preprocessed, and compiled, as CUDA, with stand-ins that give the target's names back to CUDA
(`stand_ins.py`), beside the original (`compiling.py`). Only what the original does not have is an error of the port.

    gates = run_gates(ported, GateRequest("compile", only=("nms.cu",)))
    assert all(gate.state is GateState.PASSED for gate in gates)

A gate that could not run is not passed: `GateState.NOT_RUN` says why.
"""

from __future__ import annotations
