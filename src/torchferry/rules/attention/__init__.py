"""Attention kernels and who chooses them."""
