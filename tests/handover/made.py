"""A project that is ported, the evidence that it was accepted, and hand-overs of both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from torchferry.cli.handover import command

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"

LICENCE = "MIT License\n\nCopyright (c) 2020 Somebody Else\n\nPermission is hereby granted, free of charge ...\n"

EVIDENCE: dict[str, Any] = {
    "schema": 1, "kind": "torchferry accept", "torchferry": "0.1.0", "date": "2026-11-23T16:20:00Z",
    "rehearsal": False, "verdict": "accepted",
    "target": {"name": "sdaa", "version": "", "title": "", "plugin": "torch_sdaa", "card": "TECO_AICARD_01"},
    "project": {"name": "project"},
    "source": {"url": "https://github.com/somebody/digits", "commit": "0123abc", "licence": "MIT", "priority": "named"},
    "model": {"name": "Digits", "variant": "Digits8"},
    "data": {"name": "digits", "split": "val", "where": "they are made by train.py"},
    "baseline": {"device": "NVIDIA A100 40G", "date": "2026-11-01", "versions": {"torch": "2.1.0"},
                 "metrics": [{"name": "accuracy", "value": 97.5, "unit": "%", "direction": ">="},
                             {"name": "imgs/s", "value": 1200, "unit": "", "direction": ">="}]},
    "versions": {"torch": "2.7.1", "torch_sdaa": "3.2.0"},
    "runs": [{"name": "target", "command": ["python", "train.py"], "folder": ".", "seconds": 61.5, "exit_code": 0,
              "steps": 100, "seconds_per_step": 0.04, "peak_memory": 1 << 30}],
    "metrics": [{"run": "target", "name": "accuracy", "value": 97.4, "unit": "%", "of": "last", "baseline": 97.5},
                {"run": "target", "name": "imgs/s", "value": 1100, "unit": "", "of": "last", "baseline": 1200}],
    "gates": [], "counts": {"green": 3, "red": 0, "not-judged": 0}, "files": [],
}  # fmt: skip

FORMS = {
    "tecorigin-modelzoo": ("sdaa", ["--domain", "Classification", "--unsafe-fixes", "--dockerfile"]),
    "ascend-modelzoo": (
        "npu",
        ["--domain", "cv/classification", "--set", "level_migration=OK", "--set", "level_tuning=OK", "--set",
         "level_speed=OK"],
    ),
    "generic": ("npu", ["--lang", "en"]),
}  # fmt: skip
"""Forms, the device of the ported project, and the options of a hand-over without a gap."""


def ported(folder: Path, device: str) -> tuple[Path, Path]:
    """Make a ported project below a folder, and its original beside it; return both."""
    original, project = folder / "original", folder / "project"
    for place, name in ((original, "cuda"), (project, device)):
        shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns(".torchferry", "Dockerfile"))
        (place / "LICENSE").write_text(LICENCE, encoding="utf-8")
        train = place / "train.py"
        text = "# from https://example.com/paper\n" + train.read_text(encoding="utf-8")
        train.write_text(text.replace('"cuda"', f'"{name}"'), encoding="utf-8")
    return project, original


def evidence(folder: Path, **changed: Any) -> Path:
    """Write the evidence into a folder and return it."""
    folder.mkdir(exist_ok=True)
    (folder / "evidence.json").write_text(json.dumps({**EVIDENCE, **changed}), encoding="utf-8")
    return folder


def handover(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def whole(folder: Path, form: str) -> Path:
    """Write a hand-over in which nothing is missing, and return its folder."""
    device, options = FORMS[form]
    project, original = ported(folder, device)
    out = folder / "out"
    found = evidence(folder / "evidence", target={**EVIDENCE["target"], "name": device})
    done = handover(
        project, "--for", form, "-o", out, "--original", original, "--evidence", found,
        "--team", "team", "--set", "self_test=done by another team", "-t", device, *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.output + repr(done.exception)
    return out
