"""What the tools found, as one HTML page that loads nothing."""
