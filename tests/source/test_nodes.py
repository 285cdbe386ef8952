"""The nodes of a tree are those of `ast`, in its order, without what holds nothing."""

from __future__ import annotations

import ast
import inspect
import types

import pytest

from torchferry.source import nodes as module
from torchferry.source.nodes import children_of, nodes_in

_HOLD_NOTHING = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)

_SYNTAX = """
@decorated(1)
async def f(a, /, b: int = 1, *c, d=None, e, **g) -> str:
    async for x in [*y]:
        await z
    return {**a, "k": b, 1: (yield)}
match a:
    case {"x": 1, **rest} | [1, *others] | Point(x=0) | None:
        pass
    case str() as name if (n := name) @ n:
        del a.b[1:2, ...]
global q
try:
    lambda *p, q=1: f"{p!r:>{q}} {{}}"
except (E, F) as error:
    raise error from None
finally:
    assert not (a < b <= c and d or e), "m"
with a as b, c:
    nonlocal_ = b"x" if 1j else -2
"""


@pytest.mark.parametrize("source", [_SYNTAX, inspect.getsource(module), inspect.getsource(types)])
def test_nodes_are_those_of_ast(source: str) -> None:
    tree = ast.parse(source)
    nodes = nodes_in(tree)
    assert nodes == [node for node in ast.walk(tree) if not isinstance(node, _HOLD_NOTHING)]
    for node in nodes:
        assert children_of(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, _HOLD_NOTHING)]


def test_a_node_that_lacks_fields_has_no_children() -> None:
    node = ast.Call.__new__(ast.Call)
    assert (nodes_in(node), children_of(node)) == ([node], [])
