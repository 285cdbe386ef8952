"""Helpers of torch_sdaa."""
