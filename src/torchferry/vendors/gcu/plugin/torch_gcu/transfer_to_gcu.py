"""The vendor's redirection of `torch.cuda`, which works on the import of this module."""

from torchferry.rehearsal import facade_support as _facade_support

_facade_support.redirect("torch_gcu.transfer_to_gcu")
