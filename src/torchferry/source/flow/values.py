"""Whether an expression holds a value of the kind, by its name, its origin or what was assigned to it."""

from __future__ import annotations

import ast

from torchferry.core.budget import spend
from torchferry.source.flow.syntax import (
    CUTTING_METHODS,
    LOOKUPS,
    PASSING_METHODS,
    STRING_METHODS,
    last_name,
    string_value,
)
from torchferry.source.lexicon import Lexicon
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEPTH = 8
_SOUGHT = ("cuda", "nccl")
"""What the strings begin with that are followed."""


class HeldValues:
    """Answers for the expressions of one file."""

    def __init__(self, file: PythonFile, names: Names, lexicon: Lexicon) -> None:
        self.file = file
        self.names = names
        self.lexicon = lexicon
        self._peers: dict[ast.AST, bool] = {}
        self._strangers: dict[ast.AST, str] = {}

    def holds(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether an expression holds a value of the kind: `args.device`, `str(device)`, `x.device.type`."""
        spend()
        if depth > _DEPTH:
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and self.lexicon.is_known_value(node.value)
        if isinstance(node, ast.Name):
            return self.lexicon.names(node.id) or any(
                self._assigned(binding, depth) for binding in self.names.bindings(node)
            )
        if isinstance(node, ast.Attribute):
            if self.lexicon.names(node.attr) and self.names.qualified(node) is None:
                return True
            return node.attr in ("type", "index") and self.holds(node.value, depth + 1)
        if isinstance(node, ast.Call):
            return self._result(node, depth)
        if isinstance(node, ast.Subscript):
            key = string_value(node.slice)
            return (key is not None and self.lexicon.names(key)) or self.holds(node.value, depth + 1)
        if isinstance(node, ast.IfExp):
            return self.holds(node.body, depth + 1) or self.holds(node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return any(self.holds(value, depth + 1) for value in node.values)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return any(self.holds(item, depth + 1) for item in node.elts)
        if isinstance(node, ast.JoinedStr):
            return any(
                self.holds(value.value, depth + 1) for value in node.values if isinstance(value, ast.FormattedValue)
            )
        return False

    def _result(self, call: ast.Call, depth: int) -> bool:
        callee = last_name(call.func)
        if self.lexicon.names(callee) and not callee.endswith("_count"):
            return True
        if callee in ("str", "repr") and call.args:
            return self.holds(call.args[0], depth + 1)
        if isinstance(call.func, ast.Attribute) and callee in STRING_METHODS | PASSING_METHODS:
            return self.holds(call.func.value, depth + 1)
        return callee in LOOKUPS and bool(call.args) and self.lexicon.names(string_value(call.args[0]) or "")

    def _assigned(self, binding: ast.AST, depth: int) -> bool:
        value = assigned_value(self.file, binding) or self._cut_up(binding) or self._run_over(binding)
        return value is not None and not isinstance(value, ast.Constant) and self.holds(value, depth + 1)

    def _cut_up(self, binding: ast.AST) -> ast.expr | None:
        """Return the text of which a name takes the first piece: `kind, _, index = device.partition(":")`."""
        targets = self.file.parents.get(binding)
        statement = self.file.parents.get(targets) if isinstance(targets, (ast.Tuple, ast.List)) else None
        value = statement.value if isinstance(statement, ast.Assign) else None
        is_first = isinstance(targets, (ast.Tuple, ast.List)) and targets.elts[0] is binding
        return value if is_first and isinstance(value, ast.Call) and last_name(value.func) in CUTTING_METHODS else None

    def _run_over(self, binding: ast.AST) -> ast.expr | None:
        """Return the values of which a loop gives a name one after the other: `for name in ["cpu", "cuda"]`."""
        loop = self.file.parents.get(binding)
        if not isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension)) or loop.target is not binding:
            return None
        is_display = isinstance(loop.iter, (ast.Tuple, ast.List, ast.Set))
        return loop.iter if not is_display or self.has_peer(loop.iter) else None

    def has_peer(self, node: ast.AST) -> bool:
        """Whether an expression is, or holds as an item, another literal of the kind, such as `"cpu"`."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and self.lexicon.is_known_value(node.value)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return self._any_peer(node, node.elts)
        if isinstance(node, ast.IfExp):
            return self.has_peer(node.body) or self.has_peer(node.orelse)
        if isinstance(node, ast.Subscript):
            return self.has_peer(node.slice)
        if isinstance(node, ast.Call) and last_name(node.func) in ("device", "param") and node.args:
            return self.has_peer(node.args[0])
        return False

    def has_peer_key(self, dictionary: ast.Dict) -> bool:
        """Whether a key of a dictionary display is such a literal."""
        return self._any_peer(dictionary, [key for key in dictionary.keys if key is not None])

    def has_peer_member(self, owner: ast.ClassDef) -> bool:
        """Whether a class is an enumeration, and a member of it is such a literal."""
        if not any(last_name(base).endswith("Enum") for base in owner.bases):
            return False
        return self._any_peer(owner, [member.value for member in owner.body if isinstance(member, ast.Assign)])

    def are_collectives(self, dictionary: ast.Dict) -> bool:
        """Whether the values of a dictionary display are collectives alone: `{"cuda": "nccl", "cpu": "gloo"}`.

        A display of devices says less: its keys may be of compilers, or of programs.
        """
        if self.lexicon.role != "collective":
            return False
        texts = [string_value(value) or "" for value in dictionary.values]
        others = [text for text in texts if text != "nccl"]
        return bool(others) and all(map(self.lexicon.is_known_value, others))

    def _any_peer(self, container: ast.AST, items: list[ast.expr]) -> bool:
        """Whether items are such literals, and not fewer than other words: `{"cuda": False, "cpu": True, "lr": ...}`.

        Each item of a container asks, and a container can be long: it is looked through once.
        """
        if container not in self._peers:
            peers = sum(self.has_peer(item) for item in items)
            others = [text for text in map(string_value, items) if text and not self.lexicon.is_known_value(text)]
            sought = sum(text.startswith(_SOUGHT) for text in others)
            self._peers[container] = peers > 0 and len(others) - sought <= peers + sought
        return self._peers[container]

    def stranger(self, node: ast.AST) -> str:
        """Return a string beside others in a container that is no value of the kind; empty if there is none.

        Only asked of a container that is none of such values: in `["ref", "cuda"]` it is `ref`.
        """
        if not isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return ""
        if node not in self._strangers:
            texts = (string_value(item) or "" for item in node.elts)
            self._strangers[node] = next(
                (
                    text
                    for text in texts
                    if text and not text.startswith((*_SOUGHT, "gpu")) and not self.lexicon.is_known_value(text)
                ),
                "",
            )
        return self._strangers[node]
