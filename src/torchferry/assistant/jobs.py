"""The commands that run for a client: each is a job with a name, which can be waited for, asked about and cancelled.

A request ends when its answer is sent or when the client gives up, often after a minute; a command may take hours. So
every command runs in a task of the server. A request waits for it for less than a minute, and then answers with the
name of the job. When the server ends, for whatever reason, so do all jobs.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

import anyio
import anyio.abc

from torchferry.assistant.commands import CommandOutput
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say

USUAL_WAIT, LONGEST_WAIT = 45, 55
"""Seconds that a call waits for its job; clients end a request after 60."""

_REPORT_EVERY = 5.0
"""Seconds between two lines about a job that a client waits for."""

_MOST_ENDED = 64
"""Ended jobs whose answers are kept; the oldest goes first."""

_MOST_AT_ONCE = max(2, os.cpu_count() or 1)
"""Commands that run at the same time; a scan uses all processors by itself."""


class JobState(Enum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job:
    """One command that runs, or has run, for a client.

    Attributes:
        name: What a client calls it, such as `rehearse-2`.
        tool: The tool that started it.
        state: How far it is.
        error: Why it failed, as the client is told.
        output: What the command prints.
        question: What tells it from other jobs that would have another result; empty where each has its own.
        waiting: How many requests wait for it.
        is_known: Whether a client was given its name, and may ask for it later.
    """

    def __init__(self, name: str, tool: str, question: tuple[str, ...] = ()) -> None:
        self.question = question
        self.waiting = 0
        self.is_known = False
        self.name = name
        self.tool = tool
        self.state = JobState.WAITING
        self._document = b""
        self.error = ""
        self.output = CommandOutput()
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._begun = time.monotonic()
        self._seconds: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._ended.is_set()

    @property
    def seconds(self) -> float:
        """How long it has taken until now, or in all."""
        return round(time.monotonic() - self._begun if self._seconds is None else self._seconds, 1)

    def document(self) -> dict[str, Any]:
        """Return what came of it, a new one each time; it is packed until then, since few are asked for twice."""
        read: dict[str, Any] = parsed_json(zlib.decompress(self._document).decode())
        return read

    def line(self) -> str:
        """Return what a person would see of it now."""
        if self.state is JobState.WAITING:
            return say("waits for other jobs to end").render()
        return self.output.line() or say("`{tool}` runs", tool=self.tool).render()

    def cancel(self) -> None:
        """End it, with all that it started; what it was writing is taken back."""
        self._scope.cancel()

    async def wait_or_end(self, seconds: float, report: Callable[[float, str], Awaitable[None]]) -> None:
        """Wait as `wait` does; it ends where the client gives up, nobody else waits, and nobody could ask for it."""
        self.waiting += 1
        try:
            await self.wait(seconds, report)
        except anyio.get_cancelled_exc_class():
            if self.waiting == 1 and not self.is_known:
                self.cancel()
            raise
        finally:
            self.waiting -= 1

    async def wait(self, seconds: float, report: Callable[[float, str], Awaitable[None]]) -> None:
        """Wait for its end, but not longer than some seconds; a line about it is reported every five.

        Args:
            seconds: How long.
            report: Gets how many seconds it has run, and the line.
        """
        end = time.monotonic() + seconds
        pause = 1.0
        while not self.is_over and (left := end - time.monotonic()) > 0:
            with anyio.move_on_after(min(pause, left)):
                await self._ended.wait()
                return
            pause = _REPORT_EVERY
            await report(self.seconds, self.line())

    async def run(self, work: Callable[[Job], Awaitable[dict[str, Any]]], limiter: anyio.CapacityLimiter) -> None:
        """Do its work; any error of it is the job's alone."""
        try:
            with self._scope:
                async with limiter:
                    self.state = JobState.RUNNING
                    self._document = zlib.compress(json.dumps(await work(self)).encode(), 1)
                    self.state = JobState.DONE
        except TorchferryError as error:
            self.state = JobState.FAILED
            self.error = "\n".join(text.render() for text in (error.message, error.advice) if text is not None)
        except Exception as error:  # else it would end the server, and every other job
            self.state = JobState.FAILED
            self.error = say("internal error: {error}", error=f"{type(error).__name__}: {error}").render()
        finally:
            if self.state in (JobState.WAITING, JobState.RUNNING):
                self.state = JobState.CANCELLED
            self._seconds = time.monotonic() - self._begun
            self._ended.set()


class Jobs:
    """All jobs of a server.

    Args:
        group: The tasks of the server: when they are cancelled, the jobs end.
    """

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._jobs: dict[str, Job] = {}
        self._limiter = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._numbers: dict[str, int] = {}

    def start(self, tool: str, work: Callable[[Job], Awaitable[dict[str, Any]]], question: tuple[str, ...] = ()) -> Job:
        """Start a job of a tool, or return the one under way that answers the same question.

        Args:
            tool: Its name.
            work: Does the work, and returns the document that answers are made of.
            question: As that of `Job`.
        """
        for job in self._jobs.values():
            if question and job.question == question and not job.is_over:
                return job
        over = [job.name for job in self._jobs.values() if job.is_over]
        for name in over[: max(0, len(over) - _MOST_ENDED + 1)]:
            del self._jobs[name]
        self._numbers[tool] = self._numbers.get(tool, 0) + 1
        job = Job(f"{tool}-{self._numbers[tool]}", tool, question)
        self._jobs[job.name] = job
        self._group.start_soon(job.run, work, self._limiter)
        return job

    def named(self, name: str) -> Job:
        """Return a job.

        Raises:
            TorchferryError: there is none of that name.
        """
        if name in self._jobs:
            return self._jobs[name]
        names = ", ".join(list(self._jobs)[-10:])
        raise TorchferryError(
            say("there is no job `{name}`", name=name[:80]),
            say("there are: {names}", names=names) if names else say("no tool has started one yet"),
        )

    def all(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        return list(self._jobs.values())
