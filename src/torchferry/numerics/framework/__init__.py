"""The foundation of every tool: its start in a process, where a call belongs, dispatch modes, operators, steps."""
