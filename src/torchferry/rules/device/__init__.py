"""Devices and tensors: device strings, `.cuda()`, `.is_cuda`, tensor types, integer devices."""
