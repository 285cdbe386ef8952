"""Programs that race on a card, and programs that look as if they did and do not.

All of a table run one after another in one process, each in a function of its own; whatever one has left running is
waited for before the next begins. In a program that races, `# first` marks the line of what should have been waited
for, and `# second` the one that does not wait.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple


class Race(NamedTuple):
    """A program with one race.

    Attributes:
        subject: What is told.
        text: The program.
    """

    subject: str
    text: str


HOST_READS, HOST_OVERWRITES = "host reads too early", "host overwrites too early"
READS, OVERWRITES_READ = "stream reads too early", "stream overwrites what is read"
OVERWRITES_WRITTEN, FREED = "stream overwrites what is written", "memory freed too early"

WRONG: dict[str, Race] = {
    "the host computes with a copy": Race(
        HOST_READS,
        """
        y = x.to("cpu", non_blocking=True)  # first
        y.sum()  # second
        """,
    ),
    "a loss is read from a page-locked buffer": Race(
        HOST_READS,
        """
        logged = torch.empty((), pin_memory=True)
        logged.copy_(x.mean(), non_blocking=True)  # first
        print(logged.item())  # second
        """,
    ),
    "the event was recorded before the copy": Race(
        HOST_READS,
        """
        event = torch.npu.Event()
        event.record()
        y = x.to("cpu", non_blocking=True)  # first
        event.synchronize()
        y.sum()  # second
        """,
    ),
    "another stream was waited for": Race(
        HOST_READS,
        """
        with torch.npu.stream(side):
            side.wait_stream(main)
            y = x.to("cpu", non_blocking=True)  # first
        main.synchronize()
        x.record_stream(side)
        y.sum()  # second
        """,
    ),
    "a copy becomes a list": Race(
        HOST_READS,
        """
        y = x.to("cpu", non_blocking=True)  # first
        y.tolist()  # second
        """,
    ),
    "a copy becomes an array": Race(
        HOST_READS,
        """
        y = x.to("cpu", non_blocking=True)  # first
        y.numpy().sum()  # second
        """,
    ),
    "a checkpoint is saved while it is copied": Race(
        HOST_READS,
        """
        state = {"weight": x.to("cpu", non_blocking=True)}  # first
        torch.save(state, io.BytesIO())  # second
        """,
    ),
    "a page-locked buffer is filled again": Race(
        HOST_OVERWRITES,
        """
        buffer = torch.ones(8).pin_memory()
        for number in range(2):
            buffer.fill_(number)  # second
            batch = buffer.to("npu", non_blocking=True)  # first
        """,
    ),
    "a page-locked result is filled by the host": Race(
        HOST_OVERWRITES,
        """
        buffer = torch.ones(64, 64).pin_memory()
        buffer.copy_(x, non_blocking=True)  # first
        buffer.zero_()  # second
        """,
    ),
    "the result of another stream": Race(
        READS,
        """
        side.wait_stream(main)
        with torch.npu.stream(side):
            y = x + 1  # first
        y.record_stream(main)
        x.record_stream(side)
        z = y * 2  # second
        """,
    ),
    "the input of another stream": Race(
        READS,
        """
        y = x + 1  # first
        with torch.npu.stream(side):
            z = y * 2  # second
        main.wait_stream(side)
        """,
    ),
    "it waits before there is anything to wait for": Race(
        READS,
        """
        side.wait_stream(main)
        main.wait_stream(side)
        with torch.npu.stream(side):
            y = x @ x  # first
        y.record_stream(main)
        z = y.sum()  # second
        side.synchronize()
        """,
    ),
    "a prefetcher that does not wait": Race(
        READS,
        """
        batch = torch.ones(8, 4).pin_memory()
        with torch.npu.stream(side):
            batch = batch.npu(non_blocking=True)  # first
        batch.record_stream(main)
        layer(batch)  # second
        """,
    ),
    "the optimizer does not wait for the backward pass": Race(
        READS,
        """
        side.wait_stream(main)
        with torch.npu.stream(side):
            layer.weight.grad = torch.zeros(4, 4, device="npu")
            layer.weight.grad.add_(1)  # first
        layer.weight.grad.record_stream(main)
        torch.optim.SGD([layer.weight], lr=0.1).step()  # second
        layer.weight.grad = None
        """,
    ),
    "an average of the weights, on a stream of its own": Race(
        OVERWRITES_READ,
        """
        side.wait_stream(main)
        average = torch.zeros(4, 4, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            average.lerp_(layer.weight.detach(), 0.1)  # first
        with torch.no_grad():
            layer.weight.add_(0.1)  # second
        main.wait_stream(side)
        """,
    ),
    "two streams fill one buffer": Race(
        OVERWRITES_WRITTEN,
        """
        buffer = torch.empty(1000, device="npu")
        with torch.npu.stream(side):
            buffer[:600].fill_(1)  # first
        buffer[400:].fill_(2)  # second
        main.wait_stream(side)
        """,
    ),
    "torch's own streams and events": Race(
        READS,
        """
        stream, event = torch.Stream(device="npu"), torch.Event("npu")
        event.record(torch.accelerator.current_stream())
        y = x.exp()  # first
        stream.wait_event(event)
        with stream:
            z = y.sum()  # second
        y.record_stream(stream)
        """,
    ),
    "memory is given back while another stream reads": Race(
        FREED,
        """
        y = torch.ones(64, 64, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            z = y @ y  # first
        del y
        other = torch.full((64, 64), 2.0, device="npu")  # second
        """,
    ),
    "a prefetcher that does not keep its memory": Race(
        FREED,
        """
        def fetch():
            with torch.npu.stream(side):
                return torch.ones(8, 4).pin_memory().npu(non_blocking=True)  # second
        batch = fetch()
        for _ in range(2):
            main.wait_stream(side)
            layer(batch)  # first
            batch = None
            batch = fetch()
        """,
    ),
    "a collective that nobody waits for": Race(
        READS,
        """
        y = x.clone()
        work = torch.distributed.all_reduce(y, async_op=True)  # first
        z = y * 2  # second
        work.wait()
        """,
    ),
}

RIGHT: dict[str, str] = {
    "a copy that is waited for": """
        y = x.to("cpu", non_blocking=True)
        torch.npu.synchronize()
        y.sum(), y.tolist(), y.numpy().sum(), torch.save(y, io.BytesIO())
    """,
    "a copy behind whose event the host waits": """
        y = torch.empty(64, 64, pin_memory=True)
        event = torch.npu.Event()
        with torch.npu.stream(side):
            side.wait_stream(main)
            y.copy_(x, non_blocking=True)
            x.record_stream(side)
            event.record()
        event.synchronize()
        y.sum()
    """,
    "a copy that is asked for until it is there": """
        y = x.to("cpu", non_blocking=True)
        event = torch.npu.Event()
        event.record()
        while not event.query():
            pass
        y.sum()
    """,
    "a copy, and behind it a number that the host waits for": """
        y = x.to("cpu", non_blocking=True)
        x.sum().item()
        y.sum()
    """,
    "a copy that was not asked to be asynchronous, or cannot be": """
        y = x.to("cpu")
        y.sum()
        z = torch.empty(64, 64)
        z.copy_(x, non_blocking=True)
        z.sum()
        source = torch.ones(8)
        batch = source.to("npu", non_blocking=True)
        source.zero_()
    """,
    "batches on one stream": """
        for _ in range(4):
            batch = torch.ones(8, 4).pin_memory().npu(non_blocking=True)
            layer(batch).sum().backward()
            torch.optim.SGD(layer.parameters(), lr=0.1).step()
            layer.zero_grad()
    """,
    "apex's prefetcher": """
        class Prefetcher:
            def __init__(self, loader):
                self.loader, self.stream = iter(loader), torch.npu.Stream()
                self.preload()
            def preload(self):
                self.following = next(self.loader, None)
                if self.following is not None:
                    with torch.npu.stream(self.stream):
                        self.following = self.following.npu(non_blocking=True).sub_(0.5).div_(0.3)
            def next(self):
                torch.npu.current_stream().wait_stream(self.stream)
                batch = self.following
                if batch is not None:
                    batch.record_stream(torch.npu.current_stream())
                self.preload()
                return batch
        prefetcher = Prefetcher(torch.ones(8, 4).pin_memory() for _ in range(6))
        batch = prefetcher.next()
        while batch is not None:
            layer(batch).sum().backward()
            batch = prefetcher.next()
        layer.zero_grad()
    """,
    "a prefetcher whose stream waits before it takes memory again": """
        following = torch.ones(8, 4).pin_memory().npu(non_blocking=True)
        for _ in range(4):
            main.wait_stream(side)
            batch = following
            side.wait_stream(main)
            with torch.npu.stream(side):
                following = torch.ones(8, 4).pin_memory().npu(non_blocking=True)
            layer(batch)
            side.wait_stream(main)
        torch.npu.synchronize()
    """,
    "two buffers in one tensor, each with events": """
        buffers, total = torch.empty(2, 1000, device="npu"), torch.zeros(1000, device="npu")
        source = torch.ones(2, 1000).pin_memory()
        filled, used = [[torch.npu.Event() for _ in range(2)] for _ in range(2)]
        for event in used:
            event.record()
        for step in range(6):
            index = step % 2
            with torch.npu.stream(side):
                side.wait_event(used[index])
                filled[index].synchronize()
                source[index].fill_(step)
                buffers[index].copy_(source[index], non_blocking=True)
                filled[index].record()
            main.wait_event(filled[index])
            total += buffers[index]
            used[index].record()
    """,
    "columns of a matrix": """
        matrix = torch.zeros(32, 32, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            matrix[:, :16].add_(1)
        matrix[:, 16:].add_(2)
        main.wait_stream(side)
        matrix.sum().item()
    """,
    "forward and backward on another stream": """
        side.wait_stream(main)
        with torch.npu.stream(side):
            layer(torch.ones(8, 4, device="npu")).sum().backward()
        main.wait_stream(side)
        torch.optim.AdamW(layer.parameters()).step()
        layer.zero_grad()
    """,
    "a backward pass whose forward pass was on another stream": """
        side.wait_stream(main)
        with torch.npu.stream(side):
            loss = layer(torch.ones(8, 4, device="npu")).sum()
        main.wait_stream(side)
        loss.backward()
        torch.optim.AdamW(layer.parameters()).step()
        layer.zero_grad()
    """,
    "memory that is kept for another stream": """
        y = torch.ones(64, 64, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            z = y @ y
        y.record_stream(side)
        del y
        other = torch.zeros(64, 64, device="npu")
        main.wait_stream(side)
    """,
    "memory that is given back when the other stream is waited for": """
        y = torch.ones(64, 64, device="npu")
        side.wait_stream(main)
        with torch.npu.stream(side):
            z = y @ y
        main.wait_stream(side)
        del y
        other = torch.zeros(64, 64, device="npu")
    """,
    "a stream that gives back its own memory": """
        side.wait_stream(main)
        with torch.npu.stream(side):
            for _ in range(3):
                y = torch.ones(64, 64, device="npu") * 2
                del y
        torch.npu.synchronize()
    """,
    "torch's own streams and events": """
        stream, event, done = torch.Stream(device="npu"), torch.Event("npu"), torch.Event("npu")
        y = x.exp()
        event.record(torch.accelerator.current_stream())
        stream.wait_event(event)
        with stream:
            z = y.sum()
        done.record(stream)
        torch.accelerator.current_stream().wait_event(done)
        z += 1
    """,
    "collectives that are waited for": """
        y = x.clone()
        torch.distributed.all_reduce(y)
        work = torch.distributed.all_reduce(y, async_op=True)
        z = x * 2
        work.wait()
        y.add_(1)
        parts = [torch.empty_like(y)]
        torch.distributed.all_gather(parts, y)
        parts[0].sum().item()
        del y, parts
        w = torch.zeros_like(x)
    """,
    "gradients that are added up between ranks": """
        from torch.nn.parallel import DistributedDataParallel
        model = DistributedDataParallel(torch.nn.Linear(4, 4).npu())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.ones(8, 4, device="npu")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "a model that is divided between ranks": """
        from torch.distributed.fsdp import fully_shard
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)).npu()
        for part in model:
            fully_shard(part)
        fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            model(torch.ones(8, 4, device="npu")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "tied addresses": """
        same = layer.weight.data_ptr() == layer.weight.detach().data_ptr()
        assert same
    """,
}

_HEAD = """
    import gc, io, os
    import torch, torch_npu
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="<port>")
    torch.distributed.init_process_group("hccl", rank=0, world_size=1)
    side = torch.npu.Stream()
    main = torch.npu.current_stream()
    layer = torch.nn.Linear(4, 4).npu()
"""
_EACH = """
def program_{number}():
    x = torch.ones(64, 64, device="npu")
    torch.npu.synchronize()
{text}
    torch.npu.synchronize()
program_{number}()
gc.collect()
torch.npu.synchronize()
"""


def joined(texts: list[str], port: int) -> str:
    """Return programs as one, which runs them in their order; the group of its one rank meets at a port."""
    parts = [textwrap.dedent(_HEAD).replace("<port>", str(port))]
    for number, text in enumerate(texts):
        parts.append(_EACH.format(number=number, text=textwrap.indent(textwrap.dedent(text).strip("\n"), "    ")))
    return "".join(parts) + "torch.distributed.destroy_process_group()\n"


def marked(text: str) -> list[tuple[int, int]]:
    """Return the lines that are marked in a joined program: of what comes first, and of what does not wait for it."""
    lines = text.splitlines()
    firsts = [number for number, line in enumerate(lines, 1) if line.endswith("# first")]
    seconds = [number for number, line in enumerate(lines, 1) if line.endswith("# second")]
    return list(zip(firsts, seconds, strict=True))
