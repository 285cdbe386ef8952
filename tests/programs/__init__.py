"""Tests of the programs of a project: which there are, what they reach, and whether they can run."""
