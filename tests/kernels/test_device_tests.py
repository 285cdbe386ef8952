"""The tests of a library: their lists of devices get the target, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.backends.target import Target
from torchferry.cli import cli
from torchferry.kernels.device_tests import port_test

SKIP = 'marks=pytest.mark.skipif(not MUSA_IS_THERE, reason="musa is not there")'


@pytest.mark.parametrize(
    ("elements", "twin"),
    [
        ("'cpu', 'cuda'", "pytest.param('musa', " + SKIP + ")"),
        ("'cuda:0'", "pytest.param('musa:0', " + SKIP + ")"),
        (
            "'cpu', pytest.param('cuda', marks=pytest.mark.skipif(True, reason='x'))",
            "pytest.param('musa', " + SKIP + ")",
        ),
        ("('cpu', 1), ('cuda', 2)", "pytest.param('musa', 2, " + SKIP + ")"),
        ("pytest.param('cuda', 2, id='a')", "pytest.param('musa', 2, " + SKIP + ")"),
        ("(1, ('cuda', 2))", "pytest.param(1, ('musa', 2), " + SKIP + ")"),
    ],
)
def test_a_list_of_devices_gets_a_twin(elements: str, twin: str) -> None:
    text = f"import pytest\n\n@pytest.mark.parametrize('device', [{elements}])\ndef test_it(device):\n    pass\n"
    after, items = port_test("test_it.py", text.encode(), Target.named("musa"))
    assert f"[{elements}, {twin}]" in after.decode()
    assert items == ()
    assert "import torch_musa" in after.decode()
    assert port_test("test_it.py", after, Target.named("musa")) == (after, ())


LISTS = {
    "variable": ("DEVICES = ['cpu', 'cuda']\n", "DEVICES", "[*DEVICES, {twin}]"),
    "annotated": ("DEVICES: tuple[str, ...] = ('cpu', 'cuda')\n", "DEVICES", "[*DEVICES, {twin}]"),
    "appended": (
        "DEVICES = ['cpu']\nif torch.cuda.is_available():\n    DEVICES.append('cuda')\n",
        "DEVICES",
        "[*DEVICES, {twin}]",
    ),
    "added": ("DEVICES = ['cpu']\nDEVICES += ['cuda']\n", "DEVICES", "[*DEVICES, {twin}]"),
    "chosen": (
        "",
        "['cpu', 'cuda'] if torch.cuda.is_available() else ['cpu']",
        "[*(['cpu', 'cuda'] if torch.cuda.is_available() else ['cpu']), {twin}]",
    ),
    "sum": ("CPU = ['cpu']\n", "CPU + ['cuda']", "[*(CPU + ['cuda']), {twin}]"),
    "unpacked": ("CUDA = ['cuda']\n", "['cpu', *CUDA]", "[*(['cpu', *CUDA]), {twin}]"),
}


@pytest.mark.parametrize("form", ["mark.parametrize('device', {})", "fixture(params={})"])
@pytest.mark.parametrize(("lines", "given", "written"), LISTS.values(), ids=LISTS)
def test_a_list_that_is_held_elsewhere_gets_a_twin_where_it_is_used(
    lines: str, given: str, written: str, form: str, tmp_path: Path
) -> None:
    text = f"import pytest\nimport torch\n\n{lines}\n@pytest.{form.format(given)}\ndef test_it(device):\n    pass\n"
    after, items = port_test("test_it.py", text.encode(), Target.named("musa"))
    twin = f"pytest.param('musa', {SKIP})"
    assert f"@pytest.{form.format(written.format(twin=twin))}\n" in after.decode()
    assert (lines in after.decode(), items) == (True, ())
    (tmp_path / "test_it.py").write_bytes(after)
    migrated = CliRunner().invoke(cli, ["migrate", str(tmp_path), "-t", "musa"], catch_exceptions=False)
    assert (migrated.exit_code, (tmp_path / "test_it.py").read_bytes()) == (0, after)


def test_a_list_with_other_uses_is_reviewed_too() -> None:
    text = "import pytest\nD = ['cuda']\n@pytest.mark.parametrize('d', D)\ndef test_it(d): ...\nfor d in D: run(d)\n"
    after, items = port_test("test_it.py", text.encode(), Target.named("musa"))
    assert b"[*D, pytest.param('musa'" in after
    assert [(item.kind, item.line) for item in items] == [("test-device", 2)]


@pytest.mark.parametrize(
    "element",
    ["'cuda'", "('cuda', 2)", "(1, ('cuda', 2))", "pytest.param('cuda', marks=pytest.mark.skipif({}, reason='no'))"],
    ids=["text", "values", "nested", "skipped"],
)
def test_a_migration_leaves_what_has_a_twin(element: str, tmp_path: Path) -> None:
    element = element.format("not torch.cuda.is_available()")
    text = f"import pytest\nimport torch\n@pytest.mark.parametrize('d', [{element}])\ndef test_it(d):\n    pass\n"
    after, _ = port_test("test_it.py", text.encode(), Target.named("musa"))
    (tmp_path / "test_it.py").write_bytes(after)
    CliRunner().invoke(cli, ["migrate", str(tmp_path), "-t", "musa"], catch_exceptions=False)
    assert b"musa" in after
    assert (tmp_path / "test_it.py").read_bytes() == after


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("DEVICES = ['cpu']\nDEVICES.append('cuda')\n", "test-device", 2),
        ("import torch\ndef test_it():\n    torch.ones(1).cuda()\n", "test-device", 3),
        ("def test_it(:\n    'cuda'\n", "build-unread", 1),
        ("# \xe9 cuda\n", "build-unread", 1),
        (
            "import pytest\n@pytest.mark.parametrize('device', DEVICES + ['cuda'])\ndef test_it(device): ...\n",
            "test-device",
            2,
        ),
    ],
)
def test_what_is_no_list_is_left_to_people(text: str, kind: str, line: int) -> None:
    data = text.encode("latin-1")
    after, items = port_test("test_it.py", data, Target.named("musa"))
    assert after == data
    assert (kind, line) in {(item.kind, item.line) for item in items}


def test_a_target_without_a_public_name_changes_no_test() -> None:
    text = b"import pytest\n@pytest.mark.parametrize('device', ['cpu', 'cuda'])\ndef test_it(device): ...\n"
    after, items = port_test("test_it.py", text, Target.named("ptex"))
    assert (after, [(item.kind, item.line) for item in items]) == (text, [("test-device", 2)])


def test_twins_are_skipped_where_the_card_is_not_there(tmp_path: Path) -> None:
    text = (
        '"""Tests."""\nfrom __future__ import annotations\nimport pytest\n\n'
        '@pytest.mark.parametrize(\n    "device",\n'
        '    [\n        "cpu",\n        "cuda",\n    ],\n)\n'
        'def test_it(device: str) -> None:\n    assert device != "musa"\n'
    )
    after, _ = port_test("test_it.py", text.encode(), Target.named("musa"))
    (tmp_path / "test_it.py").write_bytes(after)
    (tmp_path / "torch.py").touch()  # the true one takes seconds to import
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 1 skipped" in done.stdout
