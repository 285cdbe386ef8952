"""Packages of made environments: which are opened, what they are said to be, and that nothing in them can do harm."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.installed.made import install, library, site_of
from torchferry.backends.registry import names
from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.installed import inspection
from torchferry.installed.cache import Cache
from torchferry.installed.describing import package_message, state_message
from torchferry.installed.environment import Environment, environment_of
from torchferry.installed.facts import without_silent
from torchferry.installed.inspection import inspect
from torchferry.installed.model import Inspected, PlaceNeed, State

NPU = Target.named("npu")
TORCH = "import torch\n"


def look(root: Path, *modules: str, cache: Cache | None = None) -> dict[str, Inspected]:
    return inspect(environment_of(root), modules, NPU, cache=cache)


STATES: dict[str, tuple[dict[str, str | bytes], State]] = {
    "host": ({"pkg/__init__.py": "import json\n"}, State.HOST),
    "words of CUDA without torch": ({"pkg/__init__.py": "def f(device='cuda'): pass\n"}, State.HOST),
    "follows": ({"pkg/__init__.py": TORCH + "def f(x, d): return x.to(d)\n"}, State.FOLLOWS),
    "chooses": ({"pkg/__init__.py": TORCH + "def f(x): return x.cuda()\n"}, State.CHOOSES),
    "its tests choose": (
        {"pkg/__init__.py": TORCH, "pkg/tests/test_a.py": TORCH + "def f(x): return x.cuda()\n"},
        State.FOLLOWS,
    ),
    "knows": ({"pkg/__init__.py": TORCH + "import torch_npu\ndef f(x): return x.cuda()\n"}, State.KNOWS),
    "compiled": (
        {"pkg/__init__.py": "", "pkg/_C.abi3.so": library(["libcudart.so.12"])},
        State.KERNELS,
    ),
    "compiled for the CPU": ({"pkg/__init__.py": TORCH, "pkg/_C.abi3.so": library(["libc.so.6"])}, State.FOLLOWS),
    "kernels on import": (
        {
            "pkg/__init__.py": "from .ops import k\n",
            "pkg/ops.py": TORCH + "import triton\n@triton.jit\ndef k(): pass\n",
        },
        State.KERNELS,
    ),
    "kernels aside": (
        {
            "pkg/__init__.py": TORCH,
            "pkg/fast.py": TORCH + "import triton\n@triton.jit\ndef k(): pass\n",
            **{f"pkg/m{number}.py": TORCH for number in range(6)},
        },
        State.FOLLOWS,
    ),
    "another platform": ({"pkg.pyd": b"MZ"}, State.UNREAD),
    "cannot be parsed": ({"pkg/__init__.py": TORCH + "x = 'cuda'\nprint 'x'\n"}, State.UNREAD),
}


@pytest.mark.parametrize(("files", "state"), STATES.values(), ids=STATES)
def test_states(tmp_path: Path, files: dict[str, str | bytes], state: State) -> None:
    install(site_of(tmp_path), "pkg", files)
    found = look(tmp_path, "pkg")["pkg"]
    assert found.state is state
    assert found.version == "1.0"
    assert package_message(found).render("zh")
    assert state_message(found.state).render("zh")


def test_only_what_is_reached_is_opened_and_the_way_is_told(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    install(
        site,
        "first",
        {"first/__init__.py": "import os\n\nfrom second.part import x\n", "first/late.py": "import third\n"},
    )
    install(
        site,
        "second",
        {"second/__init__.py": "", "second/part.py": "try:\n    import fourth\nexcept ImportError: pass\n"},
    )
    for name in ("third", "fourth", "fifth"):
        install(site, name, {f"{name}.py": ""})
    opened: list[str] = []
    found = inspect(environment_of(tmp_path), ["first"], NPU, progress=lambda package, waiting: opened.append(package))
    assert list(found) == opened == ["first", "second"]
    assert [str(step) for step in found["second"].chain] == ["first/__init__.py:3"]
    assert found["second"].run == {"second", "second.part"}
    assert "third" in look(tmp_path, "first.late")


def test_a_compiled_module_that_the_import_needs(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    cuda = library(["libcudart.so.12"])
    install(site, "hard", {"hard/__init__.py": "from . import _C\n", "hard/_C.abi3.so": cuda})
    install(
        site,
        "soft",
        {"soft/__init__.py": "try:\n    from . import _C\nexcept ImportError:\n    pass\n", "soft/_C.abi3.so": cuda},
    )
    found = look(tmp_path, "hard", "soft")
    fails = found["hard"].import_fails
    assert fails is not None
    assert fails.path == "hard/_C.abi3.so"
    assert found["soft"].import_fails is None
    assert found["soft"].state is State.KERNELS


def test_namespaces_single_modules_and_broken_metadata(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    install(site, "ns-one", {"ns/one/__init__.py": ""}, "1.1")
    install(site, "ns-two", {"ns/two/__init__.py": ""}, "2.2")
    install(site, "single", {"single.cpython-311-x86_64-linux-gnu.so": library(["libcublas.so.12"])})
    install(site, "broken", {"broken/__init__.py": ""}, metadata="no fields at all\n")
    install(site, "nolist", {"nolist/__init__.py": TORCH}, "3.3", record=False)
    (site / "stray").mkdir()
    (site / "stray" / "__init__.py").write_text("")
    found = look(tmp_path, "ns.two.part", "ns.one", "ns", "single", "broken", "nolist", "stray")
    assert {name: (item.distribution, item.version) for name, item in found.items()} == {
        "broken": ("broken", "1.0"),
        "nolist": ("nolist", "3.3"),
        "ns.one": ("ns-one", "1.1"),
        "ns.two": ("ns-two", "2.2"),
        "single": ("single", "1.0"),
        "stray": ("stray", ""),
    }
    assert found["broken"].problem is not None
    assert found["single"].state is State.KERNELS


def test_the_standard_library_comes_first_and_torch_is_the_plugins(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    for name in ("json", "torch", "typing"):
        install(site, name, {f"{name}/__init__.py": ""})
    assert look(tmp_path, "json", "torch", "typing", "not_there", "..", "a b", "") == {}


def test_editable_installations_and_archives(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    (tmp_path / "work" / "mine").mkdir(parents=True)
    (tmp_path / "work" / "mine" / "__init__.py").write_text(TORCH + "def f(x): return x.cuda()\n")
    (tmp_path / "other" / "theirs").mkdir(parents=True)
    (tmp_path / "other" / "theirs" / "__init__.py").write_text("")
    (site / "mine.pth").write_text(f"import os; os.abort()\n{tmp_path / 'work'}\n/nowhere\n")
    (site / "__editable___theirs_1_0_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'theirs': {str(tmp_path / 'other' / 'theirs')!r}}}\n"
    )
    (site / "packed-1.0-py3.11.egg").write_bytes(b"PK\x05\x06" + bytes(18))
    found = look(tmp_path, "mine", "theirs", "packed")
    assert (found["mine"].state, found["mine"].editable) == (State.CHOOSES, True)
    assert found["theirs"].editable
    assert found["packed"].state is State.UNREAD
    assert "packed-1.0-py3.11.egg" in str(found["packed"].problem)


def test_links_and_lying_lists_lead_nowhere(tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "mod.py").write_text(TORCH + "def f(x): return x.cuda()\n")
    install(site, "pkg", {"pkg/__init__.py": ""})
    (site / "pkg" / "folder").symlink_to(secret)
    (site / "pkg" / "file.py").symlink_to(secret / "mod.py")
    os.mkfifo(site / "pkg" / "pipe.py")
    record = site / "pkg-1.0.dist-info" / "RECORD"
    lies = [
        "pkg/folder/mod.py",
        "pkg/file.py",
        "pkg/pipe.py",
        "../../../../../secret/mod.py",
        str(secret / "mod.py"),
        "pkg/../pkg/x.py",
    ]
    record.write_text(record.read_text() + "".join(f"{path},,\n" for path in lies))
    found = look(tmp_path / "env", "pkg")["pkg"]
    assert found.counts == ()
    assert {path for path, _ in found.unread} == {"pkg/folder/mod.py", "pkg/file.py", "pkg/pipe.py"}


def test_ten_thousand_modules_are_asked_about_in_bounded_work(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    install(
        site,
        "pkg",
        {f"pkg/m{number}.py": f"import pkg.m{number + 1}\n" for number in range(2000)} | {"pkg/__init__.py": ""},
    )
    found = look(tmp_path, *(f"pkg.m{number}" for number in range(5000)), *(f"none{number}" for number in range(5000)))
    assert list(found) == ["pkg"]
    assert len(found["pkg"].run) == 2001


@pytest.mark.parametrize("name", ["missing", "empty", "broken"])
def test_what_is_no_environment_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyvenv.cfg").write_text("home = /nowhere\n")
    with pytest.raises(UsageError):
        environment_of(tmp_path / name)


def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho '{\"folders\": 3}'\n")
    with pytest.raises(UsageError):
        environment_of(program)  # it may not be run
    program.chmod(0o755)
    with pytest.raises(UsageError):
        environment_of(program)


def test_an_interpreter_is_asked_only_where_its_folders_do_not_say(tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")  # its bin/python is /bin/false
    for place in (tmp_path / "env", tmp_path / "env" / "bin" / "python"):
        found = environment_of(place)
        assert (found.folders, found.version) == ((site,), "3.11")
    alone = tmp_path / "bin" / "python"
    alone.parent.mkdir()
    alone.write_text(
        f'#!/bin/sh\necho \'{{"folders": ["{site}", "/nowhere", 1], "version": "3.9", "platform": "p"}}\'\n'
    )
    alone.chmod(0o755)
    assert environment_of(alone) == Environment(alone, (site,), "3.9", "p")


def test_another_machines_folder_is_read_alone(tmp_path: Path) -> None:
    site = tmp_path / "copied"
    (tmp_path / "elsewhere").mkdir()
    install(site, "pkg", {"pkg/__init__.py": ""})
    (site / "x.pth").write_text(f"{tmp_path / 'elsewhere'}\n")
    assert environment_of(site).folders == (site,)


# --- the cache ---


def test_results_are_kept_and_found_again(tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    install(site, "pkg", {"pkg/__init__.py": TORCH + "def f(x): return x.cuda()\n"})
    cache = Cache(tmp_path / "cache")
    first = look(tmp_path / "env", "pkg", cache=cache)
    [kept] = (tmp_path / "cache").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    (site / "pkg" / "__init__.py").write_text("")  # its list of files is as before: the result is, too
    assert look(tmp_path / "env", "pkg", cache=cache) == first
    record = site / "pkg-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "\n")
    assert look(tmp_path / "env", "pkg", cache=cache)["pkg"].state is State.HOST
    assert len({str(Target.named(name)) for name in names()}) > 1
    inspect(environment_of(tmp_path / "env"), ["pkg"], Target.named("musa"), cache=cache)
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_cache_that_cannot_be_used_is_as_none(tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    install(site, "pkg", {"pkg/__init__.py": TORCH + "def f(x): return x.cuda()\n"})
    (tmp_path / "file").write_text("")
    assert look(tmp_path / "env", "pkg", cache=Cache(tmp_path / "file"))["pkg"].state is State.CHOOSES


def rewrite(kept: Path, document: object) -> None:
    """Put another document into a kept file, with the hash that belongs to it."""
    text = json.dumps(document)
    kept.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hostile_content_of_the_cache_is_not_believed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("c")
    site = site_of(root / "env")
    install(site, "pkg", {"pkg/__init__.py": TORCH + "def f(x): return x.cuda()\n"})
    cache = Cache(root / "cache")
    expected = look(root / "env", "pkg", cache=cache)
    [kept] = (root / "cache").iterdir()
    document = json.loads(kept.read_text().partition("\n")[2])
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=6,
    )
    key = data.draw(st.sampled_from([*document, "whole", "text"]))
    if key == "whole":
        rewrite(kept, data.draw(values))
    elif key == "text":
        kept.write_bytes(data.draw(st.binary(max_size=50)))
    else:
        document[key] = data.draw(values.filter(lambda value: value not in ([], {})))
        rewrite(kept, document)
    found = look(root / "env", "pkg", cache=cache)
    assert list(found) == ["pkg"]
    if key in ("whole", "text", "evidence", "imports", "unread"):
        assert found == expected or found["pkg"].evidence == expected["pkg"].evidence


def test_a_kept_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    install(site, "pkg", {"pkg/__init__.py": TORCH})
    cache = Cache(tmp_path / "cache")
    look(tmp_path / "env", "pkg", cache=cache)
    [kept] = (tmp_path / "cache").iterdir()
    document = json.loads(kept.read_text().partition("\n")[2])
    document["counts"] = {"compiled": 3}
    rewrite(kept, document)
    assert look(tmp_path / "env", "pkg", cache=cache)["pkg"].places(PlaceNeed.COMPILED) == 3
    kept.chmod(0o666)
    assert look(tmp_path / "env", "pkg", cache=cache)["pkg"].places(PlaceNeed.COMPILED) == 0


# --- cutting ---

PARTS = (
    "import torch\n",
    "def f():\n    return 1\n",
    "@deco\ndef g(x):\n    x.cuda()\n",
    "class C:\n    a = 1\n\n    def m(self): pass\n",
    "x = (\n    1,\n)\n",
    "# text\n",
    "\n",
    "S = '''\ndef inside():\n'''\n",
    "if a:\n    def h(): pass\n",
    "async def k(): pass\n",
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_a_cut_file_keeps_its_lines_and_what_speaks(parts: list[str]) -> None:
    text = "".join(parts).encode()
    offsets = [match for match in range(len(text)) if text.startswith(b".cuda", match)]
    short = without_silent(text, offsets)
    assert short.count(b".cuda") == text.count(b".cuda")
    for line, kept in zip(text.split(b"\n"), short.split(b"\n"), strict=True):
        assert kept in (line, b"")


def test_what_is_beyond_a_limit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of(tmp_path)
    for name in ("one", "two"):
        install(site, name, {f"{name}/__init__.py": TORCH})
    monkeypatch.setattr(inspection, "_MOST_PACKAGES", 1)
    found = look(tmp_path, "one", "two")
    assert [found[name].state for name in ("one", "two")] == [State.FOLLOWS, State.UNREAD]
    monkeypatch.setattr(inspection, "_MOST_PACKAGES", 2)
    monkeypatch.setattr(inspection, "_MOST_MODULES", 0)
    assert {found.state for found in look(tmp_path, "one", "two").values()} == {State.UNREAD}
    (tmp_path / "work").mkdir()
    (site / "x.pth").write_text(f"{tmp_path / 'work'}\n" * 65)
    assert any("more than 64" in remark.render() for remark in environment_of(tmp_path).remarks)
