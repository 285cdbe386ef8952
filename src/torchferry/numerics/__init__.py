"""Numerics: which operator was the first to be wrong, in which module, since which step, on any device."""
