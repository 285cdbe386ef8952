"""Rules: each finds one kind of CUDA dependence and says how to change it. One rule a file, in families."""
