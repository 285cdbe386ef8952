"""Environments that `torchferry rehearse --with` makes and keeps: a Python, a torch for the CPU, the plugin for it."""
