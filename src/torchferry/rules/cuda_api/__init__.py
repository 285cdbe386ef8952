"""Calls of `torch.cuda.*` that no narrower family covers."""
