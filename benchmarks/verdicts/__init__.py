"""Verdicts of programs of public repositories, labelled by hand; none of these repositories is part of this one."""
