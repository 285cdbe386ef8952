"""A program whose guard asked for CUDA and then missed an extension is told so; other failures are left alone."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchferry.backends.target import Target

pytest.importorskip("torch")

CUDA = SimpleNamespace(is_available=lambda: True)
TENSOR = SimpleNamespace(is_cuda=True, device=SimpleNamespace(type="cuda"))
AVAILABLE = "torch.cuda.is_available()"

EXPLAINED = {
    "imported under a guard": (f"if {AVAILABLE}:\n    import my_kernels\n", "my_kernels", 2, 1),
    "imported by name": (f"if {AVAILABLE}:\n    from os import unbuilt_ext_cuda\n", "os.unbuilt_ext_cuda", 2, 1),
    "on the other branch": (f"if not {AVAILABLE}:\n    pass\nelse:\n    import unbuilt_ext\n", "unbuilt_ext", 4, 1),
    "defined where the import succeeded": (
        "try:\n    import unbuilt_ext\nexcept ImportError:\n    pass\ndef f(x):\n    if x.is_cuda:\n"
        "        return unbuilt_ext.forward(x)\nf(x)\n",
        "unbuilt_ext",
        7,
        6,
    ),
    "None where the import failed": (
        "try:\n    from my_package import _C\nexcept ImportError:\n    _C = None\nif x.device.type == 'cuda':\n"
        "    _C.forward(len('x'))\n",
        "my_package._C",
        6,
        5,
    ),
    "called where the import failed": (
        "try:\n    from my_package import scan\nexcept ImportError:\n    scan = None\nif x.is_cuda:\n    scan(x)\n",
        "my_package.scan",
        6,
        5,
    ),
    "a flag that was given the answer": (
        f"USE = {AVAILABLE}\nclass A:\n    def __init__(self):\n        self.use = USE\n    def run(self):\n"
        "        if self.use:\n            import unbuilt_ext\nA().run()\n",
        "unbuilt_ext",
        7,
        6,
    ),
    "an early return": (
        f"def f():\n    if not {AVAILABLE}:\n        return\n    import unbuilt_ext_cuda\nf()\n",
        "unbuilt_ext_cuda",
        4,
        2,
    ),
    "loaded": (
        f"import ctypes\nif {AVAILABLE}:\n    ctypes.CDLL('libmy_kernels_of_mine.so')\n",
        "libmy_kernels_of_mine.so",
        3,
        2,
    ),
    "built under the guard, used later": (
        f"def load(name, sources):\n    raise RuntimeError\ntry:\n    if {AVAILABLE}:\n        ext = load('mine', [])\n"
        "except RuntimeError:\n    pass\next.forward()\n",
        "mine",
        8,
        4,
    ),
    "linked to a library of CUDA": (
        "raise ImportError('libcudart.so.12: cannot open shared object file', name='mine._C')\n",
        "mine._C",
        1,
        0,
    ),
}

LEFT_ALONE = {
    "no guard": "import unbuilt_ext_cuda\n",
    "a guard of something else": "if len('ab') == 2:\n    import unbuilt_ext_cuda\n",
    "a guard that leaves, before an ordinary package": f"assert {AVAILABLE}\nimport a_plain_package\n",
    "a name that is no import": f"if {AVAILABLE}:\n    undefined_name\n",
    "None that is no extension": f"result = None\nif {AVAILABLE}:\n    result.sum()\n",
    "another error": f"if {AVAILABLE}:\n    import os\n    {{}}['cuda']\n",
}


def explained(code: str, folder: Path, torch: SimpleNamespace = SimpleNamespace(cuda=CUDA)) -> str | None:  # noqa: B008
    """Return what is said of the error that ends a program, which sees a CUDA device."""
    from torchferry.shim import failures

    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each program has its own
        runpy.run_path(str(script), {"torch": torch, "x": TENSOR})
    return failures.explain(raised.value, Target.named("npu"))


@pytest.mark.parametrize(("code", "extension", "line", "guard"), EXPLAINED.values(), ids=EXPLAINED)
def test_the_guard_and_the_extension_are_named(
    code: str, extension: str, line: int, guard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = explained(code, tmp_path)
    assert text is not None
    lines = text.splitlines()
    assert lines[0] == f"script.py:{line} needs the extension `{extension}`, which this environment does not have"
    if guard:
        source = code.splitlines()[guard - 1].strip()
        assert lines[1].startswith(f"  the check at script.py:{guard} led there: `{source}`; ")
    assert "does not run on Huawei Ascend: port it" in lines[-1]
    assert "torch_npu.utils.cpp_extension.NpuExtension" in lines[-1]


@pytest.mark.parametrize("code", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_other_failures_are_left_alone(code: str, tmp_path: Path) -> None:
    assert explained(code, tmp_path) is None


PROPERTIES = SimpleNamespace(name="card", major=None)
OF_DEVICE = "torch.cuda.get_device_properties(0)"
CALCULATED = {
    "a field": (f"x = {OF_DEVICE}.major >= 8\n", "major", 1),
    "a field that is asked for with a default": (
        f"p = {OF_DEVICE}\nx = 1\nx = getattr(p, 'minor', None) + 1\n",
        "minor",
        3,
    ),
    "by a name": (f"major = getattr({OF_DEVICE}, 'major', None)\ndef f():\n    return major * 10\nf()\n", "major", 3),
    "kept in an object": (
        f"class A:\n    def __init__(self):\n        self.n = {OF_DEVICE}.major\n    def f(self):\n"
        "        return self.n > 7\nA().f()\n",
        "major",
        5,
    ),
    "unpacked": (
        "try:\n    capability = torch.cuda.get_device_capability()\nexcept ValueError:\n    pass\n"
        "major, minor = capability\n",
        "get_device_capability",
        5,
    ),
    "in a condition over lines": (
        f"p = {OF_DEVICE}\nif (\n    p.name\n    and p.major > 7\n):\n    pass\n",
        "major",
        4,
    ),
}
NOT_OF_THE_DEVICE = {
    "None of the program's own": f"p = {OF_DEVICE}\nx = None\nx > 1\n",
    "a field that the card says": f"p = {OF_DEVICE}\nn = None\nn + len(p.name)\n",
    "a version": "v = torch.version\nv.major > 1\n",
    "another error": f"p = {OF_DEVICE}\n'a' + 1\n",
}


def answering() -> SimpleNamespace:
    cuda = SimpleNamespace(get_device_properties=lambda _: PROPERTIES, get_device_capability=lambda: None)
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(major=None))


@pytest.mark.parametrize(("code", "field", "line"), CALCULATED.values(), ids=CALCULATED)
def test_what_the_card_does_not_say_is_named_where_it_is_calculated_with(
    code: str, field: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = explained(code, tmp_path, answering())
    assert text is not None
    assert text.startswith(f"script.py:{line} calculates with `{field}`, which is None on Huawei Ascend")


@pytest.mark.parametrize("code", NOT_OF_THE_DEVICE.values(), ids=NOT_OF_THE_DEVICE)
def test_other_calculations_with_none_are_left_alone(code: str, tmp_path: Path) -> None:
    assert explained(code, tmp_path, answering()) is None


def test_the_guard_of_an_import_that_fails_further_down_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package_of_kernels"
    package.mkdir()
    (package / "__init__.py").write_text("from . import scan\n", encoding="utf-8")
    (package / "scan.py").write_text("import scan_extension_of_mine\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    text = explained(f"if {AVAILABLE}:\n    import package_of_kernels\n", tmp_path)
    assert text is not None
    assert text.startswith("script.py:2 needs the extension `scan_extension_of_mine`")
    assert "the check at script.py:1 led there" in text


def test_each_explanation_of_a_command_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchferry.shim import failures, no_device

    mark = tmp_path / "begun"
    monkeypatch.setenv(no_device.MARK, str(mark))
    for text in ("one", "two", "one"):
        failures._tell(text)
    assert sorted(failures.explanations_left(str(mark))) == ["one", "two"]
