"""Shell scripts and Makefiles."""
