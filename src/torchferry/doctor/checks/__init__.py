"""One check a file; `registry` finds them.

A check is a module with a docstring (what is looked at, and why), `CODE`, `RANK` (its place in the family), `SIDE`,
`TITLE`, `CARD` where it says nothing without a card of its own, and `check(patient)`, which yields results.
"""
