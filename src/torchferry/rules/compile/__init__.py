"""Compilers: torch.compile and Triton."""
