"""The live probe's masks of attention: a device that takes one form otherwise is named by that form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from torchferry.doctor.probes import live_probe  # noqa: E402

REAL = functional.scaled_dot_product_attention
Attend = Callable[..., Tensor]


def inverted(mask: Tensor | None) -> Tensor | None:
    return ~mask if mask is not None and mask.dtype == torch.bool else mask


def made_boolean(mask: Tensor | None) -> Tensor | None:
    """As transformers does for one card: right for 0 and -inf alone."""
    return mask if mask is None or mask.dtype == torch.bool else torch.logical_not(mask.bool())


def reversed_additive(mask: Tensor | None) -> Tensor | None:
    return mask if mask is None or mask.dtype == torch.bool else mask.bool()


def dropped(mask: Tensor | None) -> None:
    return None


def averaged(mask: Tensor | None) -> Tensor | None:
    """A row in which everything is masked takes the mean of all values."""
    if mask is None or mask.dtype == torch.bool:
        return mask
    return mask.clamp(min=torch.finfo(mask.dtype).min)


EMPTY = {"boolean with an empty row", "additive with an empty row"}
DEVICES: dict[str, tuple[Callable[[Tensor | None], Tensor | None], set[str]]] = {
    "as the CPU": (lambda mask: mask, set()),
    "True is left out": (inverted, {"boolean", "boolean with an empty row"}),
    "a bias is lost": (made_boolean, {"additive bias"}),
    "additive masks are reversed": (reversed_additive, {"additive", "additive bias", "additive with an empty row"}),
    "no mask": (dropped, {"boolean", "additive", "additive bias", *EMPTY}),
    "an empty row is the mean": (averaged, {"additive with an empty row"}),
}


@pytest.fixture
def asked() -> Iterator[None]:
    live_probe.ASKED.update(device="cpu", factory="")
    yield
    live_probe.ASKED.clear()


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("taken", "wrong"), DEVICES.values(), ids=DEVICES)
def test_the_form_that_a_device_takes_otherwise_is_named(
    taken: Callable[[Tensor | None], Tensor | None], wrong: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **more: object) -> Tensor:
        if query.dtype == torch.float16:  # the device's part; the CPU's is in single precision
            mask = taken(mask)
            query, key, value = query.float(), key.float(), value.float()
            mask = mask if mask is None or mask.dtype == torch.bool else mask.float()
            return REAL(query, key, value, mask, **more).half()  # type: ignore[arg-type]
        return REAL(query, key, value, mask, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(functional, "scaled_dot_product_attention", attend)
    assert {form for form, work in live_probe.masks().items() if work()} == wrong
