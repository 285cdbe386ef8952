"""A `torch` of a few lines that takes down what is asked of CUDA, and of another card, while a program runs."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

KINDS = ("cuda", "npu")
COLLECTIVES = {"nccl": "cuda", "cuda:": "cuda", "hccl": "npu", "npu:": "npu"}
NAMES = ("Event", "Stream", "amp", "device_count", "empty_cache", "is_available", "stream", "synchronize")
_PORTABLE = "torchferry.device.portable"


class Anything:
    """An object that can be called, entered and asked for the few names that programs use."""

    def __call__(self, *values: object, **options: object) -> Anything:
        return self

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *error: object) -> None: ...

    GradScaler = property(lambda self: self)


class Namespace(ModuleType):
    """A part of torch that a card has: each name that is read counts as a use of that card."""

    def __init__(self, kind: str, used: set[str]) -> None:
        super().__init__(f"torch.{kind}")
        names = {name: lambda *values: Anything() for name in NAMES} | {"amp": Anything(), "is_available": lambda: True}
        super().__getattribute__("__dict__").update(names, __all__=list(NAMES), __path__=[], own=(kind, used))

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("__dict__")
        if name in NAMES or name == "__dict__":
            kind, used = names["own"]
            used.add(kind)
        return super().__getattribute__(name)


class Portable(ModuleType):
    """The module with the portable names, on a machine with the other card."""

    def __init__(self, own: ModuleType) -> None:
        super().__init__(_PORTABLE)
        self.whole_module = self.accelerator_namespace = own
        self.ACCELERATOR_TYPE = "npu"
        self.device_string = self.load_location = lambda index=None: "npu" if index is None else f"npu:{index}"
        self.is_available = lambda: True
        self.collective_backend = lambda: "hccl"
        self.composite_backend = lambda: "cpu:gloo,npu:hccl"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


def modules(used: set[str]) -> dict[str, ModuleType]:
    """Return the modules of the stand-in.

    Args:
        used: What gets the kinds of the cards that a program uses.
    """

    class Device(str):
        type = property(lambda self: self.partition(":")[0])

    def takes_device(*values: object, **options: object) -> Any:
        for value in (*values, *options.values()):
            if isinstance(value, str):
                used.update({value.partition(":")[0]}.intersection(KINDS))
        return SimpleNamespace(to=takes_device)

    def takes_backend(*values: object, **options: object) -> None:
        named = " ".join(map(str, (*values, *options.values())))
        used.update(kind for word, kind in COLLECTIVES.items() if word in named)

    def device(type: str, index: int | None = None) -> Device:  # noqa: A002 - torch's name
        takes_device(type)
        return Device(type)

    torch = ModuleType("torch")
    distributed = ModuleType("torch.distributed")
    distributed.init_process_group = distributed.new_group = takes_backend  # type: ignore[attr-defined]
    distributed.Backend = SimpleNamespace(NCCL="nccl", HCCL="hccl")  # type: ignore[attr-defined]
    cards = {kind: Namespace(kind, used) for kind in KINDS}
    torch.__dict__.update(cards, __path__=[], device=device, distributed=distributed)
    torch.__dict__.update(dict.fromkeys(("zeros", "set_default_device", "autocast", "Generator", "load"), takes_device))
    torch.nn = SimpleNamespace(Linear=takes_device)  # type: ignore[attr-defined]
    torch.amp = SimpleNamespace(GradScaler=takes_device, autocast=takes_device)  # type: ignore[attr-defined]
    named = {f"torch.{kind}": card for kind, card in cards.items()}
    portable = Portable(cards["npu"])
    return {"torch": torch, "torch.distributed": distributed, "torch_npu": ModuleType("torch_npu"), **named} | {
        "torch_npu.npu": cards["npu"],
        _PORTABLE: portable,
    }


@contextmanager
def _in_place(root: Path, own: dict[str, ModuleType]) -> Iterator[None]:
    """Let programs of a folder import what is there, and the stand-in in place of torch."""
    tops = {path.name.removesuffix(".py") for path in root.iterdir()}

    def concerned() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in {*tops, "torch", "torch_npu"} or name in own]

    before = {name: sys.modules.pop(name) for name in concerned()}
    folder, words, variables = Path.cwd(), sys.argv, dict(os.environ)
    import torchferry.device as package

    portable = package.__dict__.get("portable")
    package.portable = own[_PORTABLE]
    sys.modules |= own
    sys.path.insert(0, str(root))
    sys.argv, written = ["train.py"], sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path.remove(str(root))
        sys.argv, sys.dont_write_bytecode = words, written
        os.environ.clear()
        os.environ.update(variables)
        for name in concerned():
            del sys.modules[name]
        sys.modules |= before
        del package.portable
        if portable is not None:
            package.portable = portable


def cards_used(root: Path) -> set[str]:
    """Run `train.py` of a folder, and return the kinds of the cards that it used: `cuda`, `npu`."""
    used: set[str] = set()
    main = ModuleType("__main__")
    with _in_place(root, modules(used)), redirect_stdout(io.StringIO()):
        exec(compile((root / "train.py").read_text("utf-8"), "train.py", "exec"), main.__dict__)
    return used
