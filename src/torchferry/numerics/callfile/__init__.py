"""A call of an operator as a small directory: how it is written, read, built and judged anywhere, without pickle."""
