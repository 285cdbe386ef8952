"""Streams, events and graph capture."""
