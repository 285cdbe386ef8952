"""Process groups, loaders of data, and settings of the environment."""

import os
import tempfile

import torch
import torch.distributed as dist


def _group(backend, **more):
    dist.init_process_group(backend, init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1, **more)


def probe_group():
    torch.cuda.set_device(0)
    _group("nccl")
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    return x, dist.get_backend() == "nccl"


def probe_group_by_constant():
    torch.cuda.set_device(0)
    _group(dist.Backend.NCCL)
    x = torch.ones(2).cuda()
    dist.broadcast(x, 0)
    return x, dist.get_backend() == dist.Backend.NCCL


def probe_group_by_class():
    torch.cuda.set_device(0)
    _group(dist.Backend("nccl"))
    return dist.get_world_size()


def probe_group_by_keyword():
    torch.cuda.set_device(0)
    place = f"file://{tempfile.mktemp()}"
    dist.init_process_group("nccl", place, rank=0, world_size=1, device_id=torch.device("cuda", 0))
    x = torch.ones(2).cuda()
    dist.all_gather([torch.empty_like(x)], x)
    return x


def probe_group_of_both():
    torch.cuda.set_device(0)
    _group("cpu:gloo,cuda:nccl")
    host, card = torch.ones(2), torch.ones(2).cuda()
    dist.all_reduce(host)
    dist.all_reduce(card)
    return host, card


def probe_group_without_name():
    torch.cuda.set_device(0)
    dist.init_process_group(None, f"file://{tempfile.mktemp()}", rank=0, world_size=1)
    card = torch.ones(2).cuda()
    dist.all_reduce(card)
    return card


def probe_group_by_expression():
    torch.cuda.set_device(0)
    _group("nccl" if torch.cuda.is_available() else "gloo")
    return dist.is_initialized()


def probe_barrier():
    torch.cuda.set_device(0)
    _group("nccl")
    dist.barrier(device_ids=[0])
    return dist.get_rank()


def probe_subgroup():
    torch.cuda.set_device(0)
    _group("nccl")
    x = torch.ones(2)
    dist.all_reduce(x, group=dist.new_group([0], backend="gloo"))
    return x


def probe_subgroup_of_bound_device():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", f"file://{tempfile.mktemp()}", rank=0, world_size=1, device_id=device)
    x = torch.ones(2)
    dist.all_reduce(x, group=dist.new_group([0], backend="gloo"))
    return x


def probe_objects():
    torch.cuda.set_device(0)
    _group("nccl")
    told = [None]
    dist.all_gather_object(told, {"a": 1})
    return told


def probe_default_backend():
    return dist.get_default_backend_for_device("cuda") == "nccl"


def probe_nccl_question():
    return dist.is_nccl_available()


def probe_mesh():
    from torch.distributed.device_mesh import init_device_mesh

    torch.cuda.set_device(0)
    _group("nccl")
    return init_device_mesh("cuda", (1,)).device_type == "cuda"


def probe_data_parallel_of_processes():
    torch.cuda.set_device(0)
    _group("nccl")
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0], output_device=0)
    net(torch.ones(1, 2).cuda()).sum().backward()
    return net.module.weight.grad.shape


def probe_sharded():
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.cuda.set_device(0)
    _group("nccl")
    net = FullyShardedDataParallel(torch.nn.Linear(2, 2), device_id=torch.cuda.current_device())
    return net(torch.ones(1, 2).cuda()).shape


def probe_data_parallel():
    return torch.nn.DataParallel(torch.nn.Linear(2, 2), device_ids=[0]).cuda()(torch.ones(1, 2).cuda()).shape


def probe_pin_memory():
    x = torch.ones(2).pin_memory()
    return x.is_pinned(), x.cuda(non_blocking=True)


def probe_pin_memory_device():
    return torch.ones(2).pin_memory("cuda").is_pinned("cuda")


def probe_made_pinned():
    return torch.empty(2, pin_memory=True).is_pinned()


def probe_loader():
    return [batch.tolist() for batch in torch.utils.data.DataLoader([1, 2], pin_memory=True)]


def probe_loader_with_device():
    loader = torch.utils.data.DataLoader([1, 2], pin_memory=True, pin_memory_device="cuda")
    return [batch.cuda() for batch in loader]


def probe_visible_devices():
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    return torch.cuda.device_count(), torch.ones(1).cuda()


def probe_visible_devices_are_read():
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    return os.environ["CUDA_VISIBLE_DEVICES"].split(",")


def probe_allocator_setting():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    return torch.ones(2).cuda()


def probe_allocator_setting_of_cuda():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "garbage_collection_threshold:0.8,max_split_size_mb:128"
    return torch.ones(2).cuda()


def probe_allocator_backend_setting():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    return torch.ones(2).cuda()


def probe_allocator_unknown_setting():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "roundup_power2_divisions:8,pinned_use_cuda_host_register:True"
    return torch.ones(2).cuda()


def probe_blocking_setting():
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    return torch.ones(2).cuda()


def probe_workspace_setting():
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    return torch.ones(2, 2).cuda() @ torch.ones(2, 2).cuda()


def probe_custom_operator():
    library = torch.library.Library("probe", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CUDA")
    return torch.ops.probe.twice(torch.ones(2).cuda())


def probe_custom_op_for_types():
    @torch.library.custom_op("probe::thrice", mutates_args=(), device_types="cuda")
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    return thrice(torch.ones(2).cuda())
