"""The commands end to end: what they print, what they write, how they end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from tests.cli.process import interruptible, torchferry
from tests.migration.trees import snapshot
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.cli import cli

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    shutil.copytree(EXAMPLE, root)
    return root


def test_scan_writes_nothing_and_says_the_verdict_first(project: Path) -> None:
    before = snapshot(project)
    done = torchferry("scan", project, "--target", "npu")
    assert done.returncode == 1
    assert done.stdout.startswith("Ready for Huawei Ascend after ")
    assert snapshot(project) == before
    assert not (project / ".torchferry").exists()
    assert torchferry("scan", project, "--target", "npu", "--exit-zero").returncode == 0


@pytest.mark.parametrize("target", registry.built_in())
def test_migrate_twice_and_undo(project: Path, target: str) -> None:
    before = snapshot(project)
    first = torchferry("migrate", project, "--target", target)
    assert first.returncode == 1, first.stderr
    assert "fixes applied" in first.stdout
    assert f"torchferry rehearse --target {target} -- python {project / 'train.py'}" in first.stdout
    assert "- device" not in first.stdout  # no line that nothing can tick
    assert f"- environment  {Target.named(target).backend.PLUGIN} is not installed here; " in first.stdout
    assert re.search(r"✓ syntax +all \d+ Python files parse, and a second run changes nothing", first.stdout)
    after = snapshot(project)
    assert after != before
    second = torchferry("migrate", project, "--target", target)
    assert "nothing to rewrite" in second.stdout
    assert snapshot(project) == after
    residue = json.loads(torchferry("scan", project, "-t", target, "-f", "json").stdout)
    assert residue["counts"].get("safe", 0) == 0
    undone = torchferry("undo", project)
    assert undone.returncode == 0
    assert snapshot(project) == before
    assert torchferry("undo", project).returncode == 2


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (("digits",), {"digits"}),
        (("digits/", "./train.py"), {"digits", "train.py"}),  # a folder as a shell completes it
        (("digits/dev*.py", "*.toml"), {"digits/devices.py"}),
        (("digist", "train.py"), {"train.py"}),
    ],
)
def test_what_is_excluded_stays_and_the_rest_is_migrated(
    project: Path, patterns: tuple[str, ...], kept: set[str]
) -> None:
    plain, before = project.with_name("plain"), snapshot(project)
    shutil.copytree(project, plain)
    torchferry("migrate", plain, "-t", "musa")
    exclude = [word for pattern in patterns for word in ("--exclude", pattern)]
    done = torchferry("migrate", project, "-t", "musa", *exclude)
    whole = {path for path, content in snapshot(plain).items() if before.get(path) != content}
    spared = {path for path in before for name in kept if path == name or path.startswith(f"{name}/")}
    changed = {path for path, content in snapshot(project).items() if before.get(path) != content}
    assert spared & whole, "else nothing would be shown"
    assert {path for path in changed if not path.startswith(".torchferry")} == {
        path for path in whole - spared if not path.startswith(".torchferry")
    }
    idle = [pattern for pattern in patterns if f"`--exclude {pattern}` leaves nothing out" in done.stderr]
    assert idle == [pattern for pattern in patterns if pattern in ("digist", "*.toml")]
    torchferry("undo", project)
    assert snapshot(project) == before


def test_settings_for_what_is_gone_are_named(project: Path) -> None:
    lines = 'ignore = ["LIB105", "RUN", "DEV1"]\n'
    lines += '[per-file-ignores]\n"train.py" = ["DEV", "EXT101"]\n"old/*.py" = ["DEV101"]\n'
    (project / "torchferry.toml").write_text(lines, encoding="utf-8")
    done = torchferry("scan", project, "-t", "npu")
    assert [line for line in done.stdout.splitlines() if "no such finding" in line] == [
        "`ignore` has `LIB105`, but Huawei Ascend has no such finding; remove it unless another target needs it",
        '`per-file-ignores."train.py"` has `EXT101`, but Huawei Ascend has no such finding; '
        "remove it unless another target needs it",
    ]
    assert [line for line in done.stderr.splitlines() if "matches no file" in line] == [
        "torchferry: `per-file-ignores` has `old/*.py`, which matches no file; correct it or remove it"
    ]


def test_another_target_is_refused_with_the_way_to_do_it(project: Path) -> None:
    torchferry("migrate", project, "--target", "npu")
    done = torchferry("migrate", project, "--target", "musa")
    assert done.returncode == 2
    assert "migrated to npu" in done.stderr
    assert "torchferry undo" in done.stderr
    shutil.rmtree(project / ".torchferry")  # as in a fresh clone of the migrated project
    done = torchferry("migrate", project, "--target", "musa")
    assert done.returncode == 2
    assert "torch_npu" in done.stderr


def test_diff_check_and_patch_agree(project: Path, tmp_path: Path) -> None:
    before = snapshot(project)
    diff = torchferry("migrate", project, "-t", "musa", "--diff")
    check = torchferry("migrate", project, "-t", "musa", "--check")
    patch = tmp_path / "x.patch"
    torchferry("migrate", project, "-t", "musa", "--patch", patch)
    assert snapshot(project) == before
    assert check.returncode == 1
    assert "no file was changed" in check.stdout
    assert diff.stdout == patch.read_text(encoding="utf-8")
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run(["git", "-C", project, "apply", patch], check=True)
    by_patch = {path: entry[0] for path, entry in snapshot(project).items() if not path.startswith(".git/")}
    shutil.rmtree(project / ".git")
    subprocess.run(["patch", "-s", "-R", "-p1", "-d", project, "-i", patch], check=True)
    torchferry("migrate", project, "-t", "musa")
    in_place = {path: entry[0] for path, entry in snapshot(project).items()}
    assert by_patch == in_place


def test_a_copy_is_what_in_place_would_be(project: Path, tmp_path: Path) -> None:
    before = snapshot(project)
    out = tmp_path / "copies" / "npu"
    done = torchferry("migrate", project, "-t", "npu", "--out", out)
    assert done.returncode == 1
    assert snapshot(project) == before
    torchferry("migrate", project, "-t", "npu")
    assert {p: e[:2] for p, e in snapshot(out).items()} == {p: e[:2] for p, e in snapshot(project).items()}
    assert torchferry("migrate", project, "-t", "npu", "--out", out).returncode == 2


def test_files_beside_the_originals_import_each_other(project: Path) -> None:
    pins = "torch==2.1.0+cu121\nnvidia-cublas-cu12==12.1\ntqdm\n"
    (project / "requirements.txt").write_text(pins, encoding="utf-8")
    before = snapshot(project)
    done = torchferry("migrate", project, "-t", "npu", "--suffix", "_npu")
    assert done.returncode == 1, done.stderr
    text = (project / "train_npu.py").read_text(encoding="utf-8")
    assert "from digits.devices_npu import" in text
    assert {p: e for p, e in snapshot(project).items() if p in before} == before
    assert os.access(project / "run_npu.sh", os.X_OK)
    assert "train_npu.py" in (project / "run_npu.sh").read_text(encoding="utf-8")
    wanted = (project / "requirements_npu.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in wanted if not line.startswith("#")] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "torch==2.1.0",
        "torch-npu==2.1.0.post17",
        "tqdm",
    ]
    assert "# nvidia-cublas-cu12==12.1" in wanted
    torchferry("undo", project)
    assert snapshot(project) == before


def test_changes_that_are_not_committed_are_not_written_over(project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    with open(project / "train.py", "a", encoding="utf-8") as file:
        file.write("# mine\n")
    done = torchferry("migrate", project, "-t", "npu")
    assert done.returncode == 2
    assert "train.py" in done.stderr
    assert torchferry("migrate", project, "-t", "npu", "--allow-dirty").returncode == 1
    assert torchferry("migrate", project, "-t", "npu").returncode == 1, "our own changes are no obstacle"


def test_two_migrations_at_once(project: Path) -> None:
    command = [sys.executable, "-m", "torchferry", "migrate", str(project), "-t", "npu"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [process.communicate() for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([1, 1], [1, 2]), ends
    if codes == [1, 2]:
        assert any("is writing in" in error for _, error in ends)
    assert "nothing to rewrite" in torchferry("migrate", project, "-t", "npu").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_the_tree_as_before_or_as_after(tmp_path: Path, number: signal.Signals) -> None:
    before = None
    for delay in (0.05, 0.12, 0.2, 0.3, 0.5):
        root = tmp_path / str(delay)
        shutil.copytree(EXAMPLE, root)
        before = before or {p: e[0] for p, e in snapshot(root).items()}
        command = [sys.executable, "-m", "torchferry", "migrate", str(root), "-t", "npu"]
        process = subprocess.Popen(interruptible(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(number)
        process.communicate()
        torchferry("undo", root)
        assert {p: e[0] for p, e in snapshot(root).items()} == before


MISTAKES = [
    (("scan", ".", "--target", "nppu"), "npu"),
    (("scan", "."), "no target is named"),
    (("scan", "nowhere", "--target", "npu"), "nowhere"),
    (("scan", ".", "--target", "npu@"), "version"),
    (("scan", ".", "--target", "npu@new"), "version"),
    (("scan", ".", "--target", "npu", "--select", "XYZ"), "XYZ"),
    (("scna", "."), "scan"),
    (("migrate", ".", "-t", "npu", "--diff", "--check"), "name one"),
    (("migrate", ".", "-t", "npu", "--suffix", "a/b"), "suffix"),
    (("undo", "."), "no migration"),
    (("rule", "DEV999"), "DEV"),
    (("backend", "show", "cudaa"), "cudaa"),
    (("scan", ".", "--target", "npu", "-f", "json", "-o", "/dev/null/x"), "/dev/null/x"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES)
def test_mistakes_are_answered_on_stderr_with_exit_2(project: Path, arguments: tuple[str, ...], said: str) -> None:
    done = torchferry(*arguments, cwd=project)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


SETTINGS = [
    ("target = 'npu'\n", ""),
    ("target = 'npu'\nselect = ['DEV']\n", ""),
    ("targt = 'npu'\n", "target"),
    ("target = 3\n", "target"),
    ("target = [\n", "TOML"),
    ("target = 'npu'\nselect = ['NOPE']\n", "NOPE"),
    ("target = 'npu'\npaths = {a = 1}\n", "paths"),
]


@pytest.mark.parametrize(("text", "problem"), SETTINGS)
def test_settings_files(project: Path, text: str, problem: str) -> None:
    (project / "torchferry.toml").write_text(text, encoding="utf-8")
    done = torchferry("scan", project)
    assert done.returncode == (2 if problem else 1), done.stderr
    assert problem in done.stderr


def test_suppressions_and_selection(project: Path) -> None:
    (project / "train.py").write_text("import torch\ntorch.zeros(1).cuda()  # torchferry: ignore[DEV103] on purpose\n")
    text = torchferry("scan", project, "-t", "npu", "--select", "DEV,SUP").stdout
    assert "\ntrain.py\n" not in text
    assert "IMP101" not in text
    assert "devices.py" in text


def test_a_user_of_chinese_gets_chinese(project: Path) -> None:
    assert "昇腾" in torchferry("scan", project, "-t", "npu", env={"TORCHFERRY_LANG": "zh"}).stdout
    assert "昇腾" in torchferry("scan", project, "-t", "npu", "--lang", "zh").stdout
    assert "规则" in torchferry("scan", project, "-t", "npu", "--select", "XYZ", env={"TORCHFERRY_LANG": "zh"}).stderr


def test_what_is_known_can_be_asked() -> None:
    assert "torch.npu.mstx.range_push" in torchferry("api", "torch.cuda.nvtx.range_push", "-t", "npu").stdout
    assert "UNKNOWN" in torchferry("api", "torch.cuda.memory_summary", "-t", "sdaa").stdout
    assert "ASCEND_RT_VISIBLE_DEVICES" in torchferry("api", "CUDA_VISIBLE_DEVICES", "-t", "npu").stdout
    assert torchferry("api", "torch.no_such_thing").returncode == 1
    for version, status in (("2.9.0", "missing"), ("2.13.0", "same")):
        own = torchferry("api", "torch.npu.npurt", "-t", f"npu@{version}", "--lang", "en")
        assert f"torch.npu.npurt  {status}\n" in own.stdout
        assert "a name of the plugin itself; found in version 2.7.1.post11, 2.9.0.post9, 2.10.0.post7" in own.stdout
    assert torchferry("api", "torch_npu.no_such_thing", "-t", "npu").returncode == 1
    listed = torchferry("backend", "list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == registry.built_in()
    assert "UNKNOWN" in torchferry("backend", "show", "ptex").stdout
    assert torchferry("rule", "dev101").stdout.startswith("DEV101 cuda-device-string")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("cv2", 0, "npu          opencv-python  same"),
        ("PIL.Image", 0, "npu          pillow  same"),
        ("Flash_Attn", 0, "npu          flash-attn  equivalent"),
        ("xformers.ops", 0, "npu          xformers  missing"),
        ("cupy-cuda12x", 0, "npu          cupy  missing"),
        ("nvidia-cublas-cu12", 0, "belongs to torch's CUDA build"),
        ("torch.cuda", 0, "npu          torch.cuda  renamed -> torch.npu"),
        ("flash-atn", 1, "similar names: flash-attn,"),
        ("opencv-pyhton", 1, "similar names: opencv-python\n"),
        ("sklern", 1, "similar names: sklearn"),
        ("pil", 1, "similar names: PIL\n"),
        ("torch.cuda.is_avaliable", 1, "similar names: torch.cuda.is_available,"),
        ("torch.npu.set_aoee", 1, "similar names: torch.npu.set_aoe,"),
        ("CUDA_VISIBEL_DEVICES", 1, "similar names: CUDA_VISIBLE_DEVICES,"),
        ("EI0006", 0, "export HCCL_CONNECT_TIMEOUT="),
        ("EZ9999", 0, "npu          EZ9999  CANN reports an internal error"),
        ("SIGKILL", 0, "cause: the host or the container ran out of memory"),
        ("EI9998", 1, "`EI9998` is in no table"),
    ],
)
def test_names_are_known_as_they_are_written_and_nearly_so(name: str, code: int, said: str) -> None:
    done = torchferry("api", name, "-t", "npu")
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_a_version_is_one_target_in_all_that_is_printed(project: Path) -> None:
    (project / "kernel.cu").write_text("__global__ void k(float *p) { p[0] = 1; }\nvoid f() { cudaFree(0); }\n")
    (project / "train.py").write_text("import torch\nimport flash_attn\nprint(torch.ones(1).cuda())\n")
    printed = ""
    for words in ("scan .", "scan . --plan", "show flash-attn .", "migrate . --check", "port . --check"):
        done = torchferry(*words.split(), "-t", "npu@2.9", cwd=project)
        assert done.returncode in (0, 1), done.stderr
        printed += done.stdout
    asked = re.findall(r"torchferry [a-z]+(?: [\w./-]+)* (?:-t|--target) (\S+?)`?(?=\s|$)", printed)
    assert len(asked) > 10
    assert set(asked) == {"npu@2.9.0"}
    assert "were not read" not in printed
    (project / "torchferry.toml").write_text('target = "npu@2.9"\n')
    assert "for npu@2.9.0" in torchferry("scan", ".", cwd=project).stdout
    assert torchferry("migrate", ".", "-t", "npu@v2.9.0", cwd=project).returncode == 1
    assert torchferry("migrate", ".", cwd=project).returncode == 1, "it is migrated to the same target"


@pytest.mark.parametrize(
    ("name", "version", "answer"),
    [
        ("torch_musa.utils.simple_porting", "2.0.0", "same"),
        ("torch_musa.utils.musa_extension", "2.7.1", "same"),
        ("torch_musa.distributed.fsdp.fully_sharded_data_parallel", "2.1.0", "same"),
        ("torch_musa.distributed.fsdp.fully_sharded_data_parallel", "2.7.1", "missing"),
        ("torch_musa.core.no_such_part", "2.7.1", "UNKNOWN"),
    ],
)
def test_where_a_part_of_the_plugin_is(name: str, version: str, answer: str) -> None:
    done = torchferry("api", name, "-t", f"musa@{version}")
    assert done.stdout.splitlines()[0].split() == [f"musa@{version}", name, answer]
    assert done.returncode == (answer == "UNKNOWN")


def test_the_version_of_the_plugin_matters() -> None:
    old = torchferry("api", "torch.cuda.ExternalStream", "-t", "npu@2.9.0").stdout
    new = torchferry("api", "torch.cuda.ExternalStream", "-t", "npu@2.13.0").stdout
    assert "missing" in old
    assert "same" in new


def test_one_file_alone(project: Path) -> None:
    done = torchferry("migrate", project / "train.py", "-t", "npu", "--diff")
    assert "+++ b/train.py" in done.stdout
    assert "devices.py" not in done.stdout


def test_a_closed_pipe_is_no_fault(project: Path) -> None:
    command = f"{sys.executable} -m torchferry scan {project} -t npu | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_notebooks_beside_the_originals_import_the_new_modules(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n\nx = torch.zeros(1).cuda()\n", encoding="utf-8")
    source = ["import torch\n", "from model import x\n", "x.cuda()"]
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}, indent=1), encoding="utf-8")
    done = torchferry("migrate", tmp_path, "-t", "npu", "--suffix", "_npu")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "a_npu.ipynb").read_text(encoding="utf-8"))["cells"][0]["source"]
    assert written == ["import torch\n", "import torch_npu\n", "from model_npu import x\n", "x.npu()"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_reference_has_every_command(lang: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / lang / "commands.md").read_text(encoding="utf-8")
    context = click.Context(cli)
    wanted = ["Exit codes" if lang == "en" else "退出码", "torchferry"]
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        wanted.append(f"torchferry {name}")
        if isinstance(found, click.Group):
            wanted += [f"torchferry {name} {verb}" for verb in found.list_commands(context)]
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == wanted
