"""Automatic mixed precision, as public programs import it from the package."""

import torch

autocast = torch.sdaa.amp.autocast
GradScaler = torch.sdaa.amp.GradScaler
