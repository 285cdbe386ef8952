"""Write the quick-start page of each target: what `examples/quick-start` becomes there, and what it prints.

    python tools/quick_start.py [--only TARGET]

The programs are migrated and run on the simulated card; a program that fails ends the tool. A test,
`tests/rehearsal/test_quick_start.py`, runs them in the same way and compares what they print with the pages.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from torchferry.backends import registry
from torchferry.core import supported_torch
from torchferry.core.messages import Bilingual

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "quick-start"

CHINESE = {
    "devices.py": "有哪些卡，并在每张卡上放一个张量。",
    "inference.py": "加载在卡上保存的权重，并做分类。",
    "train.py": "训练，保存检查点，再加载并测试。",
    "amp.py": "混合精度训练：autocast 与梯度缩放器。",
    "ddp.py": "用一台机器的所有卡训练：`torchrun --nproc_per_node 2 ddp.py`；多台机器加 `--nnodes`。",
    "channels_last.py": "让图像的通道排在最后，某些卡的卷积因此更快。",
    "tf32.py": "允许矩阵乘法先舍入输入，如 CUDA 的 TF32：有此功能的卡更快，但精度较低。",
    "profile_steps.py": "在一张卡上剖析两步并写出轨迹，用 `torchferry profile show result` 查看。",
    "profile_ranks.py": "把每个进程剖析到各自的轨迹：`torchrun --nproc_per_node 2 profile_ranks.py`。",
}
"""The programs, in the order of the pages, and the first line of each in Chinese."""

RANKS = ("ddp.py", "profile_ranks.py")
"""Programs that run as two processes."""

_LAST = "devices.py"
"""It leaves another device current, so it runs behind the others."""

_BETWEEN = "-- next program --"

_IN_TURN = f"""\
import runpy, sys
for name in sys.argv[1:]:
    runpy.run_path(name, run_name='__main__')
    print('{_BETWEEN}')
"""

WORDS = {
    "title": Bilingual("Quick start: {target}", "快速入门：{target}"),
    "index": Bilingual("Quick start", "快速入门"),
    "head": Bilingual(
        "Nine small programs that are written for CUDA lie in `examples/quick-start`. This page shows what "
        "`torchferry migrate` makes of them for {target}, and what they print on the simulated card. A rehearsal "
        "proves that code is right for the API. It says nothing about speed or accuracy on the card.",
        "`examples/quick-start` 里有九个为 CUDA 写的小程序。本页展示 `torchferry migrate` 为{target}把它们改成什么，"
        "以及它们在模拟卡上打印什么。演练证明代码对 API 是正确的，不说明卡上的速度或精度。",
    ),
    "torchferry": Bilingual("# in a checkout of torchferry", "# 在检出的 torchferry 仓库中"),
    "torch": Bilingual(
        "# for rehearsals, which need a C++ compiler too",
        "# 用于演练，还需要 C++ 编译器",
    ),
    "here": Bilingual("# here, without a card", "# 在这里，没有卡"),
    "there": Bilingual("# on the machine with the cards", "# 在有卡的机器上"),
    "left": Bilingual("Left for a person:", "留给人决定："),
    "unsafe": Bilingual(
        "`--unsafe-fixes` makes the fixes to read, too: here they are all right.",
        "`--unsafe-fixes` 会写入需过目的修复；在这里它们都是对的。",
    ),
    "all": Bilingual("Each target has a page with the same nine programs:", "每个目标各有一页，都是同样的九个程序："),
}


class Program(NamedTuple):
    """One program as it is for a target.

    Attributes:
        name: Of the file.
        code: What it is after the migration.
        printed: What it prints when it is rehearsed.
        left: What is left to do by hand, in both languages.
    """

    name: str
    code: str
    printed: str
    left: tuple[Bilingual, ...] = ()


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run torchferry."""
    command = [sys.executable, "-m", "torchferry", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def needs_unsafe(target: str, folder: Path) -> bool:
    """Whether a fix that has to be read first is needed."""
    found = json.loads(run("scan", EXAMPLES, "-t", target, "-f", "json", "--isolated", cwd=folder).stdout)
    return bool(found["counts"].get("unsafe"))


def programs(target: str, folder: Path, *, ranks: bool = True, python: str = "python") -> list[Program]:
    """Migrate the programs for a target into a folder, and run them there, those of several ranks too where `ranks`.

    `python` is what runs them.

    Raises:
        RuntimeError: one of them failed.
    """
    copy = folder / "programs"
    unsafe = ["--unsafe-fixes"] if needs_unsafe(target, folder) else []
    run("migrate", EXAMPLES, "-t", target, "--out", copy, "--isolated", *unsafe, cwd=folder)
    left = [
        json.loads(run("scan", copy, "-t", target, "-f", "json", "--isolated", "--lang", lang, cwd=folder).stdout)
        for lang in ("en", "zh")
    ]
    alone = [name for name in CHINESE if name not in (*RANKS, _LAST)] + [_LAST]
    printed = dict(zip(alone, _rehearsed(target, copy, python, "-c", _IN_TURN, *alone), strict=True))
    for name in RANKS if ranks else ():
        launcher = (python, "-m", "torch.distributed.run")
        (printed[name],) = _rehearsed(target, copy, *launcher, "--nproc_per_node", "2", name)
    return [
        Program(
            name,
            (copy / name).read_text(encoding="utf-8"),
            printed[name],
            tuple(
                Bilingual(english["message"], chinese["message"])
                for english, chinese in zip(left[0]["findings"], left[1]["findings"], strict=True)
                if english["path"] == name and english["grade"] == "manual"
            ),
        )
        for name in CHINESE
        if name in printed
    ]


def _rehearsed(target: str, copy: Path, *command: str) -> list[str]:
    """Run programs one after the other on two simulated cards; return what each printed."""
    done = run("rehearse", "-t", target, "--plugin", "simulated", "--devices", 2, "--", *command, cwd=copy)
    if done.returncode:
        raise RuntimeError(f"{target}: {done.stdout}\n{done.stderr}")
    return [text for text in done.stdout.split(f"{_BETWEEN}\n") if text.strip()]


def head(target: str, unsafe: bool, lang: str) -> list[str]:
    """Return the lines of a target's page before its programs: what they are, and how they are had."""
    backend = registry.load(target)
    title = Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)

    def word(name: str) -> str:
        return WORDS[name].render(lang).format(target=title)

    option = " --unsafe-fixes" if unsafe else ""
    rehearsed = f"torchferry rehearse -t {target} -- python train.py"
    torch = f"pip install torch=={supported_torch.USUAL} --index-url {supported_torch.CPU_INDEX}"
    return [
        f"# {word('title')}",
        "",
        word("head"),
        "",
        "```bash",
        f"{'pip install . numpy':{len(torch)}}  {word('torchferry')}",
        f"{torch}  {word('torch')}",
        f"torchferry migrate examples/quick-start -t {target} --out quick-start{option}",
        "cd quick-start",
        f"{rehearsed}  {word('here')}",
        f"{'python train.py':{len(rehearsed)}}  {word('there')}",
        "```",
        *(["", word("unsafe")] if unsafe else []),
    ]


def page(target: str, made: list[Program], unsafe: bool, lang: str) -> str:
    """Return the page of a target."""
    lines = head(target, unsafe, lang)
    for program in made:
        docstring = ast.get_docstring(ast.parse(program.code)) or ""
        first = docstring.splitlines()[0] if lang == "en" else CHINESE[program.name]
        code = program.code.partition('"""\n')[2].strip("\n")
        launcher = "torchrun --nproc_per_node 2" if program.name in RANKS else "python"
        devices = " --devices 2" if program.name in (*RANKS, "devices.py") else ""
        lines += ["", f"## {program.name}", "", first, "", "```python", code, "```", ""]
        lines += ["```console", f"$ torchferry rehearse -t {target}{devices} -- {launcher} {program.name}"]
        lines += [program.printed.strip("\n"), "```"]
        if program.left:
            lines += [
                "",
                WORDS["left"].render(lang),
                "",
                *(f"- {text.render(lang)}" for text in dict.fromkeys(program.left)),
            ]
    return "\n".join(lines) + "\n"


def index(lang: str) -> str:
    """Return the page that lists the others."""
    lines = [f"# {WORDS['index'].render(lang)}", "", WORDS["all"].render(lang), ""]
    for name in registry.built_in():
        backend = registry.load(name)
        lines.append(f"- [{Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)}](quick-start/{name}.md)")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=registry.built_in())
    only = parser.parse_args().only
    for target in [only] if only else registry.built_in():
        with tempfile.TemporaryDirectory() as name:
            made = programs(target, Path(name))
            unsafe = needs_unsafe(target, Path(name))
        for lang in ("en", "zh"):
            place = ROOT / "docs" / lang / "quick-start" / f"{target}.md"
            place.parent.mkdir(exist_ok=True)
            place.write_text(page(target, made, unsafe, lang), encoding="utf-8")
        print(f"{target}: {len(made)} programs")
    for lang in ("en", "zh"):
        (ROOT / "docs" / lang / "quick-start.md").write_text(index(lang), encoding="utf-8")


if __name__ == "__main__":
    main()
