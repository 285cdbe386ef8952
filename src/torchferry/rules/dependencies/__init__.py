"""Requirements of the project."""
