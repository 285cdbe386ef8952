"""Logs of runs that went well, of five stacks, as long as they are wanted: what no entry may take for a failure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

_TORCHRUN = (
    "W1126 10:00:00.123000 1234 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable to be 1",
    "[W1126 10:00:01.1 socket.cpp:759] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 "
    "- Cannot assign requested address).",
    "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be retrieved (gai error: -2)",
    "torch.distributed.distributed_c10d - INFO - Waiting in store based barrier to initialize process group for rank: "
    "{rank}, key: store_based_barrier_key:1 (world_size=8, worker_count={rank}, timeout=0:30:00)",
    "node{host}:1234:5678 [{rank}] NCCL INFO Channel 00/02 : 0 1 2 3 via P2P/IPC",
    "[rank{rank}]: {day} {time},{part:03d} - trainer - INFO - epoch 1 iter {step}/10000 loss {loss} memory 507015",
    "Step {step}: loss={loss}, errors: 0, failed=0, skipped 0, grad_norm 107001.5, timeout=600000",
    "{day} {time} INFO checkpoint {step} saved, exit code 0, return code 0",
    "UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly",
    "WARNING: Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared "
    "object file: No such file or directory",
    "[I1126 10:01:00.1 ProcessGroupNCCL.cpp:852] [Rank {rank}] ProcessGroupNCCL watchdog thread started!",
    "E0000 00:00:1732600000.{part:06d} 12 cuda_fft.cc:467] Unable to register cuFFT factory: it was registered before",
    "{day} {time} INFO log level: ERROR, --log-level ERROR, LOGLEVEL=ERROR, levels INFO, WARNING, ERROR; 0 ERROR",
    "epoch {rank} val error: {loss} top1 error: 0.31 MSE error: {loss} relative error: 1e-3 ERROR: 0",
)
_CANN = (
    "[INFO] RUNTIME(1234,python):2026-11-26-{time}.{part:03d}.123 [stream.cc:11] 5678 GetError: stream_id={step} done",
    "[EVENT] HCCL(1234,python3):2026-11-26-{time}.{part:03d}.456 [op_base.cc:221] [5678] Entry-HcclAllReduce: "
    "tag[AllReduce_x], count[{step}], dataType[fp32]",
    "[W1126 10:11:21.123456 compiler_depend.ts:57] Warning: CAUTION: The operator 'aten::isin' is not currently "
    "supported on the NPU backend and will fall back to run on the CPU. (function npu_cpu_fallback)",
    "[rank{rank}]:[W1126 10:11:21.9 compiler_depend.ts:877] Warning: The HCCL execution timeout was set to never "
    "timeout, "
    "so it is bigger than watchdog timeout 1800000ms",
    "[Rank {rank}] HCCL watchdog thread started!",
    "UserWarning: Warning: The /usr/local/Ascend/ascend-toolkit/latest owner does not match the current owner.",
    "| {rank}     910B3               | OK            | 94.6        49                0    / 0             |",
    "iteration {step}/ 5000 | consumed samples: 507014 | elapsed time per iteration (ms): 207001.3 | lm loss: {loss} |",
)
_VLLM = (
    "(Worker_TP{rank} pid=123) INFO 11-26 {time} [loggers.py:116] Engine 000: Avg prompt throughput: 5.1 tokens/s",
    'WARNING 11-26 {time} _custom_ops.py:19] Failed to import from vllm._C with ModuleNotFoundError("No module named '
    "'vllm._C'\")",
    '(APIServer pid=1) INFO:     10.0.0.{rank}:49{step} - "POST /v1/chat/completions HTTP/1.1" 500 Internal Error',
    '(APIServer pid=1) INFO:     10.0.0.{rank}:49{step} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "INFO 11-26 {time} [gpu_worker.py:227] Free memory on device (60.1/61.3 GiB) on startup",
    "INFO 11-26 {time} [kv_cache_utils.py:716] GPU KV cache size: {step} tokens",
    "A matching Triton is not available, some optimizations are off. Error caught was: No module named 'triton'",
)
_KUBERNETES = (
    "{day}T{time}.{part:03d}Z stdout F step {step} loss {loss}",
    "[pod/train-worker-{rank}/pytorch] {day}T{time}Z INFO step {step} loss {loss}",
    "worker-{rank}  | {day} {time} INFO step {step} loss {loss} killed 0 tasks",
    "I1126 {time}.000000       1 controller.go:{rank}] pod train-worker-{rank} Succeeded, container exit code 0",
    "Normal  Pulled  2m  kubelet  Successfully pulled image in {step}ms, Restart Count: 0",
)
_KERNEL = (
    "[{step}.{part:06d}] pcieport 0000:00:1c.{rank}: AER: Corrected error received: 0000:00:1c.{rank}",
    "[Thu Nov 26 {time} 2026] EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro",
    'Nov 26 {time} host{host} kernel: audit: type=1400 apparmor="STATUS" operation="profile_load"',
    "Nov 26 {time} host{host} systemd[1]: Started Session {step} of user root, Memory limit not set",
    "[MTGPU] card {rank}: temperature 50, no error",
)
STACKS = {"torchrun": _TORCHRUN, "cann": _CANN, "vllm": _VLLM, "kubernetes": _KUBERNETES, "kernel": _KERNEL}


def lines(stack: str, count: int) -> str:
    """Return so many lines of a stack's log."""
    return "".join(islice(_endless(STACKS[stack]), count))


def _endless(forms: tuple[str, ...]) -> Iterator[str]:
    number = 0
    while True:
        for form in forms:
            number += 1
            yield (
                form.format(
                    rank=number % 8,
                    host=number % 4,
                    day="2026-11-26",
                    time=f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}",
                    part=number % 1000,
                    step=number,
                    loss=f"{2 + 1 / number:.4f}",
                )
                + "\n"
            )
