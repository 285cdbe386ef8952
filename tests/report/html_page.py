"""A page as its elements, for tests that read what it says."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"meta", "input", "br"}
RAW = {"style", "script"}


class Element:
    """One element: its name, its attributes, and what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str | None], parent: Element | None) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.children: list[Element | str] = []

    @property
    def text(self) -> str:
        """All text in it, without that of style and script; blanks are made one."""
        return " ".join("".join(self.texts()).split())

    @property
    def raw(self) -> str:
        """What is in it itself, as it stands there."""
        return "".join(child for child in self.children if isinstance(child, str))

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in RAW:
                yield from child.texts()

    def all(self, tag: str = "", css: str = "") -> Iterator[Element]:
        """Yield the elements in it of a name and a class, in their order."""
        for child in self.children:
            if not isinstance(child, str):
                if (not tag or child.tag == tag) and (not css or css in child.classes):
                    yield child
                yield from child.all(tag, css)

    def first(self, tag: str = "", css: str = "") -> Element:
        found = next(self.all(tag, css), None)
        assert found is not None, f"no {tag}.{css} in {self.text[:200]}"
        return found

    def around(self, tag: str = "", css: str = "") -> Element | None:
        """Return the nearest element around it of a name and a class."""
        at = self.parent
        while at is not None and not ((not tag or at.tag == tag) and (not css or css in at.classes)):
            at = at.parent
        return at

    def having(self, name: str) -> list[str]:
        """Return the values of an attribute, of all elements that have it."""
        return [each.attributes[name] or "" for each in self.all() if name in each.attributes]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.at = Element("", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), attrs
        element = Element(tag, dict(attrs), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def page_of(text: str) -> Element:
    """Return a page; elements that do not close in their order fail."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.at.parent is None
    return reader.at
