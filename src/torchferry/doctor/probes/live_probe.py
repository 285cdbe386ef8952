"""Uses the device: memory, products, dtypes, groups of operators, collectives, copies. Runs on Python 3.8 and later.

Argument: JSON that says what the device is called and which functions of the plugin count and choose devices. Prints
a line of JSON before each step (`doing`) and one for each result, so that a crash loses nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

ASKED: dict[str, Any] = {}
STREAM = 1
BEGUN = time.monotonic()

_RESERVE = 5.0
"""Seconds of the whole time limit that are kept for saying how the last step ended."""


def say(**values: Any) -> None:
    """Print a line of JSON."""
    os.write(STREAM, json.dumps(values).encode() + b"\n")


def named(path: Any) -> Any:
    """Return the object that a dotted path means."""
    parts = path.split(".")
    found = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found


def call(name: Any, *arguments: Any) -> Any:
    """Call a function of the plugin, when it has it."""
    path = ASKED["calls"].get(name)
    return named(path)(*arguments) if path else None


def device(index: Any) -> Any:
    """Return a device."""
    import torch

    kind = ASKED["device"]
    if ASKED["factory"]:
        return named(ASKED["factory"])(f"{kind}:{index}" if index else kind)
    return torch.device(kind, index)


def short(error: Any) -> Any:
    """Return an error as one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:300]


def attempt(name: Any, part: Any, work: Any) -> None:
    """Do one thing and say how it went."""
    say(doing=f"{name} {part}")
    try:
        error = work() or ""
    except Exception as raised:
        error = short(raised)
    say(step=name, part=part, error=error)


def differs(got: Any, wanted: Any, tolerance: Any = 1e-2) -> Any:
    """Compare a result with the CPU's; returns what is wrong."""
    got = got.detach().cpu()
    if got.shape != wanted.shape:
        return f"shape {tuple(got.shape)} in place of {tuple(wanted.shape)}"
    if got.dtype.is_floating_point or got.dtype.is_complex:
        scale = max(float(wanted.detach().abs().max()), 1e-6) if wanted.numel() else 1.0
        far = float((got - wanted.detach()).abs().max()) / scale if wanted.numel() else 0.0
        return "" if far <= tolerance else f"differs from the CPU by {far:.2%} of the largest value"
    return "" if bool((got == wanted).all()) else "differs from the CPU"


def main() -> None:
    """Do all steps."""
    global STREAM  # noqa: PLW0603 - set once, before anything is printed
    ASKED.update(json.loads(sys.argv[1]))
    if not getattr(sys.flags, "safe_path", False):  # with PYTHONSAFEPATH the folder of this file is not there
        del sys.path[0]
    STREAM = os.dup(1)
    os.dup2(2, 1)
    say(doing="start")
    try:
        import torch

        importlib.import_module(ASKED["plugin"])
        count = int(call("device_count") or 0)
        if not count:
            raise RuntimeError("the plugin counts 0 devices")
    except Exception as error:
        say(step="start", error=short(error))
        say(step="end")
        return
    if "rank" in ASKED:
        rank()
        return
    try:
        name = str(call("get_device_name", 0) or "")
    except Exception:
        name = ""
    say(step="start", error="", devices=count, name=name)
    torch.manual_seed(0)
    for index in range(count):
        attempt("allocate", f"{ASKED['device']}:{index}", lambda index=index: allocate(index))
    for index in range(count):
        attempt("matmul", f"{ASKED['device']}:{index}", lambda index=index: matmul(index))
    for dtype in ASKED["dtypes"]:
        if hasattr(torch, dtype):
            attempt("dtype", dtype, lambda dtype=dtype: try_dtype(getattr(torch, dtype)))
    for group, work in groups().items():
        attempt("operators", group, lambda work=work: both(work))
    for form, work in masks().items():
        attempt("masks", form, work)
    if not ASKED["rehearsed"]:
        bandwidth()
    collective(count)
    say(step="end")


def allocate(index: Any) -> Any:
    """Write 4 MiB and read them back."""
    import torch

    values = torch.arange(1 << 20, dtype=torch.float32)
    return differs(values.to(device(index)), values, 0.0)


def matmul(index: Any) -> Any:
    """Multiply two matrices."""
    import torch

    left, right = torch.randn(256, 256), torch.randn(256, 256)
    return differs(left.to(device(index)) @ right.to(device(index)), left @ right)


def try_dtype(dtype: Any) -> Any:
    """Add in a dtype; a result in another dtype, or with values lost, is said."""
    import torch

    # a value that a narrower type of the same kind cannot hold
    probe = {torch.int64: 2**40 + 1, torch.int32: 2**20 + 1, torch.float64: 1.0 + 2**-40}.get(dtype, 1)
    values = torch.tensor([0, 1, probe], dtype=dtype)
    got = values.to(device(0))
    got = (got | got) if dtype == torch.bool else (got + got)
    wanted = (values | values) if dtype == torch.bool else (values + values)
    if got.dtype != dtype:
        return f"the result is {got.dtype}"
    return "" if bool((got.cpu() == wanted).all()) else "values are narrowed: 64 bits are not kept"


def both(work: Any) -> Any:
    """Do the same on the CPU and on the device, and compare."""
    import torch

    place = device(0)
    torch.manual_seed(1)
    wanted = work(lambda tensor: tensor)
    torch.manual_seed(1)
    got = work(lambda tensor: tensor.to(place))
    for one, other in zip(got, wanted):  # noqa: B905 - `strict` is of Python 3.10
        wrong = differs(one, other, 2e-2)
        if wrong:
            return wrong
    return ""


def groups() -> Any:
    """Return the groups of operators: each a function of how a tensor is placed, giving results to compare."""
    import torch
    from torch.nn import functional

    def normal(*shape: Any) -> Any:
        return torch.randn(*shape)

    def backward(place: Any) -> Any:
        inputs, weight = place(normal(4, 8)), place(normal(3, 8)).requires_grad_()
        loss: Any = functional.cross_entropy(inputs @ weight.t(), place(torch.tensor([0, 1, 2, 0])))
        loss.backward()
        return [weight.grad]

    def training(place: Any) -> Any:
        parameter = torch.nn.Parameter(place(normal(8, 8)))
        optimizer = torch.optim.AdamW([parameter], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss: Any = parameter.pow(2).sum()
            loss.backward()
            optimizer.step()
        return [parameter]

    def attention(place: Any) -> Any:
        query, key, value = (place(normal(1, 2, 16, 8)) for _ in range(3))
        if hasattr(functional, "scaled_dot_product_attention"):
            return [functional.scaled_dot_product_attention(query, key, value)]
        return [torch.softmax(query @ key.transpose(-1, -2) / 8**0.5, -1) @ value]

    def recurrent(place: Any) -> Any:
        torch.manual_seed(2)
        layer = torch.nn.LSTM(4, 4)
        inputs = normal(3, 2, 4)
        for item in layer.parameters():
            item.data = place(item.data)
        return [layer(place(inputs))[0]]

    return {
        "elementwise": lambda place: [(place(normal(64)).exp() * 2 + 1).sqrt()],
        "reduction": lambda place: [(x := place(normal(32, 8))).sum(0), x.mean(1), x.max(1)[0]],
        "matrix product": lambda place: [place(normal(4, 8, 8)) @ place(normal(4, 8, 8))],
        "convolution": lambda place: [functional.conv2d(place(normal(1, 3, 16, 16)), place(normal(4, 3, 3, 3)))],
        "pooling": lambda place: [functional.max_pool2d(place(normal(1, 3, 16, 16)), 2)],
        "normalisation": lambda place: [functional.layer_norm(place(normal(4, 16)), (16,))],
        "activation": lambda place: [functional.gelu(place(normal(64))), functional.silu(place(normal(64)))],
        "softmax": lambda place: [torch.softmax(place(normal(4, 16)), -1)],
        "attention": attention,
        "embedding": lambda place: [functional.embedding(place(torch.tensor([1, 2, 3])), place(normal(8, 4)))],
        "indexing": lambda place: [place(normal(8, 4))[place(torch.tensor([0, 3, 5]))]],
        "concatenation": lambda place: [torch.cat([place(normal(2, 4)), place(normal(3, 4))])],
        "sorting": lambda place: [place(normal(32)).sort()[0], place(normal(32)).topk(4)[0]],
        "comparison": lambda place: [torch.where(place(normal(32)) > 0, place(torch.ones(32)), place(torch.zeros(32)))],
        "interpolation": lambda place: [functional.interpolate(place(normal(1, 2, 8, 8)), scale_factor=2.0)],
        "recurrent layer": recurrent,
        "loss and gradient": backward,
        "optimizer": training,
    }


def masks() -> Any:
    """Return the forms of attention masks: each a function that says where the device takes it otherwise than the CPU.

    Half precision and sizes that a fused kernel takes. Rows in which nothing is attended to
    are looked at apart: their result is a convention, 0 or NaN or the mean of all values.
    """
    import torch
    from torch.nn import functional

    if not hasattr(functional, "scaled_dot_product_attention"):
        return {}
    attend: Any = functional.scaled_dot_product_attention
    length, place = 128, device(0)
    torch.manual_seed(3)
    query, key, value = (torch.randn(1, 2, length, 64, dtype=torch.float16) for _ in range(3))
    there = [tensor.to(place) for tensor in (query, key, value)]
    padded = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
    padded[..., 100:] = False
    least = torch.finfo(torch.float16).min
    additive = torch.zeros(padded.shape, dtype=torch.float16).masked_fill(~padded, least)
    bias = -torch.arange(length, dtype=torch.float32).sub(torch.arange(length)[:, None]).abs() / 16
    empty = padded.clone()
    empty[..., 5, :] = False
    infinite = torch.zeros(empty.shape, dtype=torch.float16).masked_fill(~empty, float("-inf"))
    rows = [row for row in range(length) if row != 5]

    def whole(mask: Any, causal: Any = False) -> Any:
        wanted = attend(query.float(), key.float(), value.float(), None if mask is None else of(mask), is_causal=causal)
        got = attend(*there, None if mask is None else mask.to(place), is_causal=causal)
        return differs(got.float(), wanted, 2e-2)

    def of(mask: Any) -> Any:
        return mask if mask.dtype == torch.bool else mask.float()

    def row(mask: Any) -> Any:
        wanted = attend(query.float(), key.float(), value.float(), of(mask))
        got = attend(*there, mask.to(place)).float().cpu()
        wrong = differs(got[..., rows, :], wanted[..., rows, :], 2e-2)
        if wrong:
            return f"the other rows: {wrong}"
        one, other = convention(got[..., 5, :]), convention(wanted[..., 5, :])
        return "" if one == other else f"{one}, and {other} on the CPU"

    def convention(result: Any) -> Any:
        if bool(result.isnan().all()):
            return "NaN"
        return "0" if bool((result == 0).all()) else "other values"

    return {
        "boolean": lambda: whole(padded),
        "additive": lambda: whole(additive),
        "additive bias": lambda: whole(bias.to(torch.float16).expand(1, 1, length, length)),
        "causal": lambda: whole(None, True),
        "boolean with an empty row": lambda: row(empty),
        "additive with an empty row": lambda: row(infinite),
    }


def bandwidth() -> None:
    """Measure copies of 64 MiB to the device and back; the fastest of five counts."""
    import torch

    say(doing="bandwidth")
    size = 64 << 20
    try:
        host = torch.ones(size, dtype=torch.uint8)
        there = host.to(device(0))
        up, down = [], []
        for _ in range(5):
            call("synchronize")
            begun = time.perf_counter()
            there = host.to(device(0))
            call("synchronize")
            up.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            there.cpu()
            down.append(time.perf_counter() - begun)
        say(step="bandwidth", error="", mebibytes=64, up=size / min(up) / 1e9, down=size / min(down) / 1e9)
    except Exception as error:
        say(step="bandwidth", error=short(error))


def collective(count: Any) -> None:
    """Start a rank for each device and add up their numbers."""
    say(doing="collective")
    if count < 2:
        say(step="collective", skipped=True)
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ranks = []
    for index in range(count):
        asked = {**ASKED, "rank": index, "ranks": count, "port": port}
        environment = {**os.environ, "LOCAL_RANK": str(index), "LOCAL_WORLD_SIZE": str(count)}
        environment.update(RANK=str(index), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        command = [sys.executable, os.path.abspath(__file__), json.dumps(asked)]
        ranks.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment))
    limit = min(max(10.0, ASKED["timeout"] / 2), BEGUN + ASKED["timeout"] - time.monotonic() - _RESERVE)
    end = time.monotonic() + limit
    problems, lines, late = [], [], False
    for index, process in enumerate(ranks):
        stopped = False
        try:
            out, err = process.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            late = stopped = True
            try:
                out, err = process.communicate(timeout=1.0)
            except subprocess.TimeoutExpired:  # what it started holds its streams open
                out = err = b""
        answers = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
        wrong = next((one["error"] for one in answers if one.get("error")), "")
        if wrong or (process.returncode and not stopped):
            problems.append(f"rank {index}: {wrong or f'exit status {process.returncode}'}")
            lines += err.decode("utf-8", "replace").splitlines()[-3:]
    error = "; ".join(problems[:3])[:600]  # one rank that failed keeps the others waiting: the error is what counts
    say(step="collective", error=error, ranks=count, lines=lines[:6], limit=limit if late and not error else 0)


def rank() -> None:
    """Be one rank: add up the numbers of all."""
    import torch

    error = ""
    try:
        index, count = ASKED["rank"], ASKED["ranks"]
        call("set_device", index)
        distributed = importlib.import_module(ASKED["distributed"])
        where = f"tcp://127.0.0.1:{ASKED['port']}"
        distributed.init_process_group(ASKED["collective"], init_method=where, rank=index, world_size=count)
        values = torch.full((1024,), float(index + 1)).to(device(index))
        distributed.all_reduce(values)
        error = differs(values, torch.full((1024,), count * (count + 1) / 2))
        distributed.destroy_process_group()
    except Exception as raised:
        error = short(raised)
    say(step="rank", error=error)


if __name__ == "__main__":
    main()
