"""The vendor's redirection of `torch.cuda`, which works on the import of this module."""

from torchferry.rehearsal import vendor_package as _vendor_package

_vendor_package.redirect("torch_gcu.transfer_to_gcu")
