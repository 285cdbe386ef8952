"""Give mutated inputs to every reader of what others wrote, and say which end in anything but an error of ours.

python tools/fuzz.py                              10,000 inputs for each reader
python tools/fuzz.py --runs 100000 trace call     more, for some
python tools/fuzz.py --keep trace                 what finds a fault is made small and kept in tests/fuzz/corpus

Each reader runs in a process of its own, with limits of memory and of time for one input: these only end the process.
With Atheris (dependency group `fuzz`) inputs that reach new code are changed further; without it, inputs are made of
the seeds. The readers are those of tests/fuzz/readers.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

if TYPE_CHECKING:
    from tests.fuzz.faults import Fault
    from tests.fuzz.table import Reader

MEMORY = 6 << 30
"""Bytes that a reader's process may have."""

SECONDS = 300
"""Seconds after which an input is taken to hang, on the slowest machine."""

_DONE = re.compile(r"DONE\s+cov: (\d+) ft: (\d+)")
_TRIES = 400


class ReaderResult(NamedTuple):
    """What became of a reader: inputs, features of its code that they reached, and the faults."""

    name: str
    inputs: int
    features: int | None
    faults: tuple[str, ...]


def main() -> int:
    """Run; returns 1 when a reader has a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", help="names of readers (all)")
    parser.add_argument("--runs", type=int, default=10_000, help="inputs for each reader (10000)")
    parser.add_argument("--round", type=int, default=1, help="number of the round: another gives other inputs (1)")
    parser.add_argument("--keep", action="store_true", help="keep what finds a fault in tests/fuzz/corpus")
    parser.add_argument("--out", type=Path, help="folder for what finds a fault (a temporary one)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.readers[0], options.runs, options.round, options.out)
    from tests.fuzz.readers import READERS

    unknown = sorted(set(options.readers) - set(READERS))
    if unknown:
        parser.error(f"no such reader: {', '.join(unknown)}; known: {', '.join(READERS)}")
    out = options.out or Path(tempfile.mkdtemp(prefix="torchferry-fuzz-"))
    print(f"{'reader':<24}{'inputs':>8}{'features':>10}  faults", flush=True)
    count = 0
    for name in options.readers or READERS:
        if not READERS[name].is_available:
            print(f"{name:<24}{'-':>8}{'-':>10}  not run: it needs {', '.join(READERS[name].needs)}", flush=True)
            continue
        result = examined(name, options.runs, options.round, out)
        count += len(result.faults)
        features = "-" if result.features is None else result.features
        print(f"{name:<24}{result.inputs:>8}{features:>10}  {len(result.faults) or '-'}", flush=True)
        for fault in result.faults:
            print(f"  {fault}", flush=True)
        if options.keep and result.faults:
            keep(READERS[name], out / name)
    if count:
        print(f"the inputs and their tracebacks are in {out}")
    return min(count, 1)


def examined(name: str, runs: int, number: int, out: Path) -> ReaderResult:
    """Run one reader in its own process."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    words = [
        sys.executable,
        __file__,
        "--worker",
        "--runs",
        str(runs),
        "--round",
        str(number),
        "--out",
        str(folder),
        name,
    ]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd=ROOT)
    found = _DONE.search(done.stderr)
    said = re.findall(r"^inputs: (\d+)$", done.stdout, re.MULTILINE)
    inputs = runs if found else int(said[-1]) if said else 0
    if done.returncode or not (found or said):
        (folder / "ended").write_text(f"{done.stdout}\n{done.stderr[-20_000:]}", encoding="utf-8")
    faults = sorted(path.name for path in folder.iterdir() if path.suffix != ".trace")
    return ReaderResult(name, inputs, int(found[2]) if found else None, tuple(faults))


def work(name: str, runs: int, number: int, out: Path) -> int:
    """Be the process of one reader."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        import atheris
    except ImportError:
        return work_without_coverage(name, runs, number, out)
    _instrument_readers(atheris)
    from tests.fuzz.faults import fault_of
    from tests.fuzz.mutations import MOST_BYTES, mutated
    from tests.fuzz.readers import READERS

    reader = READERS[name]
    seeds = [*reader.kept(), *reader.seeds()]
    folder = Path(tempfile.mkdtemp(prefix="torchferry-fuzz-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for at, data in enumerate(seeds):
        (corpus / str(at)).write_bytes(data)
    places: dict[tuple[str, str], int] = {}

    def one_input(data: bytes) -> None:
        fault = fault_of(reader, data, folder)
        if fault is not None and len(data) < places.get((fault.what, fault.place), MOST_BYTES + 1):
            places[fault.what, fault.place] = len(data)
            report(fault, out)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        if seed % 4 == 0:
            return bytes(atheris.Mutate(data, most))
        return mutated(data, reader.form, seeds, Random(seed))[:most]  # noqa: S311 - the same inputs in each round

    limits = [
        f"-runs={runs}",
        f"-timeout={SECONDS}",
        f"-report_slow_units={10 * SECONDS}",
        f"-rss_limit_mb={MEMORY >> 20}",
        f"-max_len={MOST_BYTES}",
    ]
    words = [sys.argv[0], *limits, f"-seed={number}", f"-artifact_prefix={out}/", "-print_final_stats=0", str(corpus)]
    os.chdir(folder)
    atheris.Setup(words, one_input, custom_mutator=mutate)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _instrument_readers(atheris: Any) -> None:
    """Let every module of ours that is imported from now on count what it reaches: readers import late."""
    patch = atheris.import_hook.patch_code

    def patched(code: CodeType, *arguments: object, **more: object) -> CodeType:
        try:
            changed: CodeType = patch(code, *arguments, **more)
        except RuntimeError:  # Atheris does not know some instructions: such a module is read without counting
            return code
        return changed

    atheris.import_hook.patch_code = patched
    atheris.instrument_imports(include=["torchferry"]).__enter__()


def work_without_coverage(name: str, runs: int, number: int, out: Path) -> int:
    """Be the process of one reader where there is no Atheris."""
    from tests.fuzz.faults import round_of
    from tests.fuzz.readers import READERS

    with tempfile.TemporaryDirectory(prefix="torchferry-fuzz-") as folder:
        for fault in round_of(READERS[name], runs, number, Path(folder)):
            report(fault, out)
    print(f"inputs: {runs}")
    return 0


def report(fault: Fault, out: Path) -> None:
    """Write an input that found a fault, under the name of the fault."""
    name = re.sub(r"[^\w.-]+", "-", f"{fault.what}-{fault.place}")[:150]
    (out / name).write_bytes(fault.data)
    (out / f"{name}.trace").write_text(fault.trace or fault.place, encoding="utf-8", errors="backslashreplace")


def keep(reader: Reader, found: Path) -> None:
    """Put the inputs that found faults into the corpus, as small as they become."""
    from tests.fuzz.table import CORPUS

    for path in sorted(found.iterdir()):
        if path.suffix != ".trace" and path.name != "ended":
            data = smaller(reader, path.read_bytes())
            kept = CORPUS / reader.name / hashlib.sha256(data).hexdigest()[:16]
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)


def smaller(reader: Reader, data: bytes) -> bytes:
    """Return the input, less what the fault does not need."""
    from tests.fuzz.faults import fault_of

    with tempfile.TemporaryDirectory(prefix="torchferry-fuzz-") as folder:
        first = fault_of(reader, data, Path(folder))
        size, tries = max(1, len(data) // 2), 0
        while first is not None and size and tries < _TRIES:
            at = 0
            while at < len(data) and tries < _TRIES:
                less = data[:at] + data[at + size :]
                fault = fault_of(reader, less, Path(folder))
                tries += 1
                if fault is not None and (fault.what, fault.place) == (first.what, first.place):
                    data = less
                else:
                    at += size
            size //= 2
    return data


if __name__ == "__main__":
    sys.exit(main())
