"""Who wrote a line of a log, and when: rank, process, host and time, from the line and from the name of its file.

The forms are those of torchrun (`[rank0]:`, `[default0]:`, `attempt_0/3/stderr.log`), of srun (`3: `), of CANN
(`PID:1, Device:0, RankID:0`, `plog-1_2025.log`), of vLLM (`(Worker_TP0 pid=1)`), of Ray (`(Actor pid=1, ip=10.0.0.1)`),
of NCCL (`host:1:2 [0] NCCL`), and of `kubectl logs --prefix`, `docker compose logs`, syslog and `dmesg -T`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_ESCAPES = lazy_regex(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_RANK = lazy_regex(
    r"\[(?:rank|Rank|default) ?(?P<rank>\d{1,6})\]|\bRankID:(?P<cann>\d{1,6})\b|\brank[=:] ?(?P<word>\d{1,6})\b"
    r"|^ {0,4}(?P<label>\d{1,6}): "
)
_PROCESS = lazy_regex(r"\((?P<name>[A-Za-z][\w.]{0,60}) pid=(?P<pid>\d{1,9})(?:, ip=(?P<ip>[0-9a-fA-F.:]{3,40}))?\)")
_PID = lazy_regex(
    r"\bP(?:ID|id)[: ] ?(?P<pid>\d{1,9})\b|\(PID:(?P<cann>\d{1,9})|^\[\w+ *\] ?\w+\((?P<plog>\d{1,9}),"
    r"|\blocal_rank: \d{1,6} \(pid: (?P<launched>\d{1,9})\)"
)
_DEVICE = lazy_regex(r"\bDevice:(?P<device>\d{1,4})\b")
_HOST = lazy_regex(
    r"^\[pod/(?P<pod>[\w.-]{1,200})/[\w.-]{1,200}\] |^(?P<nccl>[\w.-]{1,100}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL "
    r"|^(?P<compose>[\w.-]{1,100}) {1,40}\| |^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "
    r"(?P<syslog>[\w.-]{1,100}) [\w./-]{1,60}(?:\[\d{1,9}\])?: "
)
_PATH_RANK = lazy_regex(
    r"(?:^|[/\\])attempt_\d{1,4}[/\\](?P<attempt>\d{1,6})[/\\]std(?:out|err)\.log$"
    r"|(?:^|[/\\_.-])(?:rank|worker|log)[_.-]?(?P<word>\d{1,6})(?=[/\\_.-]|$)"
)
_PATH_PID = lazy_regex(r"(?:^|[/\\])(?:plog|device)-(?P<pid>\d{1,9})_\d{8,20}\.log$")
_PATH_HOST = lazy_regex(r"(?:^|[/\\])(?P<host>(?:node|host|pod|server)[\w.-]{0,60})[/\\]")

_TIMES = (
    lazy_regex(
        r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _-]{1,2}(?P<time>\d\d:\d\d:\d\d)"
        r"(?:[.,:](?P<part>\d{1,9}))?"
        r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
    ),
    lazy_regex(r"\b[EWIF](?P<month>\d{1,2}?)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<part>\d{1,9})"),
    lazy_regex(r"\b[A-Z]{4,8} (?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)"),
    lazy_regex(r"\b(?P<name>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<time>\d\d:\d\d:\d\d)(?: (?P<year>\d{4}))?"),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PREFIX = 400
"""Letters of a line in which its prefix stands."""


class Moment(NamedTuple):
    """When a line was written.

    Attributes:
        seconds: Since 1970, by the clock of the host that wrote it; without a zone as if it were UTC.
        text: As the log has it; with `~` before it where a line shortly before the one that is meant says it.
        zone: Whether the log says the zone.
        year: Whether it says the year; without one it is taken to be 2000.
    """

    seconds: float
    text: str
    zone: bool
    year: bool


class LineWriter(NamedTuple):
    """Who wrote a line; what is not said is None or empty.

    Attributes:
        rank: The number of the rank, as the log has it; a launcher may count within a host.
        process: What a framework calls the process, such as `Worker_TP0`.
        pid: The number of the process.
        device: The number of its device.
        host: The host or the pod.
    """

    rank: int | None = None
    process: str = ""
    pid: int | None = None
    device: int | None = None
    host: str = ""

    def over(self, other: LineWriter) -> LineWriter:
        """Return this one, with what it does not say from another."""
        return LineWriter(
            self.rank if self.rank is not None else other.rank,
            self.process or other.process,
            self.pid if self.pid is not None else other.pid,
            self.device if self.device is not None else other.device,
            self.host or other.host,
        )


NOBODY = LineWriter()


def plain(line: str) -> str:
    """Return a line without the sequences that colour it, for reading; what is shown keeps them, escaped."""
    return _ESCAPES.sub("", line) if "\x1b" in line else line


def writer_of_path(name: str) -> LineWriter:
    """Return who wrote a file, by its name."""
    rank, pid, host = _PATH_RANK.search(name), _PATH_PID.search(name), _PATH_HOST.search(name)
    return LineWriter(
        rank=int(rank["attempt"] or rank["word"]) if rank else None,
        pid=int(pid["pid"]) if pid else None,
        host=host["host"] if host else "",
    )


def writer_of_line(line: str) -> LineWriter:
    """Return who wrote a line, by its beginning."""
    text = plain(line[:_PREFIX])
    rank, process, host = _RANK.search(text), _PROCESS.search(text), _HOST.match(text)
    pid, device = _PID.search(text), _DEVICE.search(text)
    number = next(filter(None, rank.groups()), None) if rank else None
    process_id = process["pid"] if process else next(filter(None, pid.groups()), None) if pid else None
    return LineWriter(
        rank=int(number) if number is not None else None,
        process=process["name"] if process else "",
        pid=int(process_id) if process_id else None,
        device=int(device["device"]) if device else None,
        host=next(filter(None, host.groups()), "") if host else (process["ip"] or "") if process else "",
    )


def moment_of(line: str) -> Moment | None:
    """Return when a line was written, by the first time in it; None where none is there."""
    text = plain(line[:_PREFIX])
    for form in _TIMES:
        match = form.search(text)
        if match is not None:
            moment = _moment(match.groupdict(), match[0])
            if moment is not None:
                return moment
    return None


def _moment(parts: dict[str, str | None], text: str) -> Moment | None:
    name, year, zone = parts.get("name"), parts.get("year"), parts.get("zone")
    if name is not None and name not in _MONTHS:
        return None
    month = _MONTHS.index(name) + 1 if name else int(parts.get("month") or 0)
    hours, minutes, seconds = map(int, str(parts["time"]).split(":"))
    try:
        day = datetime(
            int(year or 2000), month, int(parts["day"] or 0), hours, minutes, min(seconds, 59), tzinfo=timezone.utc
        )
    except ValueError:
        return None
    if zone and zone != "Z":
        shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        day = day - shift if zone[0] == "+" else day + shift
    part = parts.get("part") or "0"
    if not year and name is None:  # glog's `E1126 10:00:00.5`, vLLM's `ERROR 11-26 10:00:00`
        text = f"{day.month:02}-{day.day:02} {parts['time']}" + (f".{parts['part']}" if parts.get("part") else "")
    return Moment(day.timestamp() + int(part) / 10 ** len(part), text.strip(), bool(zone), bool(year))
