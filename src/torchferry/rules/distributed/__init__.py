"""Process groups, collectives and data parallelism."""
