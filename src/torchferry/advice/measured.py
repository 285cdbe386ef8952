"""What a trace says that advice rests on: shares of a step, dtypes and layouts of inputs, waits, fall backs, memory."""

from __future__ import annotations

from functools import cached_property

from torchferry.core.record import NamedTuple
from torchferry.profiling.comparison import ProfiledRun
from torchferry.profiling.reading import DTYPES_AFTER
from torchferry.profiling.records import ANNOTATION, FALLBACK_PREFIX
from torchferry.profiling.summary import TimeRow

PRODUCTS = (
    *("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::convolution_backward"),
    "aten::addbmm",
)
"""Operators that multiply matrices or convolve, none of which calls another of them."""

_DTYPES = {
    "unsigned char": "uint8",
    "signed char": "int8",
    "short": "int16",
    "short int": "int16",
    "int": "int32",
    "long": "int64",
    "long int": "int64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "bool": "bool",
}
"""What a trace calls dtypes, and torch."""

_SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data")
_OPTIMIZER = "Optimizer.step#"


def _added(first: TimeRow, second: TimeRow) -> TimeRow:
    sums = (one + other for one, other in zip(first[2:], second[2:], strict=True))
    return TimeRow(first.name, "", *sums)


class MeasuredRun:
    """What a trace says of a step.

    Args:
        run: The trace, or those of all ranks.

    Attributes:
        run: The same.
        summary: That of the lowest rank.
        is_rehearsed: Whether it was recorded on the simulated card, so that its times mean nothing.
    """

    def __init__(self, run: ProfiledRun) -> None:
        self.run = run
        self.summary = run.first
        self.is_rehearsed = bool(run.first.trace.settings.get("rehearsal"))

    @property
    def has_times(self) -> bool:
        """Return whether its times say anything."""
        return not self.is_rehearsed and self.run.step > 0

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return max(len(self.summary.steps), 1)

    @property
    def step(self) -> float:
        """Return the nanoseconds of a step."""
        return self.run.step

    def part(self, name: str) -> float:
        """Return the nanoseconds of a part of a step; 0 where times say nothing."""
        return self.run.mean(name) if self.has_times else 0.0

    def share(self, time: float) -> float | None:
        """Return a time of a step as a share of it; None where times say nothing."""
        return min(time / self.step, 1.0) if self.has_times else None

    def time_of(self, row: TimeRow) -> float:
        """Return the nanoseconds of a step in which a row's calls ran, with all that they call."""
        return (row.device if self.summary.on_device else row.host) / self.steps

    def own_time_of(self, row: TimeRow) -> float:
        """Return the same without what its calls call."""
        return (row.device_self if self.summary.on_device else row.host_self) / self.steps

    def total_of(self, name: str) -> float:
        """Return the nanoseconds of a step in calls of an operator on the host, which waits for what is on the CPU."""
        return sum(row.host for row in self.summary.rows() if row.name == name) / self.steps

    @cached_property
    def product_times(self) -> dict[int, int]:
        """Nanoseconds of each product and convolution, by the index of the call.

        Of products inside of a product only the outer one counts: what a device computes in is its own affair.
        """
        trace, links, window = self.summary.trace, self.summary.links, self.summary.window
        times: dict[int, int] = {}

        def product_of(index: int) -> int:
            found = -1
            while index >= 0:
                if trace.calls[index].name in PRODUCTS:
                    found = index
                index = links.operator[index]
            return found

        for index, call in enumerate(trace.calls):
            if call.name in PRODUCTS and window[0] <= call.start < window[1] and product_of(index) == index:
                times[index] = 0 if self.summary.on_device else call.end - call.start
        for number, work in enumerate(trace.work):
            index = product_of(links.started_by[number])
            if index in times:
                times[index] += work.end - work.start
        return times

    def products(self, *, convolutions: bool = True) -> dict[str, float]:
        """Return the nanoseconds of a step in matrix products, by the dtypes of their inputs.

        Args:
            convolutions: Whether convolutions count too.
        """
        times: dict[str, float] = {}
        for index, time in self.product_times.items():
            call = self.summary.trace.calls[index]
            _, _, dtypes = call.detail.partition(DTYPES_AFTER)
            if dtypes and (convolutions or "convolution" not in call.name):
                times[dtypes] = times.get(dtypes, 0.0) + time / self.steps
        return times

    @cached_property
    def fallback_places(self) -> dict[str, tuple[str, ...]]:
        """For each operator that the simulated card gave to the CPU, the places `file:line` that called it."""
        places: dict[str, dict[str, None]] = {}
        for call in self.summary.trace.calls:
            if call.kind == ANNOTATION and call.name.startswith(FALLBACK_PREFIX):
                name, _, place = call.name.removeprefix(FALLBACK_PREFIX).partition("#")
                if place:
                    places.setdefault(name, {})[place] = None
        return {name: tuple(found) for name, found in places.items()}

    def float32_products(self, *, convolutions: bool = True) -> float | None:
        """Return the nanoseconds of a step in products of float32; None where the trace says no dtypes.

        Args:
            convolutions: Whether convolutions count too.
        """
        if not self.products():
            return None
        products = self.products(convolutions=convolutions)
        return sum(time for dtypes, time in products.items() if "float" in dtypes.split(","))

    def by_dtype(self) -> dict[str, dict[str, TimeRow]]:
        """Return the operators of PyTorch that ran with inputs of one dtype, by name and torch's name of the dtype."""
        found: dict[str, dict[str, TimeRow]] = {}
        for row in self.summary.rows("shape"):
            _, _, dtypes = row.detail.partition(DTYPES_AFTER)
            dtype = _DTYPES.get(dtypes, "")
            if dtype and row.name.startswith("aten::"):
                before = found.setdefault(row.name, {}).get(dtype)
                found[row.name][dtype] = row if before is None else _added(before, row)
        return found

    @property
    def plain_attention(self) -> float:
        """Return the nanoseconds of a step in softmax and batched products, as attention by its formula has them."""
        rows = [row for row in self.summary.rows() if row.name in (*_SOFTMAX, "aten::bmm", "aten::baddbmm")]
        if not any(row.name in _SOFTMAX for row in rows) or not any(row.name not in _SOFTMAX for row in rows):
            return 0.0
        return sum(self.time_of(row) for row in rows)

    @cached_property
    def optimizer(self) -> float:
        """Nanoseconds of a step in which the optimizer ran: its kernels on a device, else its range on the host."""
        trace, window = self.summary.trace, self.summary.window
        ranges = [
            call
            for call in trace.calls
            if call.kind == ANNOTATION and call.name.startswith(_OPTIMIZER) and window[0] <= call.start < window[1]
        ]
        if not self.summary.on_device:
            return sum(call.end - call.start for call in ranges) / self.steps
        time = 0
        for number, work in enumerate(trace.work):
            launched = self.summary.links.launched[number]
            if launched >= 0 and any(call.start <= launched < call.end for call in ranges):
                time += work.end - work.start
        return time / self.steps

    @cached_property
    def layouts(self) -> dict[str, int]:
        """How many convolutions of a step have inputs of each layout, where the trace says it."""
        layouts: dict[str, int] = {}
        window = self.summary.window
        for call in self.summary.trace.calls:
            if call.layout and window[0] <= call.start < window[1]:
                layouts[call.layout] = layouts.get(call.layout, 0) + 1
        return layouts

    @property
    def waits(self) -> tuple[float, float]:
        """Return how often a step waits for the device or reads a number of a tensor, and for how many nanoseconds."""
        calls = sum(row.calls for row in self.summary.waits) / self.steps
        time = sum(row.time for row in self.summary.waits) / self.steps
        return max(calls, self.summary.numbers_read / self.steps), time

    @property
    def pageable_copies(self) -> float:
        """Return the nanoseconds of a step in copies to the device from memory that is not pinned."""
        rows = (row for row in self.summary.copies if "HtoD" in row.name and "Pageable" in row.name)
        return sum(row.time for row in rows) / self.steps

    @property
    def exposed_communication(self) -> float:
        """Return the nanoseconds of a step in which the device only communicates."""
        return self.part("communication")

    @cached_property
    def slowest(self) -> TimeRow | None:
        """The operator with the most time of its own that is neither a product nor attention; None without one."""
        for row in self.summary.rows("dispatched"):
            if row.name and not any(word in row.name for word in ("mm", "conv", "attention", "linear", "copy_")):
                return row
        return None

    @property
    def peak(self) -> int:
        """Return the most bytes that the device's allocator took; 0 where the trace does not say."""
        peaks = [max(row.reserved, row.allocated) for row in self.summary.peaks if row.device >= 0]
        return max(peaks, default=0)

    @property
    def module_classes(self) -> frozenset[str]:
        """Return the classes of the outermost modules that the trace names."""
        rows = (row.name.partition(".")[0] for row in self.summary.rows("module") if row.name)
        return frozenset(name.rpartition("_")[0] for name in rows)

    @property
    def program(self) -> str:
        """Return the file name of the program that was recorded; empty where the trace does not say."""
        return self.summary.trace.settings.get("program", "")


class LostLayout(NamedTuple):
    """Where convolutions begin to have another layout than those before them.

    Attributes:
        module: The module of the first one; empty where the trace does not say.
        lost: Convolutions of a step with contiguous inputs.
        kept: Convolutions of a step with inputs in channels_last.
        time: Nanoseconds of a step in those that have lost it.
    """

    module: str
    lost: float
    kept: float
    time: float


def lost_layout(measured: MeasuredRun) -> LostLayout | None:
    """Return where `channels_last` is lost within a step; None where it is not, or where the trace does not say."""
    summary = measured.summary
    counts = measured.layouts
    if len(counts) < 2:
        return None
    seen = False
    module = ""
    for index, call in sorted(enumerate(summary.trace.calls), key=lambda entry: entry[1].start):
        if call.layout == "channels_last":
            seen = True
        elif call.layout and seen:
            module = summary.links.module.get(index, "")
            break
    kept, lost = counts.get("channels_last", 0), counts.get("contiguous", 0)
    time = sum(
        each for index, each in measured.product_times.items() if summary.trace.calls[index].layout == "contiguous"
    )
    return LostLayout(module, lost / measured.steps, kept / measured.steps, time / measured.steps)
