"""What a run saw, laid beside what the rules found."""
