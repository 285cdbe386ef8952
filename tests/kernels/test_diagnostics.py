"""The numbers that a port prints: each has its page and an example that is one, and may stand in the ported file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchferry.backends.target import Target
from torchferry.cli import port, rule, undo
from torchferry.kernels.comments import with_comments
from torchferry.kernels.diagnostic_examples import EXAMPLES
from torchferry.kernels.diagnostics import diagnostics, page_lines
from torchferry.kernels.ported_tree import port_tree
from torchferry.kernels.review import kinds
from torchferry.kernels.tokens import SourceTokens, TokenKind, decode, tokens

MUSA = Target.named("musa")
GIVEN = """
PRT101=inline-assembly PRT102=ptx-kernel PRT103=tensor-core PRT104=texture PRT105=shared-memory-limit
PRT106=kernel-rewrite PRT107=dynamic-parallelism PRT108=cluster PRT109=async-copy PRT110=integer-dot
PRT111=cache-hint PRT112=device-clock PRT113=launch-bounds PRT114=kernel-parameter PRT115=device-function
PRT116=warp-size PRT117=warp-intrinsic PRT118=cooperative-groups PRT119=shared-memory PRT120=atomic
PRT121=float64 PRT122=device-runtime PRT201=unknown-name PRT202=no-counterpart PRT203=removed-torch
PRT204=version-guard PRT205=capability PRT206=managed-memory PRT207=dispatch PRT208=host-call
PRT209=library-call PRT210=stream-or-graph PRT211=header PRT212=torch-device PRT213=device-name
PRT301=built-name PRT302=string PRT303=other-port PRT304=unclosed PRT305=unread PRT306=not-read
PRT307=encoding PRT308=unsafe-rule PRT309=test-device PRT401=build-extension PRT402=build-unread
PRT403=build-flag PRT404=build-macro PRT405=build-variable PRT406=build-condition PRT407=build-by-hand
PRT408=build-jit PRT409=build-other-arms PRT410=build-requirement PRT411=build-cmake PRT412=build-meson
PRT413=build-bazel
"""
"""Numbers that were printed once, and stay."""

WITHOUT = {"other-port", "unread", "not-read", "encoding", "unsafe-rule", "test-device"}
WITHOUT |= {"build-variable", "build-by-hand", "build-other-arms"}
"""Kinds about files, or about whole scripts, of which no few lines are an example."""


def test_a_number_stays() -> None:
    numbers = {kind.number: name for name, kind in kinds().items()}
    assert len(numbers) == len(kinds())
    assert {each.partition("=")[0]: each.partition("=")[2] for each in GIVEN.split()}.items() <= numbers.items()
    assert kinds().keys() - EXAMPLES.keys() == WITHOUT


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_one(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    for text, is_listed in ((example.before, True), (example.after, False)):
        if text:
            (tmp_path / example.file).write_text(text)
            listed = {
                item.kind for item in port_tree(tmp_path, Target.named("npu" if example.rewritten else "musa")).items
            }
            assert (name in listed) == is_listed


def test_every_page_is_whole() -> None:
    for kind in diagnostics():
        for lang in ("en", "zh"):
            page = "\n".join(page_lines(kind, lang))
            assert page.count("\n## ") >= (4 if kind.name in EXAMPLES else 3) - 1
            assert page.count("\n- `") == 5  # each target


@pytest.mark.parametrize(("code", "text"), [("prt116", "threadIdx.x % 32"), ("PRT4", "PRT413"), ("PRT", "PRT101")])
def test_rule_explains_a_number(code: str, text: str) -> None:
    result = CliRunner().invoke(rule.command, [code])
    assert (result.exit_code, text in result.output) == (0, True)
    assert json.loads(CliRunner().invoke(rule.command, [code, "-f", "json"]).output)


PIECES = (
    *("int l = threadIdx.x % 32;", 'asm("mma.sync;");', "__shfl(1);", "#define A __shfl(x) \\", "  __shfl(y) \\", "b"),
    *(
        "/* a",
        "__shfl */ __shfl(2);",
        'R"(',
        ')" __ldcs(p);',
        "// c \\",
        "#if CUDA_VERSION > 1",
        "#endif",
        "x = 1; \\ ",
    ),
    *('"s \\', '__shfl" + __shfl(3);', "cudaNobody();", "\xe9 = __ldcs(q);", "??/"),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_comments_change_nothing_that_is_compiled(tmp_path: Path, pieces: list[str], newline: str) -> None:
    body = newline.join(("__global__ void k() {", *pieces, "}", "")).encode("latin-1")
    (tmp_path / "a.cu").write_bytes(body)
    plain = port_tree(tmp_path, MUSA)
    commented, left = with_comments(plain)
    assert not left
    before, after = plain.files[0].after, commented.files[0].after
    assert _code(after) == _code(before)
    added = after.count(b"\n") - before.count(b"\n")
    assert after.count(b"\r\n") - before.count(b"\r\n") == (added if newline == "\r\n" else 0)
    assert bool(added) == any(item.path for item in plain.items)
    (tmp_path / "a.cu").write_bytes(after)
    again = with_comments(port_tree(tmp_path, MUSA))[0].files[0].after
    (tmp_path / "a.cu").unlink()
    assert again.count(b"/* PRT") <= after.count(b"/* PRT") + len(plain.items)


def _code(data: bytes) -> list[str]:
    source = SourceTokens(decode(data))
    shown = [(token.kind, source.text[token.start : token.end]) for token in tokens(source)]
    return [text for kind, text in shown if kind is not TokenKind.COMMENT or not text.startswith("/* PRT")]


def test_the_preprocessor_sees_no_difference(tmp_path: Path) -> None:
    text = "#define F(x) \\\n  __shfl(x) \\\n  + 1\nint a = F(\n  __ldcs(p));\n#if CUDA_VERSION > 1\nint b;\n#endif\n"
    (tmp_path / "a.cu").write_text("__global__ void k() {\n" + text + "}\n")
    plain = port_tree(tmp_path, MUSA)
    outcomes = [
        subprocess.run(
            ["cpp", "-P", "-x", "c++", "-"], input=tree.files[0].after, capture_output=True, check=True
        ).stdout
        for tree in (plain, with_comments(plain)[0])
    ]
    assert outcomes[0] == outcomes[1]
    assert b"/* PRT" in with_comments(plain)[0].files[0].after


def test_undo_takes_comments_back(tmp_path: Path) -> None:
    source = tmp_path / "csrc"
    source.mkdir()
    (source / "a.cu").write_text(EXAMPLES["warp-size"].before)
    result = CliRunner().invoke(port.command, [str(source), "--target", "musa", "--comments"])
    assert result.exit_code == 0, result.output
    written = tmp_path / "csrc_musa" / "a.mu"
    assert "  /* PRT116 warp-size: `threadIdx.x % 32` stands for a warp of 32 threads" in written.read_text()
    again = CliRunner().invoke(port.command, [str(source), "--target", "musa", "--comments"])
    assert "up to date" in again.output
    assert CliRunner().invoke(undo.command, [str(tmp_path / "csrc_musa")]).exit_code == 0
    assert not written.exists()
    assert (source / "a.cu").read_text() == EXAMPLES["warp-size"].before
