"""What every tool is on: its start in a process, where a call belongs, dispatch modes, operators, steps."""
