"""Reading and editing text: decoding, positions, names, edits, files and transactions."""
