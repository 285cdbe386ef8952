"""The record of a run on disk: what the recorder writes and what reads it again. Works on files, without torch."""
