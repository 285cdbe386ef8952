"""What would make a program faster on a target: each piece of advice with its evidence, its published effect, the edit.

`training_code` finds the steps of a program and what they reach, `measured` holds what a trace says of them. Each piece
of advice is a function of one of the modules `loading`, `waiting`, `precision`, `operators`, `distribution`; `advising`
asks them all, leaves out what a trace contradicts, and orders the rest. None of it needs torch.
"""
