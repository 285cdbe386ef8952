"""Dtypes that the card lacks."""
