"""What a file imports, judged by its text alone."""

from __future__ import annotations

import pytest

from torchferry.source.outline import outline


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\n", [("os", (), 1, False)]),
        ("import os; import sys\n", [("os", (), 1, False), ("sys", (), 1, False)]),
        ("  from a import b ; from c import d\n", [("a", ("b",), 1, True), ("c", ("d",), 1, True)]),
        ("import a, \\\n    b.c as d\nimport e\n", [("a", (), 1, False), ("b.c", (), 1, False), ("e", (), 3, False)]),
        ("from a import \\\n    b as c, d\n", [("a", ("b", "d"), 1, False)]),
        ("from a import b, \\\n    c\nx = 1\n", [("a", ("b", "c"), 1, False)]),
        ("from a import (b,  # what (else)\n    c)\n", [("a", ("b", "c"), 1, False)]),
        ("from a import(b)\n", [("a", ("b",), 1, False)]),
        ("from .import b\nfrom ..a import *\n", [(".", ("b",), 1, False), ("..a", ("*",), 2, False)]),
        ("try: import a\nexcept ImportError: a = None\n", [("a", (), 1, True)]),
        ("if FAST: from a import b\nelse: import c\n", [("a", ("b",), 1, True), ("c", (), 2, True)]),
        ("with suppress(ImportError): import a\n", [("a", (), 1, True)]),
        ("# if a: import b\nx = 'from a import b'\n", []),
        ('"""Fails at\nimport because of it::\n\n    from a import b\n"""\nimport c\n', [("c", (), 6, False)]),
        ("def f():\n    '''Does\n    import a; import b\n    '''\n    import c\n", [("c", (), 5, True)]),
        ('x = \'"""\'\nimport a\ny = \'"""\'\n', [("a", (), 2, False)]),
        ('"""\nimport a\n"""\nprint "not parsed"\n', [("a", (), 2, False)]),
        ('"""\nimport a\n', [("a", (), 2, False)]),
        ("importlib.reload(a)\nimports = 2\nfrom_ = 3\n", []),
        ("from a import (\n", []),
    ],
)
def test_imports(text: str, expected: list[tuple[str, tuple[str, ...], int, bool]]) -> None:
    for ending in ("\n", "\r\n"):
        found = outline("train.py", text.replace("\n", ending).encode()).imports
        assert [tuple(imported) for imported in found] == expected
