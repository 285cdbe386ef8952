"""Triton kernels of a project, compiled by the vendor's own front end without the card."""
