"""Programs that are started: nvidia-smi, nvcc."""
