"""What newer versions of torch, NumPy, Python and libraries refuse, whatever the device."""
