"""Work that is shared by processes which are forks of this one: each begins with everything that is loaded already.

They take numbers from pipes, which keeps all of them busy to the end whatever the parts cost, and hand back what they
found when these are empty. A process that hangs is ended, and one that the system killed has ended: what it had done is
lost, and who shared the work does it again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

from torchferry.core.messages import Message
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple

Found = TypeVar("Found")

WAIT = 10.0
"""Seconds of one wait for a process. While we are stopped ourselves, by Ctrl-Z, not more than one can pass."""

WAITS = 90
"""Waits without a part begun or anything handed back, after which a process is ended."""

NOWHERE = 0xFFFFFFFF

ALONE = 1.5
"""Seconds of the processor for which this process works alone: what it finds then, those that join it have, too."""

WORTH = 4.0
"""Seconds that what is left must be thought to take for others to join. Much is found once for all programs, and each
process finds it for itself: with two processes from the start a scan of LLaMA-Factory took 7.0 s of the processor, and
5.0 s with one."""

ROOM = 4096
"""Numbers that a pipe holds for certain, four bytes each (the smallest pipe that Linux makes is 4 pages)."""


class Child(NamedTuple):
    """A process that works.

    Attributes:
        pid: Its number.
        results: Where what it found is read.
        place: Shared with it: how many parts it began, and two numbers that tell at which part it is.
    """

    pid: int
    results: int
    place: memoryview


class Collected(NamedTuple):
    """What came of a process: what it found, None where it did not reach its end; and whether it was ended."""

    results: object = None
    is_hung: bool = False


def queue(numbers: Iterable[int]) -> int:
    """Return a pipe that holds some numbers, at most `ROOM`, to be read from."""
    reading, writing = os.pipe()
    for number in numbers:
        os.write(writing, number.to_bytes(4, "little"))
    os.close(writing)
    return reading


def taken(*queues: int) -> Iterator[int]:
    """Yield numbers from one pipe after the other until they are empty; one read takes one, whoever else reads."""
    for each in queues:
        while data := os.read(each, 4):
            yield int.from_bytes(data, "little")


def fork(work: Callable[[memoryview], object]) -> Child:
    """Start a process that works, and hands back what it found; it is given where it says how far it is."""
    import mmap  # imported late, as `pickle` is below: few runs have so many files

    place = memoryview(mmap.mmap(-1, 12)).cast("I")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading, place)
    status = 1
    try:
        os.close(reading)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        results = work(place)
        place[1] = NOWHERE
        import pickle  # imported late, here and below: each process by itself, while the other works

        with os.fdopen(writing, "wb") as file:
            pickle.dump(results, file, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's must run here: no handlers, no buffers


def collect(child: Child) -> Collected:
    """Return what a child found; nothing when it did not reach its end, and it is ended when it does not go on."""
    data = _read(child)
    if data is None:
        os.kill(child.pid, signal.SIGKILL)
    os.close(child.results)
    _, status = os.waitpid(child.pid, 0)
    if data is None or status != 0:
        return Collected(is_hung=data is None)
    import pickle

    return Collected(pickle.loads(data))  # noqa: S301 - written by our own child


def end(children: Iterable[Child]) -> None:
    """End processes whose results nobody waits for any more."""
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
        os.close(child.results)
        os.waitpid(child.pid, 0)


def _read(child: Child) -> bytes | None:
    """Return what a child hands back; None where it does not go on."""
    import select

    poll = select.poll()  # `select` takes no numbers above 1023
    poll.register(child.results, select.POLLIN)
    parts: list[bytes] = []
    waits, begun = 0, 0
    while waits < WAITS:
        if poll.poll(WAIT * 1000):
            waits = 0
            data = os.read(child.results, 1 << 20)
            if not data:
                return b"".join(parts)
            parts.append(data)
        elif child.place[0] != begun:
            waits, begun = 0, child.place[0]
        else:
            waits += 1
    return None


def alone_at_first(
    sizes: Sequence[int], work: Callable[[int], Found], together: Callable[[int], list[Found]], title: Message
) -> list[Found]:
    """Return what comes of pieces of work, done one after the other, and the rest together where that takes long.

    Args:
        sizes: How large the pieces are, by any measure.
        work: Does one, by its number.
        together: Does those from a number on; returns nothing where they are to be done one after the other.
        title: What is shown meanwhile.
    """
    results: list[Found] = []
    begun, is_alone = time.process_time(), not hasattr(os, "fork")
    with doing(title, len(sizes)) as shown:
        while len(results) < len(sizes):
            spent, done = time.process_time() - begun, len(results)
            expected = spent * sum(sizes[done:]) / max(sum(sizes[:done]), 1)
            if not is_alone and spent >= ALONE and expected >= WORTH:
                is_alone = True
                results += together(done)
                continue
            results.append(work(done))
            shown.add()
    return results


def shared_out(
    work: Callable[[int], Found], own: Iterable[int], shared: Iterable[int], processes: int, title: Message
) -> dict[int, Found]:
    """Return what comes of pieces of work, by their numbers, as far as the processes came to their end.

    Args:
        work: Does one.
        own: Those that this process does, one after the other.
        shared: Those that any process may do.
        processes: How many there are, with this one.
        title: What is shown meanwhile.
    """
    first, then = queue(own), queue(shared)
    children: list[Child] = []
    done: dict[int, Found] = {}

    def part(place: memoryview) -> dict[int, Found]:
        results: dict[int, Found] = {}
        for number in taken(then):
            place[0], place[1] = place[0] + 1, number
            results[number] = work(number)
        return results

    try:
        children.extend(fork(part) for _ in range(processes - 1))
        places = [child.place for child in children]
        with doing(title) as shown:
            for number in taken(first, then):
                done[number] = work(number)
                shown.reach(len(done) + sum(place[0] for place in places))
            while children:
                results = collect(children[-1]).results
                children.pop()
                done |= cast("dict[int, Found]", results or {})
    finally:
        os.close(first)
        os.close(then)
        end(children)
    return done
