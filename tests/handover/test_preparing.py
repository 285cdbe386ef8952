"""What a hand-over is made of: arguments that are read, licence lines that are added, files that are left out."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.handover.made import EVIDENCE, evidence, handover, ported
from torchferry.backends.handover_forms import form_of
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.device.one_file import one_file
from torchferry.handover.addresses import public_addresses
from torchferry.handover.arguments import arguments_of
from torchferry.handover.evidence import read_accept_evidence
from torchferry.handover.licences import PYTHON, C, has_header, has_notice, with_header, with_line
from torchferry.handover.loss_lines import loss_lines
from torchferry.handover.programs import choose_program
from torchferry.handover.project_files import project_files, without_secrets
from torchferry.handover.templates import fill
from torchferry.source.project import Project
from torchferry.source.text import SourceText

TRAINS = "import torch\nif __name__ == '__main__':\n    loss.backward()\n"

PARSER = """
import argparse, sys, json
open('ran', 'w').close()
p = argparse.ArgumentParser()
p.add_argument('data', metavar='DIR')
p.add_argument('-b', '--batch-size', type=int, default=8)
p.add_argument('--epochs', type=int, default=90, help='number of %(type)s, 100% sure')
p.add_argument('--lr', '--learning-rate', dest='rate', type=float, default=0.1)
p.add_argument('--amp', action='store_true')
p.add_argument('--no-shuffle', dest='shuffle', action='store_false')
p.add_argument('--resume', nargs='?', const='last', default='')
p.add_argument('--sizes', nargs='+', type=int, default=[1])
p.add_argument('--bar', action=argparse.BooleanOptionalAction, default=True)
p.add_argument('--device', default='cpu', choices=['cpu', 'sdaa'])
for name in ('alpha', 'beta'):
    p.add_argument('--' + name)
if __name__ == '__main__':
    print(json.dumps(vars(p.parse_args())))
    if 0:
        loss.backward()
"""


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def opened(folder: Path) -> Project:
    return Project(folder, [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")])


def prepare(folder: Path, out: Path, *arguments: object) -> str:
    """Write a hand-over and return what is said of it."""
    done = handover(
        folder,
        "--for",
        "tecorigin-modelzoo",
        "--domain",
        "NLP",
        "--model",
        "Net",
        "-o",
        out,
        "--lang",
        "en",
        *arguments,
    )
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def refusal(*arguments: object) -> str:
    done = handover(*arguments)
    assert done.exit_code != 0
    assert isinstance(done.exception, TorchferryError), done.output + repr(done.exception)
    return "; ".join(done.exception.lines())


def test_the_start_script_passes_on_what_the_program_parses(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=PARSER)
    said = prepare(folder, tmp_path / "out")
    assert "passed on unchanged: train.py:16" in said
    assert not (folder / "ran").exists(), "nothing of the project is run"
    scripts = tmp_path / "out/PyTorch/contrib/NLP/Net/run_scripts"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, scripts / "run_net.py", *arguments], capture_output=True, text=True, check=False
        )

    defaults = {
        "data": "/d", "batch_size": 8, "epochs": 90, "rate": 0.1, "amp": False, "shuffle": True, "resume": "",
        "sizes": [1], "bar": True, "device": "cpu", "alpha": None, "beta": None,
    }  # fmt: skip
    for words, changed in (
        (["--model_name", "NET"], {}),
        (["--bs", "2", "--epoch", "3", "--lr", "0.5"], {"batch_size": 2, "epochs": 3, "rate": 0.5}),
        (["--autocast", "true"], {"amp": True}),
        (["--autocast", "no"], {}),
        (["--no-shuffle", "--resume", "--sizes", "1", "2"], {"shuffle": False, "resume": "last", "sizes": [1, 2]}),
        (["--resume", "x.pt", "--no-bar", "--device", "sdaa"], {"resume": "x.pt", "bar": False, "device": "sdaa"}),
        (["--alpha", "1"], {"alpha": "1"}),
    ):
        done = run("--dataset_path", "/d", *words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.split("\n")[1]) == {**defaults, **changed}, words
    for refused in (["--grad_scale", "True"], ["--model_name", "other"], ["--step", "3"]):
        done = run("--dataset_path", "/d", *refused)
        assert done.returncode == 1
        assert "train.py has no argument for it" in done.stderr
    assert run("--autocast", "maybe").returncode == 2
    assert run().returncode == 2, "the program's own error is its end"
    assert "torch.distributed.run" in run("--nproc_per_node", "2", "--dataset_path", "/d", "--device", "x").stdout
    for file in scripts.glob("*.py"):
        ast.parse(file.read_text(encoding="utf-8"))


def test_arguments_are_found_in_what_the_program_imports(tmp_path: Path) -> None:
    options = (
        "import argparse\ndef get():\n    p = argparse.ArgumentParser()\n    p.add_argument('--lr')\n    return p\n"
    )
    own = "if __name__ == '__main__':\n    p.add_argument('--of-another-program')\n"
    folder = project(
        tmp_path, train="from lib.options import get\n" + TRAINS, lib__options=options + own, other=options
    )
    found = arguments_of("train.py", opened(folder))
    assert [(argument.flag, argument.path) for argument in found.arguments] == [("--lr", "lib/options.py")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import hydra\n", "takes its settings with hydra"),
        ("import fire\n", "takes its settings with fire"),
        ("import yaml\n", "no arguments were found in"),
    ],
)
def test_a_program_without_argparse_gets_what_it_is_given(tmp_path: Path, text: str, said: str) -> None:
    program = f"import sys\nif 0:\n    {text}if __name__ == '__main__':\n    print(sys.argv[1:])\n    x = 0\n"
    folder = project(tmp_path / "p", train=program + "    if x:\n        x.backward()\n")
    assert said in prepare(folder, tmp_path / "out")
    script = tmp_path / "out/PyTorch/contrib/NLP/Net/run_scripts/run_net.py"
    done = subprocess.run([sys.executable, script, "trainer.steps=3"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("['trainer.steps=3']\n")


def test_which_program_trains_is_asked_where_several_may(tmp_path: Path) -> None:
    folder = project(
        tmp_path, train=TRAINS, show="if __name__ == '__main__':\n    pass\n", setup=TRAINS, conftest=TRAINS
    )
    project(folder, tests__test_net=TRAINS, third_party__train=TRAINS, export=TRAINS, plot="print(1)\n")
    assert choose_program(folder, project_files(folder)) == "train.py"
    project(folder, segment__train=TRAINS)
    with pytest.raises(UsageError, match=r"train\.py, segment/train\.py"):
        choose_program(folder, project_files(folder))
    assert choose_program(folder, project_files(folder), "segment/train.py") == "segment/train.py"
    with pytest.raises(UsageError, match="not a Python file"):
        choose_program(folder, project_files(folder), "../train.py")
    with pytest.raises(UsageError, match="no Python program"):
        choose_program(folder, project_files(tmp_path / "segment", ("*.py",)))


@pytest.mark.parametrize(
    ("pattern", "left_out", "idle"),
    [
        ("third_party", ["third_party/deep/a.py", "third_party/b.py"], False),
        ("third_party/", ["third_party/deep/a.py", "third_party/b.py"], False),
        ("./third_party/deep", ["third_party/deep/a.py"], False),
        ("[ab].py", ["third_party/deep/a.py", "third_party/b.py"], False),
        ("thrid_party", [], True),
    ],
)
def test_what_is_excluded_is_not_handed_over(tmp_path: Path, pattern: str, left_out: list[str], idle: bool) -> None:
    folder = project(tmp_path, train=TRAINS, third_party__deep__a="x = 1\n", third_party__b="x = 1\n")
    every = {file.path for file in project_files(folder).files}
    found = project_files(folder, (pattern,))
    assert {file.path for file in found.files} == every - set(left_out)
    assert sorted(item.path for item in found.left_out) == sorted(left_out)
    assert found.idle == ((pattern,) if idle else ())


LOSSES = [
    ("for step, (x, y) in enumerate(loader):\n    loss.backward()\n    print(f'{step} {loss.item():.3f}')",
     ["log.train(0, step, loss.item(), x)"]),
    ("def train(epoch):\n    for i, batch in enumerate(loader):\n        loss.backward()\n        if i % 9 == 0:\n"
     "            logger.info('loss %.3f', loss)", ["log.train(epoch, i, loss, batch)"]),
    ("for epoch in range(3):\n    for x, y in loader:\n        loss.backward()\n    print('loss', total_loss / n)",
     ["log.train(epoch, None, loss.item(), x)"]),
    ("for i in range(9):\n    scaler.scale(loss).backward()\n    pbar.set_description('%g %g' % (i, *losses))",
     ["log.train(0, i, loss, None)"]),
    ("for e in range(2):\n    for i in range(9):\n        loss.backward(); step()\n    print(loss)",
     ["log.train(e, e, loss, None)"]),
    ("for i in range(9):\n    loss.backward()\n    print('{:.2f}'.format(losses.avg))",
     ["log.train(0, i, losses.avg, None)"]),
    ("for i in range(9):\n    loss.backward(); print(loss)", []),
    ("for i in range(9):\n    loss.backward()\n    if i: print(loss)", []),
    ("for i in range(9):\n    loss.backward()\n    print('a loss is computed')", []),
    ("for i in range(9):\n    loss.backward()\n    print(loss)\ndef validate(epoch):\n    for i, x in enumerate(l):\n"
     "        print(val_loss)", ["log.train(0, i, loss, None)", "log.val(epoch, i, val_loss, x)"]),
    ("print(loss)", []),
    ("step = 0\nfor x, y in loader:\n    loss.backward()\n    step += 1\n    print(loss)",
     ["log.train(0, step, loss, x)"]),
    ("while step < 9:\n    loss.backward()\n    print(loss)\n    step = step + 1", ["log.train(0, step, loss, None)"]),
    ("for x in loader:\n    loss.backward()\n    seen += 1\n    self.global_step += 1\n    print(loss)",
     ["log.train(0, self.global_step, loss, x)"]),
    ("for i, x in tqdm(enumerate(loader), total=9):\n    loss.backward()\n    print(loss)",
     ["log.train(0, i, loss, x)"]),
    ("for x in loader:\n    loss.backward()\n    total += len(x)\n    if bad:\n        skipped += 1\n    print(loss)",
     ["log.train(0, None, loss, x)"]),
    ("for e in range(2):\n    for i in range(9):\n        y = model(x)\n        loss.backward()\n        print(loss)",
     ["log.train(e, i, loss, x)"]),
    ("for e in range(2):\n    for i in range(9):\n        y = model(x)\n        loss.backward()\n    print(loss)",
     ["log.train(e, i, loss.item(), x)"]),
    ("for _ in range(2):\n    for x, y in data:\n        l.backward()\n        print(f'loss {l.item():.4f}')",
     ["log.train(None, None, l.item(), x)"]),
    ("def one(model):\n    for x, y in data:\n        l.backward()\n        if late():\n            print(l)",
     ["log.train(None, None, l, None)"]),
    ("def one(model):\n    for i in range(9):\n        l.backward()\n        print(f'{other(l)} {x}')", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "codes"), LOSSES)
def test_the_line_for_the_logger_follows_the_print_of_the_loss(tmp_path: Path, text: str, codes: list[str]) -> None:
    form = form_of("tecorigin-modelzoo")
    assert form.logger is not None
    logger = form.logger._replace(train="log.train({epoch}, {step}, {loss}, {batch})",
                                  val="log.val({epoch}, {step}, {loss}, {batch})")  # fmt: skip
    folder = project(tmp_path, train=text)
    assert [line.code for line in loss_lines(["train.py"], opened(folder), logger)] == codes


def test_logged_programs_parse_and_only_gain_lines(tmp_path: Path) -> None:
    for number, (text, codes) in enumerate(LOSSES):
        head = '"""About."""\nfrom __future__ import annotations\nimport os\n'
        folder = project(tmp_path / str(number), train=f'{head}{text}\nif __name__ == "__main__":\n    pass')
        prepare(folder, tmp_path / f"out{number}", "--unsafe-fixes")
        written = (tmp_path / f"out{number}/PyTorch/contrib/NLP/Net/train.py").read_text(encoding="utf-8")
        ast.parse(written)
        before = (folder / "train.py").read_text(encoding="utf-8").split("\n")
        rest = iter(written.split("\n"))
        assert all(line in rest for line in before), "lines of the project stay, in their order"
        assert ("import zoo_log" in written) == bool(codes)


HEADS = [
    ("# Copyright (c) 2019 Somebody\n# Licensed under MIT\n\nimport os\n", True),
    ('"""Net.\n\nCopyright 2020 Somebody. All rights reserved.\n"""\n', True),
    ("#!/usr/bin/env python\n# -*- coding: gbk -*-\nx = 1\n", False),
    ("// SPDX-License-Identifier: MIT\nint a;\n", True),
    ("/* Copyright X\n * all rights */\nint a;\n", True),
    ("x = 'copyright'\n", False),
    ("", False),
]


@given(st.sampled_from(HEADS), st.sampled_from(["\n", "\r\n"]), st.sampled_from([PYTHON, C]))
def test_licence_lines_are_added_and_none_is_changed(head: tuple[str, bool], newline: str, language: str) -> None:
    text, notice = head[0].replace("\n", newline), head[1]
    assert has_notice(head[0]) == notice
    for add, wanted in ((with_header, "Ours {year}\nall of it"), (with_line, "Adapted {year}")):
        source = SourceText(text)
        after = add(source, wanted, language, 2026)
        rest = iter(after.splitlines())
        assert all(line in rest for line in text.splitlines())
        assert has_header(after, wanted, language)
        assert add(SourceText(after), wanted, language, 2027) == after, "a second time changes nothing"
        assert ("\r" not in after.replace("\r\n", "") and (newline == "\r\n") == ("\r\n" in after)) or not text
        assert text.startswith("#!") == after.startswith("#!")


def test_what_is_changed_own_or_not_decodable(tmp_path: Path) -> None:
    project_folder, original = ported(tmp_path, "sdaa")
    (project_folder / "chinese.py").write_bytes("x = '中文'\n".encode("gbk"))
    (project_folder / "cookie.py").write_bytes("# coding: gbk\nx = '中文'\n".encode("gbk"))
    (project_folder / "run.sh").chmod(0o755)
    said = prepare(project_folder, tmp_path / "out", "--original", original, "--own", "digits/model.py")
    assert "these files cannot be decoded, so no licence line was added: chinese.py" in said
    model = tmp_path / "out/PyTorch/contrib/NLP/Net"
    assert (model / "chinese.py").read_bytes() == (project_folder / "chinese.py").read_bytes()
    assert "# Adapted to tecorigin hardware" in (model / "cookie.py").read_text(encoding="gbk")
    assert "Adapted" in (model / "train.py").read_text(encoding="utf-8")
    assert (model / "digits/model.py").read_text(encoding="utf-8").startswith("# BSD 3- Clause License")
    assert (model / "digits/devices.py").read_bytes() == (project_folder / "digits/devices.py").read_bytes()
    assert os.stat(model / "run.sh").st_mode & 0o777 == 0o755
    checked = handover("check", tmp_path / "out", "--lang", "en").output
    assert "chinese.py: the file was changed but cannot be decoded" in checked.replace(":1:", ":")


def test_data_links_and_large_files_are_left_out_and_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (folder / "link.py").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "net.pth").write_bytes(b"0")
    (folder / "data").mkdir()
    (folder / "data/1.jpg").write_bytes(b"0")
    (folder / "data/net.yaml").write_text("a: 1\n", encoding="utf-8")
    os.mkfifo(folder / "pipe")
    with (folder / "large.txt").open("wb") as large:
        large.truncate((100 << 20) + 1)
    (folder / ".hg").mkdir()
    (folder / ".hg/config").write_text("x", encoding="utf-8")
    said = prepare(folder, tmp_path / "out")
    written = {path.name for path in (tmp_path / "out").rglob("*")}
    assert written.isdisjoint({"link.py", "folder", "net.pth", "1.jpg", "pipe", "large.txt", ".hg", "secret"})
    assert "net.yaml" in written
    for name in ("link.py", "folder", "net.pth", "data/1.jpg", "pipe", "large.txt"):
        assert f"left out: {name} (" in said


def test_a_folder_that_was_not_written_here_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    out = tmp_path / "out"
    arguments = (folder, "--for", "generic", "-o", out)
    (tmp_path / "target").mkdir()
    out.symlink_to(tmp_path / "target")
    assert "it is not a folder" in refusal(*arguments)
    out.unlink()
    out.mkdir()
    assert handover(*arguments).exit_code == 0, "an empty folder is as good as none"
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert handover(*arguments).exit_code == 0, "what was written here is replaced"
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}.keys() == first.keys()
    readme = out / "p/README.md"
    readme.write_text("mine", encoding="utf-8")
    assert "these files were changed since it was written: p/README.md" in refusal(*arguments)
    assert readme.read_text(encoding="utf-8") == "mine"
    readme.write_bytes(first[readme])
    (out / "p/more.txt").write_text("mine", encoding="utf-8")
    assert "p/more.txt" in refusal(*arguments)
    other = tmp_path / "other"
    other.mkdir()
    for path, data in first.items():  # a copy carries a record along that is not of this folder
        copied = other / path.relative_to(out)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(data)
    assert "signature" in refusal(folder, "--for", "generic", "-o", other)
    assert (other / "p/train.py").exists()
    assert not list(tmp_path.glob(".*.torchferry")), "nothing is left of a run that was refused"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--for", "nobodys"], "did you mean|known: "),
        (["--for", "tecorigin-modelzoo"], "the model's domain is missing.*Classification"),
        (["--for", "tecorigin-modelzoo", "--domain", "../.."], "is not a valid domain"),
        (["--for", "tecorigin-modelzoo", "--domain", "cv"], "the zoo has no domain `cv`.*Classification"),
        (["--for", "ascend-modelzoo", "--domain", "cv"], "the zoo has no domain `cv`.*the zoo has cv/"),
        (["--for", "ascend-modelzoo", "--domain", "CV/Classification"], "the zoo has cv/classification"),
        (["--for", "generic", "--model", "../up"], "cannot be the name"),
        (["--for", "generic", "--set", "nothing"], "takes NAME=VALUE"),
        (["--for", "generic", "--set", "nobody=x"], "the form has no text of this name"),
        (["--for", "generic", "--program", "none.py"], "is not a Python file"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_written(tmp_path: Path, arguments: list[str], said: str) -> None:
    import re

    folder = project(tmp_path / "p", train=TRAINS)
    assert re.search(said, refusal(folder, "-o", tmp_path / "out", *arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"[]", "evidence that this version can read"),
        (b'{"kind": "torchferry accept", "schema": 9}', "evidence that this version can read"),
        (b'{"kind": "torchferry accept", "schema": 1}', "is damaged"),
        (json.dumps({**EVIDENCE, "metrics": [{"name": "x"}]}).encode(), "is damaged"),
        (
            json.dumps({**EVIDENCE, "metrics": [{"run": "target", "name": "x", "value": float("nan")}]}).encode(),
            "not a number",
        ),
        (json.dumps({**EVIDENCE, "source": {"url": []}}).encode(), "is damaged"),
    ],
)
def test_evidence_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "evidence.json").write_bytes(content)
    with pytest.raises(TorchferryError, match=said):
        read_accept_evidence(tmp_path)


def test_figures_of_a_rehearsal_are_none_of_the_card(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    said = prepare(folder, tmp_path / "out", "--evidence", evidence(tmp_path / "e", rehearsal=True))
    assert "check that it is this one" in said, "the evidence is of another project"
    readme = (tmp_path / "out/PyTorch/contrib/NLP/Net/README.md").read_text(encoding="utf-8")
    assert "97.5 %" in readme, "the baseline was measured"
    assert "97.4" not in readme
    assert "TECO_AICARD_01" not in readme
    checked = handover("check", tmp_path / "out", "--lang", "en")
    assert checked.exit_code == 1
    assert "from a rehearsal" in checked.output


def test_figures_without_a_good_run_on_the_card_are_none_of_it(tmp_path: Path) -> None:
    run = EVIDENCE["runs"][0]
    for number, runs in enumerate(([{**run, "name": "baseline"}], [{**run, "exit_code": 1}], [])):
        read = read_accept_evidence(evidence(tmp_path / f"e{number}", runs=runs))
        assert (read.seconds, read.card, read.versions) == (None, "", {}), runs
        assert [metric.measured for metric in read.metrics] == ["", ""], runs


def test_evidence_of_another_accelerator_or_with_other_logs_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    found = evidence(tmp_path / "e", target={**EVIDENCE["target"], "name": "npu"})
    said = refusal(folder, "--for", "tecorigin-modelzoo", "-o", tmp_path / "out", "--evidence", found)
    assert "the evidence is for npu" in said
    (tmp_path / "e" / "run.log").write_text("loss 0.1\n")
    listed = [{"path": "run.log", "sha256": hashlib.sha256(b"loss 9\n").hexdigest()}]
    with pytest.raises(TorchferryError, match="differs from the file that evidence"):
        read_accept_evidence(evidence(tmp_path / "e", files=listed))


def test_hostile_texts_of_the_evidence_stay_texts(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    hostile = "{{team}} | \x1b[31m\n## Results\n`rm -rf /`"
    changed = {"data": {"name": hostile, "where": hostile}, "baseline": {"device": hostile, "metrics": []}}
    prepare(folder, tmp_path / "out", "--evidence", evidence(tmp_path / "e", **changed))
    readme = (tmp_path / "out/PyTorch/contrib/NLP/Net/README.md").read_text(encoding="utf-8")
    assert "\x1b" not in readme
    assert not any(line.startswith("## Results") for line in readme.split("\n"))


def test_a_hand_over_is_checked_in_a_clone_of_the_zoo_too(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    prepare(folder, tmp_path / "out")
    clone = tmp_path / "zoo"
    (tmp_path / "out").rename(clone)
    (clone / "handover.json").unlink()
    by_hand = [
        handover("check", place, "--for", "tecorigin-modelzoo", "-f", "json").output
        for place in (clone, clone / "PyTorch/contrib/NLP/Net")
    ]
    states = [{rule["code"]: rule["state"] for rule in json.loads(text)["rules"]} for text in by_hand]
    assert states[0]["TZ101"] == states[1]["TZ101"] == "kept"
    assert states[0]["TZ201"] == "broken", "nobody says whose train.py is"
    assert states[1]["TZ700"] == "broken"
    shown = handover("check", clone, "--for", "tecorigin-modelzoo", "--evidence", evidence(tmp_path / "e"), "-v")
    assert "TZ607" in shown.output.partition("Kept:")[2], "the evidence may be named"
    other = evidence(tmp_path / "other", target={**EVIDENCE["target"], "name": "npu"})
    said = refusal("check", clone, "--for", "tecorigin-modelzoo", "--evidence", other)
    assert "the evidence is for npu" in said
    assert "no form was given" in refusal("check", clone)
    shutil.copytree(clone / "PyTorch/contrib/NLP/Net", clone / "PyTorch/contrib/Speech/Other")
    assert "has several models" in refusal("check", clone, "--for", "tecorigin-modelzoo")
    (clone / "handover.json").write_text('{"kind": "torchferry handover"}', encoding="utf-8")
    assert "is damaged" in refusal("check", clone)


def test_addresses_and_templates() -> None:
    text = (
        "# see https://example.org/a, and docs\n"
        "x = 'someone@example.org'  # licensed under https://opensource.org/licenses/MIT\n"
        "y = '8.8.8.8', '127.0.0.1', '10.0.0.1', 'http://localhost:80/x', '1.2.3', 'torch==1.2.3.4'\n"
    )
    found = [(each.line, each.address, each.in_comment) for each in public_addresses("a.py", text)]
    assert found == [(1, "https://example.org/a", True), (2, "someone@example.org", False), (3, "8.8.8.8", False)]
    assert list(public_addresses("README.md", text)) == []
    assert without_secrets("https://me:secret@github.com/a/b?token=1") == "https://github.com/a/b"
    assert without_secrets("git@github.com:a/b") == ""
    template = "{% if a %}\nhas {{a}}\n{% else %}\nnone\n{% end %}\nend"
    assert fill(template, {"a": "x"}) == "has x\nend"
    assert fill(template, {"a": ""}) == "none\nend"
    for wrong in ("{{b}}", "{% if a %}", "{% end %}"):
        with pytest.raises(ValueError, match=r".+"):
            fill(wrong, {"a": ""})


def test_nothing_of_a_tree_becomes_code_of_a_script(tmp_path: Path) -> None:
    hostile = 'a"""\nopen("hacked", "w")\n"""'
    folder = project(tmp_path / "p", **{hostile: TRAINS})
    assert "characters that a start script cannot contain" in refusal(
        folder, "--for", "tecorigin-modelzoo", "--domain", "NLP", "-o", tmp_path / "out"
    )
    (folder / f"{hostile}.py").unlink()
    words = "'; touch hacked; $(touch hacked) `touch hacked` \\\" {0} %s"
    text = (
        "import argparse\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--data-path', help={words!r})\n"
        f"p.add_argument('--x', dest={words!r}, default={words!r}, help={words!r}, choices=[{words!r}])\n"
        "p.add_argument('--ste$(touch hacked)ps')\np.parse_args()\n"
    )
    project(folder, train=text + TRAINS.replace("loss.backward()", "print('ran') if 1 else loss.backward()"))
    (folder / "README.md").write_text(f"{words} is what this project is all about, by its README.\n", encoding="utf-8")
    for form, script, options in (
        ("tecorigin-modelzoo", "PyTorch/contrib/NLP/M/run_scripts/test.sh", ["--domain", "NLP"]),
        ("ascend-modelzoo", "PyTorch/contrib/nlp/M_for_PyTorch/test/train_testcase.sh", ["--domain", "nlp"]),
        ("generic", "M/test.sh", []),
    ):
        out = tmp_path / form
        assert handover(folder, "--for", form, "--model", "M", "-o", out, "-t", "npu", *options).exit_code == 0
        for file in out.rglob("*.py"):
            ast.parse(file.read_text(encoding="utf-8"))
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name in ("python", "python3"):
            wrapper = tmp_path / "bin" / name
            wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
            wrapper.chmod(0o755)
        subprocess.run(
            ["bash", out / script, *([] if form == "tecorigin-modelzoo" else ["--data_path=/d x"])],
            env={"PATH": f"{tmp_path / 'bin'}{os.pathsep}{path}", "DATASET_PATH": "/d x"},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not list(tmp_path.rglob("hacked"))


def test_names_that_are_no_text_go_through(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    for name in (b"bad\xff.py", b"new\nline.py", b"\x1b[31m.pth"):
        (folder / os.fsdecode(name)).write_bytes(b"x = 1\n")
    out = tmp_path / "out"
    said = prepare(folder, out, "--original", tmp_path)
    assert "\x1b" not in said
    assert (out / "PyTorch/contrib/NLP/Net" / os.fsdecode(b"bad\xff.py")).exists()
    (out / "PyTorch/contrib/NLP/Net" / os.fsdecode(b"worse\xff\x1b.pth")).write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-m", "torchferry", "handover", "check", out, "-f", "json"], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert "TZ104" in {rule["code"] for rule in json.loads(done.stdout)["rules"] if rule["state"] == "broken"}
    checked = handover("check", out, "--lang", "en").output
    assert "\x1b" not in checked
    (out / "PyTorch/contrib/NLP/Net" / os.fsdecode(b"worse\xff\x1b.pth")).unlink()
    prepare(folder, out, "--original", tmp_path)


def test_a_commit_is_no_option_of_git(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    assert "is not a commit" in refusal(folder, "--for", "generic", "-o", tmp_path / "out", "--commit=--output=x")


def test_what_torchferry_wrote_is_no_program_of_the_project(tmp_path: Path) -> None:
    with_main = f"{one_file('device_utils.py')}\nif __name__ == '__main__':\n    print(1)\n"
    project(tmp_path, device_utils=with_main, run="import torch\nif __name__ == '__main__':\n    print(1)\n")
    assert choose_program(tmp_path, project_files(tmp_path)) == "run.py"


ALONE = "import torch\nfor i in range(9):\n    loss.backward()\n    print(loss)\n"


@pytest.mark.parametrize(
    ("text", "several"),
    [
        (ALONE, False),
        (ALONE + "model = torch.nn.DataParallel(model)\n", False),
        (ALONE + "model = DistributedDataParallel(model)\n", True),
        (ALONE + "from accelerate import Accelerator\n", True),
        (ALONE + "import os\nrank = int(os.environ['LOCAL_RANK'])\n", True),
    ],
)
def test_scripts_for_several_cards_are_written_for_programs_that_can_use_them(
    tmp_path: Path, text: str, several: bool
) -> None:
    folder = project(tmp_path / "p", train=text)
    for form, domain, place in (
        ("ascend-modelzoo", "nlp", "PyTorch/contrib/nlp/Net*"),
        ("tecorigin-modelzoo", "NLP", "PyTorch/contrib/NLP/Net"),
    ):
        out = tmp_path / form
        result = handover(folder, "--for", form, "--domain", domain, "--model", "Net", "-o", out, "--lang", "en")
        (made,) = out.glob(place)
        texts = (made / "README.md").read_text(encoding="utf-8")
        assert ("八卡" in texts or "8 卡" in texts) is several, result.output
        assert (made / "test/train_full_8p.sh").exists() is (several and form == "ascend-modelzoo")
        assert ("does not divide its training" in result.output) is not several
        if form == "tecorigin-modelzoo":
            assert re.search(rf"--nproc_per_node {4 if several else 1}\b", texts)


@pytest.mark.parametrize(
    ("readme", "expected"),
    [
        ("# Net\n\nFigure 1 shows what the network finds in a picture of a street.\n\nA network that finds cars in "
         "pictures of streets.\n", "A network that finds cars in pictures of streets."),
        ("# Net\n\nAs the picture below shows, it is faster than all others.\n\nIt classifies digits of postal codes "
         "in mail.\n", "It classifies digits of postal codes in mail."),
        ("# Net\n\n图 1 为本网络在街景图片上的检测结果与其他方法的对比，可以看到其优势明显。\n\n"
         "本网络在街景图片上检测车辆、行人与交通标志，速度快而且精度高于此前的方法。\n",
         "本网络在街景图片上检测车辆、行人与交通标志，速度快而且精度高于此前的方法。"),
        ("# Net\n\nIt draws figures of people from a sentence that describes them.\n",
         "It draws figures of people from a sentence that describes them."),
    ],
)  # fmt: skip
def test_the_overview_is_no_caption_of_a_figure(tmp_path: Path, readme: str, expected: str) -> None:
    folder = project(tmp_path / "p", train=TRAINS)
    (folder / "README.md").write_text(readme, encoding="utf-8")
    prepare(folder, tmp_path / "out")
    assert expected in (tmp_path / "out/PyTorch/contrib/NLP/Net/README.md").read_text(encoding="utf-8")
