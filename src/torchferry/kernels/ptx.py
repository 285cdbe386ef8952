"""PTX by instruction: what is C++ of a line or two, what is a function of CUDA's, and what the design rests on.

    asm volatile("lop3.b32 %0, %1, %2, %3, 0xea;" : ...)      // (a & b) | c
    asm volatile("mma.sync.aligned.m16n8k16..." : ...)        // the kernel is written around it: a new one is needed

Source: the PTX ISA 9.0 of the CUDA toolkit, whose names of instructions these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import and_, or_, xor

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.tokens import SourceTokens, TokenKind, encode, words_of

DESIGN = (
    *("mma", "wmma", "wgmma", "tcgen05", "ldmatrix", "stmatrix", "movmatrix", "cp.async", "cp.reduce.async"),
    *("mbarrier", "setmaxnreg", "fence.proxy", "mapa", "getctarank", "barrier.cluster", "multimem", "tensormap"),
    *("clusterlaunchcontrol", "red.async", "st.async", "elect"),
)
"""Instructions that a kernel is written around: matrices in registers, copies beside the computation, clusters."""

_EXACT = {
    "prmt": "bytes of `((uint64_t)b << 32 | a)` by the selector: `__byte_perm(a, b, s)`",
    "bfe": "(a >> position) & ((1u << length) - 1)",
    "bfi": "(b & ~mask) | ((a << position) & mask)",
    "brev": "`__brev(a)`",
    "popc": "`__popc(a)`",
    "clz": "`__clz(a)`",
    "bfind": "`31 - __clz(a)`",
    "fns": "`__fns(mask, base, offset)`",
    "shf": "`__funnelshift_l` / `__funnelshift_r`",
    "shl": "a << n",
    "shr": "a >> n",
    "and": "a & b",
    "or": "a | b",
    "xor": "a ^ b",
    "not": "~a",
    "cnot": "a == 0",
    "selp": "p ? a : b",
    "slct": "c >= 0 ? a : b",
    "setp": "a comparison",
    "set": "a comparison",
    "neg": "-a",
    "abs": "abs(a)",
    "min": "min(a, b)",
    "max": "max(a, b)",
    "add": "a + b; of `.cc`, in 64 bits",
    "addc": "a + b + carry, in 64 bits",
    "sub": "a - b; of `.cc`, in 64 bits",
    "subc": "a - b - carry, in 64 bits",
    "mul": "a * b; of `.hi`, the high half of the wider product",
    "mul24": "`__mul24(a, b)`",
    "mad": "a * b + c; of `.cc`, in 64 bits",
    "madc": "a * b + c + carry, in 64 bits",
    "mad24": "`__mul24(a, b) + c`",
    "sad": "abs(a - b) + c",
    "div": "a / b",
    "rem": "a % b",
    "fma": "fmaf(a, b, c)",
    "rcp": "1.0f / a",
    "sqrt": "sqrtf(a)",
    "rsqrt": "rsqrtf(a)",
    "ex2": "exp2f(a)",
    "lg2": "log2f(a)",
    "sin": "sinf(a)",
    "cos": "cosf(a)",
    "tanh": "tanhf(a)",
    "copysign": "copysignf(b, a)",
    "testp": "isfinite, isinf or isnan",
    "cvt": "a conversion, with the rounding that it names",
    "cvta": "the pointer itself: C++ needs no other address",
    "isspacep": "no C++: the pointer is known to be of the space",
    "mov": "an assignment",
    "dp4a": "the sum of four products of bytes",
    "dp2a": "the sum of two products",
    "vadd": "a + b, in the bytes or halves that it names, clamped with `.sat`",
    "vsub": "a - b, in the bytes or halves that it names, clamped with `.sat`",
    "vmad": "a * b + c, in the bytes or halves that it names",
    "vmin": "min(a, b), in the bytes or halves that it names",
    "vmax": "max(a, b), in the bytes or halves that it names",
    "vset": "a comparison, in the bytes or halves that it names",
    "vshl": "a << b, in the bytes or halves that it names",
    "vshr": "a >> b, in the bytes or halves that it names",
    "vabsdiff": "abs(a - b), in the bytes or halves that it names",
    "vabsdiff4": "four differences of bytes",
    "ld": "a load: `*pointer`; `__ldg(pointer)` of `.nc`; before `.acquire`, `__threadfence()`",
    "ldu": "`__ldg(pointer)`",
    "st": "a store: `*pointer = a`; behind `.release`, `__threadfence()`",
    "prefetch": "nothing: it changes speed alone",
    "prefetchu": "nothing: it changes speed alone",
    "discard": "nothing: it changes speed alone",
    "applypriority": "nothing: it changes speed alone",
    "createpolicy": "nothing: it changes speed alone",
    "membar": "`__threadfence_block()`, `__threadfence()` or `__threadfence_system()` by its scope",
    "fence": "`__threadfence_block()`, `__threadfence()` or `__threadfence_system()` by its scope",
    "bar": "`__syncthreads()`, for barrier 0 of the whole block",
    "barrier": "`__syncthreads()`, for barrier 0 of the whole block",
    "atom": "the atomic function of that name: `atomicAdd(pointer, a)`",
    "red": "the atomic function of that name, without its value",
    "shfl": "`__shfl_sync` and its like, for the target's warp",
    "vote": "`__any_sync`, `__all_sync`, `__ballot_sync`",
    "match": "`__match_any_sync`, `__match_all_sync`",
    "redux": "`__reduce_add_sync` and its like",
    "activemask": "`__activemask()`",
    "nanosleep": "`__nanosleep(n)`",
    "griddepcontrol": "nothing: the kernel then starts behind the one before it",
    "trap": "`__trap()`",
    "brkpt": "`__brkpt()`",
    "exit": "return",
    "ret": "return",
    "bra": "a loop or a condition",
    "pmevent": "nothing",
}
"""By the first word of an instruction, what replaces it in C++."""

_OF_HALVES = {
    "fma": ("__hfma", "a, b, c"),
    "add": ("__hadd", "a, b"),
    "sub": ("__hsub", "a, b"),
    "mul": ("__hmul", "a, b"),
    "min": ("__hmin", "a, b"),
    "max": ("__hmax", "a, b"),
    "neg": ("__hneg", "a"),
    "abs": ("__habs", "a"),
}
"""CUDA's functions on 16-bit floats, `2` at their ends for pairs of them."""

_CONVERSIONS = (
    ("f16x2.f32", "`__floats2half2_rn(b, a)`"),
    ("bf16x2.f32", "`__floats2bfloat162_rn(b, a)`"),
    ("f32.f16", "`__half2float(a)`"),
    ("f32.bf16", "`__bfloat162float(a)`"),
    ("bf16.f32", "`__float2bfloat16_rn(a)`"),
    ("f16.f32", "`__float2half_rn(a)`"),
)
"""How conversions end, and CUDA's function for them with the usual rounding."""

_REGISTERS = {
    "%laneid": "threadIdx.x % warpSize, for a block of one dimension",
    "%warpid": "threadIdx.x / warpSize, for a block of one dimension",
    "%lanemask_lt": "(1 << lane) - 1, as wide as a warp",
    "%lanemask_le": "(2 << lane) - 1, as wide as a warp",
    "%lanemask_gt": "~((2 << lane) - 1), as wide as a warp",
    "%lanemask_ge": "~((1 << lane) - 1), as wide as a warp",
    "%lanemask_eq": "1 << lane, as wide as a warp",
    "%clock": "clock()",
    "%clock64": "clock64()",
    "%globaltimer": "no C++: a clock of the host around the kernel",
    "%smid": "no C++: the number of a multiprocessor is the card's own",
    "%nsmid": "no C++: a property of the device, from the host",
    "%dynamic_smem_size": "the launch's third argument, as a parameter",
    "%tid": "threadIdx",
    "%ntid": "blockDim",
    "%ctaid": "blockIdx",
    "%nctaid": "gridDim",
}

_PIECE = lazy_regex(r"\\[nt]|[;{}\n]")
_LABEL = lazy_regex(r"\A[$%]?\w{1,80}:\s*")
_ESCAPED = lazy_regex(r"\\(?=\r?\n)|\\[nt]")
_OPCODE = lazy_regex(r"(?:@!?%?\w+\s+)?(?P<opcode>[a-z]\w*(?:\.[\w:]+)*)(?P<rest>[^;]*)")
_IMMEDIATE = lazy_regex(r"(?<!\w)(0[xX][0-9a-fA-F]{1,4}|[0-9]{1,4})\Z")
_REGISTER = lazy_regex(r"%[a-z]\w*")
_MOST_SHOWN = 4


class PtxUse(NamedTuple):
    """The PTX of one `asm`.

    Attributes:
        offset: Where it stands.
        design: Instructions that a kernel is written around, by their names.
        exact: Instructions with C++ for them, with that C++.
        unknown: Instructions that this table does not have.
    """

    offset: int
    design: tuple[str, ...] = ()
    exact: tuple[tuple[str, str], ...] = ()
    unknown: tuple[str, ...] = ()

    def message(self) -> Message:
        """Say what the instructions are, and what replaces them."""
        if self.design:
            return say("`{names}`: the design rests on it, and no other card has it", names=_shown(self.design))
        if self.unknown:
            return say("`{names}`: no C++ for it is known here", names=_shown(self.unknown))
        if not self.exact:
            return say("`{name}` (uses: {count})", name="asm", count="1")
        pairs = "; ".join(f"{name}: {use}" for name, use in self.exact[:_MOST_SHOWN])
        return say("in C++: {pairs}", pairs=pairs + ("; ..." if len(self.exact) > _MOST_SHOWN else ""))


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")


def ptx_use(source: SourceTokens, at: int) -> PtxUse:
    """Return the PTX of the `asm` at an offset."""
    code = source.code
    stop = code.find(";", at)
    stop = len(code) if stop < 0 else stop
    colon = code.find(":", at, stop)
    end = colon if colon >= 0 else stop
    text = "".join(
        _ESCAPED.sub("\n", source.text[token.start + 1 : token.end - 1])
        for token in source.opaque_between(at, end)
        if token.kind is TokenKind.STRING
    )
    design: dict[str, None] = {}
    exact: dict[str, str] = {}
    unknown: dict[str, None] = {}
    for name, rest in _instructions(text):
        first = name.partition(".")[0]
        if _designed(name) in DESIGN:
            design[_short(name)] = None
        elif name.startswith("lop3"):
            exact[_short(name)] = _lop3(rest)
        elif first in _EXACT:
            registers = [each for each in _REGISTER.findall(rest) if each.partition(".")[0] in _REGISTERS]
            if registers:
                exact.update((each, _REGISTERS[each]) for each in registers)
            elif first != "mov" or not design:
                exact[_short(name)] = _in_cpp(name)
        else:
            unknown[_short(name)] = None
    return PtxUse(at, tuple(design), tuple(exact.items()), tuple(unknown))


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the instructions in a text, each with what follows it."""
    for piece in _PIECE.split(text):
        piece = _LABEL.sub("", piece.strip())
        if not piece or piece[0] in ".%/," or piece.endswith(":"):
            continue  # a declaration of registers, operands of the line above, a comment or a label
        match = _OPCODE.match(piece)
        if match is not None:
            yield match["opcode"], match["rest"].strip()


def _in_cpp(name: str) -> str:
    """Return the C++ of an instruction, by its name with its types."""
    first = name.partition(".")[0]
    parts = name.split(".")
    if first in _OF_HALVES and parts[-1] in ("f16", "bf16", "f16x2", "bf16x2"):
        function, arguments = _OF_HALVES[first]
        return f"`{function}{'2' if parts[-1].endswith('x2') else ''}({arguments})`"
    if first == "cvt":
        return next((use for end, use in _CONVERSIONS if name.endswith(f".{end}")), _EXACT[first])
    return _EXACT[first] + (", with other last bits" if "approx" in parts else "")


def _short(name: str) -> str:
    """Return the name of an instruction with the first parts of its type."""
    return ".".join(name.replace("::", ".").split(".")[:3])


def _lop3(rest: str) -> str:
    """Return the C++ of the table of a `lop3`, where its number is there."""
    match = _IMMEDIATE.search(rest.rstrip())
    if match is None:
        return "for each bit, the bit of the table that a, b and c number"
    return lop3_expression(int(match[1], 0))


def lop3_expression(table: int) -> str:
    """Return C++ that has the truth table of a `lop3`: the shortest of its kind, else a sum of its products.

    Args:
        table: The number of the instruction: what it does to 0xF0, 0xCC and 0xAA.
    """
    values = {"a": 0xF0, "b": 0xCC, "c": 0xAA}
    terms = {**values, **{f"~{name}": value ^ 0xFF for name, value in values.items()}}
    joined = {"&": and_, "|": or_, "^": xor}
    single = next((name for name, value in terms.items() if value == table), "")
    if single:
        return single
    pairs = {
        f"{x} {sign} {y}": join(terms[x], terms[y])
        for sign, join in joined.items()
        for x in terms
        for y in terms
        if x.lstrip("~") < y.lstrip("~")
    }
    for text, value in pairs.items():
        if value == table:
            return text
    for text, value in pairs.items():
        for sign, join in joined.items():
            for name, term in terms.items():
                if name.lstrip("~") not in text and join(value, term) == table:
                    return f"({text}) {sign} {name}"
    products = [
        " & ".join(name if bits >> place & 1 else f"~{name}" for name, place in (("a", 2), ("b", 1), ("c", 0)))
        for bits in range(8)
        if table >> bits & 1
    ]
    return " | ".join(f"({product})" for product in products) or "0"


class FunctionPtx(NamedTuple):
    """A kernel or function for the device: its name, the PTX of its body, its file's code, and where its body is."""

    name: str
    uses: tuple[PtxUse, ...]
    code: str
    body: tuple[int, int]

    def words(self) -> set[str]:
        """Return the words of the body, among which are the functions that it calls."""
        begin, end = self.body
        return {word.decode("latin-1") for word in words_of(encode(self.code[begin:end]))}


class CallGraph:
    """Which functions for the device call which, by their names; each body is read once."""

    def __init__(self, functions: Iterable[FunctionPtx]) -> None:
        self._by_name: dict[str, list[FunctionPtx]] = {}
        for function in functions:
            self._by_name.setdefault(function.name, []).append(function)
        self._names = frozenset(self._by_name)
        self._called: dict[int, list[str]] = {}

    def reached(self, kernel: FunctionPtx) -> tuple[PtxUse, ...]:
        """Return the PTX of a kernel and of the functions that it calls, themselves or by others."""
        uses, met, left = list(kernel.uses), {kernel.name}, [kernel]
        while left:
            for name in self._calls(left.pop()):
                if name in met:
                    continue
                met.add(name)
                for function in self._by_name[name]:
                    uses += function.uses
                    left.append(function)
        return tuple(uses)

    def _calls(self, function: FunctionPtx) -> list[str]:
        called = self._called.get(id(function))
        if called is None:
            called = self._called[id(function)] = sorted(function.words() & self._names)
        return called


def _designed(name: str) -> str:
    """Return the entry of `DESIGN` that an instruction is one of."""
    return next((each for each in DESIGN if name == each or name.startswith(f"{each}.")), name)


def sentence(name: str, uses: Iterable[PtxUse]) -> Message | None:
    """Return what a kernel's PTX means for its port, in one sentence; None for a kernel without any."""
    uses = list(uses)
    design = tuple(dict.fromkeys(_designed(each) for use in uses for each in use.design))
    exact = tuple(dict.fromkeys(each for use in uses for each, _ in use.exact))
    unknown = tuple(dict.fromkeys(each for use in uses for each in use.unknown))
    if design:
        return say("the kernel `{name}` rests on {names}: a new kernel is needed", name=name, names=_shown(design))
    if unknown:
        return say("the kernel `{name}` uses {names}, for which no C++ is known here", name=name, names=_shown(unknown))
    if exact:
        return say(
            "the kernel `{name}` needs C++ in place of its PTX (places: {count}): {names}",
            name=name,
            count=str(len(uses)),
            names=_shown(exact),
        )
    return None
