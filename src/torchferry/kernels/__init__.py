"""CUDA C++ of a project: read, ported to a target's kernel language, and what a person has to look at.

Everything here works on files, and nothing imports torch.
"""
