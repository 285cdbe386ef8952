"""Writing what the rules planned: in place with a journal, into a copy, beside the originals, or as a patch."""
