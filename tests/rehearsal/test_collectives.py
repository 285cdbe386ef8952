"""Collectives between two processes, each with a device of its own, under the vendor's name."""

from __future__ import annotations

import pytest

from tests.rehearsal.ranks import run_ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.rehearsal


def said(*lines: str) -> list[str]:
    """Return what both ranks print."""
    return ["".join(f"{line}\n" for line in lines)] * 2


def test_every_collective() -> None:
    out = run_ranks(
        """
        def filled(value, size=2):
            return torch.full((size,), float(value), device=device)

        def shown(name, *tensors):
            assert all(tensor.device == device for tensor in tensors)
            print(name, *(tensor.tolist() for tensor in tensors))

        import warnings
        warnings.simplefilter("ignore")  # torch 2.13 renames all_gather_into_tensor and reduce_scatter_tensor
        print(dist.get_backend() == collective, dist.get_world_size())
        for operation in ("SUM", "AVG", "MAX", "MIN", "PRODUCT"):
            tensor = filled(rank + 1)
            dist.all_reduce(tensor, getattr(dist.ReduceOp, operation))
            shown(f"all_reduce {operation}", tensor)
        tensor = filled(rank + 1)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        shown("async", tensor)
        shown("future", *dist.all_reduce(filled(1), async_op=True).get_future().wait())
        tensor = filled(rank + 5)
        dist.broadcast(tensor, 1)
        shown("broadcast", tensor)
        tensor = filled(rank + 1)
        dist.reduce(tensor, 0)
        shown("reduce", tensor if rank == 0 else filled(3))
        tensors = [filled(0), filled(0)]
        dist.all_gather(tensors, filled(rank))
        shown("all_gather", *tensors)
        tensor = torch.empty(2, 2, device=device)
        dist.all_gather_into_tensor(tensor, filled(rank))
        shown("all_gather_into_tensor", tensor)
        tensors = [filled(0), filled(0)]
        dist.gather(filled(rank), tensors if rank == 0 else None, 0)
        shown("gather", *(tensors if rank == 0 else (filled(0), filled(1))))
        tensor = filled(0)
        dist.scatter(tensor, [filled(7), filled(7)] if rank == 0 else None, 0)
        shown("scatter", tensor)
        tensor = filled(0)
        dist.reduce_scatter(tensor, [filled(rank + 1), filled(rank + 1)])
        shown("reduce_scatter", tensor)
        for operation in ("SUM", "AVG"):
            tensor = filled(0)
            dist.reduce_scatter_tensor(tensor, filled(rank + 1, 4), getattr(dist.ReduceOp, operation))
            shown(f"reduce_scatter_tensor {operation}", tensor)
        tensor = torch.empty(2, device=device)
        dist.all_to_all_single(tensor, filled(rank))
        shown("all_to_all_single", tensor)
        tensors = [filled(0), filled(0)]
        dist.all_to_all(tensors, [filled(rank), filled(rank)])
        shown("all_to_all", *tensors)
        view = torch.zeros(2, 3, device=device)[1]
        view.fill_(rank + 1)
        dist.all_reduce(view)
        shown("view", view)
        for dtype in (torch.int64, torch.float16, torch.bfloat16, torch.uint8):
            tensor = torch.full((2,), rank + 1, device=device, dtype=dtype)
            dist.all_reduce(tensor)
            shown(str(dtype), tensor)
        """
    )
    assert out == said(
        "True 2",
        "all_reduce SUM [3.0, 3.0]",
        "all_reduce AVG [1.5, 1.5]",
        "all_reduce MAX [2.0, 2.0]",
        "all_reduce MIN [1.0, 1.0]",
        "all_reduce PRODUCT [2.0, 2.0]",
        "async [3.0, 3.0]",
        "future [2.0, 2.0]",
        "broadcast [6.0, 6.0]",
        "reduce [3.0, 3.0]",
        "all_gather [0.0, 0.0] [1.0, 1.0]",
        "all_gather_into_tensor [[0.0, 0.0], [1.0, 1.0]]",
        "gather [0.0, 0.0] [1.0, 1.0]",
        "scatter [7.0, 7.0]",
        "reduce_scatter [3.0, 3.0]",
        "reduce_scatter_tensor SUM [3.0, 3.0]",
        "reduce_scatter_tensor AVG [1.5, 1.5]",
        "all_to_all_single [0.0, 1.0]",
        "all_to_all [0.0, 0.0] [1.0, 1.0]",
        "view [3.0, 3.0, 3.0]",
        "torch.int64 [3, 3]",
        "torch.float16 [3.0, 3.0]",
        "torch.bfloat16 [3.0, 3.0]",
        "torch.uint8 [3, 3]",
    )


def test_values_that_are_only_moved_may_have_any_type() -> None:
    out = run_ranks(
        """
        import warnings
        warnings.simplefilter("ignore")  # torch 2.13 renames all_gather_into_tensor
        for dtype in (torch.int16, torch.complex64, torch.float8_e4m3fn, torch.bool):
            def made(value, *size):
                return torch.full(size, value, device=device).to(dtype)

            def right(tensor, *values):
                return tensor.device == device and tensor.dtype == dtype and tensor.flatten().tolist() == [
                    complex(value) if dtype.is_complex else bool(value) if dtype == torch.bool else value
                    for value in values
                ]

            alone, row = made(rank), made(rank, 2)
            dist.broadcast(alone, 1)
            gathered = [made(0, 2), made(0, 2)]
            dist.all_gather(gathered, row)
            into = made(0, 4)
            dist.all_gather_into_tensor(into, row)
            exchanged = made(0, 2)
            dist.all_to_all_single(exchanged, row)
            uneven = made(0, 2 * rank + 2)
            dist.all_to_all_single(uneven, made(rank, 3), [rank + 1] * 2, [1, 2])
            scattered = made(0, 2)
            dist.scatter(scattered, [made(1, 2), made(0, 2)] if rank == 0 else None, 0)
            column = made(rank, 2, 2)[1]
            dist.send(column, 1) if rank == 0 else dist.recv(column, 0)
            print(dtype, right(alone, 1), right(gathered[1], 1, 1), right(into, 0, 0, 1, 1), right(exchanged, 0, 1),
                  right(uneven, *([0, 1], [0, 0, 1, 1])[rank]), right(scattered, *([1, 1], [0, 0])[rank]),
                  right(column, 0, 0))
        """,
        "sdaa",
    )
    kinds = ("torch.int16", "torch.complex64", "torch.float8_e4m3fn", "torch.bool")
    assert out == said(*(f"{kind} True True True True True True True" for kind in kinds))


def test_collectives_that_are_coalesced() -> None:
    out = run_ranks(
        """
        first, second = torch.ones(2, device=device), torch.full((3,), float(rank), device=device)
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            dist.all_reduce(first)
            dist.all_reduce(second)
        manager.wait()
        print("together", first.tolist(), second.tolist())
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            dist.broadcast(first, 0)
            dist.broadcast(second, 0)
        manager.wait()
        print("one by one", len(manager.works), manager.works[0].is_completed(), len(manager.works[0].result()))
        dist.broadcast(second, 1)
        print("after", second.tolist())
        """
    )
    assert out == said("together [2.0, 2.0] [1.0, 1.0, 1.0]", "one by one 1 True 2", "after [1.0, 1.0, 1.0]")


def test_parts_of_unequal_size() -> None:
    out = run_ranks(
        """
        parts = [torch.zeros(1, 2, device=device), torch.zeros(3, 2, device=device)]
        work = dist.all_gather(parts, torch.full((1 + 2 * rank, 2), rank + 5.0, device=device), async_op=True)
        work.wait()
        print(*(part.flatten().tolist() for part in parts))
        for operation in ("SUM", "AVG", "MAX"):
            mine = torch.zeros(1 + rank, device=device)
            given = [torch.full((1 + each,), rank + 1.0, device=device) for each in range(2)]
            dist.reduce_scatter(mine, given, getattr(dist.ReduceOp, operation))
            print(mine.tolist() == [{"SUM": 3.0, "AVG": 1.5, "MAX": 2.0}[operation]] * (1 + rank), given[0].tolist())
        """
    )
    shown = "[5.0, 5.0] [6.0, 6.0, 6.0, 6.0, 6.0, 6.0]\n"
    assert out == [shown + f"True [{rank + 1.0}]\n" * 3 for rank in range(2)]


def test_a_rank_sends_to_itself() -> None:
    out = run_ranks(
        """
        given, taken = torch.full((2,), rank + 1.0, device=device), torch.zeros(2, device=device)
        for order in (1, -1):
            operations = [dist.P2POp(dist.isend, given, rank), dist.P2POp(dist.irecv, taken.zero_(), rank)][::order]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            print(taken.tolist() == given.tolist())
        try:
            dist.recv(taken, rank)
        except RuntimeError as error:
            print(error)
        """
    )
    assert out == said("True", "True", "a rank waits for a tensor from itself that it has not sent")


def test_a_work_that_was_waited_for_is_forgotten() -> None:
    out = run_ranks(
        """
        from torch.distributed import _functional_collectives as functional
        waiting = torch._C._distributed_c10d._get_work_registry_size
        with functional.allow_inflight_collective_as_graph_input_ctx():
            work = dist.all_reduce(torch.ones(2, device=device), async_op=True)
            print(waiting())
            work.wait()
            print(waiting())
        """
    )
    assert out == said("1", "0")


def test_a_profiler_may_stop_as_soon_as_a_future_is_done() -> None:
    """Gloo ends its own events for the profiler later, on another thread: there must be none of them."""
    out = run_ranks(
        """
        import threading, time
        from torch.profiler import ProfilerActivity, profile
        for _ in range(20):
            done = threading.Event()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
                work = dist.all_reduce(torch.ones(2, device=device), async_op=True)
                work.get_future().then(lambda _: (done.set(), time.sleep(0.01)))
                done.wait()
            work.wait()
        names = {event.key for event in profiler.key_averages()}
        print("c10d::allreduce_" in names, *(name for name in names if "gloo" in name))
        """
    )
    assert out == said("True")


def test_from_one_to_another() -> None:
    out = run_ranks(
        """
        tensor = torch.full((2,), float(rank), device=device)
        if rank == 0:
            dist.send(tensor, 1)
        else:
            dist.recv(tensor, 0)
        print("send", tensor.tolist() if rank else [0.0, 0.0])
        received = torch.empty(2, device=device)
        mine = torch.full((2,), float(rank), device=device)
        operations = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        print("exchanged", received[0].item() == 1 - rank)
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        print(objects)
        objects = [{"value": torch.ones(1, device=device)} if rank == 0 else None]
        dist.broadcast_object_list(objects, 0)
        print(objects[0]["value"].device.type == device.type)
        dist.barrier()
        pair, alone = dist.new_group([0, 1]), [dist.new_group([each]) for each in range(2)]
        tensor = torch.ones(1, device=device)
        dist.all_reduce(tensor, group=pair)
        dist.all_reduce(tensor, group=alone[rank])
        print(tensor.item(), dist.get_backend(pair) == collective)
        """
    )
    assert out == said(
        "send [0.0, 0.0]",
        "exchanged True",
        "[{'rank': 0}, {'rank': 1}]",
        "True",
        "2.0 True",
    )


def test_only_tensors_on_the_device_are_taken() -> None:
    out = run_ranks(
        """
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            print("No backend type associated with device type cpu" in str(error))
        """
    )
    assert out == said("True")


def test_a_group_for_the_cpu_beside_it() -> None:
    out = run_ranks(
        """
        dist.init_process_group(f"cpu:gloo,{device.type}:{collective}", rank=rank, world_size=world)
        for place in ("cpu", device):
            tensor = torch.ones(1, device=place)
            dist.all_reduce(tensor)
            print(tensor.item())
        dist.destroy_process_group()
        """,
        group=False,
    )
    assert out == said("2.0", "2.0")


NO_NAME = "Input tensor data type {} not supported for {} process group: Short [rehearsal]"
OUTCOMES = {
    "npu": ("hccl", "HCCL allreduce: Unsupported data type at::kDouble [rehearsal]", "[2, 2]"),
    "musa": ("mccl", "[2.0, 2.0]", NO_NAME.format("in", "MCCL")),
    "gcu": ("eccl", "[2.0, 2.0]", NO_NAME.format("is", "ECCL")),
    "sdaa": ("tccl", "[2.0, 2.0]", ""),
}
"""By target: the name of its library, and what a sum of float64 and a broadcast of int16 end in."""


@pytest.mark.parametrize("target", OUTCOMES)
def test_every_target_reduces_under_its_own_name_what_it_takes(target: str) -> None:
    out = run_ranks(
        """
        from torchferry.rehearsal import events
        tensor = torch.ones(1, device=device)
        dist.all_reduce(tensor)
        print(dist.get_backend(), tensor.item())
        for operation, dtype in ((dist.all_reduce, torch.float64), (lambda t: dist.broadcast(t, 0), torch.int16)):
            tensor = torch.ones(2, device=device, dtype=dtype) * (1 if operation is dist.all_reduce else 2)
            try:
                operation(tensor)
                print(tensor.tolist())
            except RuntimeError as error:
                print(str(error).partition("\\n")[0])
                (key,) = [key for key in events.recorder.counts() if key.kind == "missing-dtype"]
                assert (key.subject, key.detail.split()[0]) == (str(dtype).removeprefix("torch."), collective), key
        """,
        target,
    )
    name, summed, moved = OUTCOMES[target]
    assert out == said(f"{name} 2.0", summed, moved or "[2, 2]")


def test_more_ranks_than_devices_are_refused() -> None:
    out = run_ranks(
        """
        try:
            dist.init_process_group(collective, rank=rank, world_size=world)
        except RuntimeError as error:
            print("each rank needs a device of its own" in str(error))
        """,
        enable="devices=1",
        group=False,
    )
    assert out == said("True")


NETWORK = """
nn = torch.nn
from torch.nn.parallel import DistributedDataParallel

def network(normalised=True):
    torch.manual_seed(0)
    middle = nn.BatchNorm2d(8) if normalised else nn.Identity()
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), middle, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )

def same(module):
    mine = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    gathered = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(gathered, mine)
    return torch.equal(*gathered)

def batch():
    return torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(9))

def part(values):
    return values[rank * 4 : rank * 4 + 4].to(device)
"""


def test_data_parallel_gradients_are_those_of_the_whole_batch() -> None:
    out = run_ranks(
        NETWORK
        + """
wrapped = DistributedDataParallel(network(False).to(device), device_ids=[rank])
wrapped(part(batch())).square().mean().backward()
reference = network(False)
reference(batch()).square().mean().backward()
for expected, found in zip(reference.parameters(), wrapped.parameters()):
    torch.testing.assert_close(found.grad.cpu(), expected.grad)
print("equal")
"""
    )
    assert out == said("equal")


def test_data_parallel_training_keeps_the_ranks_alike() -> None:
    out = run_ranks(
        NETWORK
        + """
wrapped = DistributedDataParallel(network().to(device), device_ids=[rank], gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(wrapped.parameters(), 1e-2)
scaler = torch.amp.GradScaler(device.type)
torch.manual_seed(rank)
for step in range(4):
    with torch.autocast(device.type, dtype=torch.float16, enabled=step % 2 == 0):
        loss = wrapped(torch.randn(4, 3, 8, 8, device=device)).float().square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("alike", same(wrapped))
with wrapped.no_sync():
    wrapped(torch.randn(4, 3, 8, 8, device=device)).square().mean().backward()
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
hooked = DistributedDataParallel(network(False).to(device), device_ids=[rank])
hooked.register_comm_hook(None, default_hooks.fp16_compress_hook)
hooked(part(batch())).square().mean().backward()
plain = network(False)
plain(batch()).square().mean().backward()
print("compressed", torch.allclose(hooked.module[0].weight.grad.cpu(), plain[0].weight.grad, atol=1e-3))
"""
    )
    assert out == said("alike True", "compressed True")


def test_synchronised_batch_norm_is_that_of_the_whole_batch() -> None:
    out = run_ranks(
        NETWORK
        + """
module = nn.SyncBatchNorm.convert_sync_batchnorm(network()).to(device)
wrapped = DistributedDataParallel(module, device_ids=[rank])
wrapped(part(batch())).square().mean().backward()
reference = network()
reference(batch()).square().mean().backward()
for expected, found in zip(reference.parameters(), wrapped.parameters()):
    torch.testing.assert_close(found.grad.cpu(), expected.grad, rtol=1e-3, atol=1e-5)
torch.testing.assert_close(module[1].running_var.cpu(), reference[1].running_var)
torch.testing.assert_close(module[1].running_mean.cpu(), reference[1].running_mean)
with torch.autocast(device.type, dtype=torch.float16):
    wrapped(part(batch())).float().sum().backward()
print("equal")
"""
    )
    assert out == said("equal")


@pytest.mark.filterwarnings("ignore")
def test_sharded_training_is_that_of_one_process() -> None:
    out = run_ranks(
        NETWORK
        + """
import copy, warnings
warnings.simplefilter("ignore")
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

def train(module, optimizer, values):
    for _ in range(3):
        optimizer.zero_grad()
        module(values).square().mean().backward()
        optimizer.step()

reference = network(False)
train(reference, torch.optim.Adam(reference.parameters(), 1e-2), batch())
expected = reference(batch()).detach()[rank * 4 : rank * 4 + 4]

def check(name, module):
    torch.testing.assert_close(module(part(batch())).detach().cpu(), expected, rtol=1e-3, atol=1e-4)
    print(name)

zero = DistributedDataParallel(network(False).to(device), device_ids=[rank])
train(zero, ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, lr=1e-2), part(batch()))
check("ZeRO", zero)
first = FullyShardedDataParallel(network(False).to(device), device_id=device)
train(first, torch.optim.Adam(first.parameters(), 1e-2), part(batch()))
check("FSDP", first)
second = network(False).to(device)
fully_shard(second, mesh=init_device_mesh(device.type, (2,)))
print({type(parameter).__name__ for parameter in second.parameters()})
train(second, torch.optim.Adam(second.parameters(), 1e-2), part(batch()))
check("fully_shard", second)
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
state = get_model_state_dict(second, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
print("state", [str(value.device) for value in state.values()][:1] if rank == 0 else ["cpu"])
"""
    )
    assert out == said("ZeRO", "FSDP", "{'DTensor'}", "fully_shard", "state ['cpu']")


def test_tensor_parallel_layers_and_functional_collectives() -> None:
    out = run_ranks(
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh(device.type, (2,))
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
        values = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).to(device)
        expected = module(values).detach()
        parallelize_module(module, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        found = module(values)
        found.sum().backward()
        torch.testing.assert_close(found.detach(), expected)
        tensor = distribute_tensor(torch.arange(4.0).to(device), mesh, [Shard(0)])
        print(tensor.to_local().tolist() == [2.0 * rank, 2.0 * rank + 1], tensor.sum().full_tensor().item())

        import torch.distributed._functional_collectives as functional

        tensor = torch.full((2,), float(rank + 1), device=device)
        print(functional.all_reduce(tensor, "sum", dist.group.WORLD).tolist())
        print(functional.all_gather_tensor(tensor, 0, dist.group.WORLD).tolist())
        print(functional.reduce_scatter_tensor(tensor, "sum", 0, dist.group.WORLD).tolist())
        """
    )
    assert out == said("True 6.0", "[3.0, 3.0]", "[1.0, 1.0, 2.0, 2.0]", "[3.0]")


def test_a_fault_in_a_collective_of_one_rank() -> None:
    out = run_ranks(
        """
        tensor = torch.ones(1, device=device)
        dist.barrier()
        try:
            if rank == 1:  # alone: the fault comes before the other rank is needed
                dist.all_reduce(tensor)
        except RuntimeError as error:
            print("injected by --fault" in str(error), flush=True)
            os._exit(3)
        os._exit(0 if rank == 0 else 1)
        """,
        enable="devices=2, faults=('op=c10d.allreduce,kind=raise,rank=1',)",
        statuses=(0, 3),
    )
    assert out == ["", "True\n"]


@pytest.mark.parametrize("target", ["npu", "ptex"])
def test_a_group_that_does_not_serve_the_device_is_noted_at_the_line(target: str) -> None:
    (out,) = run_ranks(
        """
        import torchferry.rehearsal.events as events

        def noted():
            return sum(count.times for key, count in events.recorder.counts().items() if key.kind == "backend")

        dist.init_process_group("gloo", rank=rank, world_size=world)
        dist.barrier()
        dist.all_reduce(torch.ones(2))
        dist.broadcast_object_list([1], 0)
        print(noted())
        for attempt in (
            lambda: dist.all_reduce(torch.ones(2, device=device)),
            lambda: dist.all_gather([torch.ones(2, device=device)], torch.ones(2, device=device)),
            lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to(device)),
        ):
            try:
                attempt()
            except RuntimeError as error:
                print("No backend type associated with device type" in str(error), noted())
        told = {(key.subject, key.detail) for key in events.recorder.counts() if key.kind == "backend"}
        print(*sorted(told), sep="\\n")
        dist.all_reduce(torch.ones(2, device=device), group=dist.new_group(backend=collective))
        print(noted())
        """,
        target,
        world=1,
        group=False,
    )
    name = "xla" if target == "ptex" else target
    why = f"the group is over gloo, which serves no tensors on {name}"
    assert out.splitlines() == [
        "0",
        "True 1",
        "True 2",
        "True 3",
        str(("c10d::allgather_", why)),
        str(("c10d::allreduce_", why)),
        "3",
    ]
