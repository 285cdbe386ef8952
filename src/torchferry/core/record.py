"""Records: what `typing.NamedTuple` makes, in less than half of the time.

That one compiles every annotation which is a string, as all of ours are, to see whether it is a type. A command makes a
hundred classes of records before it reads its first file, and mypy looks at their annotations more closely.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _RecordMaker(type):
        """Makes a named tuple of a class body: its annotations are the fields, what has a value has it by default."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            record = namedtuple(name, fields, defaults=defaults, module=body.pop("__module__"))
            record.__annotations__ = fields
            for attribute, value in body.items():
                setattr(record, attribute, value)
            return record

    class NamedTuple(metaclass=_RecordMaker):
        """The base that a record names; the class that is made has none but `tuple`."""
