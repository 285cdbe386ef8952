"""What every tool stands on: its start in a process, where a call belongs, dispatch modes, operators, steps."""
