"""Write the documents that come from the code: rule pages, the targets and their tables, the command reference.

`--check` writes nothing and fails when one of them is stale.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from torchferry.backends import cuda, registry
from torchferry.backends.cards import cards
from torchferry.backends.tables import Row
from torchferry.backends.unknown import Unknown
from torchferry.cli import cli
from torchferry.cli.backend import specification
from torchferry.core.messages import Bilingual
from torchferry.report.families import TITLES
from torchferry.report.model import family
from torchferry.report.pages import page
from torchferry.rules.registry import rules

ROOT = Path(__file__).parent.parent
TABLES = ("api", "env", "tools", "packages", "libraries", "frameworks", "images", "versions")
HEADS = {
    "en": {
        "rules": "Rules",
        "targets": "Targets",
        "commands": "Commands",
        "name": "CUDA side",
        "status": "status",
        "use": "use",
        "note": "note",
        "source": "source",
        "library": "library",
        "asks": "asks",
        "before": "before torch.cuda",
        "after": "after torch.cuda",
        "mixed": "partly before torch.cuda, partly after",
        "only": "torch.cuda alone",
        "named": "when named",
        "never": "not torch.cuda",
        "kinds": "Files",
        "silence": "To silence it",
        "facts": "Facts",
        "unknown": "UNKNOWN",
        "cards": "Cards",
        "card": "card",
        "aliases": "also called",
        "memory": "memory of a device as a program sees it, MiB",
        "devices": "devices of a card",
        "packages": "Packages",
        "plain": "torch code that follows the device that it is given; "
        "where a function of it chooses CUDA, the page of the target says so",
        "other": "frameworks beside torch, whose programs are not judged",
        "engine": "frameworks beside torch that are imported to compute with them and for nothing else: who comes to "
        "such an import is not judged",
        "host": "what does not touch a card: the same on every target",
        "made": "This page is written from the code; `make generated` makes it anew.",
    },
    "zh": {
        "rules": "规则",
        "targets": "目标平台",
        "commands": "命令",
        "name": "CUDA 一侧",
        "status": "状态",
        "use": "改用",
        "note": "说明",
        "source": "来源",
        "library": "库",
        "asks": "查询方式",
        "before": "先于 torch.cuda",
        "after": "后于 torch.cuda",
        "mixed": "部分先于、部分后于 torch.cuda",
        "only": "只查询 torch.cuda",
        "named": "由调用者指定时",
        "never": "不查询 torch.cuda",
        "kinds": "适用文件",
        "silence": "屏蔽方式",
        "facts": "事实",
        "unknown": "UNKNOWN",
        "cards": "卡",
        "card": "卡",
        "aliases": "别名",
        "memory": "程序所见的单设备显存（MiB）",
        "devices": "每卡设备数",
        "packages": "软件包",
        "plain": "随给定设备运行的 torch 代码；其中会选择 CUDA 的函数见各目标平台的表",
        "other": "torch 之外的框架，不对其程序作出判断",
        "engine": "torch 之外、导入只为用它计算的框架：触及这种导入的程序不作判断",
        "host": "不接触加速卡的软件包：在所有目标平台上相同",
        "made": "本页由代码生成；`make generated` 可重新生成。",
    },
}


def documents() -> Iterator[tuple[Path, str]]:
    """Yield the path and the content of every generated document."""
    for lang in ("en", "zh"):
        folder = ROOT / "docs" / lang
        yield folder / "rules.md", "\n".join(rule_index(lang)) + "\n"
        for rule in rules():
            yield folder / "rules" / f"{rule.CODE}.md", "\n".join(rule_page(rule.CODE, lang)) + "\n"
        yield folder / "targets.md", "\n".join(target_index(lang)) + "\n"
        for name in registry.built_in():
            yield folder / "targets" / f"{name}.md", "\n".join(target_page(name, lang)) + "\n"
        yield folder / "commands.md", "\n".join(commands(lang)) + "\n"


def rule_index(lang: str) -> Iterator[str]:
    """Yield the list of all rules."""
    words = HEADS[lang]
    yield f"# {words['rules']}\n\n{words['made']}"
    last = ""
    for rule in rules():
        if family(rule.CODE) != last:
            last = family(rule.CODE)
            yield f"\n## {last} {TITLES[last].render(lang)}\n"
        found = page(rule.CODE, lang)
        yield f"- [{found.code}](rules/{found.code}.md) `{found.name}`: {found.title}"


def rule_page(code: str, lang: str) -> Iterator[str]:
    """Yield the page of one rule."""
    words = HEADS[lang]
    found = page(code, lang)
    yield f"# {found.code} {found.name}\n\n{found.title}\n\n{found.body}\n"
    yield f"{words['kinds']}: {', '.join(kind.value for kind in found.rule.KINDS)}\n"
    yield f"{words['silence']}: `# torchferry: ignore[{found.code}] reason`"


def target_index(lang: str) -> Iterator[str]:
    """Yield the list of the targets."""
    words = HEADS[lang]
    yield f"# {words['targets']}\n\n{words['made']}\n"
    for name in registry.built_in():
        backend = registry.load(name)
        title = Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)
        yield f"- [{name}](targets/{name}.md): {title}, `{backend.PLUGIN}`"
    yield f"\n## {words['packages']}"
    for kind in ("plain", "other", "engine", "host"):
        known = (*cuda.packages().values(), *cuda.hosts().values())
        names = sorted(package.name for package in known if package.kind == kind)
        yield f"\n**{kind}** ({len(names)}): {words[kind]}.\n"
        yield from textwrap.wrap(", ".join(names), 118, break_on_hyphens=False)


def target_page(name: str, lang: str) -> Iterator[str]:
    """Yield what is known of one target."""
    words = HEADS[lang]
    backend = registry.load(name)
    yield f"# {name}: {Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)}\n\n{words['made']}\n"
    yield f"## {words['facts']}\n"
    for attribute in specification():
        value = getattr(backend, attribute, None)
        if attribute in ("NAME", "TITLE", "TITLE_ZH", "SOURCES", "DATA_DIRECTORY") or value in (None, "", (), {}):
            continue
        shown = words["unknown"] if isinstance(value, Unknown) else _value(value, lang)
        source = backend.source_of(attribute)
        yield f"- `{attribute}`: {shown}" + (f" ({source})" if source else "")
    yield from _cards(name, lang)
    for table in TABLES:
        rows = [row for row in backend.table(table) if table != "packages" or _is_shown(row)]
        if not rows:
            continue
        yield f"\n## {table}\n"
        name_of, use_of = ("library", "asks") if table == "libraries" else ("name", "use")
        yield f"| {words[name_of]} | {words['status']} | {words[use_of]} | {words['note']} | {words['source']} |"
        yield "|---|---|---|---|---|"
        sources = sorted({row.source for row in rows})
        for row in sorted(rows, key=lambda row: (row.name, row.since)):
            yield _row(row, sources, lang)
        yield ""
        for number, source in enumerate(sources, 1):
            yield f"{number}. {source}"


def _is_shown(row: Row) -> bool:
    """Whether a package is worth a row of a target's page: not what the list of all targets says already."""
    package = cuda.packages()[row.name]
    if package.kind in cuda.OTHER_FRAMEWORKS:
        return False
    return not (package.kind == "plain" and row.status == "same" and not row.note)


def _cards(name: str, lang: str) -> Iterator[str]:
    words = HEADS[lang]
    known = cards(registry.load(name))
    if not known:
        return
    yield f"\n## {words['cards']}\n"
    heads = ("card", "aliases", "memory", "devices", "source")
    yield "| " + " | ".join(words[head] for head in heads) + " |"
    yield "|---|---|---|---|---|"
    for card in known:
        memory = words["unknown"] if isinstance(card.memory, Unknown) else f"{card.memory >> 20:,}"
        devices = words["unknown"] if isinstance(card.devices_per_card, Unknown) else str(card.devices_per_card)
        yield "| " + " | ".join((card.name, ", ".join(card.aliases), memory, devices, card.source)) + " |"


def _row(row: Row, sources: list[str], lang: str) -> str:
    status = "UNKNOWN" if row.status == "unknown" else row.status
    span = ", ".join(filter(None, (row.since and f"≥{row.since}", row.until and f"<{row.until}")))
    note = row.remark.render(lang) if row.remark is not None else ""
    use = f"`{row.use}`" if row.use else ""
    if "order" in row.extra:
        use = f"{HEADS[lang][row.extra['order']]}: {row.extra['asks']}"
    cells = (f"`{row.name}`" + (f" ({span})" if span else ""), status, use, note, str(sources.index(row.source) + 1))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(value: object, lang: str) -> str:
    if isinstance(value, Bilingual):
        return value.render(lang)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_value(item, lang)}" for key, item in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"`{value}`"


def commands(lang: str) -> Iterator[str]:
    """Yield the command reference: what each command says of itself."""
    yield f"# {HEADS[lang]['commands']}\n\n{HEADS[lang]['made']}"
    for name, shown in _helps(cli, None, "torchferry"):
        yield f"\n## {name}\n\n```text\n{shown.rstrip()}\n```"


def _helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of a command, then those of the commands below it."""
    width = 78  # what a terminal of 80 columns is given, whatever this one has
    settings = {**command.context_settings, "terminal_width": width}
    context = click.Context(command, parent, name.rpartition(" ")[2], **settings)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            if found is not None and not found.hidden:
                yield from _helps(found, context, f"{name} {verb}")


def main() -> int:
    """Write the documents, or with `--check` compare them; returns the exit status."""
    check = "--check" in sys.argv[1:]
    wanted = dict(documents())
    known = {path for lang in ("en", "zh") for part in ("rules", "targets")
             for path in (ROOT / "docs" / lang / part).glob("*.md")}  # fmt: skip
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    stale += sorted(known - wanted.keys())
    if check:
        for path in stale:
            print(f"stale: {path.relative_to(ROOT)}; run `make generated`", file=sys.stderr)
        return 1 if stale else 0
    for path in known - wanted.keys():
        path.unlink()
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    print(f"{len(wanted)} documents, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
