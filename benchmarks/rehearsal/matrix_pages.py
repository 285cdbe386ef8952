"""The results of the matrix, and the tables that are written from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("matrix.json")
PAGES = {language: ROOT / "docs" / language / "plugin-versions.md" for language in ("en", "zh")}
BLOCK = ("<!-- measured: written by make matrix -->", "<!-- end -->")
PROGRAMS_BLOCK = ("<!-- measured: real programs, written by make matrix -->", "<!-- end of real programs -->")
TRANSFERRED_BLOCK = ("<!-- measured: the vendor's redirect, written by make matrix -->", "<!-- end of redirect -->")
COST_BLOCK = ("<!-- measured: cost of a step, written by make matrix -->", "<!-- end of cost -->")
WAYS = ("migrated", "run")
TRANSFERRED = ("transfer",)
COSTS = ("convolution", "half", "transformer", "mlp")
CARD = "; would fail on the card: "
"""Between what came of a program and what its summary marks."""


PROGRAMS = ("start", "example", "cnn", "gpt", "amp", "ddp")
TOOLS = "tools"
JUDGES = ("wheel", "simulated")


@dataclass
class Row:
    """What one judge said at one version.

    Attributes:
        package: Name of the plugin's package.
        plugin: Version of the plugin.
        torch: Version of torch, as it says itself.
        python: Version of Python.
        judge: One of `JUDGES`.
        skipped: Why nothing ran; empty where something did.
        results: For each of `PROGRAMS`: "equal", "7 digits", or what went wrong; for `TOOLS` how many did what they are
            for, of all, and those that did not.
        programs: For each real program: what came of it as each of `WAYS` and `TRANSFERRED`.
        costs: For each of `COSTS`: the processor time of a step over the CPU's.
    """

    package: str
    plugin: str
    torch: str
    python: str
    judge: str
    skipped: str = ""
    results: dict[str, str] = field(default_factory=dict)
    programs: dict[str, dict[str, str]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> tuple[object, ...]:
        """What tells it from other rows, in the order of the table."""
        torch = [int(part) for part in self.torch.partition("+")[0].split(".")]
        minor = [int(part) for part in self.python.split(".")[:2]]
        return self.package != "torch_npu", self.package, torch, minor, self.plugin, JUDGES.index(self.judge)


def load() -> list[Row]:
    """Return the rows that were measured."""
    return [Row(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))] if RESULTS.exists() else []


def save(rows: list[Row]) -> None:
    """Put rows in the place of those that were measured before; what was not run again stays."""
    kept = {str(row.name): row for row in load()}
    for row in rows:
        before = kept.get(str(row.name))
        row.results = {**(before.results if before else {}), **row.results}
        row.costs = {**(before.costs if before else {}), **row.costs}
        if before:
            names = before.programs | row.programs
            row.programs = {name: before.programs.get(name, {}) | row.programs.get(name, {}) for name in names}
        kept[str(row.name)] = row
    ordered = sorted(kept.values(), key=lambda row: row.name)
    RESULTS.write_text(json.dumps([asdict(row) for row in ordered], indent=1) + "\n", encoding="utf-8")


_HEAD = ["torch", "Python"]
WORDS: dict[str, dict[str, str]] = {
    "en": {"plugin": "plugin", "judge": "judge", "tools": "tools", "wheel": "the wheel", "simulated": "simulated"}
    | {"program": "program", "convolution": "convolution", "half": "half", "transformer": "transformer", "mlp": "MLP"}
    | dict(zip(PROGRAMS, ["starts", "example", "CNN", "GPT", "float16", "two ranks"], strict=True)),
    "zh": {"plugin": "插件", "judge": "运行方式", "tools": "工具", "wheel": "官方 wheel", "simulated": "模拟插件"}
    | {"program": "程序", "convolution": "卷积", "half": "半精度", "transformer": "transformer", "mlp": "MLP"}
    | dict(zip(PROGRAMS, ["启动", "示例", "CNN", "GPT", "float16", "双进程"], strict=True))
    | {"yes": "是", "runs": "可运行", "equal": "完全一致", "digits": "{} 位有效数字", "of float32": "（相对 float32）"}
    | {CARD: "；在卡上会失败："}
    | {"not run: {}": "未运行：{}", "runs; would fail on the card": "可运行；在卡上会失败"},
}


def table(rows: list[Row], language: str) -> str:
    """Return the results as a table of Markdown."""
    words = WORDS[language]
    columns = (*PROGRAMS, TOOLS)
    head = [words["plugin"], *_HEAD, *(words[name] for name in ("judge", *columns))]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [f"{row.package} {row.plugin}", row.torch.partition("+")[0], row.python, words[row.judge]]
        if row.skipped:
            skipped = words.get("not run: {}", "not run: {}").format(row.skipped)
            cells += [skipped, *[""] * (len(columns) - 1)]
        else:
            cells += [in_words(row.results.get(name, ""), language) for name in columns]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def programs_table(rows: list[Row], language: str, ways: Sequence[str] = WAYS) -> str:
    """Return what came of the real programs: a row for each, a column for each version; in each cell the ways."""
    measured = [row for row in rows if any(way in each for each in row.programs.values() for way in ways)]
    names = list(dict.fromkeys(name for row in measured for name in row.programs))
    head = [WORDS[language]["program"], *(f"{row.package} {row.plugin}" for row in measured)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in names:
        cells = [ways_in_words(row.programs.get(name, {}), ways, language).replace("|", "\\|") for row in measured]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def costs_table(rows: list[Row], language: str) -> str:
    """Return what a step costs: a row for each version and judge, a column for each model."""
    words = WORDS[language]
    head = [words["plugin"], *_HEAD, words["judge"], *(words[name] for name in COSTS)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        if row.costs:
            cells = [f"{row.package} {row.plugin}", row.torch.partition("+")[0], row.python, words[row.judge]]
            cells += [f"{row.costs[name]:.2f}" if name in row.costs else "" for name in COSTS]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ways_in_words(results: dict[str, str], ways: Sequence[str], language: str) -> str:
    """Return what came of a program in these ways, once where it is the same."""
    said = [in_words(results[way], language) for way in ways if way in results]
    return said[0] if len(set(said)) == 1 else "; ".join(said)


def in_words(result: str, language: str) -> str:
    """Return a result in a language; what a program said itself stays as it is."""
    words = WORDS[language]
    result, mark, places = result.partition(CARD)
    if mark:
        return in_words(result, language) + words.get(CARD, CARD) + places
    count, _, unit = result.partition(" ")
    if unit.startswith("digits"):
        digits = words.get("digits", "{} digits").format(count)
        return digits + words.get("of float32", " of float32") if unit.endswith("float32") else digits
    return words.get(result, result)


def write_pages(rows: list[Row]) -> None:
    """Write the tables between the marks of the two pages."""
    for language, page in PAGES.items():
        tables = {
            BLOCK: table(rows, language),
            COST_BLOCK: costs_table(rows, language),
            PROGRAMS_BLOCK: programs_table(rows, language),
            TRANSFERRED_BLOCK: programs_table(rows, language, TRANSFERRED),
        }
        for block, made in tables.items():
            before, begin, rest = page.read_text(encoding="utf-8").partition(block[0])
            _, end, after = rest.partition(block[1])
            page.write_text(f"{before}{begin}\n\n{made}\n\n{end}{after}", encoding="utf-8")
