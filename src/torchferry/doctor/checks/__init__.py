"""One check a file; `registry` finds them.

A check is a function that `@check(...)` describes: its code, its rank in the family, the side it looks at, its title,
and `needs_card` where it says nothing without a card of its own. It takes a `CheckContext` and yields results. The
module's documentation says what is looked at, and why.
"""
