"""What a run saw, merged with what the rules found."""
