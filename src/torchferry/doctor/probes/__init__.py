"""Programs that run in the examined Python, which may be 3.8 and know nothing of torchferry."""
