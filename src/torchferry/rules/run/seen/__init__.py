"""What a run of the program saw, laid beside what the rules found."""
