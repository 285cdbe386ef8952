"""Environments of `rehearse --with`: what is asked for, what pip says, whole or not at all, one maker at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import time
import zipfile
from pathlib import Path

import click
import pytest

from tests.processes import HANGS
from torchferry.backends.target import Target
from torchferry.cli.rehearse import _options_again, command
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.rehearsal.environments import filling, package_installer, store
from torchferry.rehearsal.environments.entering import check_program
from torchferry.rehearsal.environments.package_installer import NoAnswerError, NotOfferedError
from torchferry.rehearsal.environments.request import EnvironmentRequest, environment_request, find_interpreter

pytestmark = pytest.mark.rehearsal

HERE = ".".join(map(str, sys.version_info[:2]))
REQUEST = EnvironmentRequest("2.9.0", "torch-npu==2.9.0", sys.executable, HERE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("target", "given", "plugin", "torch", "chosen"),
    [
        ("npu", ["torch==2.9.1"], "", "2.9.1", "torch-npu==2.9.1"),
        ("npu", ["torch==2.9.1+cpu"], "", "2.9.1", "torch-npu==2.9.1"),
        ("npu", ["torch==2.13"], "", "2.13.0", "torch-npu==2.13.0"),
        ("npu", ["torch-npu==2.9.0"], "", "2.9.0", "torch-npu==2.9.0"),
        ("npu", ["torch_npu==2.1.0.post17"], "", "2.1.0", "torch-npu==2.1.0.post17"),
        ("npu@2.13.0", ["einops"], "", "2.13.0", "torch-npu==2.13.0"),
        ("npu", ["torch==2.9.1"], "simulated", "2.9.1", ""),
        ("npu", ["torch==2.2.0"], "", "2.2.0", ""),  # with a sentence
        ("musa", ["torch==2.5.0"], "", "2.5.0", ""),
    ],
)
def test_an_environment_has_one_torch_and_the_plugin_for_it(
    target: str, given: list[str], plugin: str, torch: str, chosen: str
) -> None:
    request, lacking = environment_request(Target.requested(target), given, [], "", plugin)
    assert (request.torch, request.plugin, request.python_version) == (torch, chosen, HERE)
    assert (lacking is not None) == (torch == "2.2.0")
    if lacking is not None:
        assert "there is one for torch 2.1.0, 2.3.1, 2.4.0" in lacking.render("en")


@pytest.mark.parametrize(
    ("given", "python", "plugin", "says"),
    [
        (["torch>=2"], "", "", "an environment has one version of torch"),
        (["torch==2.*"], "", "", "an environment has one version of torch"),
        (["torch"], "", "", "an environment has one version of torch"),
        (["torch=2.9.0"], "", "", "--with torch=2.9.0"),
        (["torch==1.13.1"], "", "", "too old for a rehearsal"),
        (["torch==2.2.0"], "", "installed", "there is no torch_npu for torch 2.2.0"),
        (["torch==2.9.0"], "2.7", "", "no Python 2.7"),
        (["torch==2.9.0"], "/absent/python", "", "no Python /absent/python"),
    ],
)
def test_what_cannot_be_asked_for(given: list[str], python: str, plugin: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        environment_request(Target.requested("npu"), given, [], python, plugin)
    assert says in caught.value.message.render("en")


def test_a_name_says_all_that_makes_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("einops\n")
    target = Target.requested("npu")

    def name(*given: str, files: tuple[Path, ...] = ()) -> str:
        return environment_request(target, ["torch==2.9.1", *given], files, "", "")[0].name

    plain, more, listed = name(), name("einops", "timm"), name(files=(file,))
    assert plain.startswith("torch-2.9.1-torch-npu-2.9.1-python-")
    assert name("timm", "einops") == more
    file.write_text("einops==0.8\n")
    assert len({plain, more, listed, name(files=(file,))}) == 4


NETWORK = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(\"refused\")': /simple/torch/"
)
NOTHING = "ERROR: Could not find a version that satisfies the requirement torch==2.99.0 (from versions: none)"


@pytest.mark.parametrize(
    ("printed", "kind", "says"),
    [
        ([NETWORK, NOTHING], NoAnswerError, "no index of pip answers"),
        ([NOTHING], NotOfferedError, "pip finds no torch==2.99.0"),
        ([NOTHING.replace("none", "2.9.0, 2.9.1+cpu")], NotOfferedError, "pip finds no torch==2.99.0"),
        (["ERROR: Cannot install torch==9", "The conflict is caused by:", "  you asked", "", "x"], NotOfferedError,
         "pip finds nothing that fits: you asked"),
        (["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"], TorchferryError,
         "the disk is full"),
        (["Collecting x", "ERROR: something else"], TorchferryError, "pip failed: something else"),
        ([], TorchferryError, "pip failed"),
    ],
)  # fmt: skip
def test_what_pip_says_is_explained(printed: list[str], kind: type[TorchferryError], says: str) -> None:
    error = package_installer._explained(["torch==2.99.0"], printed)
    assert type(error) is kind
    assert error.message.render("en").startswith(says)
    if isinstance(error, NotOfferedError):
        assert error.versions == (("2.9.0", "2.9.1+cpu") if "2.9.1" in printed[0] else ())


@pytest.mark.parametrize("error", [KeyboardInterrupt, TorchferryError, OSError])
def test_half_an_environment_is_never_taken(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    def breaks(folder: Path, request: EnvironmentRequest) -> None:
        made(folder)
        raise error("broken") if error is not TorchferryError else UsageError(say("broken"))

    monkeypatch.setattr(filling, "fill", breaks)
    with pytest.raises((error, TorchferryError)):
        store.use(REQUEST)
    assert store.kept_environments() == []
    assert not (store.environments_folder() / REQUEST.name).exists()
    made(store.environments_folder() / REQUEST.name)  # as one that was killed leaves it
    assert store.kept_environments() == []
    monkeypatch.setattr(filling, "fill", lambda folder, request: made(folder))
    monkeypatch.setattr(filling, "link_torchferry", lambda folder: None)
    used = store.use(REQUEST)
    os.close(used.descriptor)
    assert [each.name for each in store.kept_environments()] == [REQUEST.name]


def made(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)


def test_two_at_once_make_it_once_and_nobody_removes_it_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def slow(folder: Path, request: EnvironmentRequest) -> None:
        calls.append(folder)
        time.sleep(0.3)
        made(folder)

    monkeypatch.setattr(filling, "fill", slow)
    monkeypatch.setattr(filling, "link_torchferry", lambda folder: None)
    used: list[store.EnvironmentInUse] = []
    looked = threading.Barrier(2)
    whole = store._read

    def both_look_first(folder: Path) -> store.KeptEnvironment | None:
        read = whole(folder)
        with contextlib.suppress(threading.BrokenBarrierError):  # broken once it has been passed
            looked.wait(timeout=HANGS)
            looked.abort()
        return read

    monkeypatch.setattr(store, "_read", both_look_first)
    both = [threading.Thread(target=lambda: used.append(store.use(REQUEST)), daemon=True) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(HANGS)
    assert len(used) == 2
    assert len(calls) == 1
    assert "waiting for it" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is in use"):
        store.remove(REQUEST.name)
    for each in used:
        os.close(each.descriptor)
    store.remove(REQUEST.name)
    assert store.kept_environments() == []
    assert not (store.environments_folder() / REQUEST.name).exists()


@pytest.mark.parametrize("name", ["absent", "../cache", "/etc", ".", ".."])
def test_only_an_environment_is_removed(name: str, cache: Path) -> None:
    (cache / "environments").mkdir(parents=True)
    with pytest.raises(UsageError, match="there is no environment"):
        store.remove(name)
    assert cache.is_dir()


def test_an_environment_whose_python_has_gone_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "fill", lambda folder, request: made(folder))
    monkeypatch.setattr(filling, "link_torchferry", lambda folder: None)
    os.close(store.use(REQUEST).descriptor)
    (store.kept_environments()[0].python).unlink()
    assert store.kept_environments() == []
    os.close(store.use(REQUEST).descriptor)
    assert len(store.kept_environments()) == 1


def test_a_program_that_the_environment_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    made(folder)
    elsewhere.mkdir()
    for name, first in (("tool", "#!/usr/bin/python3"), ("any", "#!/usr/bin/env python3"), ("shell", "#!/bin/sh")):
        (elsewhere / name).write_text(first + "\n")
        (elsewhere / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(elsewhere))
    environment = store.KeptEnvironment("name", folder, (), 0)
    for program in ("python", "any", "shell", "absent", str(folder / "bin" / "python"), "./run.sh"):
        check_program(environment, program)
    for program in ("tool", "/usr/bin/python3"):
        with pytest.raises(UsageError):
            check_program(environment, program)


# --- made with wheels of this test ---


def wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = "".join(f"Requires-Dist: {each}\n" for each in needs)
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(
            f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
        )
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def torch_files(version: str, cuda: str) -> dict[str, str]:
    return {
        "torch/__init__.py": "from torch.version import __version__, cuda\n",
        "torch/version.py": f"__version__ = '{version}'\ncuda: object = {cuda!r}\n",
        "torch/backends/cuda/__init__.py": "def is_built():\n    return torch._C._has_cuda\n",
        "torch/lib/libtorch_cuda.so": "no library",
        "torch/lib/notes.txt": "",
    }


@pytest.mark.parametrize("cuda", [False, True])
def test_it_is_made_of_what_pip_is_told_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: bool
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    build = "2.9.0" if cuda else "2.9.0+cpu"
    needs = ("filelock", "nvidia-cublas-cu12", "triton==3") if cuda else ("filelock",)
    wheel(wheels, "torch", build, torch_files("2.9.0+cu128" if cuda else build, "12.8" if cuda else ""), needs)
    wheel(wheels, "torch-npu", "2.9.0", {"torch_npu/__init__.py": "VALUE = 3\n"}, ("torch==2.9.0+cpu", "numpy"))
    wheel(wheels, "extra", "1.0", {"extra.py": ""}, ("torch",))
    for name in (
        "setuptools",
        "numpy",
        "click",
        "rich",
        "packaging",
        "tomli",
        "filelock",
        "pyyaml",
        "decorator",
        "attrs",
    ):
        version = "70" if name == "setuptools" else "2026"
        wheel(wheels, name, version, {f"its_{name}.py": ""})
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    request = EnvironmentRequest("2.9.0", "torch-npu==2.9.0", *find_interpreter(), ("extra",))
    used = store.use(request)
    with pytest.raises(BlockingIOError):
        fcntl.flock(os.open(f"{used.environment.folder}.lock", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(used.descriptor)
    site_packages = filling.site_packages_of(used.environment.folder)
    present = {path.name for path in site_packages.iterdir()}
    assert {"torch", "torch_npu", "extra.py", "its_filelock.py", "torchferry", "torchferry_entry_points"} <= present
    assert (site_packages / "torchferry").resolve() == Path(store.__file__).parents[2].resolve()
    done = package_installer._follow(
        [str(used.environment.python), "-c", "import torch, torch_npu; assert not torch.cuda, torch.cuda"], print
    )
    assert done == 0
    assert used.environment.holds == ("torch==2.9.0", "torch-npu==2.9.0", "extra")
    if cuda:
        assert "nvidia" not in next(site_packages.glob("torch-*.dist-info/METADATA")).read_text()
        assert not (site_packages / "torch" / "lib" / "libtorch_cuda.so").exists()


def test_the_command_in_an_environment_has_every_other_option(tmp_path: Path) -> None:
    profile = tmp_path / "card.toml"
    profile.write_text('extends = "910B"\n', encoding="utf-8")
    given = [
        *("-t", "npu", "--card", "910B4", "--devices", "2", "--profile", str(profile), "--plugin", "simulated"),
        *("--fault", "op=mm,kind=nan", "--fault", "op=add,kind=nan", "--fallback", "mm", "--beside-card", "--races"),
        *("--strict", "--summary-file", str(tmp_path / "seen.json"), "--lang", "zh"),
    ]
    program = ["--", "python", "train.py", "--strict"]
    of_environment = ["--with", "torch==2.9.0", "--with-requirements", str(profile), "--python", HERE]
    first = command.make_context("rehearse", [*given, *of_environment, *program])
    again = command.make_context("rehearse", [*_options_again(first, lang="en"), *program])
    lost = {name for name, value in first.params.items() if again.params[name] != value}
    assert lost == {"lang", "packages", "requirement_files", "python"}
    assert again.params["lang"] == "en"
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if first.params.get(each.name or "") in (None, "", False, ())] == []
