"""Switches of the CUDA libraries: TF32, cuDNN, attention kernels."""
