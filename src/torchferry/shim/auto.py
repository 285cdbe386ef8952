"""`import torchferry.shim.auto`: the redirect in one line, for the accelerator that is installed."""

from torchferry.core.env import shim_target
from torchferry.shim import enable

redirect = enable(shim_target())
