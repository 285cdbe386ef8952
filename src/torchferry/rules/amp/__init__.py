"""Automatic mixed precision."""
