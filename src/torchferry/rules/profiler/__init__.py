"""Profilers and range markers."""
