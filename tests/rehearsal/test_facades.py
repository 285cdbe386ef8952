"""The packages of the vendors over the built device: each target in a process of its own, as torch wants it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests import warm_python
from tests.processes import HANGS
from tests.rehearsal.facade_process import PACKAGE, STEP, Process, first, lists_all_names
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE, Rehearsal
from torchferry.rehearsal.profile import make_profile

pytestmark = pytest.mark.rehearsal

WITH_NAMESPACE = [name for name in registry.built_in() if registry.load(name).NAMESPACE]
PLUGINS = {
    path.parent.name: importlib.import_module(f"tests.vendors.{path.parent.name}.plugin")
    for path in sorted(Path(__file__).parent.parent.glob("vendors/*/plugin.py"))
}
"""What the tests know of each simulated plugin."""


def rows_of(table: str) -> dict[str, list[Any]]:
    """Return a table of all plugins, by target."""
    return {target: rows for plugin in PLUGINS.values() for target, rows in getattr(plugin, table, {}).items()}


WORKS: dict[str, list[str]] = rows_of("WORKS")
FAILS: dict[str, list[tuple[str, str]]] = rows_of("FAILS")
NOTED: dict[str, list[tuple[str, str]]] = rows_of("NOTED")

ROWS = """
import importlib, re
from torchferry.backends import registry
from torchferry.rehearsal.plugin_namespace import current

target = current().target
namespace = target.backend.NAMESPACE

def resolve(path):
    first, *rest = path.split(".")
    value, where = importlib.import_module(first), first
    for part in rest:
        where += "." + part
        value = getattr(value, part) if hasattr(value, part) else importlib.import_module(where)

seen = 0
for row in target.backend.table("api"):
    if row.status not in ("same", "renamed", "equivalent", "partial") or not row.holds_for(target.version):
        continue
    own = namespace + row.name[len("torch.cuda"):] if row.name.startswith("torch.cuda.") else row.name
    use = row.use or own
    if re.fullmatch(r"[\\w.]+", use):
        resolve(use)
        seen += 1
assert seen > LEAST, seen
"""


VERSIONS = [
    f"{each}@{version}" for each in registry.built_in() for version in registry.load(each).table("api").verified
]
"""Each version of a plugin that its table was read from."""


@pytest.mark.parametrize("name", sorted({*WORKS, *registry.built_in(), *VERSIONS}))
def test_what_the_table_says_to_use_is_there(name: str, tmp_path: Path) -> None:
    rows = ROWS.replace("LEAST", "80" if lists_all_names(name) else "0")
    assert Process(name, tmp_path).run([first(name), rows]) == ["ok"] * 2


@pytest.mark.parametrize("name", WORKS)
def test_works(name: str, tmp_path: Path) -> None:
    results = Process(name, tmp_path).run([first(name), *WORKS[name]])
    assert [pair for pair in zip(WORKS[name], results[1:], strict=True) if pair[1] != "ok"] == []
    assert results[0] == "ok"


@pytest.mark.parametrize("name", FAILS)
def test_fails(name: str, tmp_path: Path) -> None:
    process = Process(name, tmp_path)
    results = process.run([first(name), *(statement for statement, _ in FAILS[name])])
    kinds: dict[str, set[str]] = {}
    for kind, subject in process.seen:
        kinds.setdefault(subject, set()).add(kind)
    assert [(kind, subject) for kind, subject in NOTED.get(name, ()) if kinds.get(subject) != {kind}] == []
    wrong = [
        (statement, result)
        for (statement, expected), result in zip(FAILS[name], results[1:], strict=True)
        if not result.startswith(expected)
    ]
    assert wrong == []


STREAMS = """
start, end = {m}.Event(enable_timing=True), {m}.Event(enable_timing=True)
stream = {m}.Stream()
assert {m}.current_stream() == {m}.default_stream()
with {m}.stream(stream):
    assert {m}.current_stream() == stream and isinstance({m}.current_stream(), {m}.Stream)
    start.record()
    end.record()
stream.wait_event(end)
stream.wait_stream({m}.current_stream())
stream.synchronize()
assert stream.query() and end.query()
assert start.elapsed_time(end) >= 0
assert isinstance(stream.record_event(), {m}.Event)
try:
    {m}.Event().elapsed_time(end)
    raise SystemExit("measured without enable_timing")
except RuntimeError as error:
    assert "enable_timing" in str(error)
assert isinstance(stream.{name}_stream, int)
"""

TENSORS = """
x = {m}.FloatTensor([1.0, 2.0])
assert isinstance(x, {m}.FloatTensor) and not isinstance(x, {m}.HalfTensor) and not isinstance(x.cpu(), {m}.FloatTensor)
assert x.device.type == "{name}" and {m}.LongTensor(2, 3).shape == (2, 3)
assert x.type() == "torch.{name}.FloatTensor"
assert x.type({m}.HalfTensor).dtype == torch.float16
assert x.{name}() is x and x.is_{name}
"""

MEMORY = """
before = {m}.memory_allocated()
x = torch.ones(1 << 18, device="{name}")
assert {m}.memory_allocated() - before == 1 << 20
del x
assert {m}.memory_allocated() == before
assert {m}.max_memory_allocated() - before >= 1 << 20
{m}.reset_peak_memory_stats()
assert {m}.max_memory_allocated() == before
free, total = {m}.mem_get_info()
assert 0 < free <= total
{m}.empty_cache()
"""

RANDOM = """
torch.manual_seed(3)
first = torch.randn(4, device="{name}")
{m}.manual_seed_all(3)
assert torch.equal(first, torch.randn(4, device="{name}"))
state = {m}.get_rng_state()
second = torch.randn(4, device="{name}")
{m}.set_rng_state(state)
assert torch.equal(second, torch.randn(4, device="{name}"))
assert len({m}.default_generators) == 2 and {m}.initial_seed() == 3
with torch.random.fork_rng(devices=[0], device_type="{name}"):
    torch.randn(4, device="{name}")
assert torch.equal({m}.get_rng_state_all()[0], {m}.get_rng_state(0))
"""


@pytest.mark.parametrize("name", [name for name in WITH_NAMESPACE if lists_all_names(name)])
def test_the_namespace_drives_the_device(name: str, tmp_path: Path) -> None:
    module = f"torch.{name}"
    step = STEP.format(device=name, optimizer="torch.optim.AdamW(model.parameters())", amp=f"{module}.amp")
    parts = [part.format(m=module, name=name) for part in (STREAMS, TENSORS, MEMORY, RANDOM)]
    results = Process(name, tmp_path).run([first(name), step, *parts])
    assert results == ["ok"] * 6


@pytest.mark.parametrize(
    ("name", "statement", "kind", "subject"),
    [(name, *row) for name, plugin in PLUGINS.items() for row in getattr(plugin, "FAILED_IMPORTS", ())],
)
def test_an_import_that_fails_is_noted(name: str, statement: str, kind: str, subject: str, tmp_path: Path) -> None:
    process = Process(name, tmp_path)
    (_, result) = process.run([first(name), statement])
    assert result.startswith(("ModuleNotFoundError", "ImportError"))
    assert {pair for pair in process.seen if pair[0].endswith("-api")} == {(kind, subject)}


@pytest.mark.parametrize(
    ("name", "statement", "variables"),
    [(name, *row) for name, plugin in PLUGINS.items() for row in getattr(plugin, "REDIRECTIONS", ())],
)
def test_the_vendors_redirection_is_done_by_ours_and_said(
    name: str, statement: str, variables: dict[str, str], tmp_path: Path
) -> None:
    process = Process(name, tmp_path)
    results = process.run(
        [first(name), statement, "assert torch.cuda.is_available()", "assert torch.ones(1).cuda().is_cuda"], **variables
    )
    assert results == ["ok"] * 4
    assert "not-rehearsed" in {kind for kind, _ in process.seen}


ORDERS = {
    "plugin by torch": "import torch; torch.ones(2, device={device!r}); import {plugin}",
    "torch first": "import torch; import {plugin}; torch.ones(2, device={device!r})",
    "plugin first": "import {plugin}; import torch; torch.ones(2, device={device!r})",
    "from the plugin first": "from {plugin} import {device}; import torch; torch.ones(2, device={device!r})",
}


@pytest.mark.parametrize("name", WITH_NAMESPACE)
def test_torch_and_plugin_are_imported_in_any_order(name: str, tmp_path: Path) -> None:
    interpreter = sys.executable if name == WITH_NAMESPACE[0] else warm_python.python()
    choice = registry.choose(name)
    rehearsal = Rehearsal(name, make_profile(Target(choice.backend, choice.version), devices=2))
    site.fill(tmp_path, rehearsal)
    path = os.pathsep.join([*site.paths(tmp_path, rehearsal), str(PACKAGE.parent)])
    for order, program in ORDERS.items():
        if getattr(PLUGINS.get(name), "PACKAGE_IS_NAMESPACE", False) and "from" in order:
            continue
        done = subprocess.run(
            [interpreter, "-c", program.format(plugin=choice.backend.PLUGIN, device=choice.backend.DEVICE_TYPE)],
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.returncode == 0, f"{order}: {done.stderr}"


@pytest.mark.parametrize("name", registry.built_in())
def test_a_package_outside_a_rehearsal_says_so(name: str, tmp_path: Path) -> None:
    (result,) = Process(name, tmp_path).run([first(name)], **{VARIABLE: ""})
    assert result == "SystemExit: 2"
