"""A sparse tensor on a target that has none: `torch.sparse_coo_tensor`, `x.to_sparse()`, `Embedding(sparse=True)`.

Every device needs kernels of its own for each sparse layout. Where the plugin registers none, such a tensor raises, and
there is no fallback. Keep it on the CPU, or make it dense. Where nobody knows what the plugin has, try it on the card:
all such calls of a file are one decision. Where the plugin has sparse tensors, an operator of `torch.sparse.mm` and the
like, or of `torch.matmul` and `@` of a sparse matrix, may still be missing. `torch.optim.SparseAdam` raises in its
first step where an operator that it calls has no kernel for them, or drops the zeros of a product, with which its state
begins. `torch.sparse.to_sparse_semi_structured` takes tensors on CUDA alone: torch itself looks for that. Nested
tensors are alike: `torch.nn.TransformerEncoder` makes them of a padding mask when it is evaluated without gradients.

Why: The operator raises, and no plugin falls back to the CPU for sparse tensors.

References:
- page rehearsing
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import OncePerBlock, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.nested_encoder import OPERATOR as OF_NESTED
from torchferry.rules.device.nested_encoder import REMEDIES, nested_encoders
from torchferry.rules.device.nested_encoder import WORD as NESTED
from torchferry.rules.device.nested_tensor import MAKING, failing_nested
from torchferry.rules.distributed.tensors import HOST, place_of, sets_default_device, stays_on_cpu
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.object_uses import expressions_of
from torchferry.rules.references import unknown
from torchferry.rules.value_steps import TracedExpression
from torchferry.source.flow.syntax import last_name, string_value

if TYPE_CHECKING:
    from torchferry.backends.operators import OperatorTable

_LAYOUTS = {
    "sparse_coo_tensor": "sparse",
    "to_sparse": "sparse",
    "to_sparse_coo": "sparse",
    "sparse_csr_tensor": "sparse_compressed",
    "sparse_csc_tensor": "sparse_compressed",
    "sparse_bsr_tensor": "sparse_compressed",
    "sparse_bsc_tensor": "sparse_compressed",
    "sparse_compressed_tensor": "sparse_compressed",
    "to_sparse_csr": "sparse_compressed",
    "to_sparse_csc": "sparse_compressed",
    "to_sparse_bsr": "sparse_compressed",
    "to_sparse_bsc": "sparse_compressed",
}
"""Functions and methods that make sparse tensors, with the list of the operator table that serves what they make."""

_OPTIMIZER = "torch.optim.SparseAdam"
"""It takes sparse gradients alone."""

_OF_OPTIMIZER = ("sparse_mask", "mul.out")
"""What its first step calls with sparse tensors (torch/optim/_functional.py of torch 2.13), in this order: it takes the
rows of its state that the gradient has (`sparse_mask`), which is a product with a mask of ones
(aten/src/ATen/native/sparse/SparseTensor.cpp). It expects as many rows as the gradient has, and its state begins with
zeros."""

_OPTIMIZER_NAME = "SparseAdam"

_GRADIENTS = ("Embedding", "EmbeddingBag", "embedding", "embedding_bag")
"""What makes sparse gradients with `sparse=True`."""


_OPERATORS = {
    "torch.sparse.mm": "addmm",
    "torch.spmm": "mm",
    "torch.dsmm": "mm",
    "torch.hspmm": "hspmm",
    "torch.sparse.addmm": "addmm",
    "torch.sparse.softmax": "_sparse_softmax",
    "torch.sparse.log_softmax": "_sparse_log_softmax",
    "torch.sparse.sampled_addmm": "sparse_sampled_addmm",
}
"""Functions on sparse tensors, with the operator that each comes to (aten/src/ATen/native/sparse/SparseTensorMath.cpp
and native_functions.yaml of torch 2.7: `_sparse_mm` calls `_sparse_addmm`, and that `addmm`; `spmm` and `dsmm` are
names of `mm` in tools/autograd/templates/python_torch_functions.cpp)."""


_SECOND = frozenset({"torch.sparse.addmm"})
"""Those of them whose matrix is the second argument."""

_SAME = frozenset({"to", "cuda", "coalesce", "detach", "clone", "requires_grad_", "t", "float", "half", "double"})
"""Methods of a sparse tensor that return one of its layout."""

_UNCOMPRESSED = ("sparse_coo_tensor", "to_sparse()", "to_sparse_coo", "sparse.FloatTensor")
"""What makes a sparse tensor that is not compressed, as other files write it."""

_STRUCTURED = frozenset(
    f"torch.sparse.{module}{name}"
    for module in ("", "semi_structured.")
    for name in (
        "to_sparse_semi_structured", "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT",
        "SparseSemiStructuredTensorCUTLASS", "SparseSemiStructuredTensor.from_dense",
        "SparseSemiStructuredTensorCUSPARSELT.from_dense", "SparseSemiStructuredTensorCUTLASS.from_dense",
        "SparseSemiStructuredTensorCUSPARSELT.prune_dense_static_sort",
        "SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort",
    )
)  # fmt: skip
"""What makes a tensor of which two of four values are kept. It raises where `is_cuda` is not true (torch 2.13.0 wheel:
torch/sparse/semi_structured.py, `_validate_device_dim_dtype_shape`), and is made of operators that CUDA alone has."""


class SparseTensor(Rule):
    """Finds sparse tensors where the target has none."""

    CODE = "DEV112"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.ALL
    WORDS = (
        *_LAYOUTS,
        "sparse=True",
        "sparse = True",
        "SparseAdam",
        "sparse.",
        "spmm",
        "dsmm",
        "hspmm",
        "nested_tensor",
        "emi_structured",
        "emiStructured",
        NESTED,
    )

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that makes one, unless it names the CPU."""
        once = OncePerBlock(context.file)
        reported = sorted(self._all(context), key=lambda each: each[1].location.order)
        return [finding for node, each in reported for finding in once.first(node, each)]

    def _all(self, context: PythonContext) -> Iterator[tuple[ast.AST, Finding]]:
        called = list(calls_to(context))
        for name, call in called:
            if name in _STRUCTURED and exemption_reason(context, call) is None:
                message = say(
                    "`{name}` takes tensors on CUDA alone and raises on {target}: leave the weights dense",
                    name=name,
                    target=context.target.title,
                )
                yield call, self.finding(context, context.file.span(call.func), message, Grade.MANUAL)
        making = list(_calls(context))
        using = [(call, name) for name, call in called if name in _OPERATORS]
        encoders = list(nested_encoders(context))
        makes_nested = any(name in MAKING for name, _ in called)
        if not (making or using or encoders or makes_nested):
            return
        from torchferry.backends.operators import load_operators  # imported late: few projects have sparse tensors

        table = load_operators(context.target.backend, context.target.version)
        yield from self._encoders(context, table, encoders)
        if makes_nested:
            yield from self._nested(context, called, table.layouts["nested"])
        yield from self._operators(context, table, using, making)
        for call, name, layout in making:
            registered = table.layouts[layout]
            if not isinstance(registered, Unknown) and registered:
                if name == _OPTIMIZER_NAME:
                    yield from self._optimizer(context, table, registered, call)
                continue
            if _on_cpu(call) or exemption_reason(context, call) is not None:
                continue
            span = context.file.span(call.func)
            if isinstance(registered, Unknown):
                message = say(
                    "whether {target} has sparse tensors is UNKNOWN; try it on the card", target=context.target.title
                )
                yield call, self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
                continue
            message = say(
                "{target} has no sparse tensors: `{name}` raises there; keep it on the CPU, or make it dense",
                target=context.target.title,
                name=name,
            )
            yield call, self.finding(context, span, message, Grade.MANUAL)

    def _encoders(
        self, context: PythonContext, table: OperatorTable, encoders: list[tuple[ast.Call, str]]
    ) -> Iterator[tuple[ast.AST, Finding]]:
        """Yield a finding for each encoder that makes nested tensors, where its operator has no kernel for them."""
        registered = table.nested
        for call, name in encoders:
            if exemption_reason(context, call) is not None:
                continue
            span = context.file.span(call.func)
            if isinstance(registered, Unknown):
                message = unknown(context, name, f"aten::{OF_NESTED}")
                yield call, self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            elif OF_NESTED not in registered:
                message = say(
                    "`{name}` makes nested tensors of a padding mask when it is evaluated without gradients, and "
                    "{target} lacks `aten::{operator}` for them: write `{use}`",
                    name=name,
                    target=context.target.title,
                    operator=OF_NESTED,
                    use=REMEDIES[name],
                )
                yield call, self.finding(context, span, message, Grade.MANUAL)

    def _nested(
        self, context: PythonContext, called: list[tuple[str, ast.Call]], registered: frozenset[str] | Unknown
    ) -> Iterator[tuple[ast.AST, Finding]]:
        """Yield a finding for each nested tensor on the card with which something is done that has no kernel."""
        for call in failing_nested(context, called, registered):
            if exemption_reason(context, call) is not None:
                continue
            is_unknown = isinstance(registered, Unknown)
            if is_unknown:
                message = say(
                    "whether {target} has nested tensors is UNKNOWN; try it on the card", target=context.target.title
                )
            else:
                message = say(
                    "{target} has few operators for nested tensors, and others raise there: keep them on the CPU, pad "
                    "them, or make them with `layout=torch.jagged`",
                    target=context.target.title,
                )
            effect = Effect.UNKNOWN if is_unknown else self.EFFECT
            yield call, self.finding(context, context.file.span(call.func), message, Grade.MANUAL, effect=effect)

    def _optimizer(
        self, context: PythonContext, table: OperatorTable, registered: frozenset[str], call: ast.Call
    ) -> Iterator[tuple[ast.AST, Finding]]:
        """Yield a finding for an optimizer of sparse gradients that raises in its first step."""
        lacks = [name for name in _OF_OPTIMIZER if name not in registered]
        if not (lacks or table.sparse_products) or exemption_reason(context, call) is not None:
            return
        if _optimizes_on_cpu(context, call):
            return
        if lacks:
            message = say(
                "`{name}` calls `aten::{operator}`, which {target} lacks for sparse tensors, and raises in its first "
                "step",
                name=_OPTIMIZER,
                operator=lacks[0],
                target=context.target.title,
            )
        else:
            message = say(
                "`{name}` raises in its first step on {target}, which drops the zeros of a product of sparse tensors",
                name=_OPTIMIZER,
                target=context.target.title,
            )
        message = say("{message}: use dense gradients (`sparse=False`) and another optimizer", message=message)
        yield call, self.finding(context, context.file.span(call.func), message, Grade.MANUAL)

    def _operators(
        self,
        context: PythonContext,
        table: OperatorTable,
        using: list[tuple[ast.Call, str]],
        making: list[tuple[ast.Call, str, str]],
    ) -> Iterator[tuple[ast.AST, Finding]]:
        """Yield a finding for each function on sparse tensors whose operator has no kernel for them."""
        uses = _uses(context, making)
        named = [
            _Product(_OPERATORS[full_name], full_name, call, *_matrix(context, call, full_name, uses, making))
            for call, full_name in using
        ]
        for operator, full_name, call, matrix, layout in (*named, *_products(context, table, uses)):
            registered = table.layouts[layout]
            if not isinstance(registered, Unknown) and operator in registered:
                continue
            if matrix is not None and place_of(context, matrix) == HOST and not sets_default_device(context):
                continue
            if exemption_reason(context, call) is not None:
                continue
            span = context.file.span(call.func if isinstance(call, ast.Call) else call)
            if isinstance(registered, Unknown):
                message = say(
                    "whether {target} has sparse tensors is UNKNOWN; try it on the card",
                    target=context.target.title,
                )
                yield call, self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
                continue
            message = say(
                "`{name}` calls `aten::{operator}`, which {target} lacks for sparse tensors: keep "
                "this on the CPU, or make the matrix dense",
                name=full_name,
                operator=operator,
                target=context.target.title,
            )
            if operator == "addmm" and "mm" in registered:
                message = say("{message}; `torch.mm` of a sparse matrix exists", message=message)
            yield call, self.finding(context, span, message, Grade.MANUAL)


class _Product(NamedTuple):
    """A call of an operator on a sparse matrix, with its full name, the matrix where it is evident, and its layout."""

    operator: str
    name: str
    node: ast.expr
    matrix: ast.expr | None
    layout: str


def _uses(context: PythonContext, making: list[tuple[ast.Call, str, str]]) -> dict[ast.expr, str]:
    """Return the expressions of the file that are sparse tensors which are made there, with their layouts."""
    uses: dict[ast.expr, str] = {}
    for call, _, layout in making:
        if last_name(call.func) in _LAYOUTS:
            origin = TracedExpression(call, context.file, context.names)
            for value, _ in expressions_of(context.values, [origin], _SAME | {context.target.backend.DEVICE_TYPE}):
                if uses.get(value.node) != "sparse":  # what may be either is not known to be compressed
                    uses[value.node] = layout
    return uses


def _matrix(
    context: PythonContext,
    call: ast.Call,
    full_name: str,
    uses: Mapping[ast.expr, str],
    making: list[tuple[ast.Call, str, str]],
) -> tuple[ast.expr | None, str]:
    """Return the sparse matrix that a call is given, and its layout: compressed where it is no other evidently."""
    given = call.args[1:] if full_name in _SECOND else call.args
    matrix = given[0] if given else None
    if matrix is not None and matrix in uses:
        return matrix, uses[matrix]
    if "csr" not in context.text and "csc" not in context.text:
        return matrix, "sparse"
    own = any(layout == "sparse" and not _is_compressed(context, maker) for maker, _, layout in making)
    words = [word for word in _UNCOMPRESSED if word not in context.text]
    others = context.project is not None and any(map(context.project.writes, words))
    return matrix, "sparse" if own or others else "sparse_compressed"


def _is_compressed(context: PythonContext, maker: ast.Call) -> bool:
    """Whether a sparse tensor is made compressed at once: `torch.sparse_coo_tensor(...).to_sparse_csr()`."""
    above = context.file.parents.get(maker)
    return isinstance(above, ast.Attribute) and _LAYOUTS.get(above.attr) == "sparse_compressed"


def _products(context: PythonContext, table: OperatorTable, uses: Mapping[ast.expr, str]) -> Iterator[_Product]:
    """Yield the matrix products of sparse tensors that are made beside them, with the operator each comes to.

    A product of two matrices is `mm`, also by the name of `matmul` (aten/src/ATen/native/LinearAlgebra.cpp).
    """
    if isinstance(table.sparse, Unknown) or not table.sparse:
        return
    for held, layout in uses.items():
        parent = context.file.parents.get(held)
        above = context.file.parents.get(parent) if parent is not None else None
        if layout != "sparse" or parent is None:
            continue
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult) and parent.left is held:
            yield _Product("mm", "@", parent, held, layout)
        elif isinstance(parent, ast.Call):
            name = context.names.qualified(parent.func)
            if held in parent.args[:1] and name in ("torch.matmul", "torch.mm"):
                yield _Product("mm", f"torch.{last_name(parent.func)}", parent, held, layout)
            elif held in parent.args[1:2] and name == "torch.addmm":
                yield _Product("addmm", name, parent, held, layout)
        elif isinstance(parent, ast.Attribute) and parent.attr in ("matmul", "mm"):
            if isinstance(above, ast.Call) and above.func is parent:
                yield _Product("mm", parent.attr, above, held, layout)


def _optimizes_on_cpu(context: PythonContext, call: ast.Call) -> bool:
    """Whether an optimizer is given the parameters of a module of torch that nothing moves from the CPU."""
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "list" and given.args:
        given = given.args[0]
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute) or given.func.attr != "parameters":
        return False
    return stays_on_cpu(context, given.func.value)


def _calls(context: PythonContext) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the calls that make sparse tensors, with what they call and the layout, in order of place."""
    calls = []
    torch_calls = {
        parent
        for reference in context.names.references("torch")
        if isinstance(parent := context.file.parents.get(reference.node), ast.Call) and parent.func is reference.node
    }
    for name, layout in _LAYOUTS.items():
        for node in context.file.attributes.get(name, ()):
            call = context.file.parents.get(node)
            if isinstance(call, ast.Call) and call.func is node and (name.startswith("to_") or call in torch_calls):
                calls.append((call, name, layout))
    for call in torch_calls:
        name = last_name(call.func)
        sparse = keyword_of(call, "sparse")
        if name in _GRADIENTS and sparse is not None and _is_true(sparse.value):
            calls.append((call, f"{name}(sparse=True)", "sparse"))
        if context.names.qualified(call.func) == _OPTIMIZER:
            calls.append((call, _OPTIMIZER_NAME, "sparse"))
    yield from sorted(calls, key=lambda item: (item[0].lineno, item[0].col_offset))


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _on_cpu(call: ast.Call) -> bool:
    device = keyword_of(call, "device")
    return device is not None and string_value(device.value) == "cpu"
