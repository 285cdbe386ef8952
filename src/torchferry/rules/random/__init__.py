"""Seeds, generators and their state."""
