"""What vendors publish of their kernels: the tables, and the tools that read pages and C++ for them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from torchferry.backends import registry
from torchferry.backends.cards import cards
from torchferry.backends.datafile import VENDORS, DataFile
from torchferry.backends.kernel_limits import CODES, KernelLimits, kernel_limits
from torchferry.backends.operators import load_operators
from torchferry.backends.unknown import Unknown

ROOT = Path(__file__).parent.parent.parent
HAVING = ("npu", "musa")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return importlib.import_module("kernel_limits")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


# --- the tables ---


@pytest.mark.parametrize("target", HAVING)
def test_every_row_of_a_table_can_be_read(target: str) -> None:
    backend = registry.load(target)
    table = kernel_limits(backend)
    assert table is not None
    table.check()
    assert set(table.cards) == {card.name for card in cards(backend)}
    for card in table.cards:
        for limits in table.on(card).values():
            assert all(limit.source.startswith("github.com/") for limit in limits)


def test_a_table_is_small() -> None:
    assert sum((VENDORS / target / "kernel_limits.toml").stat().st_size for target in HAVING) < 250_000


def test_nearly_every_operator_of_the_plugin_has_limits() -> None:
    backend = registry.load("npu")
    table = kernel_limits(backend)
    assert table is not None
    known = {name for name, limits in table.on("Ascend 910B").items() if any(each.named for each in limits)}
    listed = load_operators(backend, "2.13.0").registered
    assert not isinstance(listed, Unknown)
    of_torch = {name for name in listed if not name.startswith(("npu_", "_npu"))}
    assert len(of_torch - known) < 140 < 1000 < len(of_torch)  # most of these only look at a tensor, or make one


def test_a_target_without_a_table() -> None:
    assert kernel_limits(registry.load("sdaa")) is None


TABLE = """
library = "L"
[sources]
S = "github.com/a/b@c"
[cards]
x = ["X"]
y = ["Y1", "Y2"]
[functions.f]
page = "S f.md"
varies = "y"
self = ["x: fh/8", "y: *"]
slow = ["x: h"]
[functions.g]
page = "S g.md"
more = ["x: */4"]
other = ["x: fd/4"]
self = ["x: hd"]
[functions.h]
page = "S h.md"
self = ["x: fh+d", "y: f+*/8"]
[operators]
"sure" = ["self h.self"]
"less sure" = ["self f.self | h.self"]
"converted" = ["self ? h.self"]
"not named" = ["self ? g.more"]
"made" = ["-> ? h.self"]
"one" = ["self f.self"]
"either" = ["a f.self | g.other"]
"both" = ["a f.self & g.other"]
"not.y" = ["a f.self - y"]
"""


def written(folder: Path, text: str) -> KernelLimits:
    (folder / "kernel_limits.toml").write_text(text, encoding="utf-8")
    return KernelLimits(DataFile(folder / "kernel_limits.toml"))


def test_what_ways_come_to(tmp_path: Path) -> None:
    table = written(tmp_path, TABLE)
    table.check()
    on_x = {
        name: (limit.argument, set(limit.dtypes or ()), limit.rank, set(limit.slow))
        for name, (limit,) in table.on("X").items()
        if name in ("one", "either", "both", "not.y")
    }
    assert on_x == {
        "one": ("self", {"float32", "float16"}, 8, {"float16"}),
        "either": ("a", {"float32", "float16", "float64"}, 8, {"float16"}),
        "both": ("a", {"float32"}, 4, {"float16"}),
        "not.y": ("a", {"float32", "float16"}, 8, {"float16"}),
    }
    on_y = {name: limit.dtypes for name, (limit,) in table.on("Y2").items()}
    assert on_y == dict.fromkeys(("one", "both", "sure", "less sure", "converted", "made"))
    assert table.on("Z") == {}
    assert (table.varying("one", "Y1"), table.varying("one", "X"), table.varying("none", "Y1")) == ("f", "", "")


def test_what_is_named_and_what_may_pass_beside_it(tmp_path: Path) -> None:
    table = written(tmp_path, TABLE)
    on_x, on_y = table.on("X"), table.on("Y1")
    single = frozenset({"float32"})
    floats = single | {"float16"}
    assert [(limit.named, limit.dtypes) for limit in (*on_x["sure"], *on_x["less sure"])] == [
        (floats, floats | {"float64"}),
        (floats, floats | {"float64"}),
    ]
    assert [(limit.named, limit.dtypes, limit.rank) for limit in (*on_y["sure"], *on_y["less sure"])] == [
        (single, None, 8),
        (None, None, 0),  # of one of the two ways nothing is named
    ]
    assert [
        (limit.argument, limit.named, limit.dtypes, limit.rank) for limit in (*on_y["converted"], *on_y["made"])
    ] == [
        ("self", single, None, 0),
        ("->", single, None, 0),
    ]
    assert "not named" not in on_x


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fh+d", "fh+"),
        ("fh+d", "*+d"),
        ("fh+d", "fh+d+f"),
        ("fh/8", "fw/8"),
        ("fh/8", "fh/many"),
        ('"x: fh/8"', '"fh/8"'),
        ('"x: fh/8"', '"z: fh/8"'),
        ("S f.md", "T f.md"),
        ('varies = "y"', 'varies = "z"'),
        ("self f.self", "self f.other"),
        ('library = "L"', ""),
        ('library = "L"', 'library = "L"\nmore = 1'),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(ValueError, match=r"kernel_limits\.toml"):
        written(tmp_path, TABLE.replace(old, new, 1)).check()


def test_letters_stand_for_one_dtype_each() -> None:
    assert len(set(CODES.values())) == len(CODES)


# --- the tools, on made-up pages and C++ ---

PAGE = """# aclnnF
<!-- npu="910b" id1 -->
- <term>A2</term>：支持
<!-- end id1 -->
<!-- npu="910" id2 -->
- <term>Training</term>：支持
<!-- end id2 -->
<!-- npu="310b" id3 -->
- <term>200I</term>：不支持
<!-- end id3 -->
```Cpp
aclnnStatus aclnnFGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* workspaceSize)
```
## aclnnFGetWorkspaceSize
<table><tr><th>参数名</th><th>输入/输出</th><th>数据类型</th><th>维度(shape)</th></tr>
<tr><td>self（aclTensor*）</td><td>输入</td><td>FLOAT、FLOAT16、BFLOAT16、COMPLEX64</td><td>1-8</td></tr>
<tr><td>dim</td><td>输入</td><td>INT64</td><td>-</td></tr>
<tr><td>out</td><td>输出</td><td>与self一致</td><td>2</td></tr></table>
<!-- npu="910" id4 -->
- <term>Training</term>：不支持BFLOAT16、COMPLEX64。
<!-- end id4 -->
当dim为0时，不支持FLOAT16。
- **返回值**
## aclnnF
- 确定性计算：aclnnF默认非确定性实现
"""

CPP = """
static const std::initializer_list<op::DataType> ASCEND910_LIST = {op::DataType::DT_FLOAT, op::DataType::DT_FLOAT16};
static const std::initializer_list<op::DataType> ASCEND910B_LIST = {DataType::DT_FLOAT, DataType::DT_DOUBLE};
constexpr size_t MOST = 5;
// OP_CHECK_DTYPE_NOT_SUPPORT(self, NOTHING, return false);
static bool CheckDtypeValid(const aclTensor* x, const aclTensor* out) {
  auto list = GetDtypeSupportListV2(ASCEND910B_LIST, ASCEND910_LIST);
  OP_CHECK_DTYPE_NOT_SUPPORT(x, list, return false);
  OP_CHECK_MAX_DIM(x, MOST, return false);
  return true;
}
aclnnStatus aclnnFGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* workspaceSize) {
  CHECK_RET(CheckDtypeValid(self, out), 1);
  return 0;
}
"""


def test_a_page_is_read_for_each_card(tool: ModuleType) -> None:
    lists = module("aclnn_lists")
    pages = {card: lists.read_page(PAGE, card)["aclnnF"] for card in ("910", "910b", "310b")}
    assert pages["910"].names == ("self", "dim", "out", "workspaceSize")
    assert pages["910"].parameters["self"].dtypes == {"float32", "float16"}
    assert pages["910b"].parameters["self"].dtypes == {"float32", "float16", "bfloat16", "complex64"}
    assert pages["910b"].parameters["self"].rank == 8
    assert pages["910b"].parameters["out"] == lists.Parameter(None, 0)
    assert [page.is_there for page in pages.values()] == [True, True, False]
    assert [page.deterministic for page in pages.values()] == [False] * 3


def test_what_the_code_takes_is_taken_though_the_page_lacks_it(tool: ModuleType) -> None:
    lists = module("aclnn_lists")
    source = lists.Source(CPP)
    for card, dtypes in (("910", {"float32", "float16"}), ("910b", {"float32", "float64"})):
        assert source.checks("aclnnF", ("self",), card)["self"].dtypes == dtypes
    on_910b = lists.limits_of(lists.read_page(PAGE, "910b")["aclnnF"], source, "aclnnF", "910b")
    assert on_910b["self"].dtypes == {"float32", "float16", "bfloat16", "complex64", "float64"}
    assert on_910b["self"].rank == 5
    assert on_910b["self"].named == on_910b["self"].dtypes
    page_alone = lists.limits_of(lists.read_page(PAGE, "910b")["aclnnF"], None, "aclnnF", "910b")["self"]
    assert (page_alone.dtypes, page_alone.named) == (None, {"float32", "float16", "bfloat16", "complex64"})


def test_a_parameter_that_the_code_does_not_look_at_is_unknown(tool: ModuleType) -> None:
    lists = module("aclnn_lists")
    source = lists.Source(CPP.replace("OP_CHECK_DTYPE_NOT_SUPPORT(x, list", "OP_CHECK_DTYPE_NOT_SUPPORT(out, list"))
    limits = lists.limits_of(lists.read_page(PAGE, "910b")["aclnnF"], source, "aclnnF", "910b")
    assert limits["self"].dtypes is None
    on_910 = lists.limits_of(lists.read_page(PAGE, "910")["aclnnF"], source, "aclnnF", "910")
    assert "bfloat16" not in on_910["self"].dtypes  # which the page excludes by name
    assert "float64" in on_910["self"].dtypes


FORMS = {
    "a cell for two rows": (
        """<table><tr><th>参数名</th><th>数据类型</th><th>维度(shape)</th></tr>
<tr><td>self（aclTensor*）</td><td rowspan="2">FLOAT、FLOAT16</td><td>1-8</td></tr>
<tr><td>out</td><td>2</td></tr></table>""",
        {"self": ({"float32", "float16"}, None, 8), "out": ({"float32", "float16"}, None, 0)},
    ),
    "a full stop": (
        "<table><tr><th>参数名</th><th>数据类型</th></tr><tr><td>out</td><td>FLOAT、INT8。</td></tr></table>",
        {"out": ({"float32", "int8"}, None, 0)},
    ),
    "a list without a table": (
        """  - self(const aclTensor*，计算输入)：支持1维~8维。
    - A2：数据类型支持DOUBLE、FLOAT、BOOL。
  - out(aclTensor*，计算输出)：互推导后的数据类型为INT32、BFLOAT16。
  <table><tr><th>返回码</th></tr></table>""",
        {"self": (None, {"float64", "float32", "bool"}, 0), "out": (None, {"int32", "bfloat16"}, 0)},
    ),
    "a list of something else": ("- self(aclTensor*)：数据类型支持SOMETHING、FLOAT。", {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_pages(tool: ModuleType, form: str) -> None:
    lists = module("aclnn_lists")
    section, expected = FORMS[form]
    found = {name: (each.dtypes, each.named, each.rank) for name, each in lists._parameters(section, ("self", "out"))}
    assert found == expected


SETTINGS = """
  - func: f(Tensor self, int dim) -> Tensor
    gen_opapi:
      exec: aclnnF
  - func: f.out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)
    gen_opapi:
      exec: aclnnF, self, dim_value, out
  - func: inherits(Tensor self, int dim_value) -> Tensor
    structured_delegate: f.out
  - func: two(Tensor self) -> Tensor
    gen_opapi:
      exec: aclnnA
      exec: aclnnB
  - func: cpp.Tensor(Tensor self, Tensor other) -> Tensor
"""

KERNELS = {
    "plain": ("EXEC_NPU_CMD(aclnnF, self, other, out); return out;", {"self": ["aclnnF 0"], "other": ["aclnnF 1"]}),
    "cast": ("at::Tensor x = self.to(at::kFloat); EXEC_NPU_CMD(aclnnF, x, other);", {"other": ["aclnnF 1"]}),
    "a name for it": (
        "const at::Tensor& x = self.contiguous(); EXEC_NPU_CMD(aclnnF, x, other);",
        {"self": ["aclnnF 0"], "other": ["aclnnF 1"]},
    ),
    "cast in one case": (
        "at::Tensor x = self; if (a) { x = self.to(at::kFloat); } EXEC_NPU_CMD(aclnnF, x, other);",
        {"other": ["aclnnF 1"]},
    ),
    "one or the other": (
        "if (a) { EXEC_NPU_CMD(aclnnF, self); } else { EXEC_NPU_CMD(aclnnG, other, self); }",
        {"self": ["aclnnF 0", "aclnnG 1"]},
    ),
    "not always": ("if (self.scalar_type() == at::kDouble) { return self; } EXEC_NPU_CMD(aclnnF, self);", {}),
    "an empty tensor": ("if (self.numel() == 0) { return self; } EXEC_NPU_CMD(aclnnF, self);", {"self": ["aclnnF 0"]}),
    "a number of the host": (
        "if (other.dim() == 0 && !torch_npu::utils::is_npu(other)) { EXEC_NPU_CMD(aclnnS, self); } "
        "else { EXEC_NPU_CMD(aclnnF, self, other); }",
        {"self": ["aclnnS 0", "aclnnF 0"], "other": ["aclnnF 1"]},
    ),
    "a helper": ("helper(other, self);", {"self": ["aclnnH 1"], "other": ["aclnnH 0"]}),
    "the old way": (
        "DO_COMPATIBILITY(aclnnF, acl_op::cpp(self, other)); EXEC_NPU_CMD(aclnnF, self);",
        {"self": ["aclnnF 0"]},
    ),
    "a loop": ("for (int i = 0; i < 3; i++) { EXEC_NPU_CMD(aclnnF, self); }", {}),
    "a switch": ("switch (a) { case 1: break; } EXEC_NPU_CMD(aclnnF, self);", {}),
    "the newest card": (
        "if (is_ascend950_path()) { return other; } EXEC_NPU_CMD(aclnnF, self);", {"self": ["aclnnF 0"]}
    ),
    "cut off": ("if (a { EXEC_NPU_CMD(aclnnF, self", {}),
}  # fmt: skip


def test_what_the_settings_name(tool: ModuleType) -> None:
    calls = module("plugin_calls")
    declared = {each.schema.name: each for each in calls.read_functions(SETTINGS)}
    assert declared["f"].calls == ("aclnnF", "self", "dim")
    assert calls.ways_of_declared(declared["f.out"]).keys() == {"self", "out"}
    assert calls.ways_of_declared(declared["inherits"]).keys() == {"self"}
    assert declared["two"].calls == ()


@pytest.mark.parametrize("case", KERNELS)
def test_what_a_kernel_hands_on(tool: ModuleType, case: str) -> None:
    calls = module("plugin_calls")
    body, expected = KERNELS[case]
    text = (
        "#include <x>\nnamespace op_api {\n"
        "void helper(const at::Tensor& a, const at::Tensor& b) { EXEC_NPU_CMD(aclnnH, a, b); }\n"
        f"at::Tensor cpp(const at::Tensor& self, const at::Tensor& other) {{\n  /* {{ */ {body}\n}}\n}}\n"
    )
    declared = calls.read_functions(SETTINGS)[-1]
    kernels = calls.Kernels(list(calls.functions(calls.without_comments(text))))
    found = {
        argument: sorted(f"{handed.function} {handed.position}" for way in ways for handed in way)
        for argument, ways in kernels.ways(declared.schema).items()
    }
    assert found == {argument: sorted(handed) for argument, handed in expected.items()}


COMES_TO = {
    "cast": ("at::Tensor x = self.to(at::kFloat); EXEC_NPU_CMD(aclnnF, x, other);", {"self": {"aclnnF": (0,)}}),
    "one after the other": (
        "for (size_t i = 0; i < n; i++) { EXEC_NPU_CMD(aclnnG, other, self[i]); }",
        {"self": {"aclnnG": (1,)}},
    ),
    "a part of it": (
        "at::TensorList part(self.data() + 1, 8); EXEC_NPU_CMD(aclnnG, part);",
        {"self": {"aclnnG": (0,)}},
    ),
    "a list": ("std::vector<at::Tensor> v; v.push_back(self); EXEC_NPU_CMD(aclnnG, v);", {"self": {"aclnnG": (0,)}}),
    "a helper": ("helper(other, c10::SmallVector<int, 8>{}, self);", {"self": {"aclnnH": (1,)}}),
    "the old way alone": ("DO_COMPATIBILITY(aclnnG, acl_op::helper(self, 1, other));", {"self": {}}),
    "torch's own": ("return at::native::helper(other, 1, self);", {"self": {}}),
}


@pytest.mark.parametrize("case", COMES_TO)
def test_what_a_kernel_may_come_to(tool: ModuleType, case: str) -> None:
    calls = module("plugin_calls")
    body, expected = COMES_TO[case]
    text = (
        "namespace op_api {\n"
        "void helper(const at::Tensor& a, SmallVector<int, 8> n, const at::Tensor& b) { EXEC_NPU_CMD(aclnnH, a, b); }\n"
        f"at::Tensor cpp(const at::Tensor& self, const at::Tensor& other) {{ {body}\n}}\n}}\n"
    )
    kernels = calls.Kernels(list(calls.functions(calls.without_comments(text))))
    met = kernels.met(calls.read_functions(SETTINGS)[-1].schema)
    assert {"self": met["self"]} == expected


MUSA = """
#include <y>
Tensor Inner(const Tensor& grad, const Tensor& self) {
  TORCH_CHECK(
      self.scalar_type() == at::ScalarType::Float || self.scalar_type() == at::kHalf, "only");
  if (grad.dim() > 2) {
    TORCH_CHECK(grad.scalar_type() == at::kFloat, "here only");
  }
}
Tensor Outer(const Tensor& grad, const Tensor& self) {
  TORCH_CHECK(grad.device().type() == kMUSA, "device");
  return Inner(grad, self);
}
"""


def test_checks_that_every_call_comes_to(tool: ModuleType) -> None:
    checks = module("musa_checks")
    sources = checks.Sources({"ops/X.cpp": MUSA})
    expected = [checks.Check(1, frozenset({"float32", "float16"}), "ops/X.cpp:4")]
    assert sources.checks("Inner", 2) == expected
    assert sources.checks("Outer", 2) == expected
    assert checks.operators("- func: a.b\n  dispatch:\n    PrivateUse1: Outer\n- func: c\n") == {"a.b": "Outer"}


OVERLOADS = """
Tensor Sum(const Tensor& self, bool keep) {
  const auto kind = self.scalar_type();
  TORCH_CHECK(kind == at::kFloat || kind == at::kHalf, "text");
}
Tensor Sum(const Scalar& self, bool keep) { return Sum(full(self), keep); }
void Step(TensorList params, const double lr) {
  TORCH_CHECK(
      false,
      "Step is not supported, "
      "use another")
}
void Step(TensorList params, const Tensor& lr) { return; }
"""


def test_overloads_variables_and_functions_that_refuse_every_call(tool: ModuleType) -> None:
    checks = module("musa_checks")
    sources = checks.Sources({"ops/X.cpp": OVERLOADS})
    floats = frozenset({"float32", "float16"})
    assert sources.checks("Sum", 2, types=["Tensor", "bool"]) == [checks.Check(0, floats, "ops/X.cpp:4")]
    assert sources.checks("Sum", 2, types=["number", "bool"]) == []
    assert sources.checks("Sum", 2) == []
    refused = checks.Check(0, frozenset(), "ops/X.cpp:8: Step is not supported, use another")
    assert sources.checks("Step", 2, types=["List[Tensor]", "float"]) == [refused]
    assert sources.checks("Step", 2, types=["List[Tensor]", "Tensor"]) == []


@pytest.mark.parametrize(
    ("condition", "whose"),
    [
        ("x.scalar_type() == at::kFloat", "x"),
        ("!w.has_value() || !w->defined() || w->scalar_type() == at::ScalarType::Half", "w"),
        ("x.scalar_type() == at::kFloat || y.scalar_type() == at::kFloat", ""),
        ("x.scalar_type() == y.scalar_type()", ""),
        ("x.scalar_type() == at::kFloat && x.dim() > 2", ""),
        ("x.dim() == 2", ""),
    ],
)
def test_conditions_about_one_dtype(tool: ModuleType, condition: str, whose: str) -> None:
    found = module("musa_checks").allowed(condition)
    assert (found[0] if found else "") == whose
