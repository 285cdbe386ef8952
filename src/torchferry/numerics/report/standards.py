"""The standards that results can be judged by: what each asks, and where it is written."""

from __future__ import annotations

from typing import NamedTuple


class Described(NamedTuple):
    """What a standard asks of a result, and its source."""

    says: str
    source: str


_CANN_DOUBLE = "CANN double benchmark (gitcode W4termy/cannbot float_compute.md; msprobe standard_config.py)"

STANDARDS = {
    "ours": Described(
        "error within the rounding bound of the operator, or RMSE at most 2 and greatest error at most 10 times "
        "the CPU's in the same dtype",
        "Higham, Accuracy and Stability of Numerical Algorithms, ch. 3 and 4; CANN double benchmark L0; "
        "torch._dynamo.utils.same",
    ),
    "given": Described("every element within atol + rtol * |reference|, as given", "the user"),
    "cann-mixed": Described(
        "99 % of the elements within atol + rtol * |reference|, greatest error at most max(limit, 32 ULP)",
        "CANN opbase mixed tolerance, 2026 (ops-test-kit Precision_Comparison.md)",
    ),
    "cann-mere": Described(
        "MERE below the dtype's limit, and MARE below ten times of it",
        "CANN single benchmark (cann-bench precision_comparison_design.md)",
    ),
    "cann-double": Described("MARE, MERE and RMSE at most 10, 2 and 2 times the CPU's (level L0)", _CANN_DOUBLE),
    "cann-double-l0": Described("MARE, MERE and RMSE at most 10, 2 and 2 times the CPU's", _CANN_DOUBLE),
    "cann-double-l1": Described("MARE, MERE and RMSE at most 5, 1.5 and 1.5 times the CPU's", _CANN_DOUBLE),
    "cann-double-l2": Described("MARE, MERE and RMSE at most 2, 1.2 and 1.2 times the CPU's", _CANN_DOUBLE),
    "ascend-cosine": Described(
        "cosine above 0.99; then greatest error below 0.001, or shares of elements with small relative errors",
        "msprobe acc_check, first pass (mindstudio-probe 26.2)",
    ),
    "torch": Described("every element within the tolerances of torch.testing.assert_close", "torch.testing"),
    "inductor": Described(
        "close, or RMSE at most 2 or 3 times the CPU's in the same dtype", "torch._dynamo.utils.same, as inductor's CI"
    ),
}
"""By the name under which each is asked for."""

NAMES = tuple(STANDARDS)
SOURCES = {name: described.source for name, described in STANDARDS.items()}
