"""The doctor: what a machine lacks to run on a target's cards, why, and the command that mends it."""
