"""What is known of accelerators and of CUDA's side: the readers of the vendors' folders, and the tables of all targets.

A vendor is described once, in `vendors/<name>/`; `CONTRIBUTING.md` has the steps and the commands. Nothing else in
torchferry names a vendor.
"""
