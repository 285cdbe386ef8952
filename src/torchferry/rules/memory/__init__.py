"""Memory of the card and its statistics."""
