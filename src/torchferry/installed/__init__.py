"""What the packages of an environment need: found in their files, which are never imported and never run."""
