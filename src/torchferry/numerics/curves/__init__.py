"""Training curves of two runs: read from the logs people have, put step beside step, measured and judged by a rule."""
