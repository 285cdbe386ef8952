"""A record is what `typing.NamedTuple` would make of the same class body."""

from __future__ import annotations

import pickle
import typing

import pytest

from torchferry.core.record import NamedTuple


class Ours(NamedTuple):
    """A place."""

    path: str
    line: int = 1
    names: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The place as it is printed."""
        return f"{self.path}:{self.line}"

    @classmethod
    def first(cls, path: str) -> Ours:
        """Return the first line of a file."""
        return cls(path)


class Theirs(typing.NamedTuple):
    """A place."""

    path: str
    line: int = 1
    names: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The place as it is printed."""
        return f"{self.path}:{self.line}"

    @classmethod
    def first(cls, path: str) -> Theirs:
        """Return the first line of a file."""
        return cls(path)


@pytest.mark.parametrize(
    "attribute", ["__doc__", "__module__", "__match_args__", "__bases__", "_fields", "_field_defaults"]
)
def test_the_class_has_the_same(attribute: str) -> None:
    assert getattr(Ours, attribute) == getattr(Theirs, attribute)
    assert Ours.__qualname__ == "Ours"


def test_a_record_is_the_same_tuple() -> None:
    ours, theirs = Ours("a.py", names=("x",)), Theirs("a.py", names=("x",))
    assert tuple(ours) == tuple(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._asdict() == theirs._asdict()
    assert tuple(ours._replace(line=2)) == tuple(theirs._replace(line=2))
    assert ours.shown == theirs.shown
    assert tuple(Ours.first("b.py")) == tuple(Theirs.first("b.py"))
    assert ours._replace(line=2) != ours
    with pytest.raises(AttributeError):
        ours.line = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]


def test_a_record_goes_to_another_process_and_says_its_types() -> None:
    ours = Ours("a.py", 2)
    again = pickle.loads(pickle.dumps(ours))
    assert type(again) is Ours
    assert again == ours
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
