"""A list of operators: what each entry comes to, and what is said of one that cannot be meant so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from torchferry.ops.codegen.document import DocumentError, Value, YamlText, read_document
from torchferry.ops.codegen.generate import CodegenOptions, Generated, ProblemsError, generate

TRIL = "- func: tril\n- func: tril_\n- func: tril.out\n"
ADD = "- func: add.Tensor\n{}- func: add_.Tensor\n{}- func: add.out\n{}"


def kernel(name: str, *lines: str) -> str:
    return "".join(f"  {line}\n" for line in lines) + f"  dispatch:\n    PrivateUse1: {name}\n"


def generated(tmp_path: Path, text: str, **options: object) -> Generated:
    path = tmp_path / "functions.yaml"
    path.write_text(text, encoding="utf-8")
    chosen = {"key": "PrivateUse1", "namespace": "at::acme", **options}
    return generate(CodegenOptions(path, **chosen))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("- func: lerp.Tensor\n- func: lerp_.Tensor\n- func: lerp.Tensor_out\n", ["Legacy"] * 3),
        (TRIL + kernel("TrilOut"), ["LegacyMeta"] * 3),
        (TRIL + kernel("TrilOut", "precomputed:", "- diagonal -> int var"), ["Customized"] * 3),
        (ADD.format(kernel("A"), kernel("A_"), kernel("AOut", "structured: false")), ["override"] * 3),
        (ADD.format(kernel("A", "structured_delegate: none"), kernel("A_", "structured_delegate: none"),
                    kernel("AOut", "structured: false", "structured_inherits: none")), ["override"] * 3),
        ("- func: nonzero\n" + kernel("Nonzero"), ["unstructured"]),
        ("- func: view_as_real\n" + kernel("view_as_real"), ["shared"]),
        ("- func: view\n  shared: at::native::view\n", ["shared"]),
        (TRIL + "  fallback: cpu\n", ["CPU fallback"] * 3),
        ("- func: nonzero\n  dispatch:\n    QuantizedPrivateUse1: Q\n", ["other key"]),
        ("- func: nonzero\n" + kernel("N") + "    SparsePrivateUse1: S\n", ["unstructured", "other key"]),
        ("- func: nonzero\n" + kernel("N", "autograd: NGrad"), ["other key", "unstructured"]),
        ("- func: nonzero\n" + kernel("N", "versions: [v2.1, newest]"), ["unstructured"]),
        ("- func: nonzero\n" + kernel("N", "versions: [v1.11, v2.1]"), []),
        ("- func: nonzero\n" + kernel("N", "when: {card: S60}")
         + "- func: nonzero\n" + kernel("M", "when: {card: L600}"), ["unstructured"]),
        ("- func: nonzero(Tensor self) -> Tensor\n" + kernel("N"), ["unstructured"]),
    ],
)  # fmt: skip
def test_an_entry_is_of_a_kind(tmp_path: Path, text: str, kinds: list[str]) -> None:
    rows = generated(tmp_path, text, card="S60").rows
    assert sorted(row.kind.value for row in rows) == sorted(kinds)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- func: tril\n- func: tril.out\n" + kernel("T"), 1, "the operator's group is incomplete; missing: `tril_`"),
        ("- func: trill\n", 1, "has no such operator; did you mean `tril`?"),
        (ADD.format(kernel("A"), kernel("A_"), kernel("AOut")), 1, "write `structured: false` at `add.out`"),
        (ADD.format(kernel("A"), "", kernel("AOut", "structured: false")), 4, "this one has none"),
        ("- func: nonzero\n" + kernel("N") + "- func: nonzero\n" + kernel("M"), 4, "already in line 1"),
        ("- func: nonzero\n", 1, "names no kernel"),
        ("- func: nonzero\n" + kernel("N", "structured: true"), 1, "cannot become structured"),
        ("- func: nonzero\n  shared: at::native::nonzero_cpu\n" + kernel("N"), 1, "exclude each other"),
        (TRIL, 3, "differs between CPU (tril_cpu) and CUDA (tril_cuda)"),
        (TRIL + kernel("tril", "precomputed:", "- diagonal -> int var"), 3, "give the kernel another name"),
        (TRIL + kernel("T", "precomputed:", "- diagonal int var -> -> x"), 3, "`precomputed`"),
        ("- func: nonzero\n  dispatch:\n    CUDA: N\n", 1, "with --key PrivateUse1 use one of these"),
        ("- func: nonzero\n" + kernel("N", "structurd: false"), 2, "did you mean `structured`?"),
        ("- func: nonzero\n" + kernel("N", "device_check: Same"), 2, "expected: NoCheck or ExactSame"),
        ("- func: nonzero\n" + kernel("N", "versions: [v2.9, v2.1]"), 2, "`versions`"),
        ("- func: nonzero\n" + kernel("N", "when: {card: S60}"), 1, "choose one with --card: S60"),
        ("- func: nonzero\n" + kernel("N", "exec: {template: T}"), 1, "`exec` names the template `T`"),
        ("- func: nonzero(Tensor self, int many) -> Tensor\n" + kernel("N"), 1, "torch's schema is nonzero("),
        ("- func: 'x; y'\n", 1, "is not the name of an operator"),
        ("- dispatch: {PrivateUse1: N}\n", 1, "an entry has no `func`"),
        ("- func: lerp.Tensor\n- func: lerp_.Tensor\n- func: lerp.Tensor_out\n  stub: {lerp_kernel_tensor: K}\n", 3,
         "did you mean `lerp_kernel_tensor_weight`?"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named_with_its_line_and_what_to_do(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ProblemsError) as raised:
        generated(tmp_path, text)
    said = [shown for shown in raised.value.lines() if words in shown]
    assert said, raised.value.lines()
    assert said[0].startswith(f"{tmp_path / 'functions.yaml'}:{line}: ")


def test_a_wrong_group_is_left_out_as_a_whole_and_the_rest_is_generated(tmp_path: Path) -> None:
    text = "- func: tril\n- func: tril.out\n" + kernel("T") + "- func: nonzero\n" + kernel("N")
    result = generated(tmp_path, text, leave_out=True)
    assert [row.operator for row in result.rows] == ["nonzero"]
    assert {problem.operator for problem in result.problems} == {"tril", "tril.out"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "1: the file is empty"),
        (b"- func: tril\n- func: caf\xe9\n", "2: the text is not UTF-8 (byte 0xe9)"),
        (b"- func: tril\n  dispatch: {PrivateUse1: X\n", "this is not YAML"),
        (b"a: &a [x, x]\nb: [*a, *a]\n", "1: anchors and aliases are not read"),
        (b"- !!python/object/apply:os.system ['true']\n", "1: tags are not read"),
        (b"- func: a\n---\n- func: b\n", "the file has a second YAML document"),
        (b"- func: a\n  func: b\n", "2: `func` is there twice"),
        (b"[" * 900, "too deep"),
        (b"text\n", "the file is not a list of operators"),
        (b"functions: []\nnames: []\n", "2: `names` is not known here"),
        (b"? [a]\n: b\n", "a key must be a string"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "functions.yaml"
    path.write_bytes(data)
    with pytest.raises(DocumentError, match=r"functions\.yaml") as raised:
        generate(CodegenOptions(path, "PrivateUse1", "at::acme"))
    assert words in raised.value.message.render("en")


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "functions.yaml"
    path.write_bytes(data)
    try:
        value: Value = read_document(path)
    except DocumentError:
        return
    assert value.line >= 1


@given(st.lists(st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1), min_size=1, max_size=20))
def test_values_know_their_lines(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "functions.yaml"
    path.write_text("".join(f"- '{name}'\n" for name in names), encoding="utf-8")
    value = read_document(path)
    assert not isinstance(value, YamlText)
    assert [item.line for item in value.items] == list(range(1, len(names) + 1))  # type: ignore[union-attr]


def test_checks_of_devices_are_those_that_are_meant(tmp_path: Path) -> None:
    copies = "".join(f"- func: {name}\n" + kernel(f"k{name}") for name in ("_copy_from", "_copy_from_and_resize"))
    text = copies + ADD.format(kernel("A"), kernel("A_"), kernel("AOut", "structured: false"))
    code = generated(tmp_path, text).files["RegisterAcme_0.cpp"].decode()
    before = code.split("return at::acme::")
    checks = {called.partition("(")[0]: body.rpartition("namespace {")[2] for body, called in pairwise(before)}
    assert "check_device" not in checks["k_copy_from"] + checks["k_copy_from_and_resize"]
    assert "common_device, self" in checks["A_"]
    assert "check_and_update_common_device(common_device, self" in checks["A_"]  # what is written to must be there
    assert "check_device_or_cpu_scalar(common_device, other" in checks["A_"]
    assert "check_and_update_common_device(common_device, out" in checks["AOut"]


def test_xla_has_keys_of_its_own(tmp_path: Path) -> None:
    text = TRIL + "  dispatch:\n    XLA: TrilOut\n"
    code = generated(tmp_path, text, key="XLA").files["RegisterAcme_0.cpp"].decode()
    assert "TORCH_LIBRARY_IMPL(aten, XLA, m)" in code
    with pytest.raises(ProblemsError, match="cannot be generated"):  # its stubs are torch's own
        generated(tmp_path, "- func: lerp.Tensor\n- func: lerp_.Tensor\n- func: lerp.Tensor_out\n", key="XLA")
