"""What a hand-over may carry: only what git tracks, no secret, and what the user insists on, by name."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.core.secret_table import ORDINARY_DATA, ORDINARY_TEXTS, SECRET_DATA, SECRET_NAMES, SECRET_TEXTS, filled
from tests.handover.made import handover
from torchferry.core.errors import TorchferryError
from torchferry.handover.project_files import is_data, project_files
from torchferry.handover.record import NAME

TRAIN = "import torch\nimport net\nif __name__ == '__main__':\n    for i in range(3):\n        loss.backward()\n"
TOKEN = filled("hf_{a34}")[0]


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"LICENSE": "MIT\n", "train.py": TRAIN, "net.py": "import torch\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def prepared(folder: Path, *arguments: object) -> tuple[str, Path]:
    """Hand over and return what is said, and the folder."""
    out = folder.parent / "out"
    done = handover(folder, "--for", "generic", "-t", "npu", "-o", out, "--model", "X", "--lang", "en", *arguments)
    if isinstance(done.exception, TorchferryError):
        return "; ".join(done.exception.lines()), out
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output, out


def contents(out: Path) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in out.rglob("*")
        if path.is_file()
    }


def broken(folder: Path, *arguments: object) -> tuple[list[tuple[str, int]], list[tuple[str, int]], str]:
    """Check a folder and return the places of secrets, of those that are recorded as included, and the output."""
    done = handover("check", folder, "--lang", "en", "-f", "json", *arguments)
    rules = {rule["code"]: rule for rule in json.loads(done.output)["rules"]}

    def places(code: str) -> list[tuple[str, int]]:
        return [(place["path"], place["line"]) for place in rules.get(code, {"places": []})["places"]]

    assert (rules["secrets"]["state"] == "broken") == bool(places("secrets"))
    assert done.exit_code == 1 or not places("secrets")
    return places("secrets"), places("secrets-included"), done.output


def test_an_ordinary_project_is_handed_over_whole(tmp_path: Path) -> None:
    texts = {f"lib/{number}/{path}": filled(text)[0] for number, (path, text) in enumerate(ORDINARY_TEXTS)}
    folder = made(tmp_path / "p", texts)
    said, out = prepared(folder)
    assert "left out" not in said
    assert {f"X/{name}" for name in texts} <= contents(out).keys()
    assert broken(out)[:2] == ([], [])


def test_no_file_with_a_secret_is_handed_over_and_no_secret_is_shown(tmp_path: Path) -> None:
    marks = {name: f"{number}-mark" for number, name in enumerate(sorted({name.lower() for name in SECRET_NAMES}))}
    files = {f"d{number}/{name}": f"x {marks[name]}\n" for number, name in enumerate(marks)}
    values: list[str] = []
    for number, (path, template) in enumerate(SECRET_TEXTS):
        if path.endswith(".bin"):
            continue
        text, own = filled(template)
        files[f"t{number}/{path}"] = f"\n{text}"
        values += [value for value in own if len(value) > 9]
    folder = made(tmp_path / "p", files)
    said, out = prepared(folder)
    assert set(contents(out)) == {"handover.json", "pull-request.md", "X/LICENSE", "X/train.py", "X/net.py",
                                  "X/README.md", "X/test.sh", "X/requirements.txt"}  # fmt: skip
    everything = said + "".join(contents(out).values())
    assert not [value for value in (*values, *marks.values()) if value in everything]
    record = json.loads((out / NAME).read_text(encoding="utf-8"))
    assert sorted(record["left_out"]) == sorted(files)
    assert all(any(place.partition(":")[0] == name for place in record["reasons"]) for name in files)
    assert "left out: t" in said or "handover.json lists them" in said
    clone = made(tmp_path / "clone", files)
    found, included, shown = broken(clone, "--for", "generic")
    assert {path for path, _ in found} == set(files)
    assert included == []
    assert not [value for value in values if value in shown]


def test_only_tracked_files_of_a_checkout_go(tmp_path: Path) -> None:
    inner = made(tmp_path / "inner", {"own.py": "x = 1\n"})
    git(inner, "init", "-q")
    git(inner, "add", "own.py")
    git(inner, "commit", "-qm", "x")
    folder = made(tmp_path / "p", {".gitignore": "ignored.txt\n", "ignored.txt": "x", "kept/ignored.txt": "x",
                                   "staged.txt": "x", "notes.txt": "x", "scratch/a/b.txt": "x",
                                   "gone.txt": "x"})  # fmt: skip
    git(folder, "init", "-q")
    git(folder, "submodule", "add", "-q", str(inner), "sub")
    (folder / "sub/more.txt").write_text("x", encoding="utf-8")
    git(folder, "add", "-f", "LICENSE", "train.py", "net.py", ".gitignore", "kept/ignored.txt", "gone.txt")
    git(folder, "commit", "-qm", "x")
    git(folder, "add", "staged.txt")
    (folder / "gone.txt").unlink()
    (folder / "net.py").write_text("import torch\nx = 2\n", encoding="utf-8")
    said, out = prepared(folder)
    own = {name for name in contents(out) if name.startswith("X/")}
    names = (
        "LICENSE",
        "train.py",
        "net.py",
        ".gitignore",
        "kept/ignored.txt",
        "staged.txt",
        ".gitmodules",
        "sub/own.py",
    )
    assert own == {f"X/{name}" for name in (*names, "README.md", "test.sh", "requirements.txt")}
    assert "x = 2" in contents(out)["X/net.py"], "a tracked file goes as it lies in the folder"
    for name in ("notes.txt", "scratch", "sub/more.txt"):
        assert f"left out: {name} (git does not track it)" in said
    assert "ignored.txt" not in said
    said, out = prepared(folder, "--include", "notes.txt", "--include", "scratch/a/b.txt", "--include", "ignored.txt")
    assert {"X/notes.txt", "X/scratch/a/b.txt", "X/ignored.txt"} <= contents(out).keys()
    assert "included because of --include: X/notes.txt (git does not track it)" in said
    assert broken(out)[:2] == ([], [])


@pytest.mark.parametrize(
    ("untracked", "missing"),
    [
        ({"net.py": "import torch\n"}, "net.py"),
        ({"net.py": "import parts.block\n", "parts/block.py": ""}, "net.py, parts/block.py"),
        ({"net/__init__.py": "from . import block\n", "net/block.py": ""}, "net/__init__.py, net/block.py"),
        ({"other.py": "import net\n", "parts/block.py": ""}, ""),
    ],
)
def test_a_program_is_handed_over_with_all_that_it_imports(
    tmp_path: Path, untracked: dict[str, str], missing: str
) -> None:
    folder = made(tmp_path / "p", {})
    if missing:
        (folder / "net.py").unlink()
    git(folder, "init")
    git(folder, "add", ".")
    made(folder, untracked)
    if missing and "net.py" not in untracked:
        (folder / "net.py").unlink()
    if not missing:
        assert (prepared(folder)[1] / "X/net.py").is_file()
        return
    said, out = prepared(folder)
    assert f"would not be handed over, so nothing was written: {missing};" in said
    assert not out.exists()
    first = missing.partition(",")[0]
    assert f"git add {first}" in said
    said, out = prepared(folder, *(word for path in untracked for word in ("--include", path)))
    assert (out / "X" / first).is_file(), said


def test_what_a_program_can_do_without_is_left_out_by_name(tmp_path: Path) -> None:
    folder = made(tmp_path / "p", {".gitignore": "net.py\n"})
    git(folder, "init")
    git(folder, "add", ".")
    assert "nothing was written: net.py;" in prepared(folder)[0]
    assert (prepared(folder, "--exclude", "net.py")[1] / "X/train.py").is_file()


def test_a_program_that_git_does_not_track_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = made(tmp_path / "p", {})
    git(folder, "init")
    git(folder, "add", ".")
    (folder / "train_npu.py").write_text(TRAIN)
    said, _ = prepared(folder, "--program", "train_npu.py")
    assert "train_npu.py is not handed over: git does not track it; hand it over with --include train_npu.py" in said


def test_outside_of_git_the_ignore_files_count(tmp_path: Path) -> None:
    ignored = {"a.log": "x", "build/b": "x", "c/d": "x"}
    kept = {".gitignore": "*.log\n/build/\n", "c/.gitignore": "d\n", "c/e": "x"}
    folder = made(tmp_path / "p", {**ignored, **kept})
    assert {file.path for file in project_files(folder).files} == {
        ".gitignore", "LICENSE", "net.py", "train.py", "c/.gitignore", "c/e"
    }  # fmt: skip


@pytest.mark.parametrize("state", ["nothing tracked", "damaged"])
def test_a_checkout_of_which_git_says_nothing_is_an_error(tmp_path: Path, state: str) -> None:
    folder = made(tmp_path / "p", {})
    if state == "damaged":
        (folder / ".git").mkdir()
    else:
        git(folder, "init", "-q")
    said, out = prepared(folder)
    assert ("git tracks no file" if state == "nothing tracked" else "git cannot list the tracked files") in said
    assert not out.exists()


@pytest.mark.parametrize("name", ["train.py", "net.py", "deep/a.py"])
def test_a_program_with_a_secret_stops_the_hand_over(tmp_path: Path, name: str) -> None:
    deep = {"deep/__init__.py": "", "net.py": "import deep.a\n", "deep/a.py": "import b\n", "b.py": "import c\n"}
    deep |= {"c.py": "import d\n", "d.py": ""}
    folder = made(tmp_path / "p", deep)
    (folder / name).write_text((folder / name).read_text(encoding="utf-8") + f'\nTOKEN = "{TOKEN}"\n', encoding="utf-8")
    line = (folder / name).read_text(encoding="utf-8").count("\n")
    said, out = prepared(folder)
    assert f"{name}:{line} (a token of Hugging Face)" in said
    assert f"--include {name}" in said
    assert TOKEN not in said
    assert not out.exists(), "nothing is written"
    said, out = prepared(folder, "--exclude", name) if name != "train.py" else prepared(folder, "--include", name)
    assert out.exists()


def test_what_is_included_is_recorded_and_only_so_passes(tmp_path: Path) -> None:
    folder = made(
        tmp_path / "p", {".env": "A=1\n", "conf/c.yaml": f"a: 1\ntoken: {TOKEN}\n", "other.yaml": f"x: {TOKEN}\n"}
    )
    said, out = prepared(folder, "--include", ".env", "--include", "./conf/c.yaml")
    assert "included because of --include: X/.env (files of this name usually hold secrets)" in said
    assert "included because of --include: X/conf/c.yaml:2 (" in said
    assert "left out: other.yaml:1 (a token of Hugging Face)" in said
    record = json.loads((out / NAME).read_text(encoding="utf-8"))
    assert [(each["path"], each["line"], each["secret"]) for each in record["included"]] == [
        ("X/.env", 0, True), ("X/conf/c.yaml", 2, True)
    ]  # fmt: skip
    assert TOKEN not in said + json.dumps(record)
    found, included, shown = broken(out)
    assert (found, included) == ([], [("X/.env", 0), ("X/conf/c.yaml", 2)])
    assert "X/.env: files of this name usually hold secrets" in handover("check", out, "--lang", "en").output
    assert TOKEN not in shown
    (out / "X/conf/c.yaml").write_text(f"a: 1\ntoken: {TOKEN}\npassword: hunter2x\n", encoding="utf-8")
    (out / "X/more.txt").write_text(f"{TOKEN}\n", encoding="utf-8")
    (out / "pull-request.md").write_text(f"Run it with `--token {TOKEN}`.\n", encoding="utf-8")
    found, included, shown = broken(out)
    assert sorted(found) == [("X/conf/c.yaml", 2), ("X/conf/c.yaml", 3), ("X/more.txt", 1), ("pull-request.md", 1)]
    assert included == [("X/.env", 0)]


@pytest.mark.parametrize(
    ("include", "said"),
    [
        (["nothing.txt"], "no such file"),
        (["*.yaml"], "no such file"),
        (["../secret"], "no such file"),
        (["conf"], "no such file"),
        ([".git/config"], "no such file"),
        (["link"], "a link, which is not followed"),
        (["conf/c.yaml", "--exclude", "conf"], "named by --include and by --exclude"),
    ],
)
def test_what_cannot_be_included_is_an_error(tmp_path: Path, include: list[str], said: str) -> None:
    folder = made(tmp_path / "p", {"conf/c.yaml": "a: 1\n"})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (folder / "link").symlink_to(tmp_path / "secret")
    told, out = prepared(folder, "--include", *include)
    assert said in told
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments", [["--set", f"self_test=token {TOKEN}"], ["--team", TOKEN], ["--dataset", f"https://u:{TOKEN}@h/x"]]
)
def test_no_text_of_the_hand_over_holds_a_secret(tmp_path: Path, arguments: list[str]) -> None:
    said, out = prepared(made(tmp_path / "p", {}), *arguments)
    assert TOKEN not in said
    assert not out.exists() or not any(TOKEN in text for text in contents(out).values())


def test_a_token_in_the_name_of_a_file_is_shown_nowhere(tmp_path: Path) -> None:
    folder = made(tmp_path / "p", {f"out/{TOKEN}/log.txt": "x\n", f"run-{TOKEN}.txt": "x\n"})
    said, out = prepared(folder)
    assert "left out: out/***/log.txt (in the name of the file: a token of Hugging Face)" in said
    assert "left out: run-***.txt (" in said
    assert TOKEN not in said + "".join(contents(out).values())
    assert not [path for path in out.rglob("*") if TOKEN in path.name]
    found, _, shown = broken(made(tmp_path / "clone", {f"out/{TOKEN}/log.txt": "x\n"}), "--for", "generic")
    assert found == [("out/***/log.txt", 0)]
    assert TOKEN not in shown
    git(folder, "init", "-q")
    git(folder, "add", "LICENSE", "train.py", "net.py")
    said, out = prepared(folder)
    assert "left out: run-***.txt (in the name of the file: a token of Hugging Face)" in said
    assert TOKEN not in said + "".join(contents(out).values())


@pytest.mark.parametrize("path", [f"{TOKEN}.py", f"{TOKEN}/__init__.py"])
def test_a_token_in_the_name_of_a_module_is_not_shown(tmp_path: Path, path: str) -> None:
    said, out = prepared(made(tmp_path / "p", {path: "x = 1\n", "net.py": f"import {TOKEN}\n"}))
    assert "nothing was written: " in said
    assert f"{path.replace(TOKEN, '***')} (in the name of the file: a token of Hugging Face)" in said
    assert TOKEN not in said
    assert not out.exists()


def test_what_is_no_text_is_left_out_and_ordinary_data_goes(tmp_path: Path) -> None:
    folder = made(tmp_path / "p", {})
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for is_secret, rows in ((True, SECRET_DATA), (False, ORDINARY_DATA)):
        for number, (path, template) in enumerate(rows):
            name = f"{'st'[is_secret]}{number}/{path}"
            names[is_secret].add(name)
            (folder / name).parent.mkdir()
            (folder / name).write_bytes(filled(template)[0].encode("latin-1"))
    files = project_files(folder)
    assert {left.path for left in files.left_out if left.is_secret} == names[True] - {
        name for name in names[True] if is_data(name)
    }
    assert {name for name in names[False] if not is_data(name)} <= {file.path for file in files.files}


def test_a_packed_file_is_examined(tmp_path: Path) -> None:
    folder = made(tmp_path / "p", {})
    import gzip
    import zipfile

    (folder / "vocab.txt.gz").write_bytes(gzip.compress(b"hello\nworld\n"))
    (folder / "bad.txt.gz").write_bytes(gzip.compress(TOKEN.encode()))
    (folder / "cut.gz").write_bytes(gzip.compress(b"x" * 99)[:20])
    (folder / "bomb.gz").write_bytes(gzip.compress(bytes(40 << 20)))
    for name, member, text in (("a.whl", "a.py", "x = 1\n"), ("b.jar", "conf/.env", "x"), ("c.docx", "d.xml", TOKEN)):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, text)
    for name, mode, member in (
        ("e.tarball", "w", "a.txt"),
        ("f.txz", "w:xz", "a.txt"),
        ("g.tar.bz2", "w:bz2", "h/.env"),
    ):
        with tarfile.open(folder / name, mode) as packed:  # type: ignore[call-overload]
            information = tarfile.TarInfo(member)
            content = b"x" if member.endswith(".env") else TOKEN.encode()
            information.size = len(content)
            packed.addfile(information, io.BytesIO(content))
    assert {left.path for left in project_files(folder).left_out} >= {
        "bad.txt.gz",
        "cut.gz",
        "bomb.gz",
        "b.jar",
        "c.docx",
        "e.tarball",
        "f.txz",
        "g.tar.bz2",
    }
    assert {"vocab.txt.gz", "a.whl"} <= {file.path for file in project_files(folder).files}


def test_a_check_looks_at_all_that_would_leave(tmp_path: Path) -> None:
    """The record itself, what a repository around it ignores, and control folders, which git takes along or which start
    programs; its own record and texts are no secrets."""
    project = made(tmp_path / "p", {".gitignore": "notes/\n"})
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    out = project / "out"
    done = handover(project, "--for", "generic", "-t", "npu", "-o", out, "--model", "X", "--lang", "en")
    assert done.exit_code == 0, done.output
    assert broken(out)[0] == []
    (out / "X" / "notes").mkdir()
    (out / "X" / "notes" / "a.txt").write_text(f"HF_TOKEN={TOKEN}\n", encoding="utf-8")
    (out / "X" / ".torchferry").mkdir()
    record = json.loads((out / NAME).read_text(encoding="utf-8"))
    (out / NAME).write_text(json.dumps({**record, "note": TOKEN}, indent=1), encoding="utf-8")
    assert {path for path, _ in broken(out)[0]} == {"X/notes/a.txt", "X/.torchferry", NAME}
