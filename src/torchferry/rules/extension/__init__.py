"""CUDA C++ extensions and kernels."""
