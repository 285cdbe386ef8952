"""Paths of data, checkpoints and results."""
