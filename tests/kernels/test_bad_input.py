"""What no compiler takes, and what nobody expects in a tree: a port says what and where, and does the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import process_time

import pytest

from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.kernels.listing import render
from torchferry.kernels.output import write_beside
from torchferry.kernels.planning import plan_port
from torchferry.kernels.ported_tree import port_tree

GOOD = b"void f() { cudaFree(0); }\n"

FILES = [
    # file, content, what is listed (kind, line), what the port holds
    ("gbk.cu", "// 注释\n".encode("gbk") + GOOD, ("encoding", 1), b"musaFree"),
    ("bom.cu", b"\xef\xbb\xbf" + GOOD, None, b"\xef\xbb\xbfvoid f() { musaFree"),
    ("utf16.cu", GOOD.decode().encode("utf-16"), ("unread", 1), "cudaFree".encode("utf-16-le")),
    ("zero.cu", b"\0" + GOOD, ("unread", 1), b"cudaFree"),
    ("empty.cu", b"", None, b""),
    (
        "comment.cu",
        GOOD + b"/* cudaFree\n" + GOOD,
        ("unclosed", 2),
        b"musaFree(0); }\n/* cudaFree\nvoid f() { cudaFree",
    ),
    ("raw.cu", GOOD + b'auto s = R"x(\n' + GOOD, ("unclosed", 2), b'auto s = R"x(\nvoid f() { cudaFree'),
    ("string.cu", b'auto s = "cudaFree\n' + GOOD, ("unclosed", 1), b'"cudaFree\nvoid f() { musaFree'),
    ("trigraph.cu", b"// what??/\n" + GOOD, ("built-name", 1), b"musaFree"),
    ("directive.cu", b"??=include <cuda_runtime.h>\r\n// what??/\r\n" + GOOD, ("built-name", 1), b"musaFree"),
    (
        "split.cu",
        b"void f() { cuda\\\nFree(0); cudaFree\\\r\nAsync(0); }\n",
        ("built-name", 1),
        b"cuda\\\nFree(0); cudaFree\\\r\n",
    ),
    ("paste.cu", b"#define CALL(x) cuda##x\n" + GOOD, ("built-name", 1), b"cuda##x\nvoid f() { musaFree"),
    ("joined.cu", b"#define API(a, b) a##b\nvoid f() { API(cuda, Free)(0); }\n", ("built-name", 2), b"API(cuda, Free)"),
    ("braces.cu", b"__global__ void k() {{{\n" + GOOD, None, b"musaFree"),
    (  # nesting has no limit: it is read without recursion
        "deep.cu",
        b"#if A\n" * 5000
        + b"void f() { "
        + b"g({[" * 20_000
        + b"cudaFree(0)"
        + b"]})" * 20_000
        + b"; }\n"
        + b"#endif\n" * 5000,
        None,
        b"g({[musaFree(0)]})",
    ),
    ("open_deep.cu", b"template<" * 5000 + b"((([[[{{{" * 5000 + GOOD, None, b"{{{void f() { musaFree(0); }"),
    ("launch.cu", b"void g() { k<<<1, \n" + GOOD, None, b"musaFree"),
    ("hip/a.cu", GOOD, ("other-port", 1), b"musaFree"),
    (
        "load.cpp",
        b"// jit::load(p)\nauto m = torch::jit::load(p, at::kCUDA);\n",
        ("device-name", 2),
        b"at::kPrivateUse1",
    ),
    (
        "named.cpp",
        b'void f() { c10::register_privateuse1_backend("musa"); torch::jit::load(p, at::kCUDA); }\n',
        None,
        b"at::kPrivateUse1",
    ),
    (
        "CMakeLists.txt",
        b"add_library(x a.cu)\ntarget_sources(x PRIVATE $<$<BOOL:${USE_CUDA}>:b.cu>)\n",
        ("build-cmake", 2),
        b"musa_add_library(x a.mu)\ntarget_sources(x PRIVATE $<$<BOOL:${USE_CUDA}>:b.mu>)",
    ),
    ("open/CMakeLists.txt", b"add_library(x a.cu\n", ("build-unread", 1), b"add_library(x a.cu\n"),
    (
        "setup.py",
        b"from torch.utils.cpp_extension import CUDAExtension\nsetup(CUDAExtension('a', ['a.cu']\n",
        ("build-unread", 2),
        b"CUDAExtension('a', ['a.cu']",
    ),
    (
        "computed/setup.py",
        b"from torch.utils import cpp_extension\nE = getattr(cpp_extension, 'CUDA' + 'Extension')\n",
        ("build-extension", 1),
        b"getattr(cpp_extension, 'CUDA' + 'Extension')",
    ),
    ("latin/setup.py", b"# \xe9\nfrom torch.utils.cpp_extension import CUDAExtension\n", ("build-unread", 1), b"\xe9"),
]


@pytest.mark.parametrize(("name", "content", "listed", "holds"), FILES, ids=[file[0] for file in FILES])
def test_one_odd_file_among_good_ones(
    tmp_path: Path, name: str, content: bytes, listed: tuple[str, int] | None, holds: bytes
) -> None:
    root = tmp_path / "csrc"
    (root / name).parent.mkdir(parents=True)
    (root / name).write_bytes(content)
    (root / "good.cu").write_bytes(GOOD)
    ported = port_tree(root, Target.named("musa"))
    found = {(item.kind, item.line) for item in ported.items if item.path == name}
    assert listed is None or listed in found
    assert listed is not None or not {kind for kind, _ in found} & {"encoding", "unclosed", "built-name", "device-name"}
    write_beside(ported, tmp_path / "csrc_musa")
    assert (tmp_path / "csrc_musa" / "good.mu").read_bytes() == b"void f() { musaFree(0); }\n"
    after = next(file.new_path for file in ported.files if file.path == name)
    assert holds in (tmp_path / "csrc_musa" / after).read_bytes()
    assert (root / name).read_bytes() == content


def test_a_generated_file_costs_what_its_bytes_cost(tmp_path: Path) -> None:
    piece = "__global__ void k{0}(float* a) {{ atomicAdd(a, {0}.0f); }}\nvoid r{0}() {{ k{0}<<<1, 32>>>(0); }}\n"
    seconds = []
    for count in (1_000, 6_000):
        root = tmp_path / str(count)
        root.mkdir()
        (root / "made.cu").write_text("".join(map(piece.format, range(count))))
        started = process_time()
        ported = port_tree(root, Target.named("musa"))
        seconds.append(process_time() - started)
        assert len(ported.kernels) == count
    assert seconds[1] < 6 * 4 * max(seconds[0], 0.05)


def test_a_named_build_file_without_a_word_of_cuda_is_no_success(tmp_path: Path) -> None:
    root = tmp_path / "csrc"
    root.mkdir()
    (root / "a.cu").write_bytes(GOOD)
    script = b"from importlib import import_module\nmodule = import_module('torch.utils.cpp_' + 'extension')\n"
    script += b"extension = getattr(module, 'CUDA' + 'Extension')\n"
    (tmp_path / "setup.py").write_bytes(script)
    plan = plan_port(root, Target.named("musa"), builds=[tmp_path / "setup.py"])
    assert [(item.path, item.kind) for item in plan.ported.items] == [("setup.py", "build-extension")]
    assert plan.ported.by_hand == ["setup.py"]
    plan.write()
    assert (tmp_path / "setup.py").read_bytes() == script


def test_the_json_is_utf8_where_names_of_files_are_not(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.cu")).write_bytes(b"/* cudaFree\n")
    text = render(port_tree(tmp_path, Target.named("musa")), "json", "en")
    assert [item["path"] for item in json.loads(text.encode())["review"]] == [os.fsdecode(b"\xff.cu")]


def test_links_and_edited_outputs_are_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "csrc"
    root.mkdir()
    (root / "a.cu").write_bytes(GOOD)
    outside = tmp_path / "outside.py"
    outside.write_bytes(b"from torch.utils.cpp_extension import CUDAExtension\n")
    (tmp_path / "setup.py").symlink_to(outside)
    with pytest.raises(TorchferryError, match="link"):
        plan_port(root, Target.named("musa"), builds=[tmp_path / "setup.py"])
    plan_port(root, Target.named("musa")).write()
    copy = tmp_path / "csrc_musa" / "a.mu"
    copy.write_bytes(b"edited")
    (root / "a.cu").write_bytes(GOOD * 2)
    with pytest.raises(TorchferryError, match="edited"):
        plan_port(root, Target.named("musa")).write()
    assert copy.read_bytes() == b"edited"
