"""Import statements."""
