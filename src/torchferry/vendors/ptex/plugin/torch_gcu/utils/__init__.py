"""Helpers of torch_gcu."""
