"""Mutated inputs for every reader of torchferry: which readers there are, how inputs are made, what a fault is."""
