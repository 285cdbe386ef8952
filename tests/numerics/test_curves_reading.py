"""What is read from the logs that people have: one line of each kind, then whole files with their troubles."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import pytest

from tests.counted_calls import grows_linearly
from torchferry.core import toml
from torchferry.core.errors import TorchferryError
from torchferry.numerics.curves.curve import Curve, Habits, curve_of, shown
from torchferry.numerics.curves.reading import TrainingLog, Wanted, read
from torchferry.numerics.curves.records import lines, plain

Row = tuple[str, float, float | None, float | None, int | None]

CASES = toml.load(Path(__file__).with_name("curves.toml"))
LINES = [(case["name"], case["text"], case["rows"]) for case in CASES["line"]]
FILES = [(case["title"], case["name"], case["metric"], case["text"], case["points"]) for case in CASES["file"]]


def rows(log: TrainingLog) -> list[Row]:
    """Return the points of a log by metric, as rows."""
    found = []
    for name, ranks in log.points.items():
        for rank, points in ranks.items():
            for epoch, step, value in zip(points.epochs, points.steps, points.values, strict=True):
                found.append(
                    (name, value, None if math.isnan(epoch) else epoch, None if math.isnan(step) else step, rank)
                )
    return found


def told(row: Row) -> str:
    """Return a row as a text, so that NaN is equal to NaN, and 1 to 1.0."""
    return " ".join(part if isinstance(part, str) else "-" if part is None else f"{part:g}" for part in row)


def written(folder: Path, text: str | bytes, name: str = "a.log") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def curve(log: TrainingLog, metric: str = "loss", habits: Habits = Habits()) -> Curve:  # noqa: B008
    return curve_of(log.points[metric], habits)


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_line(tmp_path: Path, text: str, wanted: list[Row]) -> None:
    log = read(written(tmp_path, text + "\n"), Wanted(every=True, form="text"))
    assert sorted(map(told, rows(log))) == sorted(map(told, wanted))


@pytest.mark.parametrize("name", [row[0] for row in LINES if any("loss" in sample[0] for sample in row[2])])
def test_a_line_gives_the_same_loss_when_only_losses_are_looked_for(tmp_path: Path, name: str) -> None:
    text = next(row[1] for row in LINES if row[0] == name)
    path = written(tmp_path, text + "\n")
    every = [told(row) for row in rows(read(path, Wanted(every=True, form="text"))) if "loss" in row[0]]
    assert every == [told(row) for row in rows(read(path, Wanted(form="text"))) if "loss" in row[0]]


@pytest.mark.parametrize(
    ("name", "metric", "text", "wanted"), [row[1:] for row in FILES], ids=[row[0] for row in FILES]
)
def test_a_file(tmp_path: Path, name: str, metric: str, text: str, wanted: list[list[object]]) -> None:
    found = curve(read(written(tmp_path, text, name), Wanted((plain(metric),))), plain(metric))
    assert [[shown(key, found.form), value] for key, value in zip(found.keys, found.values, strict=True)] == wanted


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    log = read(written(tmp_path, "step 1 loss: 0.5\nstep 2 loss: 0"), Wanted())
    assert [str(what) for what in log.troubles] == ["the last line is incomplete; its loss: 0 was not used"]
    log = read(written(tmp_path, "step,loss\n1,0.5\n2\n", "a.csv"), Wanted())
    assert "1 cell and not 2" in str(log.troubles[0])


ENCODINGS = ["utf-8-sig", "utf-16", "utf-8"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, end: str, packed: bool) -> None:
    data = f"step 1 损失 loss: 0.5{end}step 2 loss: 0.25{end}".encode(encoding)
    log = read(written(tmp_path, gzip.compress(data) if packed else data), Wanted())
    assert curve(log).values == (0.5, 0.25)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = read(
        written(tmp_path, b"\xff\xfe\x00\xff broken\nstep 1 loss: 0.5 \xc3\x28\nstep 2 loss: 0.25\x00\n"[3:]), Wanted()
    )
    assert curve(log).values == (0.5, 0.25)


def test_a_very_long_line_is_cut_and_the_next_one_read(tmp_path: Path) -> None:
    path = written(tmp_path, "x" * 3_000_000 + " loss: 9\nstep 1 loss: 0.5\n")
    assert curve(read(path, Wanted())).values == (0.5,)
    assert max(len(line.text) for line in lines(path)) == 1 << 18


def test_ranks(tmp_path: Path) -> None:
    text = "".join(f"step {step} rank {rank} loss: {step}.{rank}\n" for step in (1, 2) for rank in (3, 1))
    log = read(written(tmp_path, text), Wanted())
    assert curve(log).values == (1.1, 2.1)
    assert "only rank 1 is used (see --rank); 1 other wrote" in str(curve(log).notes[0])
    assert curve(log, habits=Habits(rank=3)).values == (1.3, 2.3)
    with pytest.raises(
        TorchferryError, match=r"rank 0 has no value of this metric in the log; .*ranks in the log: 1, 3"
    ):
        curve(log, habits=Habits(rank=0))


@pytest.mark.parametrize(("repeated", "value"), [("last", 3.0), ("first", 1.0), ("mean", 2.0)])
def test_several_values_at_one_step(tmp_path: Path, repeated: str, value: float) -> None:
    log = read(written(tmp_path, "step 1 loss: 1.0\nstep 1 loss: 2.0\nstep 1 loss: 3.0\nstep 2 loss: 0.5\n"), Wanted())
    found = curve(log, habits=Habits(repeated=repeated))
    assert found.values == (value, 0.5)
    assert "2 values repeat a step" in str(found.notes[0])


def test_a_restart_can_be_taken_for_an_epoch_and_the_other_way(tmp_path: Path) -> None:
    log = read(written(tmp_path, "step 1 loss: 4\nstep 2 loss: 3\nstep 1 loss: 2\n"), Wanted())
    assert curve(log, habits=Habits(restarts="epoch")).values == (4, 3, 2)
    assert curve(log, habits=Habits(restarts="replace")).values == (2,)


def event_file(scalars: list[tuple[str, int, float]]) -> bytes:
    """Write an event file as TensorBoard does, without its checksums."""

    def field(number: int, kind: int, data: bytes) -> bytes:
        size = bytes([len(data)]) if kind == 2 else b""
        return bytes([number << 3 | kind]) + size + data

    events = [field(1, 1, struct.pack("<d", 1.5)) + field(3, 2, b"brain.Event:2")]
    for tag, step, value in scalars:
        summary = field(1, 2, field(1, 2, tag.encode()) + field(2, 5, struct.pack("<f", value)))
        events.append(field(1, 1, struct.pack("<d", 1.5)) + field(2, 0, bytes([step])) + field(5, 2, summary))
    return b"".join(struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0" for event in events)


def test_event_files(tmp_path: Path) -> None:
    data = event_file([("train/loss", 1, 0.5), ("lr", 1, 0.1), ("train/loss", 2, 0.25)])
    path = written(tmp_path, data, "events.out.tfevents.1")
    assert curve(read(path, Wanted()), "train loss").values == (0.5, 0.25)
    assert curve(read(tmp_path, Wanted()), "train loss").keys == ((0.0, 1.0), (0.0, 2.0))
    path.write_bytes(data[:-9])
    log = read(path, Wanted())
    assert curve(log, "train loss").values == (0.5,)
    assert "ends in the middle" in str(log.troubles[0])
    path.write_bytes(data[:30] + b"\xff" * 40)
    assert not read(path, Wanted()).points


REFUSED = [
    ("a.json", '{"log_history": [{"loss": 1', "is not valid"),
    ("a.json", '{"a": 1}', ""),
    ("a.json", "[1, 2]", "contains no training records"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_documents_that_are_none(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path, text, name)
    if message:
        with pytest.raises(TorchferryError, match=message):
            read(path, Wanted())
    else:
        assert "loss" not in read(path, Wanted()).points


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TorchferryError, match="cannot read"):
        read(tmp_path / "none.log", Wanted())
    with pytest.raises(TorchferryError, match="without an event file"):
        read(tmp_path, Wanted())
    with pytest.raises(TorchferryError, match="cannot read"):
        read(written(tmp_path, b"\x1f\x8b broken", "a.gz"), Wanted())
    for name in ("results.csv", "trainer_state.json"):
        written(tmp_path, "", name)
    with pytest.raises(TorchferryError, match=r"contains several logs: .*results\.csv"):
        read(tmp_path, Wanted())


HOSTILE = [
    "a" * 200_000, "loss" * 50_000, "loss " * 40_000, "loss:" * 40_000, "[" * 200_000, "1" * 200_000, " " * 200_000,
    "epoch [" * 30_000, "step " * 40_000, "rank" * 50_000, "'" * 200_000, "a.b/" * 50_000, "loss: 1 " * 20_000,
    "|" * 200_000, "x | " * 50_000, '{"' * 100_000, '{"a":' * 30_000, "\x1b[" * 60_000, "loss: 1e" * 20_000,
    "epoch 1 step 1 rank 1 loss: 1 " * 6_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_no_line_takes_more_than_linear_time(tmp_path: Path, text: str) -> None:
    def work(part: str) -> None:
        read(written(tmp_path, f"loss {part} loss\n"), Wanted(every=True, form="text"))

    assert grows_linearly(work, text)
