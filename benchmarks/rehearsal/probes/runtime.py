"""Streams, events, graphs, random numbers, memory and mixed precision of `torch.cuda`."""

import torch
from torch import nn


def probe_streams():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(2, device="cuda")
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(torch.cuda.current_stream())
    stream.synchronize()
    return x, stream.query(), stream.device.type == "cuda"


def probe_stream_with_priority():
    return torch.cuda.Stream(device="cuda:0", priority=-1).device.index


def probe_no_stream():
    with torch.cuda.stream(None):
        return torch.ones(1).cuda()


def probe_stream_handle():
    return isinstance(torch.cuda.current_stream().cuda_stream, int)


def probe_external_stream():
    handle = torch.cuda.current_stream().cuda_stream
    return torch.cuda.ExternalStream(handle, device=0).device.type == "cuda"


def probe_generic_stream():
    return torch.Stream("cuda").device.type == "cuda", torch.Event("cuda").device.type == "cuda"


def probe_events():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True, blocking=True)
    start.record()
    end.record(torch.cuda.current_stream())
    end.synchronize()
    return start.elapsed_time(end) >= 0, end.query()


def probe_event_of_a_stream():
    event = torch.cuda.current_stream().record_event()
    torch.cuda.Stream().wait_event(event)
    return isinstance(event, torch.cuda.Event)


def probe_graph():
    x = torch.zeros(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    x.fill_(4)
    graph.replay()
    return y.sum() >= 0


def probe_graph_by_keyword():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(cuda_graph=graph, pool=torch.cuda.graph_pool_handle()):
        torch.ones(2, device="cuda")
    graph.reset()
    return torch.cuda.is_current_stream_capturing()


def probe_device_block():
    with torch.cuda.device(0):
        return torch.cuda.current_device(), torch.ones(1, device="cuda")


def probe_device_block_of_device():
    with torch.cuda.device(torch.device("cuda:0")):
        return torch.ones(1).cuda()


def probe_device_of():
    with torch.cuda.device_of(torch.ones(1).cuda()):
        return torch.cuda.current_device()


def probe_set_device():
    torch.cuda.set_device(torch.device("cuda", 0))
    torch.cuda.set_device("cuda:0")
    torch.cuda.set_device(device=0)
    return torch.cuda.current_device()


def probe_name():
    return isinstance(torch.cuda.get_device_name(), str), isinstance(torch.cuda.get_device_name("cuda:0"), str)


def probe_properties():
    properties = torch.cuda.get_device_properties(0)
    return isinstance(properties.name, str), properties.total_memory > 0


def probe_properties_without_device():
    return torch.cuda.get_device_properties().total_memory > 0


def probe_processors():
    return torch.cuda.get_device_properties("cuda").multi_processor_count > 0


def probe_capability():
    return torch.cuda.get_device_capability() >= (7, 0)


def probe_architectures():
    return isinstance(torch.cuda.get_arch_list(), list)


def probe_bf16():
    return torch.cuda.is_bf16_supported() in (True, False)


def probe_bf16_emulated():
    return torch.cuda.is_bf16_supported(including_emulation=False) in (True, False)


def probe_seeds():
    torch.cuda.manual_seed(3)
    first = torch.rand(2, device="cuda")
    torch.cuda.manual_seed_all(3)
    return torch.equal(first, torch.rand(2, device="cuda")), torch.cuda.initial_seed()


def probe_rng_state():
    state = torch.cuda.get_rng_state("cuda:0")
    first = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state, device="cuda")
    return torch.equal(first, torch.rand(2, device="cuda")), state.device.type


def probe_rng_states():
    states = torch.cuda.get_rng_state_all()
    torch.cuda.set_rng_state_all(states)
    return len(states)


def probe_default_generators():
    torch.cuda.init()
    return len(torch.cuda.default_generators), torch.cuda.default_generators[0].initial_seed() >= 0


def probe_generator():
    generator = torch.Generator(device="cuda").manual_seed(1)
    return torch.rand(2, generator=generator, device="cuda").device.type == "cuda", generator.device.type == "cuda"


def probe_generator_positional():
    return torch.Generator("cuda").device.type == "cuda"


def probe_fork_rng():
    torch.manual_seed(1)
    before = torch.cuda.get_rng_state()
    with torch.random.fork_rng(devices=[0]):
        torch.rand(2, device="cuda")
    return torch.equal(before, torch.cuda.get_rng_state())


def probe_fork_rng_everywhere():
    before = torch.cuda.get_rng_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()), device_type="cuda"):
        torch.rand(2, device="cuda")
    return torch.equal(before, torch.cuda.get_rng_state())


def probe_memory():
    x = torch.ones(1024, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() >= x.nbytes, torch.cuda.max_memory_reserved("cuda:0") > 0


def probe_memory_info():
    free, total = torch.cuda.mem_get_info()
    return 0 < free <= total


def probe_memory_stats():
    torch.ones(2, device="cuda")
    return torch.cuda.memory_stats()["allocated_bytes.all.current"] >= 0, "allocated" in torch.cuda.memory_summary()


def probe_memory_snapshot():
    return isinstance(torch.cuda.memory_snapshot(), list)


def probe_memory_history():
    torch.cuda.memory._record_memory_history(max_entries=10)
    return isinstance(torch.cuda.memory._snapshot(), dict)


def probe_memory_fraction():
    torch.cuda.set_per_process_memory_fraction(0.5)
    torch.cuda.set_per_process_memory_fraction(0.9, 0)
    return torch.cuda.get_per_process_memory_fraction() > 0


def probe_out_of_memory():
    try:
        torch.empty(1 << 42, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return "caught"


def probe_utilization():
    return torch.cuda.utilization() >= 0


def probe_management_library():
    return torch.cuda.temperature() >= 0


def probe_processes():
    return isinstance(torch.cuda.list_gpu_processes(), str)


def probe_sync_mode():
    torch.cuda.set_sync_debug_mode("warn")
    return torch.cuda.get_sync_debug_mode()


def probe_autocast():
    with torch.autocast("cuda", dtype=torch.float16):
        return nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).dtype


def probe_autocast_by_keyword():
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=True, cache_enabled=False):
        return nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).dtype


def probe_cuda_autocast():
    with torch.cuda.amp.autocast(True, torch.bfloat16):
        return nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).dtype


def probe_cuda_autocast_as_decorator():
    @torch.cuda.amp.autocast(enabled=False)
    def work(x):
        return x @ x

    return work(torch.ones(2, 2).cuda())


def probe_autocast_questions():
    return torch.is_autocast_enabled("cuda"), torch.get_autocast_gpu_dtype(), torch.get_autocast_dtype("cuda")


def probe_custom_autocast():
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return 2 * ctx.saved_tensors[0] * gradient

    x = torch.ones(2, device="cuda", requires_grad=True)
    Square.apply(x).sum().backward()
    return x.grad


def probe_old_custom_autocast():
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * x

        @staticmethod
        @torch.cuda.amp.custom_bwd
        def backward(ctx, gradient):
            return gradient

    return Square.apply(torch.ones(2, device="cuda"))


def _steps(scaler):
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler.scale(net(torch.ones(1, 2).cuda()).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


def probe_scaler():
    return _steps(torch.cuda.amp.GradScaler())


def probe_scaler_positional():
    return _steps(torch.cuda.amp.GradScaler(1024.0, 2.0, 0.5))


def probe_scaler_keywords():
    return _steps(torch.cuda.amp.GradScaler(init_scale=4.0, growth_interval=5, enabled=True))


def probe_torch_scaler():
    return _steps(torch.amp.GradScaler("cuda")), _steps(torch.amp.GradScaler(device="cuda", init_scale=8.0))


def probe_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = False
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def probe_cudnn():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = True
    return torch.backends.cudnn.is_available() in (True, False)


def probe_fused_optimizer():
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, fused=True)
    net(torch.ones(1, 2).cuda()).sum().backward()
    optimizer.step()
    return net.weight.shape


def probe_foreach_optimizer():
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, foreach=True)
    net(torch.ones(1, 2).cuda()).sum().backward()
    optimizer.step()
    return net.weight.shape


def probe_capturable_optimizer():
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, capturable=True)
    net(torch.ones(1, 2).cuda()).sum().backward()
    optimizer.step()
    return net.weight.shape


def probe_attention():
    x = torch.ones(1, 2, 4, 8, device="cuda")
    return nn.functional.scaled_dot_product_attention(x, x, x).mean()


def probe_attention_backend():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    x = torch.ones(1, 2, 4, 8, device="cuda")
    with sdpa_kernel(SDPBackend.MATH):
        return nn.functional.scaled_dot_product_attention(x, x, x).mean()


def probe_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.ones(1, 2, 128, 16, device="cuda")
    return flex_attention(x, x, x).mean()


def probe_checkpoint():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(2, device="cuda", requires_grad=True)
    checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
    return x.grad.shape


def probe_nvtx():
    torch.cuda.nvtx.range_push("a")
    torch.cuda.nvtx.mark("b")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("c"):
        return "marked"


def probe_profiler():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities):
        torch.ones(2, device="cuda")
    return "profiled"


def probe_autograd_profiler():
    with torch.autograd.profiler.profile(use_device="cuda"):
        torch.ones(2, device="cuda")
    return "profiled"


def probe_lazy_call():
    torch.cuda.init()
    return torch.cuda.is_initialized()


def probe_cudart():
    return torch.cuda.cudart() is not None


def probe_peer():
    return torch.cuda.can_device_access_peer(0, 0) in (True, False)


def probe_allocator():
    return isinstance(torch.cuda.get_allocator_backend(), str)


def probe_accelerator():
    torch.accelerator.synchronize()
    return torch.accelerator.is_available(), torch.accelerator.current_accelerator().type == "cuda"
