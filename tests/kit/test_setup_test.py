"""The setup test as a file of its own: on an old Python without torch, on a simulated card, and at a hub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.kit.projects import PROJECT, written
from torchferry.backends.target import Target
from torchferry.kit.plan import setup_test_text
from torchferry.source.copied import copies_in
from torchferry.source.tree import list_files

OLD = Path.home() / ".pyenv" / "versions"
"""Where older versions of Python may be."""


def old_python() -> str:
    """Return a Python 3.8 where there is one, else this one without its packages."""
    for place in (shutil.which("python3.8"), *map(str, sorted(OLD.glob("3.8*/bin/python3.8")))):
        if place is not None and subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
            return place
    return sys.executable


def asked(file: Path, *arguments: str, python: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a setup test without packages, and return its exit code and what it says."""
    settings = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    ended = subprocess.run(
        [python or old_python(), "-S", str(file), *arguments], env=settings, capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def setup_test(root: Path, lang: str = "en", target: str = "npu", files: dict[str, str] | None = None) -> Path:
    """Write the setup test of a project beside it."""
    project = written(root / "project", PROJECT if files is None else files)
    file = root / "setup_test.py"
    file.write_text(setup_test_text(project, "project", Target.named(target), (), lang), encoding="utf-8")
    return file


def test_without_torch_each_question_has_its_answer(tmp_path: Path) -> None:
    file = setup_test(tmp_path)
    code, said = asked(file, "--no-network")
    assert code == 1
    lines = said.splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("[")] == [
        "[1/6] torch: FAIL",
        "[2/6] device: skipped",
        "[3/6] device manager: skipped",
        "[4/6] dependencies: FAIL",
        "[5/6] dtypes: skipped",
        "[6/6] model download: skipped",
    ]
    assert "torch is not installed (requirements.txt:2)" not in said, "it is the first answer already"
    assert "      cause: transformers is not installed (requirements.txt:6)" in lines
    assert "      note: imported in some places, but not installed: wandb" in lines
    assert "flash-attn" not in said
    assert "--kit`, and install that" in said, "the list of the project is for CUDA"
    assert "`pip install -r" not in said
    assert "0 ok, 2 FAIL, 4 skipped" in lines


def test_in_chinese_wherever_it_is_printed(tmp_path: Path) -> None:
    file = setup_test(tmp_path, "zh")
    assert "[1/6] torch: 失败" in asked(file, "--no-network")[1]
    assert "\\u5931\\u8d25" in asked(file, "--no-network", env={"PYTHONIOENCODING": "ascii"})[1]


def test_it_is_not_taken_for_a_device_manager(tmp_path: Path) -> None:
    file = setup_test(tmp_path)
    assert copies_in(file.parent, list_files(file.parent)) == ()


def test_the_same_project_gives_the_same_file(tmp_path: Path) -> None:
    texts = {setup_test(tmp_path / str(number)).read_text(encoding="utf-8") for number in range(2)}
    assert len(texts) == 1
    assert "import torchferry" not in texts.pop()


@pytest.mark.rehearsal
def test_on_a_simulated_card(tmp_path: Path) -> None:
    project = written(
        tmp_path / "project", {"train.py": 'import torch\nx = torch.ones(1).to("cuda", torch.bfloat16)\n'}
    )
    assert torchferry("migrate", "-t", "npu@2.13.0", "--kit", project).returncode == 0
    run = torchferry("rehearse", "-t", "npu@2.13.0", "--", sys.executable, project / "test_npu_setup.py", cwd=project)
    states = [line.split("  ")[0] for line in run.stdout.splitlines() if line.startswith("[")]
    assert states[:3] == ["[1/6] torch: ok", "[2/6] device: ok", "[3/6] device manager: ok"], run.stdout
    assert "[5/6] dtypes: ok  float32, float16, bfloat16" in run.stdout


# --- the hub ---


@pytest.fixture
def hub() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Yield the address of a hub on this machine, and what it was asked with which key."""
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            code = 200 if self.path.startswith("/acme/tiny-model/resolve/main/README") else 404
            code = 401 if self.path.startswith("/acme/tokenizer") else code
            self.send_response(code)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()


def test_a_small_file_of_each_model_is_asked_for(tmp_path: Path, hub: tuple[str, list[tuple[str, str | None]]]) -> None:
    address, seen = hub
    file = setup_test(tmp_path)
    code, said = asked(file, env={"HF_ENDPOINT": address, "HF_TOKEN": "secret", "no_proxy": "*"})
    assert code == 1
    assert "[6/6] model download: FAIL  1 of 2: acme/tiny-model" in said
    assert "acme/tokenizer (train.py:20): the hub refuses config.json (401)" in said
    assert "set HF_TOKEN" in said
    assert "secret" not in said
    assert {key for _, key in seen} == {None}  # no key goes out unencrypted
    assert [path for path, _ in seen] == [
        *(f"/acme/tiny-model/resolve/main/{name}" for name in ("config.json", "model_index.json", "README.md")),
        "/acme/tokenizer/resolve/main/config.json",
    ]


@pytest.mark.parametrize(
    ("env", "answer"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "[6/6] model download: skipped  HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": "file:///etc"}, "HF_ENDPOINT is file:///etc, which is not a URL"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_a_hub_that_cannot_answer(env: dict[str, str], answer: str, tmp_path: Path) -> None:
    assert answer in asked(setup_test(tmp_path), env=env)[1]


def test_a_project_that_names_no_model(tmp_path: Path) -> None:
    file = setup_test(tmp_path, files={"train.py": 'import torch\ntorch.ones(1).to("cuda")\n'})
    assert "[6/6] model download: skipped  the code names no model of a hub" in asked(file)[1]


def test_the_command_writes_it_and_keeps_what_others_wrote(tmp_path: Path) -> None:
    written(tmp_path, PROJECT)
    first = torchferry("setup-test", "-t", "npu", tmp_path)
    assert first.returncode == 0, first.stderr
    file = tmp_path / "test_npu_setup.py"
    assert torchferry("setup-test", "-t", "npu", tmp_path, "-o", file).stdout == f"{file} is written\n"
    assert file.read_text(encoding="utf-8") == first.stdout
    assert torchferry("setup-test", "-t", "npu", tmp_path, "-o", file).stdout == f"{file} is up to date\n"
    file.write_text("mine\n", encoding="utf-8")
    refused = torchferry("setup-test", "-t", "npu", tmp_path, "-o", file)
    assert refused.returncode == 2
    assert file.read_text(encoding="utf-8") == "mine\n"
    assert torchferry("setup-test", tmp_path).returncode == 2


@pytest.mark.parametrize("python", dict.fromkeys((old_python(), sys.executable)))
def test_nothing_of_its_folder_is_imported(tmp_path: Path, python: str) -> None:
    """The test lies in the project, which may have modules with the names of Python's: they are not what is tested."""
    file = setup_test(tmp_path)
    wanted = asked(file, "--no-network", python=python)
    for name in {*sys.stdlib_module_names, "torch", "torch_npu", "packaging"} - set(sys.builtin_module_names):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the project has run')\n", encoding="utf-8")
    ended = subprocess.run(
        [python, "-S", str(file), "--no-network"], cwd=tmp_path, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (*wanted, "")


def test_no_name_of_a_project_gives_the_terminal_an_order(tmp_path: Path) -> None:
    hostile = "ev\x1b]52;c;RVZJTA==\x07\u202e\x9b35m"
    file = tmp_path / "setup_test.py"
    project = written(tmp_path / "project", PROJECT)
    file.write_text(setup_test_text(project, hostile, Target.named("npu"), (), "en"), encoding="utf-8")
    for arguments in (("--no-network",), ("--help",)):
        _, said = asked(file, *arguments)
        assert "RVZJTA" in said
        assert all(character.isprintable() or character == "\n" for character in said)


FAKES = {
    "torch/__init__.py": "__version__ = '{torch}'\nclass version:\n    cuda = None\nclass npu:\n"
    "    is_available = staticmethod(lambda: False)\n",
    "torch_npu/__init__.py": "__version__ = '2.7.1'\n",
    "torch/../torch-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n",
    "torch_npu-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.7.1\n",
    "needs_torch/__init__.py": "import torch\n",
}


@pytest.mark.parametrize(
    ("torch", "failing", "never"),
    [
        ("", ["torch"], ("torch is not installed (", "`import needs_torch`")),
        ("2.1.0", ["torch", "device"], ("2.1.0 is installed, and", "PREFERRED_DEVICE")),
        ("2.7.1", ["device"], ("PREFERRED_DEVICE",)),
    ],
)
def test_one_cause_is_one_failure_with_one_remedy(
    torch: str, failing: list[str], never: tuple[str, ...], tmp_path: Path
) -> None:
    files = {
        "train.py": "import torch\nimport needs_torch\nmodel = torch.nn.Linear(2, 2).to('cuda')\n",
        "device_utils.py": "class DeviceManager:\n    device = 'cpu'\n",
        "requirements.txt": "torch==2.7.1\n",
    }
    file = setup_test(tmp_path, files=files)
    for path, text in FAKES.items():
        if torch or not path.startswith("torch/"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text.replace("{torch}", torch), encoding="utf-8")
    env = {"PYTHONPATH": str(tmp_path)}
    code, said = asked(file, "--no-network", env=env, python=sys.executable)
    assert code == 1
    names = [line.partition("] ")[2].partition(":")[0] for line in said.splitlines() if ": FAIL" in line]
    assert names == failing, said
    assert not [text for text in never if text in said], said
