"""What a recording keeps, what it leaves alone, and what it survives."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from torch import Tensor, nn

from tests.numerics.recorded import Told, record
from torchferry.core.errors import TorchferryError
from torchferry.numerics.recording import Recorder
from torchferry.numerics.recording.generators import GeneratorWatch
from torchferry.numerics.recording.sketching import Hasher, Sketches, sketched_of
from torchferry.numerics.runlog.layout import SAMPLE, WIDTH
from torchferry.numerics.runlog.record import RecordedRows, RecordedStep, read_record

pytestmark = pytest.mark.rehearsal


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def steps(folder: Path) -> list[RecordedStep]:
    return read_record(folder).ranks[0].steps


def rows(step: RecordedStep) -> RecordedRows:
    found = step.rows()
    assert found is not None
    return found


def test_a_step_has_what_the_run_was_given_and_what_it_made(tmp_path: Path, device: str) -> None:
    first = steps(record(tmp_path / "r", Told(device=device)))[0]
    found = rows(first)
    places = {(key.phase, key.module, key.base) for key in found.keys}
    assert ("forward", "Language.blocks.0.attention.qkv", "addmm") in places
    assert ("backward", "Language.blocks.2.up", "mm") in places
    assert ("parameter", "Language.blocks.1.up.weight", "") in places
    assert ("gradient", "Language.head.bias", "") in places
    assert [batch.name for batch in first.batch] == ["Language(0)", "nll_loss_forward target"]
    assert len(first.batch[0].hashes) == len(first.batch[1].hashes) == 4
    assert first.optimizers["AdamW"][0]["lr"] == 1e-3
    assert ("optimizer state", "Language.head.bias", "exp_avg_sq") in places
    assert ("update", "Language.head.bias", "AdamW") in places
    assert "gradient norm" in first.numbers
    assert {draw.module for draw in first.draws} == {f"Language.blocks.{n}.dropout" for n in range(3)}
    assert all(0.8 < draw.rate < 1.0 for draw in first.draws)
    assert len(first.draws) == 3
    assert len(first.hashes) == len(list(nn.Module.parameters(_language())))
    [loss] = first.loss
    assert found.shapes[loss] == ()
    assert 3.0 < found.sketch[loss][0] < 6.0


def _language() -> nn.Module:
    from tests.numerics.recorded import Language

    return Language(Told())


def test_rows_say_which_rows_they_used(tmp_path: Path) -> None:
    found = rows(steps(record(tmp_path / "r", Told(dropout=0.0)))[0])
    gelu = next(row for row, key in enumerate(found.keys) if key.base == "gelu")
    [up] = found.inputs[gelu]
    assert found.keys[up].module == "Language.blocks.0.up"


def test_the_program_is_the_same_with_and_without(tmp_path: Path, device: str) -> None:
    def run(folder: Path | None) -> tuple[list[float], torch.Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(16, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = torch.randn(4, 5, 8)
        losses = []

        def train() -> None:
            for batch in data:
                optimizer.zero_grad()
                loss = model(batch.to(device)).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())

        if folder is None:
            train()
        else:
            with Recorder(folder) as recorder:
                train()
                recorder.step()
        return losses, torch.rand(4)

    plain, recorded = run(None), run(tmp_path / "r")
    assert plain[0] == recorded[0]
    assert torch.equal(plain[1], recorded[1])


def read(sketches: Sketches) -> tuple[Tensor, Tensor]:
    """Return sketches and sums so that the place that `put` gave is their index; one below 0 counts from the end."""
    _, made, sums, copies = sketches.read()
    if not copies.lengths:
        return made.view(-1, WIDTH), sums
    also, its = sketched_of(torch.cat(copies.blocks), copies.lengths)
    return torch.cat([made.view(-1, WIDTH), also.flip(0)]), torch.cat([sums, its.flip(0)])


@pytest.mark.parametrize("count", [1, 60, 61, 62, 122, 4000, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_small_tensors_have_the_sketch_that_the_device_would_make(count: int, dtype: torch.dtype) -> None:
    sketches = Sketches(torch.device("cpu"))
    tensors = [torch.randn(count, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in range(3)]
    copied = [sketches.put(tensor) for tensor in tensors]
    whole, sums = read(sketches)
    while sketches.put(torch.zeros(1)) < 0:
        pass  # until no copy has room
    made = [sketches.put(tensor) for tensor in tensors]
    assert min(made) >= 0 > max(copied)
    again, others = read(sketches)
    assert torch.allclose(whole[copied], again[made], atol=1e-4)
    assert torch.allclose(sums[copied], others[made], atol=1e-2)


@pytest.mark.parametrize("shape", [(64, 64), (3, 5), (100, 7, 13), (1 << 17, 64), (65, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_distances_are_estimated_from_sketches(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    sketches = Sketches(torch.device("cpu"))
    a = torch.randn(shape, generator=generator)
    b = a + 0.1 * torch.randn(shape, generator=generator)
    a, b = a.to(dtype), b.to(dtype)
    first, second = sketches.put(a), sketches.put(b.t() if b.dim() == 2 else b)
    if b.dim() == 2:
        second = sketches.put(b.t().contiguous().t())  # laid out the other way round: the same numbers
    found, sums = read(sketches)
    true = (a.float() - b.float()).norm()
    assert (found[first] - found[second]).norm() == pytest.approx(float(true), rel=0.35)
    if a.numel() >= WIDTH:
        assert float(sums[first]) == pytest.approx(float(a.reshape(-1)[:SAMPLE].float().sum()), rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("wide", [16, 32, 64, 96, 128, 256, 512])
@pytest.mark.parametrize("many", [2, 4, 8, 32])
def test_equal_samples_do_not_cancel_in_a_sketch(many: int, wide: int) -> None:
    sketches = Sketches(torch.device("cpu"))
    sample = torch.randn(wide, generator=torch.Generator().manual_seed(0)).repeat(many, 1)
    place = sketches.put(sample)
    assert read(sketches)[0][place].norm() == pytest.approx(float(sample.norm()), rel=0.5)


def test_sketches_without_products_are_the_same() -> None:
    sketches = Sketches(torch.device("cpu"))
    tensor = torch.randn(5000, 64)
    first = sketches.put(tensor)
    sketches.coarse = True
    second = sketches.put(tensor)
    found, _ = read(sketches)
    assert torch.allclose(found[first], found[second], atol=1e-3)


def test_products_that_round_are_noticed() -> None:
    sketches = Sketches(torch.device("cpu"))
    assert not sketches.coarse
    assert not sketches.judge([1.0] * WIDTH, [1.001] * WIDTH)
    assert sketches.coarse


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.bool, torch.float32, torch.bfloat16, torch.complex64]
)
def test_hashes_are_the_same_on_every_device(dtype: torch.dtype, device: str) -> None:
    drawn = torch.randn(9, 5000, generator=torch.Generator().manual_seed(0)) * 100
    tensor = drawn > 0 if dtype is torch.bool else drawn.to(dtype)
    hasher = Hasher()
    here, there = hasher.rows(tensor), hasher.rows(tensor.to(device)).cpu()
    assert torch.equal(here, there)
    assert len(set(here.tolist())) == 9
    assert torch.equal(hasher.rows(tensor.flip(0)), here.flip(0))
    changed = tensor.clone()
    changed[3, 4999] = ~changed[3, 4999] if dtype is torch.bool else changed[3, 4999] + 1
    assert (hasher.rows(changed) != here).tolist() == [n == 3 for n in range(9)]
    assert hasher.whole(tensor).tolist() != hasher.whole(changed).tolist()


def test_long_tensors_are_hashed_in_pieces() -> None:
    tensor = torch.arange(3 * (1 << 20) + 5)
    changed = tensor.clone()
    changed[-1] += 1
    assert Hasher().whole(tensor).tolist() != Hasher().whole(changed).tolist()


def test_later_steps_leave_a_line(tmp_path: Path) -> None:
    found = steps(record(tmp_path / "r", Told(steps=7), first=2, every=5))
    assert [bool(step.file) for step in found] == [True, True, False, False, False, True, False]
    assert all(step.batch and step.optimizers and "gradient norm" in step.numbers for step in found)


def test_the_limit_ends_the_recording_and_not_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "r", Told(), limit=250_000)
    assert sum(one.stat().st_size for one in (folder / "rank-0").iterdir()) <= 250_000
    assert "limit" in capfd.readouterr().err
    assert 0 < len(steps(folder)) < 4


def test_a_full_disk_ends_the_recording_and_not_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        folder = record(tmp_path / "r", Told())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shown = capfd.readouterr().err
    assert "the recording ends here; the program continues" in shown
    assert not [one for one in (folder / "rank-0").iterdir() if one.name.endswith(".part")]


def test_what_was_recorded_is_there_after_each_step(tmp_path: Path) -> None:
    model, optimizer = nn.Linear(4, 4), None
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "r") as recorder:
        for number in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            recorder.step()
            assert len(steps(tmp_path / "r")) == number + 1


def test_a_record_is_not_overwritten(tmp_path: Path) -> None:
    record(tmp_path / "r", Told(steps=1))
    with pytest.raises(TorchferryError, match="already contains a record"):
        record(tmp_path / "r", Told(steps=1))


def test_chosen_modules_are_kept_whole(tmp_path: Path) -> None:
    step = steps(record(tmp_path / "r", Told(steps=1), tensors=["*.attention"]))[0]
    found = rows(step)
    kept = {row: whole for row in range(len(found.keys)) if (whole := step.kept(row)) is not None}
    assert {found.keys[row].module for row in kept} == {f"Language.blocks.{n}.attention" for n in range(3)}
    assert all(kept[row].shape == found.shapes[row] for row in kept)


def test_a_forward_on_memory_that_nobody_wrote_to_is_left_out(tmp_path: Path, device: str) -> None:
    model = nn.Linear(3, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "r") as recorder:
        model(torch.empty(7, 3).to(device))  # to count its operations
        written = torch.empty(4, 3)
        written.fill_(0.5)
        model(written.to(device)).sum().backward()
        optimizer.step()
        recorder.step()
        notes = recorder.stop()["notes"]
    [step] = steps(tmp_path / "r")
    assert "unwritten" in notes
    assert [len(batch.hashes) for batch in step.batch] == [4]
    assert (4, 3) in rows(step).shapes
    assert (7, 3) not in rows(step).shapes


def test_memory_that_is_written_to_without_a_count_is_recorded(tmp_path: Path) -> None:
    def receive(into: torch.Tensor) -> None:
        into.data.fill_(2.0)

    received = torch.library.Library("torchferry_tests", "DEF")
    received.define("receive(Tensor(a!) into) -> ()")
    received.impl("receive", receive, "CPU")
    model = nn.Linear(3, 3)
    with Recorder(tmp_path / "r") as recorder:
        torch.empty(2, 3, layout=torch.sparse_coo)
        torch.empty(2, 3, device="meta")
        with torch.inference_mode():
            torch.empty(2, 3)
        buffer = torch.empty(2, 3)
        torch.ops.torchferry_tests.receive(buffer)
        model(buffer)
        recorder.step()
        assert recorder.stop()["notes"] == []
    [step] = steps(tmp_path / "r")
    assert [len(batch.hashes) for batch in step.batch] == [2]


def test_what_a_loss_is_given_of_the_models_results_is_no_batch(tmp_path: Path, device: str) -> None:
    model, loss = nn.Linear(3, 3).to(device), nn.BCEWithLogitsLoss()
    labels = torch.rand(4, 3).to(device)
    with Recorder(tmp_path / "r", first=1, every=0) as recorder:
        for _ in range(2):
            out = model(torch.ones(4, 3).to(device))
            own = torch.zeros(4, 3).to(device)
            own[:, 0] = out[:, 0].detach().sigmoid()
            (loss(out, own) + loss(out, labels)).backward()
            recorder.step()
    first, second = ([batch.name for batch in step.batch] for step in steps(tmp_path / "r"))
    assert first == ["Linear(0)", "BCEWithLogitsLoss(1)"]
    assert second == ["Linear(0)"]  # its operators are not recorded


def test_what_cannot_be_sketched_is_counted(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        a = torch.eye(4).to_sparse()
        torch.sparse.mm(a, a)
        torch.empty(0).sin()
        torch.empty(3, device="meta").sin()
        torch.fft.fft(torch.randn(100))
        torch.randn(3).sin()
        torch.relu(torch.tensor([float("nan"), float("inf")]))
        recorder.step()
        result = recorder.stop()
    assert any("sparse" in name for name in result["skipped"])
    assert {"sin", "relu"} <= {key.base for key in rows(steps(tmp_path / "r")[0]).keys}


def test_what_goes_into_a_graph_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No card captures here: a device that says it does, for the second of three steps, and forbids every look."""
    captures = False
    monkeypatch.setattr("torchferry.numerics.recording.recorder.capturing", lambda: captures)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    recorder = Recorder(tmp_path / "r")
    recorder.start(by_optimizer=True)
    for step in range(3):
        captures = step == 1
        with monkeypatch.context() as while_captured:
            if captures:
                while_captured.setattr("torchferry.numerics.recording.recorder.norm", None)
                while_captured.setattr("torchferry.numerics.recording.recorder.StepFiles", None)
            optimizer.zero_grad()
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    result = recorder.stop()
    assert result["captured"] > 2
    assert (result["steps"], result["notes"]) == (2, [])
    assert [step.rows() is not None for step in steps(tmp_path / "r")] == [True, True]


def test_an_error_of_the_program_passes_through(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)

    def train() -> None:
        with Recorder(tmp_path / "r"):
            model(torch.ones(2, 4))
            model(torch.ones(2, 5))

    with pytest.raises(RuntimeError, match="shapes"):
        train()
    assert len(steps(tmp_path / "r")) == 1
    assert not model._forward_hooks
    torch.ones(2).sin()


def test_a_fault_of_the_recording_does_not_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(Sketches, "put", broken)
    monkeypatch.setattr(Sketches, "__init__", lambda *_: None)
    monkeypatch.setattr(Sketches, "used", False)
    model = nn.Linear(4, 4)
    with Recorder(tmp_path / "r") as recorder:
        assert model(torch.ones(2, 4)).shape == (2, 4)
        recorder.step()
    assert (
        "a part of the run cannot be recorded; the rest is recorded: RuntimeError: no such kernel"
        in capfd.readouterr().err
    )


def test_memory_and_names_do_not_grow_with_steps(tmp_path: Path) -> None:
    import gc

    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    with Recorder(tmp_path / "r", first=3, every=1) as recorder:
        counts = []
        for _ in range(30):
            model(torch.ones(2, 8)).sum().backward()
            recorder.step()
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[8] < 200


def test_end_says_how_it_ended(tmp_path: Path) -> None:
    folder = record(tmp_path / "r", Told(steps=2))
    found = json.loads((folder / "rank-0" / "end.json").read_text())
    assert found["steps"] == 2
    assert found["ended"] == ""


def test_parquet_needs_pyarrow_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(TorchferryError, match="pyarrow") as failed:
        record(tmp_path / "r", Told(steps=1), form="parquet")
    assert failed.value.lines()[1:] == ["`pip install pyarrow`"]
    assert not (tmp_path / "r").exists()


def test_a_table_has_the_rows_and_their_numbers(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    torch.manual_seed(0)
    few, many, both = torch.randn(5, 4), torch.randn(40, 30), torch.randn(7, 6, dtype=torch.complex64)
    with Recorder(tmp_path / "r", first=1, form="parquet"):
        made = [few * 2, many.abs(), both * 1j]
    rows = parquet.read_table(tmp_path / "r/rank-0/step-00000000.parquet").to_pylist()
    assert [(row["operator"], row["shape"], row["step"]) for row in rows] == [
        ("aten.mul.Tensor", [5, 4], 0),
        ("aten.abs", [40, 30], 0),
        ("aten.mul.Tensor", [7, 6], 0),
    ]
    assert rows[0]["norm"] == pytest.approx(float(made[0].norm()))
    assert [row["norm"] for row in rows[1:]] == pytest.approx([float(one.norm()) for one in made[1:]], rel=0.3)
    numbers = [*made[:2], torch.view_as_real(made[2])]
    assert [row["sum"] for row in rows] == pytest.approx([float(one.sum()) for one in numbers], rel=1e-5)


def test_steps_end_with_the_optimizers_where_nobody_says_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def train(recorder: Recorder, told: bool) -> None:
        torch.manual_seed(0)
        model = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            if told:
                recorder.step()

    for name in ("told", "untold"):
        with Recorder(tmp_path / name) as recorder:
            train(recorder, name == "told")
        assert ("`step()` was not called" in capfd.readouterr().err) is (name == "untold")
    one, other = steps(tmp_path / "told"), steps(tmp_path / "untold")
    assert len(one) == len(other) == 4
    assert [len(rows(step).keys) for step in one] == [len(rows(step).keys) for step in other]


def _restored(steps: str, kind: str) -> bool:
    watch = GeneratorWatch()
    watch.start()
    try:
        exec(steps, {"torch": torch, "__name__": "program"})
    finally:
        watch.stop()
    return watch.forgotten(kind)


RESUMED = {
    "the CPU alone": ("torch.set_rng_state(torch.get_rng_state())", "npu", True),
    "by the module of random numbers": ("torch.random.set_rng_state(torch.get_rng_state())", "npu", True),
    "on the CPU": ("torch.set_rng_state(torch.get_rng_state())", "cpu", False),
    "nothing": ("torch.manual_seed(0)", "npu", False),
    "torch's own": ("with torch.random.fork_rng(devices=[]): torch.randn(1)", "npu", False),
    "CUDA's, too": ("torch.set_rng_state(torch.get_rng_state()); torch.cuda.set_rng_state_all([])", "cuda", False),
    "CUDA's first": ("torch.cuda.set_rng_state_all([]); torch.set_rng_state(torch.get_rng_state())", "cuda", False),
}


@pytest.mark.parametrize(("steps", "kind", "forgotten"), RESUMED.values(), ids=RESUMED)
def test_a_resumed_run_that_leaves_the_generators_of_its_device_is_seen(steps: str, kind: str, forgotten: bool) -> None:
    places = [(torch, "set_rng_state"), (torch.random, "set_rng_state"), (torch, "_register_device_module")]
    before = [getattr(module, name) for module, name in places]
    assert _restored(steps, kind) is forgotten
    assert [getattr(module, name) for module, name in places] == before
