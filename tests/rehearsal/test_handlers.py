"""Who catches what is about to be raised, told from the frames: held against what Python does."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import textwrap
import threading
from typing import Any

import pytest

from torchferry.rehearsal.handlers import Caught, CodeOwner, CodeOwners, Handler, handler_of

pytestmark = pytest.mark.pure

_ORIGINS = CodeOwners((sysconfig.get_paths()["stdlib"] + os.sep,))


def owner_of(file: str) -> CodeOwner:
    """This file runs the programs, as a test runner does."""
    return CodeOwner.RUNNER if file == __file__ else _ORIGINS(file)


def asked(code: str, error: type[BaseException] = RuntimeError) -> tuple[Handler, bool]:
    """Run code that calls `refuse()`; return what was told of the exception, and whether it came out of the code."""
    told: list[Handler] = []

    def refuse(*_: object) -> None:
        told.append(handler_of(sys._getframe(1), error, owner_of))
        raise error("refused")

    text = textwrap.dedent(code)
    name = f"/program/{abs(hash(text))}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    came_out = False
    names: dict[str, Any] = {"refuse": refuse, "__name__": "program"}
    try:
        exec(compile(text, name, "exec"), names)
    except (error, SystemExit):
        came_out = True
    assert told, "nothing was refused"
    return told[0], came_out


@pytest.mark.parametrize(
    ("code", "caught", "line"),
    [
        ("refuse()", Caught.NOT, 0),
        ("try:\n    refuse()\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 3),
        ("try:\n    refuse()\nexcept Exception as e:\n    print(e)", Caught.REPORTED, 3),
        ("try:\n    refuse()\nexcept:\n    pass", Caught.REPORTED, 3),
        ("try:\n    refuse()\nexcept ValueError:\n    x = 1", Caught.NOT, 0),
        ("try:\n    refuse()\nexcept (OSError, RuntimeError):\n    x = 1", Caught.HANDLED, 3),
        ("import builtins\ntry:\n    refuse()\nexcept builtins.RuntimeError:\n    x = 1", Caught.HANDLED, 4),
        # each handler in its order, and the first that fits
        ("try:\n    refuse()\nexcept ValueError:\n    x = 1\nexcept RuntimeError:\n    x = 2", Caught.HANDLED, 5),
        # raised again, as itself or as another, or the program ends
        ("try:\n    refuse()\nexcept RuntimeError:\n    print(1)\n    raise", Caught.NOT, 0),
        ("try:\n    refuse()\nexcept RuntimeError as e:\n    raise RuntimeError('b') from e", Caught.NOT, 0),
        ("import sys\ntry:\n    refuse()\nexcept RuntimeError:\n    sys.exit(3)", Caught.NOT, 0),
        ("try:\n    try:\n        refuse()\n    except RuntimeError:\n        raise\nexcept Exception:\n    x = 1",
         Caught.HANDLED, 6),
        # only what stands in the `try` itself is protected
        ("try:\n    x = 1\nexcept RuntimeError:\n    x = 2\nelse:\n    refuse()", Caught.NOT, 0),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    refuse()", Caught.NOT, 0),
        ("try:\n    refuse()\nfinally:\n    x = 1", Caught.NOT, 0),
        # another frame
        ("def f():\n    refuse()\ntry:\n    f()\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 5),
        ("def f():\n    try:\n        refuse()\n    except RuntimeError:\n        return 2\nf()", Caught.HANDLED, 4),
        ("class A:\n    def f(self):\n        return [refuse(i) for i in range(2)]\n"
         "try:\n    A().f()\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 6),
        ("f = lambda: refuse()\ntry:\n    f()\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 4),
        ("def g():\n    yield refuse()\ntry:\n    next(g())\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 5),
        # a decorator in front of the function
        ("import functools\n@functools.lru_cache\n@functools.lru_cache\ndef f():\n    try:\n        refuse()\n"
         "    except RuntimeError:\n        return 1\nf()", Caught.HANDLED, 7),
        # a call over several lines
        ("try:\n    print(\n        1,\n        refuse(),\n    )\nexcept RuntimeError:\n    x = 1", Caught.HANDLED, 6),
        ("import contextlib\nwith contextlib.suppress(RuntimeError):\n    refuse()", Caught.REPORTED, 2),
        ("import contextlib\nwith contextlib.suppress(OSError):\n    refuse()", Caught.NOT, 0),
        ("from contextlib import suppress\nwith open('/dev/null'), suppress(Exception):\n    refuse()",
         Caught.REPORTED, 2),
        # Python's library catches around the program's own code: that part of the program ends
        ("from concurrent.futures import ThreadPoolExecutor as P\nwith P(1) as p:\n"
         "    x = p.submit(refuse).exception()", Caught.NOT, 0),
        # a class that is a name of the function's own: nobody looks, and it may be the one
        ("def f():\n    import builtins as b\n    try:\n        refuse()\n    except b.OSError:\n        return 1\n"
         "    except RuntimeError:\n        return 2\nf()", Caught.HANDLED, 5),
        # called by C, without a frame in between
        ("class A(dict):\n    __missing__ = refuse\ntry:\n    A()[1]\nexcept RuntimeError:\n    x = 1",
         Caught.HANDLED, 5),
        ("def f():\n    refuse()\nfrom concurrent.futures import ThreadPoolExecutor as P\n"
         "with P(1) as p:\n    x = p.submit(f).exception()", Caught.NOT, 0),
    ],
)  # fmt: skip
def test_what_becomes_of_an_exception(code: str, caught: Caught, line: int) -> None:
    handler, came_out = asked(code)
    assert (handler.caught, handler.line) == (caught, line)
    if caught in (Caught.HANDLED, Caught.REPORTED):
        assert not came_out
        assert handler.file.startswith("/program/")


def test_a_thread_that_dies_has_no_handler() -> None:
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        code = "import threading\ndef f():\n    refuse()\nt = threading.Thread(target=f)\nt.start()\nt.join()"
        assert asked(code)[0].caught is Caught.NOT
    finally:
        threading.excepthook = hook


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError, AttributeError, AssertionError])
@pytest.mark.parametrize("named", ["RuntimeError", "AttributeError", "(AttributeError, OSError)", "Exception", "Gone"])
def test_classes_are_compared_as_python_does(error: type[BaseException], named: str) -> None:
    code = f"try:\n    refuse()\nexcept {named}:\n    x = 1"
    if named == "Gone":  # a name that is not there: nobody knows
        with pytest.raises(NameError):
            asked(code, error)
        return
    handler, came_out = asked(code, error)
    assert (handler.caught is Caught.HANDLED) != came_out


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/env/lib/python3.11/site-packages/torch/nn/modules/module.py", CodeOwner.PLATFORM),
        ("/env/lib/python3.11/site-packages/accelerate/state.py", CodeOwner.OTHER),
        ("/env/lib/python3.11/site-packages/_pytest/python.py", CodeOwner.RUNNER),
        ("/plugins/torch_npu/npu/utils.py", CodeOwner.PLATFORM),
        ("/home/me/train.py", CodeOwner.OTHER),
        ("<frozen importlib._bootstrap>", CodeOwner.PLATFORM),
        ("/home/me/torch/train.py", CodeOwner.OTHER),
        ("/home/me/ray/flask/train.py", CodeOwner.OTHER),
        ("/env/lib/python3.11/site-packages/execnet/gateway_base.py", CodeOwner.RUNNER),
    ],
)
def test_whose_code_a_file_holds(file: str, owner: CodeOwner) -> None:
    assert CodeOwners(("/plugins/torch_npu/", "/usr/lib/python3.11/"))(file) is owner


def test_code_without_a_file_has_no_handler_that_is_seen() -> None:
    told: list[Handler] = []

    def refuse() -> None:
        told.append(handler_of(sys._getframe(1), RuntimeError, owner_of))

    exec("try:\n    refuse()\nexcept RuntimeError:\n    x = 1", {"refuse": refuse})
    assert told[0].caught is Caught.NOT
