"""Places of public repositories that people labelled before the tool had seen them, beside what becomes of them."""
