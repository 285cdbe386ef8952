"""`torch_npu.multiprocessing`: device tensors in other processes."""
