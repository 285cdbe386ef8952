"""Other libraries and how they are told to use CUDA."""
