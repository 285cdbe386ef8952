"""Advice from the code alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.advice.programs import CLEAN, WORSE, worse
from torchferry.cli import cli
from torchferry.core.coded_errors import NoSourcesError

TARGETS = ("npu", "musa", "gcu")


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["advise", "-j", "1", *map(str, words)])


def advice(folder: Path, target: str, *words: object) -> list[dict[str, Any]]:
    result = run("-t", target, "-f", "json", folder, *words)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.output)["advice"])


def kinds(pieces: list[dict[str, Any]]) -> list[str]:
    return [piece["kind"] for piece in pieces]


@pytest.mark.parametrize("name", CLEAN)
def test_to_a_clean_program_nothing_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLEAN[name], encoding="utf-8")
    for target in TARGETS:
        assert kinds(advice(tmp_path, target)) == []
    assert "nothing to advise" in run("-t", "npu", "--check", tmp_path).output


@pytest.mark.parametrize("what", WORSE)
def test_what_is_worse_is_named_with_its_edit(what: str, tmp_path: Path) -> None:
    text, target, kind, written = worse(what)
    program = tmp_path / "train.py"
    program.write_text(text, encoding="utf-8")
    before = {piece["kind"]: piece for piece in advice(tmp_path, target)}
    assert kind in before
    piece = before[kind]
    assert piece["evidence"] == "code"
    lines = text.split("\n")
    assert all(lines[place["line"] - 1].strip().startswith(place["text"][:20]) for place in piece["places"])
    if written:
        assert written in "\n".join(piece["edits"][0]["after"])
    for edit in sorted(piece["edits"], key=lambda edit: -edit["line"]):
        end = edit["line"] - 1 + len(edit["before"])
        assert lines[edit["line"] - 1 : end] == edit["before"]
        lines[edit["line"] - 1 : end] = edit["after"]
    ast.parse("\n".join(lines))
    if piece["edits"]:  # what it proposes, it does not propose again
        program.write_text("\n".join(lines), encoding="utf-8")
        assert kind not in kinds(advice(tmp_path, target))


def test_only_what_a_program_uses_is_looked_at(tmp_path: Path) -> None:
    package = tmp_path / "library"
    package.mkdir()
    (package / "__init__.py").write_text("from .used import make\nfrom .other import attend\n", encoding="utf-8")
    (package / "used.py").write_text("import torch\n\n\ndef make(model):\n    return torch.optim.SGD(model, 1.0)\n")
    plain = "import torch\n\n\ndef attend(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v\n"
    (package / "other.py").write_text(plain, encoding="utf-8")
    steps = "for batch in batches:\n    loss = model(batch)\n    loss.backward()\n    optimizer.step()\n"
    setting = "import torch\n\nhalf = torch.float16\n"
    (tmp_path / "train.py").write_text(setting + "from library import make\noptimizer = make(0)\n" + steps)
    assert kinds(advice(tmp_path, "npu")) == ["fused-optimizer"]
    (tmp_path / "train.py").write_text(setting + "from library import attend\n" + steps)
    assert kinds(advice(tmp_path, "npu")) == ["attention"]


def test_a_default_of_an_option_counts(tmp_path: Path) -> None:
    text = CLEAN["cnn"].replace("num_workers=8", "num_workers=args.workers")
    option = 'parser.add_argument("--workers", type=int, default={})\n'
    for default, found in (("0", ["loader-workers"]), ("8", [])):
        (tmp_path / "train.py").write_text(text + option.format(default), encoding="utf-8")
        pieces = advice(tmp_path, "npu")
        assert kinds(pieces) == found
        assert not pieces or pieces[0]["places"][1]["text"].startswith("parser.add_argument")


def test_an_optimizer_that_is_chosen_is_named_and_not_rewritten(tmp_path: Path) -> None:
    chosen = "kind = torch.optim.AdamW\n    optimizer = kind(model.parameters())"
    text = CLEAN["cnn"].replace("optimizer = torch.optim.Adagrad(model.parameters())", chosen)
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    (piece,) = advice(tmp_path, "npu")
    assert (piece["kind"], piece["edits"]) == ("fused-optimizer", [])
    sharded = text.replace("import torch\n", "import torch\nfrom torch.distributed.fsdp import fully_shard\n", 1)
    (tmp_path / "train.py").write_text(sharded, encoding="utf-8")
    assert advice(tmp_path, "npu") == []


def test_what_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("loss.backward(\n", encoding="utf-8")
    (tmp_path / "trainer.py").write_text("from transformers import Trainer\nTrainer().train()\n", encoding="utf-8")
    result = run("-t", "npu", tmp_path)
    assert result.exit_code == 0
    assert "broken.py cannot be parsed and was not examined" in result.output
    assert "the steps of transformers are in these libraries (trainer.py:1)" in result.output
    assert "nothing was measured" in result.output
    (tmp_path / "trainer.py").unlink()
    assert "no training step was found" in run("-t", "npu", tmp_path).output
    notebook = tmp_path / "notes.ipynb"
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', encoding="utf-8")
    assert "1 notebook was not examined" in run("-t", "npu", tmp_path).output
    assert isinstance(run("-t", "npu", notebook).exception, NoSourcesError)
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = run("-t", "npu", empty)
    assert isinstance(refused.exception, NoSourcesError)
    assert "has no Python file" in str(refused.exception.message)


def test_forms_and_exit_codes(tmp_path: Path) -> None:
    text, target, _, _ = worse("item")
    (tmp_path / "train.py").write_text(text.replace("loss.item()\n", "loss.item()  # `<b>|\n"), encoding="utf-8")
    shown = run("-t", target, "--check", tmp_path)
    assert shown.exit_code == 1
    assert "1 piece of advice for Huawei Ascend, from the code alone, not measured" in shown.output
    assert "-            total += loss.item()" in shown.output
    assert "+            total += loss.detach()" in shown.output
    document = json.loads(run("-t", target, "-f", "json", tmp_path / "train.py").output)
    assert (document["format"], document["version"], document["measured"]) == ("torchferry advice", 1, False)
    assert document["steps"][0]["path"] == "train.py"
    written = tmp_path / "advice.md"
    assert run("-t", target, "-f", "markdown", "-o", written, tmp_path).exit_code == 0
    assert "\\<b\\>" not in written.read_text(encoding="utf-8")
    assert "````diff" in written.read_text(encoding="utf-8") or "```diff" in written.read_text(encoding="utf-8")
    assert run("-t", target, "-f", "html", "-o", written, tmp_path).exit_code == 0
    page = written.read_text(encoding="utf-8")
    assert "`&lt;b&gt;|" in page
    assert "<b>" not in page
    assert "+            total += loss.detach()" in page
    assert "证据" in run("-t", target, "--lang", "zh", tmp_path).output


@pytest.mark.parametrize("what", ["plain attention", "flash attention"])
def test_a_torch_without_fused_attention_is_not_told_to_use_it(what: str, tmp_path: Path) -> None:
    """The torch of ptex is 1.11; scaled_dot_product_attention came with 2.0."""
    (tmp_path / "train.py").write_text(worse(what)[0], encoding="utf-8")
    assert worse(what)[2] not in kinds(advice(tmp_path, "ptex"))


@pytest.mark.parametrize(("fallback", "is_named"), [("F.scaled_dot_product_attention(q, q, q)", False), ("q", True)])
def test_an_import_that_the_code_goes_on_without_is_named_where_nothing_fused_follows(
    fallback: str, is_named: bool, tmp_path: Path
) -> None:
    guarded = "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None\n"
    use = f"def attend(q):\n    return flash_attn_func(q, q, q) if flash_attn_func is not None else {fallback}\n"
    step = "def train(model, optimizer):\n    for x in x:\n        model(x).backward()\n        optimizer.step()\n"
    text = f"import torch.nn.functional as F\n{guarded}{use}{step}"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    assert ("without-flash-attention" in kinds(advice(tmp_path, "npu"))) == is_named
