"""Dockerfiles and compose files."""
