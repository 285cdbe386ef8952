"""The table of capabilities: every capability that five documents of vendors and projects describe, and what proves it.

    python tools/coverage_table.py [--write | --check] [--only NUMBER ...] [--rows FIRST-LAST] [--workers N] [--again]

Without an option it runs every proof of `tools/coverage.toml` once, names the rows whose proof fails, and writes
`docs/*/coverage.md`. What ran is kept with its date in `tools/coverage_runs.json`, of which the pages say the rest.
`--trials` runs the proofs of `tests/documents` alone, which try what the documents print. `--write` only writes the
pages, `--check` only compares them. Ends with 1 when a proof fails, or a page is not as the table says; what is
`missing` is said by its row and fails nothing.

A proof is a test (`tests/...py`, `tests/...py::test_name`), a story (`story NAME`, run as its English page shows it),
or a command (`torchferry ...`) that ends with 0 in the root of the checkout. A test that is skipped here (no root, no
compiler, no wheel of the vendor) proves nothing and fails nothing; it is listed with its reason.

What passed whole is kept in the environment, for this state of the files and these versions: a run that was
interrupted, or that was red, goes on where it has to. `--again` runs all proofs.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import distributions
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from torchferry.cli import cli
from torchferry.core.messages import Bilingual
from torchferry.core.toml import loads

sys.path.insert(0, str(Path(__file__).parent))
import stories

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tools" / "coverage.toml"
RUNS = ROOT / "tools" / "coverage_runs.json"
RESULTS = ROOT / "tools" / "coverage_results.toml"
ROWS = 212
"""How many capabilities the documents describe."""

TRIALS = "tests/documents/"
"""Where the proofs are that try a capability as its document prints it: names, arguments, files and results."""

STATUSES = {
    "works": Bilingual("works", "可用"),
    "rehearsed": Bilingual("rehearsed", "已演练"),
    "named": Bilingual("works with another name", "换个名称可用"),
    "card": Bilingual("needs a card", "需要卡"),
    "missing": Bilingual("missing", "缺少"),
}
"""What a row may say: done without a card, done on a simulated card or server, done by another name than the document
prints, only a card can prove it, not there."""

WORDS = {
    "title": Bilingual("What the documents describe, and what proves it", "文档描述的能力与其证明"),
    "head": Bilingual(
        "torchferry was made for what five documents describe: two manuals, two guides and one summary of a migration. "
        "This page has every capability of them, in our words, with what does it here and a proof that runs: "
        "`make coverage` runs all of them. No document is needed to read it.",
        "torchferry 是为五份文档所描述的工作而做的：两份手册、两份指南和一份迁移总结。"
        "本页用我们自己的话列出其中的每一项能力，在这里由什么完成，以及由哪个可运行的证明支撑："
        "`make coverage` 会运行全部证明。读本页不需要那些文档。",
    ),
    "legend": Bilingual(
        "- **{works}**: done and proven on any machine.\n"
        "- **{rehearsed}**: proven on a simulated card, or on a fake server. That proves that code is right for the "
        "API, not speed or accuracy on the card.\n"
        "- **{named}**: done, and not by what the document prints; the row says by what.\n"
        "- **{card}**: only a card, or what only its vendor gives out, can prove it; the row has the reason. Its proof "
        "is of the part that needs none.\n"
        "- **{missing}**: not there.",
        "- **{works}**：在任何机器上都能完成并已证明。\n"
        "- **{rehearsed}**：在模拟卡或假服务器上证明。这说明代码对 API 是正确的，不说明卡上的速度或精度。\n"
        "- **{named}**：能做到，但名称与文档所写不同；该行写明是什么。\n"
        "- **{card}**：只有卡，或只有厂商才提供的东西才能证明；该行写明原因。其证明针对不需要卡的部分。\n"
        "- **{missing}**：没有。",
    ),
    "printed": Bilingual(
        "**{printed} of {rows} rows are tried as printed**: a trial does what the document prints, by its names, "
        "arguments and file names, and compares what comes out (proofs in `tests/documents/`); of {parts} more "
        "a part is. "
        "Of the other {others}, {named} work with another name and {card} need a card: the row says which, or why, and "
        "a trial shows what needs neither. Where a trial has a stand-in, for a server, a library or a model, the row "
        "says so.",
        "**{rows} 行中有 {printed} 行按文档原样试过**：试验按文档写的名称、参数与文件名去做，"
        "并核对结果（证明在 `tests/documents/`）；另有 {parts} 行试过一部分。"
        "其余 {others} 行中，{named} 行换个名称可用，{card} 行需要卡：该行写明名称或原因，不涉及这些的部分也有试验。"
        "试验中用替身代替服务器、库或模型的，该行会写明。",
    ),
    "ran": Bilingual(
        "What ran, until {date}: {passed} proofs passed, {parts} in part (what was not run here is named by "
        "`make coverage`), {failed} failed; {never} have not run since this is recorded. "
        "They are {tests} tests, stories and commands, which took {minutes} minutes.",
        "截至 {date} 的运行：{passed} 个证明通过，{parts} 个部分通过（`make coverage` 会列出未在此运行的部分），"
        "{failed} 个失败；"
        "{never} 个自有记录以来未运行。其中共有 {tests} 个测试、案例与命令，用时 {minutes} 分钟。",
    ),
    "unrun": Bilingual("not run", "未运行"),
    "red": Bilingual("**FAILS**", "**失败**"),
    "last": Bilingual("last run", "最近运行"),
    "made": Bilingual(
        "This page is written by `make coverage` from `tools/coverage.toml` and from what ran, "
        "`tools/coverage_runs.json`.",
        "本页由 `make coverage` 根据 `tools/coverage.toml` 和运行记录 `tools/coverage_runs.json` 写成。",
    ),
    "section": Bilingual("section", "章节"),
    "what": Bilingual("what is described", "描述的能力"),
    "use": Bilingual("with torchferry", "在 torchferry 中"),
    "status": Bilingual("status", "状态"),
    "proof": Bilingual("proof", "证明"),
    "results": Bilingual("What it states as results, beside ours", "文档给出的结果与这里的结果"),
    "theirs": Bilingual("the document states", "文档所述"),
    "ours": Bilingual("here", "这里"),
    "card_shows": Bilingual("only a card shows", "只有卡能说明"),
    "source": Bilingual("source", "来源"),
    "colon": Bilingual(": ", "："),
    "stop": Bilingual(". ", "。"),
}
"""The words of the pages."""

KEYS = {"number", "section", "en", "zh", "use", "status", "proof", "reason", "reason_zh", "note", "note_zh", "tried"}


_TEXTS = ("theirs", "ours", "card")
_RESULT_KEYS = {"document", "section", "en", "zh", "proof", "measured", *_TEXTS, *(f"{name}_zh" for name in _TEXTS)}


class TableError(Exception):
    """The table is not whole."""


@dataclass(frozen=True)
class Row:
    """One capability.

    Attributes:
        number: From 1.
        document: Key of the document in the table.
        section: Of the document.
        what: The capability, in our words.
        use: What does it here: commands, names or rules, in Markdown.
        status: One of `STATUSES`.
        proof: Tests and commands.
        reason: Why only a card can prove it, why it is missing, or by which name it works.
        is_part: Whether the trial of the row does a part of what the document prints.
        note: What else is to be known: the document's own result beside ours, or what the proof leaves out.
    """

    number: int
    document: str
    section: str
    what: Bilingual
    use: str
    status: str
    proof: tuple[str, ...]
    reason: Bilingual | None
    note: Bilingual | None = None
    is_part: bool = False

    @property
    def is_tried(self) -> bool:
        """Whether a trial does what the document prints, or a part of it, and no other name is needed."""
        return self.status in ("works", "rehearsed") and any(proof.startswith(TRIALS) for proof in self.proof)

    @property
    def is_as_printed(self) -> bool:
        """Whether a trial does all that the document prints."""
        return self.is_tried and not self.is_part


@dataclass(frozen=True)
class Result:
    """A result that a document states, beside ours.

    Attributes:
        document: Key of the document in the table.
        section: Of the document.
        what: What it is a result of.
        theirs: What the document states, in our words.
        ours: What came out here.
        card: What only a card can show; None where nothing is left.
        source: The proof or the measurement that `ours` rests on, in Markdown.
        proof: The proof; empty for a measurement.
    """

    document: str
    section: str
    what: Bilingual
    theirs: Bilingual
    ours: Bilingual
    card: Bilingual | None
    source: str
    proof: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a proof came to.

    Attributes:
        failed: What failed; empty where nothing did.
        skipped: Why parts of it were not run here.
        tests: How many tests, or steps of a story, ended well.
        seconds: How long they took, by the clock.
    """

    failed: str = ""
    skipped: tuple[str, ...] = ()
    tests: int = 0
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether all of it ran and nothing failed."""
        return not self.failed and not self.skipped


def read(text: str) -> tuple[dict[str, Bilingual], list[Row]]:
    """Return the titles of the documents, by key, and the rows in order.

    Raises:
        TableError: a key is unknown or lacking, or a value has no meaning.
    """
    data: dict[str, Any] = loads(text)
    titles = {key: Bilingual(entry["en"], entry["zh"]) for key, entry in data["document"].items()}
    rows = []
    for key, entry in data["document"].items():
        for row in entry["row"]:
            number = row.get("number")
            if unknown := row.keys() - KEYS:
                raise TableError(f"row {number}: unknown {', '.join(sorted(unknown))}")
            if lacking := {"number", "section", "en", "zh", "use", "status"} - row.keys():
                raise TableError(f"row {number}: lacks {', '.join(sorted(lacking))}")
            if row["status"] not in STATUSES:
                raise TableError(f"row {number}: {row['status']} is no status")
            reason = Bilingual(row["reason"], row["reason_zh"]) if "reason" in row else None
            if (reason is None) != (row["status"] in ("works", "rehearsed")):
                raise TableError(
                    f"row {number}: a reason belongs to what a card has to prove, is missing or has another name"
                )
            proof = tuple(row.get("proof", ()))
            if not proof and row["status"] in ("works", "rehearsed", "named"):
                raise TableError(f"row {number}: {row['status']} without a proof")
            what = Bilingual(row["en"], row["zh"])
            is_part = row.get("tried", "") == "part"
            if is_part and not any(each.startswith(TRIALS) for each in proof):
                raise TableError(f"row {number}: a part is tried, and no proof is a trial")
            note = Bilingual(row["note"], row["note_zh"]) if "note" in row else None
            rows.append(Row(number, key, row["section"], what, row["use"], row["status"], proof, reason, note, is_part))
    if sorted(row.number for row in rows) != list(range(1, ROWS + 1)):
        raise TableError(f"the rows are not 1 to {ROWS}, each once")
    return titles, rows


def read_results(text: str, titles: Iterable[str]) -> list[Result]:
    """Return the results that the documents state, in order.

    Raises:
        TableError: a key is unknown or lacking, a document is not in the table, or nothing is its source.
    """
    results = []
    for entry in loads(text)["result"]:
        place = f"result {entry.get('document')} {entry.get('section')}"
        if unknown := entry.keys() - _RESULT_KEYS:
            raise TableError(f"{place}: unknown {', '.join(sorted(unknown))}")
        if entry.get("document") not in titles:
            raise TableError(f"{place}: no such document")
        if ("proof" in entry) == ("measured" in entry):
            raise TableError(f"{place}: either a proof or a measurement is its source")
        theirs, ours, card = (Bilingual(entry[name], entry[f"{name}_zh"]) if name in entry else None for name in _TEXTS)
        if theirs is None or ours is None:
            raise TableError(f"{place}: lacks theirs or ours")
        proof = entry.get("proof", "")
        source = f"`{proof}`" if proof else str(entry["measured"])
        what = Bilingual(entry["en"], entry["zh"])
        results.append(Result(entry["document"], entry["section"], what, theirs, ours, card, source, proof))
    return results


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """Return the names of the tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def problem_of(proof: str) -> str:
    """Return why nothing of this name can be run, or an empty text."""
    if proof.startswith("tests/"):
        file, _, name = proof.partition("::")
        if not (ROOT / file).is_file():
            return "no such file"
        return "" if not name or name in _tests_of(ROOT / file) else "no such test"
    first, *words = shlex.split(proof)
    if first == "story":
        pages = (ROOT / "docs" / lang / "stories" / f"{words[0]}.md" for lang in ("en", "zh"))
        return "" if all(page.is_file() for page in pages) else "no such story"
    if first != "torchferry" or not words:
        return "neither a test, a story nor a command of torchferry"
    return "" if words[0] in cli.list_commands(click.Context(cli)) else "no such command"


def proofs_of(rows: Iterable[Row]) -> list[str]:
    """Return each proof once, in the order in which they appear."""
    return list(dict.fromkeys(proof for row in rows for proof in row.proof))


class Kept:
    """The proofs that passed whole in a state of the files, in a file that each group of proofs is added to."""

    def __init__(self, path: Path, state: str) -> None:
        self._path = path
        self._state = state
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.passed: set[str] = set(kept["passed"]) if kept["state"] == state else set()
        except (OSError, ValueError, TypeError, KeyError):
            self.passed = set()  # none was written, or not whole: they run again

    def add(self, outcomes: dict[str, Outcome]) -> None:
        """Keep those of some outcomes that passed whole: what was skipped may run next time."""
        self.passed |= {proof for proof, outcome in outcomes.items() if outcome.is_whole}
        text = json.dumps({"state": self._state, "passed": sorted(self.passed)})
        beside = self._path.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._path)


def state_of(root: Path) -> str:
    """Return a digest of all that a proof may read: the files of a checkout, and the versions of what is installed."""
    digest = hashlib.sha256()
    for folder in ("docs", "examples", "src", "tests", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    installed = sorted(f"{entry.name} {entry.version}" for entry in distributions())
    digest.update("\n".join([sys.version, *installed]).encode())
    return digest.hexdigest()


def groups_of(proofs: Iterable[str]) -> list[list[str]]:
    """Return the proofs in groups that run together: the tests of one folder, or one story or command."""

    def key(proof: str) -> str:
        file = proof.partition("::")[0]
        return file.rpartition("/")[0] if proof.startswith("tests/") else proof

    return [list(group) for _, group in groupby(sorted(proofs, key=key), key=key)]


def run(
    proofs: Iterable[str], workers: int, kept: Kept, record: Callable[[dict[str, Outcome]], None]
) -> dict[str, Outcome]:
    """Run the proofs that did not pass yet, one group after the other, and return what each came to.

    `record` gets what each group came to, so that an interrupted run has its dates.
    """
    asked = list(proofs)
    outcomes = {proof: Outcome() for proof in asked if proof in kept.passed}
    if outcomes:
        print(f"{len(outcomes)} of {len(asked)} proofs passed before, with these files", flush=True)
    for group in groups_of(proof for proof in asked if proof not in outcomes):
        before = _processor_seconds()
        new = _tested(group, workers) if group[0].startswith("tests/") else {group[0]: _ended(group[0])}
        failed = sum(bool(outcome.failed) for outcome in new.values())
        what = group[0] if len(group) == 1 else f"{group[0].rpartition('/')[0]}: {len(group)} proofs"
        said = f"{failed} failed" if failed else "well"
        print(f"{what}: {said}, {_processor_seconds() - before:.1f} CPU s", flush=True)
        kept.add(new)
        _RAN.update(new)
        record(new)
        outcomes |= new
    return outcomes


def _ended(command: str) -> Outcome:
    """Run a story or a command and return what it came to."""
    first, *words = shlex.split(command)
    begin = ["tools/stories.py", "--language", "en"] if first == "story" else ["-m", first]
    before = time.monotonic()
    done = subprocess.run([sys.executable, *begin, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    took = round(time.monotonic() - before, 1)
    if not done.returncode:
        skipped = [line.strip() for line in done.stdout.splitlines() if line.startswith("  skipped ")]
        # what needs a card or a public repository is not what a row rests on
        here = [line for line in skipped if not line.endswith((stories.NEEDS_CARD, stories.NOT_FETCHED))]
        return Outcome("", tuple(here), 1, took)
    last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
    first = next((line.strip() for line in done.stdout.splitlines() if _DIFFERENT.match(line)), last)  # of a story
    return Outcome(f"ended with {done.returncode}: {first}", seconds=took)


_DIFFERENT = re.compile(r"  (?:\+(?!\+\+)|\S+:\d+: .* ended with )")
"""A line in which `tools/stories.py` says what a page's command printed instead, or how it ended."""


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tested(tests: list[str], workers: int) -> dict[str, Outcome]:
    """Run tests and return what each name came to: a file and its tests may both be named."""
    whole = {test for test in tests if "::" not in test}
    asked = [test for test in tests if test in whole or test.partition("::")[0] not in whole]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        beside = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 else []
        options = ["-q", *beside, "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHFERRY_TEST_DOCUMENTS": "1"}
        subprocess.run([sys.executable, "-m", "pytest", *options, *asked], cwd=ROOT, check=False, env=environment)
        cases = list(ElementTree.parse(report).getroot().iter("testcase")) if report.exists() else []  # noqa: S314 - pytest wrote it
    found: dict[str, list[ElementTree.Element]] = {}
    for case in cases:
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "").partition("[")[0]
        for proof in (file, f"{file}::{name}"):
            found.setdefault(proof, []).append(case)
    return {test: _came_to(found.get(test, [])) for test in tests}


def _came_to(cases: list[ElementTree.Element]) -> Outcome:
    """Return what the cases of one test came to."""
    if not cases:
        return Outcome("was not run")
    failed = [
        case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
    reasons = tuple(dict.fromkeys(skip.get("message", "") for skip in skips))
    said = f"{len(failed)} of {len(cases)} failed: {', '.join(failed)}" if failed else ""
    took = round(sum(float(case.get("time", 0)) for case in cases), 1)
    return Outcome(said, reasons, len(cases) - len(failed) - len(skips), took)


def runs() -> dict[str, Any]:
    """Return what ran: for each proof the date, `passed`, `part` or why it failed, how many tests, and the seconds."""
    try:
        recorded: dict[str, Any] = json.loads(RUNS.read_text(encoding="utf-8"))
    except OSError:
        return {}
    return recorded


def keep(outcomes: dict[str, Outcome], rows: list[Row], today: str) -> None:
    """Write down what ran; a proof that passed before, with these files, keeps its date."""
    recorded = runs()
    for proof, outcome in outcomes.items():
        state = outcome.failed or ("part" if outcome.skipped else "passed")
        if recorded.get(proof, {}).get("state") != state or proof in _RAN:
            recorded[proof] = {
                "date": today, "state": state[:200], "tests": outcome.tests, "seconds": outcome.seconds
            }  # fmt: skip
    named = set(proofs_of(rows))
    kept = {proof: entry for proof, entry in sorted(recorded.items()) if proof in named}
    beside = RUNS.with_suffix(".new")  # an interrupted run must not leave half a record
    beside.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(RUNS)


_RAN: set[str] = set()
"""The proofs that ran in this process."""


def page(titles: dict[str, Bilingual], rows: list[Row], lang: str) -> str:
    """Return the page in a language."""

    def word(name: str) -> str:
        return WORDS[name].render(lang)

    return "\n".join(_lines(titles, rows, lang, {name: word(name) for name in WORDS})) + "\n"


def _lines(titles: dict[str, Bilingual], rows: list[Row], lang: str, word: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the page."""
    statuses = {name: text.render(lang) for name, text in STATUSES.items()}
    stated = read_results(RESULTS.read_text(encoding="utf-8"), titles)
    recorded = runs()
    printed = sum(row.is_as_printed for row in rows)
    in_part = sum(row.is_tried for row in rows) - printed
    numbers = {"printed": printed, "rows": len(rows), "parts": in_part, "others": len(rows) - printed - in_part}
    tried = word["printed"].format(**numbers, **Counter({"named": 0, "card": 0}) | Counter(row.status for row in rows))
    states = Counter(
        entry["state"] if entry["state"] in ("passed", "part") else "failed" for entry in recorded.values()
    )
    apart = [entry for proof, entry in recorded.items() if proof.partition("::")[0] not in recorded.keys() - {proof}]
    ran = word["ran"].format(
        tests=sum(entry.get("tests", 0) for entry in apart),
        minutes=round(sum(entry.get("seconds", 0) for entry in apart) / 60),
        date=max((entry["date"] for entry in recorded.values()), default="-"),
        passed=states["passed"],
        parts=states["part"],
        failed=states["failed"],
        never=sum(proof not in recorded for proof in proofs_of(rows)),
    )
    yield f"# {word['title']}\n\n{word['head']}\n\n{tried}\n\n{ran}\n\n{word['legend'].format(**statuses)}\n"
    counts = {key: Counter(row.status for row in rows if row.document == key) for key in titles}
    yield f"| | {' | '.join(statuses.values())} |\n|---|{'---|' * len(statuses)}"
    for key, title in titles.items():
        yield f"| {title.render(lang)} | {' | '.join(str(counts[key][name]) for name in statuses)} |"
    total = Counter(row.status for row in rows)
    yield f"| **{len(rows)}** | {' | '.join(f'**{total[name]}**' for name in statuses)} |"
    for key, title in titles.items():
        yield f"\n## {title.render(lang)}\n"
        heads = ("section", "what", "use", "status", "proof", "last")
        yield f"| | {' | '.join(word[name] for name in heads)} |\n{'|---' * 7}|"
        for row in rows:
            if row.document == key:
                status = statuses[row.status]
                if row.reason is not None:
                    status += f"{word['colon']}{row.reason.render(lang)}"
                if row.note is not None:
                    status += f"<br>{row.note.render(lang)}"
                proofs = "<br>".join(f"`{proof}`" for proof in row.proof)
                entries = [recorded.get(proof) for proof in row.proof]
                known = [entry for entry in entries if entry is not None]
                if any(entry["state"] not in ("passed", "part") for entry in known):
                    status = f"{word['red']}<br>{status}"
                last = min((entry["date"] for entry in known), default="") if len(known) == len(entries) else ""
                what = row.what.render(lang)
                last = last or word["unrun"]
                yield f"| {row.number} | {row.section} | {what} | {row.use} | {status} | {proofs} | {last} |"
        yield from _result_lines([each for each in stated if each.document == key], lang, word)
    yield f"\n{word['made']}"


def _result_lines(results: list[Result], lang: str, word: dict[str, str]) -> Iterator[str]:
    """Yield the results of one document beside ours."""
    if not results:
        return
    heads = ("section", "what", "theirs", "ours", "card_shows", "source")
    yield f"\n### {word['results']}\n\n| {' | '.join(word[name] for name in heads)} |\n{'|---' * len(heads)}|"
    for each in results:
        card = "" if each.card is None else each.card.render(lang)
        texts = (each.section, *(text.render(lang) for text in (each.what, each.theirs, each.ours)), card, each.source)
        yield f"| {' | '.join(texts)} |"


def stale(titles: dict[str, Bilingual], rows: list[Row], *, write: bool) -> list[Path]:
    """Return the pages that were not as the table says, and write them where asked."""
    different = []
    for lang in ("en", "zh"):
        path = ROOT / "docs" / lang / "coverage.md"
        text = page(titles, rows, lang)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            different.append(path)
            if write:
                path.write_text(text, encoding="utf-8")
    return different


def span(text: str) -> range:
    """Return the numbers of rows that `FIRST-LAST` means.

    Raises:
        ValueError: it means none.
    """
    first, _, last = text.partition("-")
    numbers = range(int(first), int(last) + 1)
    if not numbers or numbers[0] < 1 or numbers[-1] > ROWS:
        raise ValueError(text)
    return numbers


def main() -> int:
    """Run the proofs, or write or compare the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help="write the pages and run nothing")
    choice.add_argument("--check", action="store_true", help="compare the pages and run nothing")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="run the proofs of these rows alone")
    parser.add_argument("--rows", type=span, metavar="FIRST-LAST", help="run the proofs of the rows between these")
    parser.add_argument("--trials", action="store_true", help="run the proofs that try what the documents print")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that run tests")
    parser.add_argument("--again", action="store_true", help="run what passed before too")
    arguments = parser.parse_args()
    titles, rows = read(TABLE.read_text(encoding="utf-8"))
    pages = stale(titles, rows, write=arguments.write)
    if arguments.check or arguments.write:
        for path in pages:
            print(f"{path.relative_to(ROOT)} {'is stale' if arguments.check else 'is written'}")
        return int(bool(arguments.check and pages))
    wanted = {*(arguments.only or ()), *(arguments.rows or ())}
    chosen = [row for row in rows if not wanted or row.number in wanted]
    path = Path(sys.prefix) / "coverage.json"
    if arguments.again:
        path.unlink(missing_ok=True)
    proofs = [proof for proof in proofs_of(chosen) if not arguments.trials or proof.startswith(TRIALS)]
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    outcomes = run(proofs, arguments.workers, Kept(path, state_of(ROOT)), lambda new: keep(new, rows, today))
    keep(outcomes, rows, today)
    stale(titles, rows, write=True)
    return report(chosen, outcomes)


def report(rows: list[Row], outcomes: dict[str, Outcome]) -> int:
    """Print which rows are proven, and return 1 when one is not."""
    proven = Counter[str]()
    red = 0
    for row in rows:
        ran = {proof: outcomes[proof] for proof in row.proof if proof in outcomes}
        failed = [f"{proof}: {outcome.failed}" for proof, outcome in ran.items() if outcome.failed]
        skipped = [reason for outcome in ran.values() for reason in outcome.skipped]
        if not ran and row.status != "missing":
            continue
        if failed:
            red += 1
            print(f"RED  row {row.number} ({row.what.render('en')}): {'; '.join(failed)}")
            continue
        if skipped:
            print(f"part row {row.number}: not run here: {'; '.join(dict.fromkeys(skipped))}")
        proven[row.status] += 1
    counts = ", ".join(f"{count} {name}" for name, count in proven.items())
    print(f"{len(rows)} rows, {len(outcomes)} proofs: {counts}; {red} red")
    return int(red > 0)


if __name__ == "__main__":
    sys.exit(main())
