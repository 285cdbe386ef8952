"""Where the parts of an f-string stand, on every Python."""

from __future__ import annotations

import ast

import pytest

from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText

# text, and the source text of each string constant and each name in it, in order of position
PARTS = [
    ("f'cuda:{i}'", ["f'cuda:", "i"]),
    ("f\"{f'cuda:{i}'}\"", ["f'cuda:", "i"]),
    ("f\"{f'cuda:{i}'} {j}\"", ["f'cuda:", "i", " ", "j"]),
    ("f'{x:cuda}'", ["x", "cuda"]),
    ("f'{x:>{width}}'", ["x", ">", "width"]),
    ("f'{x!r:>8}é{y}'", ["x", ">8", "é", "y"]),
    ("'a' f'{x}' \"b\" f'{y}'", ["'a' f'", "x", "' \"b\" f'", "y"]),
    ("f'{a, b}'", ["a", "b"]),
    ("f'{{}}{x}'", ["f'{{}}", "x"]),
    ("f'''{\nx\n}cuda'''", ["x", "cuda'''"]),
    ("f'{d[\"cuda\"]}'", ["d", '"cuda"']),
    ("f'{\"é\" + str(x)}'", ['"é"', "str", "x"]),
    ("f'{(lambda: x)()}'", ["x"]),
    ("f'{[x for x in y]}'", ["x", "x", "y"]),
    ("rf'\\d{x}'", ["rf'\\d", "x"]),
    ("f'\\N{BULLET}{x}'", ["f'\\N{BULLET}", "x"]),
    ("f'{a if b else f\"{c}cuda\"}'", ["a", "b", "c", 'cuda"']),
]


@pytest.mark.parametrize(("text", "expected"), PARTS)
def test_parts(text: str, expected: list[str]) -> None:
    file = PythonFile("a.py", SourceText(f"é = {text}\n"))
    nodes: list[ast.expr] = [
        *file.strings,
        *(name for names in file.names.values() for name in names if name.id != "é"),
    ]
    spans = sorted(file.literal_span(node) if isinstance(node, ast.Constant) else file.span(node) for node in nodes)
    found = [file.source.text[start:end] for start, end in spans if start < end]  # Python 3.12 adds empty parts
    assert found == expected


def test_an_innermost_node_is_found_in_an_fstring() -> None:
    text = "x = f'{torch.ones(2).cuda()} {f\"{y.cuda()}\"}'\n"
    file = PythonFile("a.py", SourceText(text))
    for wanted in ("torch.ones(2).cuda()", "y.cuda()", "torch.ones"):
        start = text.index(wanted)
        node = file.node_at(start, start + len(wanted))
        assert node is not None
        assert ast.unparse(node) == wanted
