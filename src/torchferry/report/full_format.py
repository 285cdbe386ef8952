"""A report as text with every finding: the verdict, the counts, the blockers, then the findings file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from torchferry.core.finding import Finding, Grade, Stage
from torchferry.core.messages import Message, say, say_plural, translatable
from torchferry.core.terminal import visible
from torchferry.installed.describing import evidence_message, package_message, state_message
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import VERDICT_GRADES, lines_of, unexamined_message, verdict_of
from torchferry.report.text_layout import Paint, plain
from torchferry.rules.mentions import WordAccount
from torchferry.rules.registry import family_title

GRADE_TITLES = {
    # translators: grade of a finding
    Grade.SAFE: translatable("safe fix"),
    # translators: grade of a finding: a fix that should be read before it is applied
    Grade.UNSAFE: translatable("fix to read"),
    # translators: grade of a finding: a person has to decide
    Grade.MANUAL: translatable("decision"),
    # translators: grade of a finding: nothing has to be done
    Grade.NOTE: translatable("note"),
}
"""What the grades are called."""

STAGE_TITLES = {
    Stage.REDIRECT: translatable("the redirect does it when the program runs"),
    Stage.MACHINE: translatable("it belongs to one machine"),
    Stage.ACCELERATOR: translatable("torch.accelerator offers less"),
    Stage.TORCHSCRIPT: translatable("TorchScript cannot compile it"),
    Stage.PATH: translatable("the project's module cannot be imported there"),
    Stage.GROUP: translatable("findings that change together"),
    Stage.PORT: translatable("it is ported"),
    Stage.DECIDED: translatable("a person has decided"),
}
"""Why a grade was changed after the rules."""

_MOST_BLOCKERS = 10
_MOST_PROGRAMS = 20
_MOST_UNEXAMINED = 20
_MOST_LINES = 6
"""Lines below one program; the JSON report has them all."""


def render(report: Report, lang: str) -> str:
    """Return the report as plain text, one finding a line."""
    return "".join(f"{line}\n" for line in lines(report, lang))


def head_lines(report: Report, lang: str) -> Iterator[str]:
    """Yield what is below the verdict: what was examined, the account of words, and what is assumed."""
    examined = say_plural(
        "{root}: {count} file examined for {target}",
        "{root}: {count} files examined for {target}",
        root=visible(report.root),
        count=report.files,
        target=report.target,
    )
    if all(judged.settled is None for judged in report.programs):
        examined = say("{examined}, nothing was run", examined=examined)
    yield examined.render(lang)
    if report.words.total:
        account = account_message(report.words)
        others = len(report.unresolved) - report.words.unresolved
        if others > 0:  # imports by a computed name, and places without a word
            account = say("{account}; other unresolved places: {count}", account=account, count=others)
        yield account.render(lang)
    for remark in report.remarks:
        yield visible(remark.render(lang))


def lines(report: Report, lang: str, paint: Paint | None = None, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        report: The report.
        lang: The language.
        paint: Colours a text by its kind (`verdict`, `path`, or a grade).
        verbose: Whether to show which grades were changed after the rules, and why.
    """
    paint = paint or plain
    yield paint(verdict_sentence(report).render(lang), "verdict")
    yield from head_lines(report, lang)
    yield from program_lines(report, lang, paint, verbose)
    if report.findings:
        yield ""
        yield from _table(report, lang)
    yield from blocker_lines(report, lang, paint)
    if report.native is not None:
        from torchferry.report.native import native_lines  # imported late: most projects have no C++

        yield ""
        yield from native_lines(report.native, lang, verbose)
    yield from package_lines(report, lang, paint)
    yield from unexamined_lines(report, lang, paint)
    yield from by_file(report.findings, lang, paint, verbose)
    if report.words.staying:
        yield ""
        yield from mention_lines(report, lang)
    yield from failure_lines(report, lang)


def account_message(words: WordAccount) -> Message:
    """Return what becomes of the words of CUDA, as a line."""
    return say(
        "CUDA words: {total} ({rewritten} with a fix, {reported} reported, {kept} that stay, {open} unresolved)",
        total=words.total,
        rewritten=words.rewritten,
        reported=words.reported - words.unresolved,
        kept=len(words.staying),
        open=words.unresolved,
    )


def program_lines(report: Report, lang: str, paint: Paint | None = None, verbose: bool = False) -> Iterator[str]:
    """Yield the programs with their verdicts, after an empty line; with `verbose` all, and all that is to be said."""
    paint = paint or plain
    if not report.programs:
        return
    yield ""
    yield paint(say("Programs:").render(lang), "path")
    shown = report.programs if verbose else report.programs[:_MOST_PROGRAMS]
    width = min(max(len(visible(judged.program.title)) for judged in shown), 40)
    for judged in shown:
        name, words = visible(judged.program.title), visible(verdict_of(judged).render(lang))
        yield f"  {name:{width}}  {paint(words, VERDICT_GRADES[judged.verdict])}"
        messages = list(lines_of(judged))
        shown_lines = messages if verbose else messages[:_MOST_LINES]
        yield from (f"      {visible(message.render(lang))}" for message in shown_lines)
        if len(messages) > len(shown_lines):
            yield f"      {say('... and {count} more', count=len(messages) - len(shown_lines)).render(lang)}"
    if len(report.programs) > len(shown):
        yield f"  {say('... and {count} more', count=len(report.programs) - len(shown)).render(lang)}"


def blocker_lines(report: Report, lang: str, paint: Paint | None = None) -> Iterator[str]:
    """Yield what blocks, after an empty line; nothing when nothing does."""
    paint = paint or plain
    if not report.blockers:
        return
    yield ""
    yield paint(say("What blocks:").render(lang), "manual")
    for finding in report.blockers[:_MOST_BLOCKERS]:
        yield f"  {visible(str(finding.location))} {finding.code} {visible(finding.message.render(lang))}"
    if len(report.blockers) > _MOST_BLOCKERS:
        yield say("  ... and {count} more", count=len(report.blockers) - _MOST_BLOCKERS).render(lang)


def package_lines(report: Report, lang: str, paint: Paint | None = None) -> Iterator[str]:
    """Yield what packages of the environment need a look, after an empty line; nothing where none was named."""
    paint = paint or plain
    if not report.packages:
        return
    yield ""
    telling = report.telling_packages
    title = say(
        "Packages of the environment: {count} reached, {told} to check", count=len(report.packages), told=len(telling)
    )
    yield paint(title.render(lang), "path")
    for package in telling:
        name = f"{package.package} {package.version}".rstrip()
        state = state_message(package.state).render(lang)
        yield visible(f"  {name}: {state}; {package_message(package).render(lang)}")
        forgotten = package.forgotten_generators
        if forgotten is not None and package.evidence[0] is not forgotten:
            yield visible(f"    {evidence_message(forgotten).render(lang)}")
        if package.chain:
            way = " -> ".join(map(str, package.chain))
            yield visible(f"    {say('reached by {chain}', chain=way).render(lang)}")


def unexamined_lines(report: Report, lang: str, paint: Paint | None = None) -> Iterator[str]:
    """Yield what was not looked at, after an empty line; nothing where everything was."""
    paint = paint or plain
    if not report.unexamined:
        return
    yield ""
    yield paint(say("Not examined:").render(lang), "path")
    for unexamined in report.unexamined[:_MOST_UNEXAMINED]:
        yield visible(f"  {unexamined_message(unexamined).render(lang)}")
    if len(report.unexamined) > _MOST_UNEXAMINED:
        yield f"  {say('... and {count} more', count=len(report.unexamined) - _MOST_UNEXAMINED).render(lang)}"


def failure_lines(report: Report, lang: str) -> Iterator[str]:
    """Yield on which files torchferry failed and how, each after an empty line."""
    for failure in report.failures:
        yield ""
        yield say(
            "torchferry failed on {path} because of a bug in torchferry; please report it:",
            path=visible(failure.path),
        ).render(lang)
        yield from (visible(line) for line in failure.what.rstrip().split("\n"))


def mention_lines(report: Report, lang: str) -> Iterator[str]:
    """Yield how many words of CUDA stay without a finding, and why."""
    yield say("CUDA words that stay as they are: {count}", count=len(report.words.staying)).render(lang)
    for kind, count in report.mentions_by_kind.items():
        yield f"{count:>10}  {say(kind.value).render(lang)}"


def by_file(findings: Iterable[Finding], lang: str, paint: Paint | None = None, verbose: bool = False) -> Iterator[str]:
    """Yield findings below the names of their files, with `verbose` also how their grades came about."""
    paint = paint or plain
    for path, of_file in groupby(findings, key=lambda finding: finding.location.path):
        yield ""
        yield paint(visible(path), "path")
        for finding in of_file:
            yield finding_line(finding, lang, paint)
            if verbose:
                yield from _regrading_lines(finding, lang)


def _regrading_lines(finding: Finding, lang: str) -> Iterator[str]:
    """Yield a line for each change of the grade: `    safe fix -> note: findings that change together`."""
    grades = [*(regrading.before for regrading in finding.regradings), finding.grade]
    for regrading, after in zip(finding.regradings, grades[1:], strict=True):
        before_title, after_title = (say(GRADE_TITLES[grade]).render(lang) for grade in (regrading.before, after))
        yield f"      {before_title} -> {after_title}: {say(STAGE_TITLES[regrading.stage]).render(lang)}"


def _table(report: Report, lang: str) -> Iterator[str]:
    """Yield a line for each family: how many findings of each grade."""
    grades = (Grade.SAFE, Grade.UNSAFE, Grade.MANUAL, Grade.NOTE)
    heads = [say(GRADE_TITLES[grade]).render(lang) for grade in grades]
    yield " ".join(f"{head:>10}" for head in heads)
    for name, counts in report.by_family.items():
        row = " ".join(f"{counts[grade] or '':>10}" for grade in grades)
        yield f"{row}  {name} {family_title(name).render(lang)}"


def finding_line(finding: Finding, lang: str, paint: Paint = plain) -> str:
    """Return a finding as one line, without its path."""
    place = finding.location
    cell = f"cell {place.cell}:" if place.cell else ""
    mark = say(GRADE_TITLES[finding.grade]).render(lang)
    return f"  {cell}{place.line}:{place.column} {finding.code} {visible(finding.message.render(lang))} " + paint(
        f"[{mark}]", finding.grade.value
    )


def statistics_lines(report: Report, lang: str) -> Iterator[str]:
    """Yield how many findings each rule has of each grade, the most first, behind the verdict."""
    from torchferry.report.pages import page  # imported late: other forms need no pages of rules

    yield verdict_sentence(report).render(lang)
    yield from head_lines(report, lang)
    counts = Counter((finding.code, finding.grade) for finding in report.findings)
    if counts:
        yield ""
    for (code, grade), count in sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1].value)):
        mark = say(GRADE_TITLES[grade]).render(lang)
        yield f"{count:>6}  {code}  {page(code, lang).title}  [{mark}]"
    yield from unexamined_lines(report, lang)
    yield from failure_lines(report, lang)
