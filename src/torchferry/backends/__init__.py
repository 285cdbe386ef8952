"""Accelerator backends, each described once: one file a vendor, its large tables in `data/<vendor>/`.

To add a vendor, write one module here (or in a package of your own that registers an entry point in the
group `torchferry.backends`) with a subclass of `Backend`, and put its tables beside the others. Nothing
else in torchferry names a vendor. `CONTRIBUTING.md` has the steps and the commands.
"""
