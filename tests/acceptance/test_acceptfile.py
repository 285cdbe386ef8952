"""The accept file: what it may say, what is refused with line and nearest name, and what `init` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from torchferry.acceptance import acceptfile, initial
from torchferry.core.errors import UsageError
from torchferry.migration.beside import originals
from torchferry.migration.journal import known_journals

LEAST = "schema = 1\n"
BASELINE = '[baseline]\ndevice = "A100"\ndate = 2026-01-31\nversions = { torch = "2.1" }\n'
METRIC = '[[baseline.metrics]]\nname = "mIoU"\nvalue = 84.96\ndirection = ">="\n'


def written(folder: Path, text: str) -> Path:
    path = folder / acceptfile.NAME
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "`schema` is missing"),
        ("schema = 2\n", 1, "schema 2 is not known"),
        (f"{LEAST}sorce = 1\n", 2, "did you mean `source`"),
        (f"{LEAST}[source]\nurl = 'x'\nlicense = 'MIT'\n", 4, "did you mean `licence`"),
        (f"{LEAST}[source]\npriority = 'best'\n", 3, "not one of"),
        (f"{LEAST}[runs.target]\nfolder = '.'\n", 2, "`command` is missing"),
        (f"{LEAST}[runs.target]\ncommand = 'python a.py | tee log'\n", 3, "without shell syntax"),
        (f"{LEAST}[runs.target]\ncommand = 'python a.py > log'\n", 3, "without shell syntax"),
        (f"{LEAST}[runs.target]\ncommand = 'python $(id)'\n", 3, "without shell syntax"),
        (f"{LEAST}[runs.target]\ncommand = []\n", 3, "without shell syntax"),
        (f"{LEAST}[runs.target]\ncommand = 'python \"a.py'\n", 3, "without shell syntax"),
        (f"{LEAST}[runs.target]\ncommand = 'a'\nfolder = '../b'\n", 4, "path inside the project"),
        (f"{LEAST}[runs.target]\ncommand = 'a'\nfolder = '/etc'\n", 4, "path inside the project"),
        (f"{LEAST}[runs.target]\ncommand = 'a'\ntime-limit = 'soon'\n", 4, "time"),
        (f"{LEAST}[runs.gpu]\ncommand = 'a'\n", 2, "unknown setting `gpu`"),
        (f"{LEAST}{BASELINE}{METRIC}toleranz = 1\n", 10, "did you mean `tolerance`"),
        (f"{LEAST}{BASELINE}{METRIC}tolerance = -1\n", 6, "must not be below 0"),
        (f"{LEAST}{BASELINE}{METRIC}value = 1\n", 0, "is not TOML"),
        (f"{LEAST}{BASELINE}{METRIC.replace('>=', '±')}", 6, "needs a `tolerance` above 0"),
        (f"{LEAST}{BASELINE}{METRIC.replace('84.96', 'nan')}", 8, "must be a number"),
        (f"{LEAST}{BASELINE}{METRIC.replace('84.96', 'true')}", 8, "must be a number"),
        (f"{LEAST}[baseline]\n{METRIC}", 2, "has metrics but no `versions`"),
        (f"{LEAST}{BASELINE.replace('2.1', ' ')}{METRIC}", 2, "has metrics but no `versions`"),
        (f"{LEAST}{BASELINE.replace('A100', '')}{METRIC}", 2, "has metrics but no `device`"),
        (f"{LEAST}[gates.logs]\nlines = {{ loss = '(' }}\n", 3, "regular expressions"),
        (f"{LEAST}[gates.outputs]\nkind = 'image'\n", 2, "list of tables"),
        (f"{LEAST}[[gates.outputs]]\nkind = 'image'\n", 2, "`folder` is missing"),
        (f"{LEAST}[gates.documents]\ncommands = ['python a.py && rm b']\n", 3, "cannot be run without a shell"),
        (f"{LEAST}[gates.not-judged]\nsped = 'x'\n", 3, "did you mean `speed`"),
        (f"{LEAST}gates = 1\n", 2, "must be a table"),
        (f"{LEAST}x = [[[[", 0, "is not TOML"),
    ],
)
def test_what_is_refused(text: str, line: int, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        acceptfile.read(path)
    message = "\n".join(caught.value.lines())
    assert said in message
    assert "the file]" not in message
    if line:
        assert f"{acceptfile.NAME}:{line}: " in message


def test_special_files_are_refused(tmp_path: Path) -> None:
    for name, make in (("folder", Path.mkdir), ("absent", lambda path: None)):
        make(tmp_path / name)
        with pytest.raises(UsageError):
            acceptfile.read(tmp_path / name)


def test_what_a_file_says(tmp_path: Path) -> None:
    run = "[runs.target]\ncommand = \"torchrun 'a b.py' --x=1\"\nfolder = 'tools'\ntime-limit = '2h'\n"
    read = acceptfile.read(written(tmp_path, LEAST + BASELINE + METRIC + run))
    assert read.runs["target"].words == ("torchrun", "a b.py", "--x=1")
    assert read.runs["target"].seconds == 7200
    assert read.baseline.date == "2026-01-31"
    assert read.baseline.metrics[0].runs == ("target", "rehearsal")
    assert read.memory.growth_per_step == 1 << 20


README = """# Net

    $ python train.py --epochs 3   # an hour

```bash
pip install -r requirements.txt
python val.py \\
  --weights best.pt
python train.py | tee log
```
"""
LOG = """torch-2.0.1+cu118 CUDA:0 (NVIDIA A100-SXM4-40GB, 40514MiB) 2026-01-02
step 1 loss 0.5 acc: 81.2% 33 it/s
step 2 loss 0.4 acc: 82.0% 34 it/s
"""


def test_init(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("if __name__ == '__main__':\n    pass\n")
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "LICENSE").write_text("Permission is hereby granted, free of charge, to any person")
    (tmp_path / "cuda.log").write_text(LOG)
    for words in (("init", "-q"), ("remote", "add", "origin", "https://me:secret-token@example.org/net.git")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    done = torchferry("accept", "init", "--log", "cuda.log", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / acceptfile.NAME).read_text(encoding="utf-8")
    assert "secret-token" not in text
    with pytest.raises(UsageError, match=r"tolerance` is empty: fill in a number"):
        acceptfile.read(tmp_path / acceptfile.NAME)
    filled = text.replace('\ntolerance = ""', "\ntolerance = 0.5")
    (tmp_path / acceptfile.NAME).write_text(filled, encoding="utf-8")
    read = acceptfile.read(tmp_path / acceptfile.NAME)  # what is written can be read, comments and all
    assert read.source["licence"] == "MIT"
    assert read.baseline.versions == {"torch": "2.0.1+cu118", "cuda": "11.8"}
    assert (read.baseline.device, read.baseline.date) == ("NVIDIA A100-SXM4-40GB", "2026-01-02")
    assert [(metric.name, metric.value, metric.direction) for metric in read.baseline.metrics] == [("acc", 82.0, ">=")]
    assert read.runs["target"].words == ("python", "train.py")
    assert '# metric = "it/s"' in text
    assert '#   "python val.py --weights best.pt",' in text
    assert "tee" not in text
    assert "pip" not in text
    uncommented = [line.removeprefix("# ") if line.startswith("# [[") or " = " in line else line for line in
                   text.split("\n")]  # fmt: skip
    assert "gates.outputs" in "\n".join(uncommented)
    again = torchferry("accept", "init", cwd=tmp_path)
    assert again.returncode == 2
    assert (tmp_path / acceptfile.NAME).read_text(encoding="utf-8") == filled


def test_init_behind_a_migration(tmp_path: Path) -> None:
    """The program that was written is taken, with its style, and not what torchferry put beside it."""
    (tmp_path / "sample.py").write_text("if __name__ == '__main__':\n    pass\n")
    (tmp_path / "train.py").write_text("import torch\nif __name__ == '__main__':\n    torch.ones(1, device='cuda')\n")
    done = torchferry("migrate", ".", "-t", "npu", "--style", "portable", "--suffix", "_npu", "--kit", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = initial.facts(tmp_path)
    assert found.programs == ("train_npu.py", "train.py", "sample.py")
    read = acceptfile.read(written(tmp_path, initial.text(found, None)))
    assert (read.runs["target"].words, read.migration.style) == (("python", "train_npu.py"), "portable")
    assert read.runs["baseline"].words == ("python", "train.py"), "with CUDA the original runs"
    assert originals(tmp_path, known_journals(tmp_path)) == ("train.py",)


def test_a_file_that_lies_beside_a_new_one_by_chance_is_no_original(tmp_path: Path) -> None:
    """`device_utils.py` is written beside a `device.py` of the project, whose places still have to be gone."""
    (tmp_path / "device.py").write_text("import torch\ntorch.ones(1, device='cuda')\n")
    done = torchferry("migrate", ".", "-t", "npu", "--style", "portable", "--kit", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "device_utils.py").exists()
    assert originals(tmp_path, known_journals(tmp_path)) == ()


def test_init_without_anything(tmp_path: Path) -> None:
    text = initial.text(initial.facts(tmp_path), None)
    assert acceptfile.read(written(tmp_path, text)).runs == {}
