"""How a redirect begins and ends: everything is put back, twice is once, and what cannot be is said."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import warm
from tests.rehearsal.child import ENVIRONMENT, run_snippet
from torchferry.backends import registry
from torchferry.core import supported_torch

pytest.importorskip("torch")

PLUGIN = "import importlib; importlib.import_module(session.backend.PLUGIN)\nfrom torchferry.shim import enable\n"


def redirected(snippet: str, target: str = "musa") -> str:
    """Return what a program prints that has the simulated card and the plugin."""
    return run_snippet(PLUGIN + textwrap.dedent(snippet), target)[0].strip()


@pytest.mark.parametrize("target", registry.built_in())
def test_disabling_puts_back_every_name_of_torch(target: str) -> None:
    printed = redirected(
        """
        import sys
        import torch.distributed.device_mesh, torch.distributed.fsdp, torch.utils._device, torch.utils.cpp_extension
        from torchferry.shim import install
        namespace = session.namespace.__name__
        owners = [m for n, m in sys.modules.items() if n.partition(".")[0] == "torch" and not n.startswith(namespace)]
        owners += [torch.Tensor, torch.UntypedStorage, torch.TypedStorage, torch.amp.autocast_mode.autocast]
        owners += [torch.nn.parallel.DistributedDataParallel, torch.utils.data.DataLoader, type(torch.backends.cudnn)]
        def names():
            found = {(str(o), k): v for o in owners for k, v in vars(o).items() if not k.startswith("__")}
            return found | {(str(o), "class"): type(o) for o in owners}
        def differing(now):
            return [k for k in now.keys() | before.keys() if now.get(k) is not before.get(k)]
        if session.backend.NAME == "ptex":
            import torch_gcu.nn.parallel  # which gives torch.Tensor an attribute of its own
        before, registry = names(), list(torch.serialization._package_registry)
        redirect = enable("auto")
        print(len(redirect.names) > 300, len(differing(names())) > 250, redirect.active)
        redirect.disable()
        print(differing(names()), registry == torch.serialization._package_registry, redirect.active)
        print(torch.cuda.is_available(), torch.ones(1).is_cuda)
        """,
        target,
    )
    assert printed.splitlines() == ["True True True", "[] True False", "False False"]


def test_a_context_manager_ends_it_also_after_an_error() -> None:
    printed = redirected("""
        try:
            with enable():
                assert torch.cuda.is_available()
                raise KeyError("mine")
        except KeyError as error:
            print(error, torch.cuda.is_available())
    """)
    assert printed == "'mine' False"


def test_enabled_twice_it_ends_with_the_last_disable() -> None:
    printed = redirected("""
        first, second = enable("musa"), enable("auto")
        print(first is second)
        first.disable()
        print(torch.cuda.is_available())
        second.disable(); second.disable()
        print(torch.cuda.is_available())
        with enable("musa"):
            print(torch.ones(1).cuda().is_cuda)
    """)
    assert printed.split() == ["True", "True", "False", "True"]


def test_an_entry_point_that_torch_loads_twice_begins_once() -> None:
    printed, said = run_snippet(
        PLUGIN
        + textwrap.dedent("""
        from torchferry.shim import entry
        entry.autoload(), entry.autoload()
        redirect = enable()
        for _ in range(2):
            redirect.disable()
            print(redirect.active)
        """),
        "musa",
        environment={"TORCHFERRY_SHIM": "on", "TORCHFERRY_LANG": "en"},
    )
    assert printed.split() == ["True", "False"]
    assert said.count("torch.cuda of this program runs on") == 1


def test_another_target_is_refused_while_one_is_redirected_to() -> None:
    printed = redirected("""
        from torchferry.core.errors import TorchferryError
        redirect = enable("musa")
        for other in ("npu", "cuda"):
            try:
                enable(other)
            except TorchferryError as error:
                print(error)
        print(redirect.active, torch.cuda.is_available())
    """)
    advice = "disable the first redirect, or start another process"
    assert printed.splitlines() == [
        f"torch.cuda is already redirected to musa@2.7.1 and cannot be redirected to npu as well; {advice}",
        f"torch.cuda is already redirected to musa@2.7.1 and cannot be redirected to cuda as well; {advice}",
        "True True",
    ]


def test_what_somebody_else_replaced_since_stays_theirs() -> None:
    printed = redirected("""
        import warnings
        redirect = enable()
        mine = torch.load
        torch.load = lambda *a, **k: mine(*a, **k)
        theirs = torch.load
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            redirect.disable()
        print(torch.load is theirs, [str(w.message) for w in seen])
        import io
        b = io.BytesIO(); torch.save(torch.ones(1), b); b.seek(0)
        print(torch.load(b, map_location="cpu"))
        try:
            b.seek(0); torch.load(b, map_location="cuda")
        except Exception as error:
            print(type(error).__name__)
    """)
    assert printed.splitlines() == [
        "True ['torchferry: torch.load was replaced by other code after the redirect began, and is not restored']",
        "tensor([1.])",
        "RuntimeError",
    ]


def test_tensors_made_before_and_after_are_the_cards() -> None:
    printed = redirected("""
        x = torch.ones(2, device=device)
        redirect = enable()
        print(x.device, x.is_cuda, (x + torch.ones(2, device="cuda")).tolist())
        y = torch.ones(2, device="cuda")
        redirect.disable()
        print(y.device, y.is_cuda, (x + y).tolist())
    """)
    assert printed.splitlines() == ["cuda:0 True [2.0, 2.0]", "musa:0 False [2.0, 2.0]"]


def test_all_threads_see_it() -> None:
    printed = redirected("""
        import threading
        redirects, seen = [], []
        def work():
            redirects.append(enable())
            seen.append((torch.cuda.is_available(), str(torch.ones(1).cuda().device)))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(set(seen), len(set(map(id, redirects))))
        [r.disable() for r in redirects]
        print(torch.cuda.is_available())
    """)
    assert printed.splitlines() == ["{(True, 'cuda:0')} 1", "False"]


def test_names_that_older_versions_of_torch_lack_are_not_needed() -> None:
    printed = redirected("""
        import torch._streambase, torch.library
        from abc import ABC
        class _EventBase(ABC): ...  # torch 2.3 to 2.5, whose tracer asserts that CUDA's events are of this class
        torch._streambase._EventBase = _EventBase
        del torch.get_default_device, torch.get_autocast_dtype, torch.set_autocast_dtype, torch.amp.grad_scaler
        del torch._C._dispatch_key_for_device, torch.library.CustomOpDef
        torch.musa.is_autocast_enabled = lambda: torch._C.is_autocast_enabled("musa")
        redirect = enable()
        print(issubclass(torch.cuda.Event, _EventBase), torch.ones(2, device="cuda").device)
        before = torch.is_autocast_enabled()
        torch._C.set_autocast_enabled("musa", True)
        print(before, torch.is_autocast_enabled())
        redirect.disable()
        print(torch.cuda.is_available(), torch.is_autocast_enabled("cpu"))
    """)
    assert printed.splitlines() == ["True cuda:0", "False True", "False False"]


def test_a_loader_that_lives_on_goes_on_working() -> None:
    printed = redirected("""
        from torch.utils.data import DataLoader
        redirect = enable()
        batches = iter(DataLoader(torch.arange(8.0), batch_size=2, num_workers=1, pin_memory=True))
        print(next(batches).cuda().device)
        redirect.disable()
        print([b.tolist() for b in batches])
    """)
    assert printed.splitlines() == ["cuda:0", "[[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]"]


def test_cuda_itself_is_left_alone() -> None:
    code = """
        import torch
        from torchferry.shim import enable
        before = torch.zeros, torch.Tensor.to, torch.cuda.is_available
        with enable("cuda") as redirect:
            print(redirect.names, before == (torch.zeros, torch.Tensor.to, torch.cuda.is_available), redirect)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stdout.strip() == "() True <torchferry redirect of torch.cuda to cuda, active>"


_CHAINED = """
try:
    raise ImportError("libmudnn.so.1: cannot open shared object file")
except ImportError as error:
    raise ImportError("try another directory!") from error
"""

_BEGIN = """
import os, sys, torch
sys.path.insert(0, os.environ["PLUGINS"])
from torchferry.core.errors import TorchferryError
from torchferry.shim import enable
before = torch.zeros
try:
    enable(os.environ["WANTED"])
except TorchferryError as error:
    print(error)
    print(error.advice, "|", before is torch.zeros)
"""


@pytest.mark.parametrize(
    ("plugins", "target", "messages"),
    [
        ({}, "auto", ["no accelerator's plugin is installed, and there is no CUDA device; install the plugin of one"]),
        (
            {},
            "npu",
            ["the plugin `torch_npu` of Huawei Ascend is not installed in ", "; install CANN first"],
        ),
        ({"torch_npu": "", "torch_musa": ""}, "auto", ["several plugins are installed: torch_musa, torch_npu"]),
        ({"torch_npu": "raise OSError('libxyz.so: cannot open')"}, "auto", ["OSError: libxyz.so: cannot open; `torch"]),
        ({"torch_npu": "import sys; sys.exit('no driver')"}, "npu", ["fails to import: SystemExit: no driver; `torch"]),
        ({"torch_npu": ""}, "npu", ["torch_npu.py, registers no device `npu` with torch; `torchferry doctor --target"]),
        (
            {"torch_musa": _CHAINED},
            "auto",
            [
                "ImportError: try another directory!\n    <- ImportError: libmudnn.so.1: cannot open",
                "the MUSA libraries are not on the loader's path",
                "`torchferry doctor --target musa` checks the machine",
                "\n    export LD_LIBRARY_PATH=",
            ],
        ),
        ({}, "nppu", ["unknown target `nppu`; did you mean `npu`?"]),
    ],
)
def test_what_keeps_it_from_beginning_is_said(
    plugins: dict[str, str], target: str, messages: list[str], tmp_path: Path
) -> None:
    for name, text in plugins.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {**ENVIRONMENT, "PLUGINS": str(tmp_path), "WANTED": target, "TORCHFERRY_LANG": "en"}
    (done,) = warm.run(_BEGIN, environments=[environment])
    assert [message for message in messages if message not in done.stdout] == [], done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("| True")


_WITHOUT_CARD = """
import importlib, os
importlib.import_module(session.backend.PLUGIN)
from torchferry.backends.target import Target
from torchferry.shim import enable
from torchferry.shim.resolve import find
api = Target(session.backend).api
places = [api(f"torch.cuda.{name}").use.rpartition(".") for name in ("is_available", "device_count")]
places += [("torch.accelerator", ".", "is_available"), ("torch.accelerator", ".", "device_count")]
def answer(value):
    for path, _, name in places:
        setattr(find(path), name, lambda: type(value)(0))
    return [getattr(find(path), name) for path, _, name in places]
def asked():
    told = []
    for ask in (torch.cuda.is_available, torch.cuda.device_count, torch.accelerator.is_available,
                torch.accelerator.device_count, lambda: torch.accelerator.current_accelerator(True)):
        try:
            told.append(ask())
        except RuntimeError as error:
            told.append("finds no card" in str(error) and "torchferry doctor --target" in str(error))
    return told
"""


@pytest.mark.parametrize("target", registry.built_in())
def test_without_a_card_no_program_is_told_that_there_is_no_cuda(target: str) -> None:
    printed, said = run_snippet(
        _WITHOUT_CARD
        + textwrap.dedent("""
        there = answer(0)
        with enable():
            print(asked())
            os.environ[session.backend.VISIBLE_DEVICES] = "7"
            print(asked())
            for hidden in ("", "-1"):
                os.environ[session.backend.VISIBLE_DEVICES] = hidden
                print(asked())
        print([getattr(find(path), name) for path, _, name in places] == there)
        """),
        target,
    )
    refused, hidden = "[True, True, True, True, True]", "[0, 0, 0, 0, None]"
    assert printed.splitlines() == [refused, refused, hidden, hidden, "True"]
    assert "_VISIBLE_DEVICES` is `7`" in said


def test_a_list_of_cards_is_compared_with_the_plugin_s_count_and_one_that_comes_late_is_told() -> None:
    _, said = run_snippet(
        PLUGIN
        + textwrap.dedent("""
        import os
        with enable():
            os.environ["CUDA_VISIBLE_DEVICES"] = "0,7"
            print(torch.cuda.device_count(), torch.cuda.device_count())
            torch.ones(1).cuda()
            os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        """),
        "npu",
    )
    assert said.count("`ASCEND_RT_VISIBLE_DEVICES=0,7` asks for 2 cards, and a program gets 1: number 7 is not") == 1
    assert said.count("`ASCEND_RT_VISIBLE_DEVICES=0` was set after the device was first used") == 1


def test_a_card_that_was_seen_or_is_another_process_s_is_not_missing() -> None:
    printed = redirected(
        _WITHOUT_CARD
        + textwrap.dedent("""
        with enable():
            print(torch.cuda.device_count())
        module = session.namespace
        first = [True, False]
        module.is_available = lambda: first.pop(0)
        with enable():
            print(torch.cuda.is_available(), torch.cuda.is_available())
        answer(0)
        module._is_in_bad_fork = lambda: True
        with enable():
            print(torch.cuda.is_available(), torch.cuda.device_count())
        """)
    )
    assert printed.splitlines() == ["2", "True False", "0 0"]


def test_a_torch_that_is_not_tested_is_said_once() -> None:
    printed, said = run_snippet(
        PLUGIN
        + textwrap.dedent("""
        import warnings
        from torchferry.shim import launcher, redirect
        for version in (torch.__version__, "2.1.2+cu121", "2.6.0", "2.99.0a0+git1"):
            torch.__version__ = version
            with warnings.catch_warnings(record=True) as seen, enable() as begun:
                launcher.announce(begun)
            print([(str(w.message), w.filename) for w in seen])
        """),
        "npu",
        environment={"TORCHFERRY_LANG": "en"},
    )
    told = "torchferry: torch 2.99.0a0+git1 is not tested with the redirect, which ran with torch "
    told += supported_torch.ran()
    assert printed.splitlines() == ["[]", "[]", "[]", f"[({told!r}, '<string>')]"]
    assert said.count("is not tested with the redirect") == 1
