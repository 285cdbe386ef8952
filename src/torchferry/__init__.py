"""torchferry carries a PyTorch project written for CUDA to another accelerator."""

__version__ = "0.1.0"
