"""Files that cannot be examined."""
