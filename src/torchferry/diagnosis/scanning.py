"""One pass over the logs: which entries of the tables their lines match, who wrote them, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchferry.backends.errors import ErrorMatch, KnownError
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say, say_plural
from torchferry.core.progress import Work, doing
from torchferry.core.record import NamedTuple
from torchferry.diagnosis.error_marks import MARKS, is_marked
from torchferry.diagnosis.inputs import Block, LogFile, LogReader, NotRead
from torchferry.diagnosis.literals import DIGITS, MOST_FORMS, LiteralSearch
from torchferry.diagnosis.places import NOBODY, LineWriter, Moment, moment_of, plain, writer_of_line, writer_of_path
from torchferry.diagnosis.tracebacks import BEGIN, LONGEST_TRACEBACK, RaisedError, read_ending, read_traceback

FIRST_FAILURE = "(first observed failure)"
"""How torch's launcher begins to tell which process ended first."""

LONGEST_EXCERPT = 600
"""Letters of a line that are kept of it, around what was found in it."""

_LONGEST_ENDING = 1 << 14
"""Bytes of one of the last lines of a log that are read."""

_PREFIX = lazy_regex(
    r"^(?:(?:\[[^\]\n]{1,60}\]|\([^()\n]{1,60}\)|(?:ERROR|INFO|WARNING|CRITICAL)|[\d:.,T-]{2,30}(?: [+-]\d{4})?):? )+"
)
"""What precedes a line: ranks, processes, times and levels; not the spaces by which a frame is known."""

_LOOKED_BACK = 40
"""Lines before one in which its time is looked for where it has none itself."""

MOST_OF_KIND = 5000
"""Lines of a file with the same literals that are looked at and counted; a log can repeat one error for days.

Of further lines that no entry matched so far, those are looked at that differ in more than their digits.
"""

MOST_UNEXPLAINED = 20
"""Lines that are marked as errors and that no entry matches, of which more are counted only."""

_SUMMARY = lazy_regex(r"^\W*(?P<key>time|host|rank|exitcode|error_file|traceback) *: (?P<value>.{1,200})")
_NUMBER = lazy_regex(r"-?\d{1,9}")
_SUMMARY_LINES = 6
"""Lines that the summary of one rank has at most."""


class Sighting(NamedTuple):
    """The first line of a stream that an entry matches; a stream is what one process wrote into one file.

    Attributes:
        match: The entry, and what its groups matched.
        file: The log.
        line: Its number, from 1; 0 where lines before it were not read.
        at: Its place among all lines that were read, for the order within a file.
        text: What the line says, shortened.
        writer: Who wrote it.
        moment: When, by the line or one shortly before it; None where neither says.
    """

    match: ErrorMatch
    file: LogFile
    line: int
    at: int
    text: str
    writer: LineWriter
    moment: Moment | None

    @property
    def entry(self) -> KnownError:
        """The entry of the tables."""
        return self.match.entry


class _LinePlace(NamedTuple):
    """Where a line stands; the fields are those of `Sighting`."""

    file: LogFile
    line: int
    at: int


class UnexplainedLine(NamedTuple):
    """A line that is marked as an error and that no entry matches; the fields are those of `Sighting`."""

    file: LogFile
    line: int
    at: int
    text: str
    writer: LineWriter
    moment: Moment | None


class Raised(NamedTuple):
    """An exception in a log, and where it stands; the fields are those of `Sighting`.

    Attributes:
        is_known: Whether an entry matches its line.
    """

    error: RaisedError
    file: LogFile
    line: int
    at: int
    text: str
    writer: LineWriter
    moment: Moment | None
    is_known: bool


class EndedFirst(NamedTuple):
    """The process that torch's launcher saw end first."""

    rank: int | None
    host: str
    exit_code: int | None
    pid: int | None


class Scan:
    """What the logs say.

    Attributes:
        sightings: For each entry and stream the first line.
        counts: How many lines of a stream an entry matches, by its key and the stream; no more than `MOST_OF_KIND`.
        raised: Exceptions, of each kind and place the first of a stream.
        ended_first: What launchers saw end first.
        unexplained: The first lines that are marked as errors and that no entry matches; no more than
            `MOST_UNEXPLAINED`.
        unexplained_count: How many such lines there are.
        lines: How many lines were read.
    """

    def __init__(self, reader: LogReader, entries: Iterable[KnownError]) -> None:
        self.reader = reader
        self.sightings: list[Sighting] = []
        self.counts: dict[tuple[str, str, LineWriter], int] = {}
        self.raised: list[Raised] = []
        self.ended_first: list[EndedFirst] = []
        self.unexplained: list[UnexplainedLine] = []
        self.unexplained_count = 0
        self.lines = 0
        self._by_literal: dict[str, list[KnownError]] = {}
        for entry in entries:
            for literal in entry.literals:
                self._by_literal.setdefault(literal, []).append(entry)
        self._marks = MARKS - self._by_literal.keys()
        self._search = LiteralSearch([*self._by_literal, BEGIN, FIRST_FAILURE, *MARKS])
        self._kinds: dict[tuple[str, frozenset[str]], int] = {}
        self._unmatched_forms: set[bytes] = set()
        self._unlooked = 0
        self._known_kinds: set[tuple[str, frozenset[str]]] = set()
        self._exceptions: set[tuple[str, str, object]] = set()
        with doing(say("reading logs"), reader.expected, in_bytes=True) as work:
            for file in reader.files:
                self._file(file, work)

    def _file(self, file: LogFile, work: Work) -> None:
        named = writer_of_path(file.name)
        before: list[bytes] = []
        number = 0
        for block in _undivided(self.reader.blocks(file)):
            lines = block.data.split(b"\n")
            if not lines[-1]:
                del lines[-1]
            self._block(file, block, lines, named, before)
            before = [*before, *lines][-_LOOKED_BACK:]
            self.lines += len(lines)
            work.reach(self.reader.size)
            number = block.line + len(lines) if block.line else 0
        if self._unlooked:
            reason = say_plural(
                "{count} line like {most} others, which no entry knows",
                "{count} lines like {most} others, which no entry knows",
                count=self._unlooked,
                most=MOST_OF_KIND,
            )
            self.reader.not_read.append(NotRead(file.name, reason))
            self._unlooked = 0
        if not any(raised.file == file for raised in self.raised):
            self._ending(file, named, [decoded(raw[:_LONGEST_ENDING]) for raw in before], number)

    def _ending(self, file: LogFile, named: LineWriter, lines: Sequence[str], number: int) -> None:
        """Take the exception with which a log ends, of which no whole traceback was seen.

        Args:
            file: The log.
            named: Who wrote it, by its name.
            lines: Its last lines.
            number: The number of the line behind them; 0 where it is not known.
        """
        texts = [_PREFIX.sub("", plain(line), count=1) for line in lines]
        error = read_ending(texts)
        if error is None:
            return
        behind = len(lines) - error.length
        line = lines[error.length]
        found = [match for _, words in self._search.lines(line.encode()) for match in self._matches(words, line)]
        moment = moment_of(line) or _moment_before([each.encode() for each in lines[: error.length]])
        writer = writer_of_line(line).over(named)
        text = excerpt(line, error.kind)
        place = _LinePlace(file, max(0, number - behind), self.lines - behind)
        self.raised.append(Raised(error, *place, text, writer, moment, bool(found)))

    def _block(
        self, file: LogFile, block: Block, lines: Sequence[bytes], named: LineWriter, before: Sequence[bytes]
    ) -> None:
        for number, literals in self._search.lines(block.data):
            known = literals - self._marks
            if not known:
                self._mark(file, block, lines, number, named, before)
                continue
            kind = (file.name, frozenset(known))
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
            form = b""
            if self._kinds[kind] > MOST_OF_KIND:
                form = lines[number].translate(None, DIGITS)
                if kind in self._known_kinds or form in self._unmatched_forms:
                    continue
                if len(self._unmatched_forms) >= MOST_FORMS:
                    self._unlooked += 1
                    continue
            line = decoded(lines[number])
            matches = list(self._matches(literals, line))
            if not matches and BEGIN not in literals and FIRST_FAILURE not in literals:
                if form:
                    self._unmatched_forms.add(form)
                self._mark(file, block, lines, number, named, before)
                continue
            self._known_kinds.add(kind)
            place = _LinePlace(file, block.line + number if block.line else 0, self.lines + number)
            earlier = _lines_before(number, lines, before)
            writer = writer_of_line(line).over(_of_summary(line, earlier)).over(named)
            if BEGIN in literals:
                self._traceback(place, lines[number : number + LONGEST_TRACEBACK], earlier, writer)
            if FIRST_FAILURE in literals:
                self._summary([decoded(each) for each in lines[number : number + 10]])
            for match in matches:
                key = (match.entry.key, file.name, writer)
                self.counts[key] = self.counts.get(key, 0) + 1
                if self.counts[key] == 1:
                    moment = moment_of(line) or _moment_before(earlier)
                    text = excerpt(line, next(literal for literal in match.entry.literals if literal in literals))
                    self.sightings.append(Sighting(match, *place, text, writer, moment))

    def _mark(
        self,
        file: LogFile,
        block: Block,
        lines: Sequence[bytes],
        number: int,
        named: LineWriter,
        before: Sequence[bytes],
    ) -> None:
        """Take a line that no entry matches, where it is marked as an error."""
        line = decoded(lines[number][:_LONGEST_ENDING])
        if not is_marked(plain(line)):
            return
        self.unexplained_count += 1
        if len(self.unexplained) < MOST_UNEXPLAINED:
            moment = moment_of(line) or _moment_before(_lines_before(number, lines, before))
            place = _LinePlace(file, block.line + number if block.line else 0, self.lines + number)
            writer = writer_of_line(line).over(named)
            self.unexplained.append(UnexplainedLine(*place, excerpt(line, ""), writer, moment))

    def _matches(self, literals: set[str], line: str) -> Iterator[ErrorMatch]:
        entries = {entry.key: entry for literal in literals for entry in self._by_literal.get(literal, ())}
        text = plain(line)
        for entry in entries.values():
            match = entry.match_expression(text)
            if match is not None:
                yield match

    def _traceback(self, place: _LinePlace, raw: Sequence[bytes], earlier: Sequence[bytes], writer: LineWriter) -> None:
        lines = [decoded(each) for each in raw]
        error = read_traceback(lines)
        if error is None:
            return
        key = (place.file.name, error.kind, (error.message[:80], error.frame, writer))
        if key in self._exceptions or len(self._exceptions) > _MOST_EXCEPTIONS:
            return
        self._exceptions.add(key)
        line = lines[error.length]
        is_known = any(
            True for _, literals in self._search.lines(raw[error.length]) for _ in self._matches(literals, line)
        )
        moment = moment_of(lines[0]) or moment_of(line) or _moment_before(earlier)
        number = place.line + error.length if place.line else 0
        text = excerpt(line, error.kind)
        self.raised.append(Raised(error, place.file, number, place.at + error.length, text, writer, moment, is_known))

    def _summary(self, lines: Sequence[str]) -> None:
        values = {match["key"]: match["value"] for match in filter(None, map(_SUMMARY.search, lines))}
        numbers = {key: [int(each) for each in _NUMBER.findall(value)] for key, value in values.items()}
        rank, code = numbers.get("rank", []), numbers.get("exitcode", [])
        pid = code[1] if len(code) > 1 else None
        self.ended_first.append(
            EndedFirst(rank[0] if rank else None, values.get("host", "").strip(), code[0] if code else None, pid)
        )


_MOST_EXCEPTIONS = 10_000
_LONGEST_TRACEBACK = 1 << 16


def _undivided(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks of which none ends within a traceback or the summary of a launcher, where these are not too long."""
    rest = Block(b"", 0)
    for block in blocks:
        data, line = rest.data + block.data, rest.line if rest.data else block.line
        last = max(
            data.rfind(begin.encode(), max(0, len(data) - _LONGEST_TRACEBACK)) for begin in (BEGIN, FIRST_FAILURE)
        )
        cut = data.rfind(b"\n", 0, last) + 1 if last >= 0 else len(data)
        rest = Block(data[cut:], line + data.count(b"\n", 0, cut) if line else 0)
        if cut:
            yield Block(data[:cut], line)
    if rest.data:
        yield rest


def _lines_before(number: int, lines: Sequence[bytes], before: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines before one of a block; `before` are those before the block."""
    return [*before, *lines[:number]] if number < _LOOKED_BACK else lines[number - _LOOKED_BACK : number]


def decoded(raw: bytes) -> str:
    """Return a line as text: UTF-8, else the encoding of Chinese systems, else byte by byte."""
    try:
        return raw.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030").rstrip("\r")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace").rstrip("\r")


def excerpt(line: str, literal: str) -> str:
    """Return a line, or the part of a long one around a text in it."""
    if len(line) <= LONGEST_EXCERPT:
        return line
    start = max(0, line.find(literal) - LONGEST_EXCERPT // 4)
    end = start + LONGEST_EXCERPT
    return f"{'...' if start else ''}{line[start:end]}{'...' if end < len(line) else ''}"


def _of_summary(line: str, earlier: Sequence[bytes]) -> LineWriter:
    """Return of which rank a line of a launcher's summary speaks: a line shortly before it names the rank."""
    if _SUMMARY.search(line) is None:
        return NOBODY
    for raw in reversed(earlier[-_SUMMARY_LINES:]):
        match = _SUMMARY.search(decoded(raw[:LONGEST_EXCERPT]))
        if match is None:
            break
        if match["key"] == "rank":
            number = _NUMBER.search(match["value"])
            return NOBODY if number is None else LineWriter(rank=int(number[0]))
    return NOBODY


def _moment_before(lines: Sequence[bytes]) -> Moment | None:
    """Return the time of the last of some lines that has one; its text says that it is not the line's own."""
    for raw in reversed(lines):
        moment = moment_of(decoded(raw[:LONGEST_EXCERPT]))
        if moment is not None:
            return moment._replace(text=f"~{moment.text}")
    return None
