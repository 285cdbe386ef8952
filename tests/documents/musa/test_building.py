"""The torch_musa developer manual, tried: the machine, the build, the operators and a library's kernels.

The SDK and the sources of torch are stand-ins. The library stands for mmcv: its folders, names and build script.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.cli.process import torchferry
from tests.documents.trial import Trial, dear
from torchferry.backends import registry
from torchferry.backends.deployment import deployment

pytestmark = pytest.mark.rehearsal

IMAGE = "registry.mthreads.com/mcconline/musa-pytorch-dev-public:rc4.0.1-v2.0.0-qy1-py310"


@pytest.mark.parametrize("name", ["core", "core.amp", "core.device", "core.memory", "core.stream", "core.stream.Event"])
def test_3_4_the_modules_of_the_source_tree(trial: Trial, name: str) -> None:
    said = trial.says("api", f"torch_musa.{name}", "-t", "musa@2.0.0")
    assert "a name of the plugin itself; found in version 2.0.0" in said


@dear
def test_4_1_and_11_2_what_must_be_there_is_looked_for(trial: Trial) -> None:
    done = torchferry("doctor", "-t", "musa", "-f", "json", cwd=trial.folder)
    results = json.loads(done.stdout)["results"]
    checks = {each["check"] for each in results}
    assert {"sdk.installed", "python.versions", "container.runtime"} <= checks
    said = json.dumps(results)
    for part in ("MUSA SDK", "libmudnn.so", "libmccl.so", "libmusart.so"):
        assert part in said, part
    facts = deployment(registry.load("musa"))
    assert facts is not None
    (build,) = [step for step in facts.steps if step.id == "build-torch"]
    for part in ("libmurand.so", "libmusparse.so", "include/thrust", "include/cub", "include/mutlass"):
        assert part in build.run, part  # muRAND, muSPARSE, muThrust, muAlg, mutlass


CONTAINER = ("--name \"$CONTAINER\"", "--env=MTHREADS_VISIBLE_DEVICES=all", "--shm-size=80g", f"IMAGE={IMAGE}",
             "CONTAINER=torch_musa_dev", './docker setup "$PWD"', "groupadd -o -g 109 render")  # fmt: skip
"""4.3 and 11.4: what `docker run` is given, and the runtime that is bound to Docker; 11.1: the group."""


def test_4_3_the_development_container(trial: Trial) -> None:
    plan = trial.says("deploy", "plan", "-t", "musa", "--set", f"image={IMAGE}")
    assert [word for word in CONTAINER if word not in plan] == []
    said = trial.says("deploy", "dockerfile", "-t", "musa", "--set", f"image={IMAGE}")
    for line in (f"FROM {IMAGE}", 'shm_size: "80g"', "container_name: torch_musa_dev"):
        assert line in said, line


OPTIONS = ["", "--torch", "--musa", "--fp64", "--debug", "--asan", "--clean", "-m", "--only-patch"]


@dear
def test_4_4_2_and_4_4_3_each_option_reaches_the_build_script(trial: Trial) -> None:
    """The script is a stand-in, which notes how it is called."""
    facts = deployment(registry.load("musa"))
    assert facts is not None
    (build,) = [step for step in facts.steps if step.id == "build-torch"]
    for part in ("lib/libmurand.so", "lib/libmusparse.so", "include/thrust", "include/cub", "include/mutlass"):
        trial.write(f"sdk/{part}", "")
    trial.write("sources/torch_musa/build.sh", f'echo "$*|$MUSA_HOME|$PYTORCH_REPO_PATH" >> {trial.folder}/asked\n')
    trial.write("sources/pytorch/setup.py", "")
    (trial.folder / "state").mkdir()
    text = build.run.replace("/workspace/build", f"{trial.folder}/build")
    variables = {**os.environ, "STATE": str(trial.folder / "state"), "SOURCES": str(trial.folder / "sources"),
                 "SOURCES_SHA256": "1", "CONTAINER_SPEC": "1", "MUSA_HOME": str(trial.folder / "sdk")}  # fmt: skip
    for option in OPTIONS:
        plan = trial.says(
            *("deploy", "plan", "-t", "musa", "--set", f"image={IMAGE}", "--set", "build_from_source=yes"),
            *("--set", f"build_args={option}"),
        )
        assert not option or f"export BUILD_ARGS={option}\n" in plan
        subprocess.run(["bash", "-c", text], env=variables | {"BUILD_ARGS": option}, check=True)
    asked = [line.split("|") for line in trial.read("asked").splitlines()]
    assert [line[0] for line in asked] == OPTIONS
    assert {line[2] for line in asked} == {f"{trial.folder}/build/pytorch"}
    assert build.when == ("build_from_source", "yes")
    hint = facts.explained("build-torch", "ninja: build stopped: subcommand failed.")  # 11.3
    assert hint is not None
    assert "python setup.py clean && bash build.sh; if it still fails, update the MUSA SDK" in hint.advice.en


def test_5_1_the_variables_of_a_run(trial: Trial) -> None:
    names = ("TORCH_SHOW_CPP_STACKTRACES", "MUDNN_LOG_LEVEL", "MUSA_LAUNCH_BLOCKING", "MUSA_VISIBLE_DEVICES")
    trial.write("show.py", f"import os\nprint([os.environ.get(name) for name in {names}])\n")
    command = ("run", "-t", "musa", "--vendor-log", "info", "--", sys.executable, "show.py")
    done = torchferry(*command, cwd=trial.folder, env={"MUSA_VISIBLE_DEVICES": "0,1,2,3"})
    assert "['1', 'INFO', '1', '0,1,2,3']" in done.stdout


TRIL = """
import torch
import torch_musa
input_data = torch.randn(3, 3, device="musa")
result = torch.tril(input_data)
print("device", result.device)
"""


@dear
def test_6_2_an_operator_that_is_there_and_one_that_is_missing(trial: Trial) -> None:
    trial.write("tril.py", TRIL)
    assert "device musa:0\n" in trial.rehearsed("musa", "tril.py")
    trial.write("card.toml", 'missing = ["tril", "tril.out"]\n')
    said = trial.rehearsed("musa", "tril.py", options=("--profile", "card.toml"), code=1)
    assert "NotImplementedError: Could not run 'aten::tril" in said
    assert "operators that the plugin lacks: 1\n      tril.py:5  aten::tril" in said


STEPS = ("self.device().type() == kMUSA", "const c10::musa::MUSAGuard guard(self.device());", ".contiguous();",
         "CreateMUTensor(", "GetMudnnHandle();", "::musa::dnn::Binary::Mode::ADD", "CHECK_MUDNN_STATUS(op.Run(",
)  # fmt: skip


def test_6_4_2_and_6_4_3_the_steps_of_the_library_and_the_cpu(trial: Trial) -> None:
    kind = ("--kind", "override", "--library", "mudnn")
    trial.says("ops", "new", "-t", "musa", "add.Tensor", *kind, "--out", "k")
    skeleton = trial.read("k/add.cpp")
    places = [skeleton.index(step) for step in STEPS]
    assert places == sorted(places), "in the manual's order"
    declared = trial.read("k/functions.yaml")
    for line in ("PrivateUse1: AddTensor\n", "PrivateUse1: AddTensor_\n", "PrivateUse1: AddOut\n", "structured: false"):
        assert line in declared, line
    trial.says("ops", "new", "-t", "musa", "add.Tensor", "--kind", "fallback", "--out", "f")
    assert "fallback: cpu" in trial.read("f/functions.yaml")


KERNEL = """
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include "nms_cuda_kernel.cuh"
#ifdef __NVCC__
#endif
#ifdef MMCV_WITH_CUDA
Tensor NMSCUDAKernelLauncher(Tensor boxes) {
  at::cuda::CUDAGuard device_guard(boxes.device());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(boxes.scalar_type(), "nms", ([&] {
    nms_cuda<<<1, 32, 0, stream>>>(3, boxes.data_ptr<float>()); }));
  TORCH_CHECK(boxes.is_cuda());
  return Accumulate(boxes);
}
REGISTER_DEVICE_IMPL(nms_impl, CUDA, nms_cuda);
#endif
"""

HEADER = """
#ifndef NMS_CUDA_KERNEL_CUH
#define NMS_CUDA_KERNEL_CUH
__global__ void nms_cuda(const int n, const float *boxes) { int i = blockIdx.x * blockDim.x + threadIdx.x; }
#endif
"""

LARGE = """
__global__ void upfirdn2d_kernel_small(const double *in) {
  __shared__ double tile[128 * 64];
  tile[threadIdx.x] = in[threadIdx.x];
}
"""
"""More than the 28672 bytes of shared memory of the manual's card."""

SETUP = """
import glob
import os
from setuptools import setup
import torch
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CppExtension

def get_extensions():
    define_macros = []
    include_dirs = []
    extra_compile_args = {'cxx': []}
    is_rocm_pytorch = False
    if is_rocm_pytorch or torch.cuda.is_available() or os.getenv(
            'FORCE_CUDA', '0') == '1':
        if is_rocm_pytorch:
            define_macros += [('MMCV_WITH_HIP', None)]
        define_macros += [('MMCV_WITH_CUDA', None)]
        cuda_args = os.getenv('MMCV_CUDA_ARGS')
        extra_compile_args['nvcc'] = [cuda_args] if cuda_args else []
        op_files = glob.glob('./mmcv/ops/csrc/pytorch/*.cpp') + \\
            glob.glob('./mmcv/ops/csrc/pytorch/cpu/*.cpp') + \\
            glob.glob('./mmcv/ops/csrc/pytorch/cuda/*.cu') + \\
            glob.glob('./mmcv/ops/csrc/pytorch/cuda/*.cpp')
        extension = CUDAExtension
        include_dirs.append(os.path.abspath('./mmcv/ops/csrc/pytorch'))
        include_dirs.append(os.path.abspath('./mmcv/ops/csrc/common'))
        include_dirs.append(os.path.abspath('./mmcv/ops/csrc/common/cuda'))
    else:
        op_files = glob.glob('./mmcv/ops/csrc/pytorch/*.cpp')
        extension = CppExtension
    print("builds", extension.__name__, sorted(define_macros), sorted(op_files), os.environ.get('MUSA_ARCH'))
    return [extension(name='mmcv._ext', sources=op_files, include_dirs=include_dirs, define_macros=define_macros,
                      extra_compile_args=extra_compile_args)]

cmd_class = {'build_ext': BuildExtension}
setup(name='mmcv', ext_modules=get_extensions(), cmdclass=cmd_class)
"""

UNIT = """
import pytest
import torch
IS_CUDA_AVAILABLE = torch.cuda.is_available()

class TestBoxIoUQuadri:
    @pytest.mark.parametrize('device', [
        'cpu',
        pytest.param(
            'cuda',
            marks=pytest.mark.skipif(
                not IS_CUDA_AVAILABLE, reason='requires CUDA support')),
    ])
    def test_box_iou_quadri_cuda(self, device):
        assert torch.ones(3).to(device).sum().item() == 3
"""

LEFT_OUT = ("common/mlu", "common/mps", "parrots", "pytorch/mlu", "pytorch/mps", "pytorch/npu")


@pytest.fixture
def library(trial: Trial) -> Trial:
    """A library with the folders, the names and the build of the manual's."""
    csrc = "mmcv/ops/csrc"
    trial.write(f"{csrc}/common/cuda/nms_cuda_kernel.cuh", HEADER)
    trial.write(f"{csrc}/pytorch/cuda/nms_cuda.cu", KERNEL)
    trial.write(f"{csrc}/pytorch/cuda/upfirdn2d_kernel.cu", LARGE)
    trial.write(f"{csrc}/pytorch/nms.cpp", "int nms;\n")
    for folder in LEFT_OUT:
        trial.write(f"{csrc}/{folder}/k.cpp", "int cuda;\n")
    trial.write("setup.py", SETUP)
    trial.write("MANIFEST.in", f"include {csrc}/common/cuda/*.cuh\ninclude {csrc}/pytorch/cuda/*.cu\n")
    trial.write("tests/test_ops/test_box_iou_quadri.py", UNIT)
    return trial


def port(library: Trial, *options: str) -> str:
    """Port the library by the manual's folders, and return what is said."""
    ignored = [word for folder in LEFT_OUT for word in ("--ignore", f"./mmcv/ops/csrc/{folder}")]
    return library.says("port", "./mmcv/ops/csrc", "-t", "musa", *ignored, *options, code=1)  # a file needs hands


def test_7_2_2_the_projects_own_names_become_rules(library: Trial) -> None:
    port(library, "--names", "names.toml")
    assert '\nMMCV_WITH_CUDA = "MMCV_WITH_MUSA"\n' in library.read("names.toml")
    library.says("undo", "mmcv/ops/csrc_musa")
    port(library, "--map", "names.toml")
    ported = library.read("mmcv/ops/csrc_musa/pytorch/cuda/nms_cuda.mu")
    for text in (
        '#include "torch_musa/csrc/aten/musa/MUSAContext.h"',  # the manual's rules by their numbers: 6
        '#include "torch_musa/csrc/core/MUSAGuard.h"',  # 7
        '#include "nms_cuda_kernel.muh"',  # 11
        "#ifdef __MUSACC__",  # 3
        "#ifdef MMCV_WITH_MUSA",  # 4
        "at::musa::getCurrentMUSAStream()",  # 8
        "boxes.is_privateuseone()",  # 12
        "REGISTER_DEVICE_IMPL(nms_impl, PrivateUse1, nms_cuda)",  # 10
        "return Accumulate(boxes)",  # what a rule without borders of words would spoil
    ):
        assert text in ported, text
    assert not [name for name in LEFT_OUT if (library.folder / f"mmcv/ops/csrc_musa/{name}").exists()]


@dear
def test_7_2_3_and_7_2_4_the_branch_builds_for_the_card_and_the_tests_run_there(library: Trial) -> None:
    before = library.read("setup.py")
    port(library, "--names", "names.toml")
    library.says("undo", "mmcv/ops/csrc_musa")
    said = port(library, "--map", "names.toml", "--build", "setup.py", "--build", "MANIFEST.in", "--build-style",
                "branch", "--tests", "tests")  # fmt: skip
    assert "build                           FORCE_MUSA=1 python setup.py build_ext --inplace" in said
    assert "csrc_musa/common/cuda/*.muh" in library.read("MANIFEST.in")
    built = library.rehearsed("musa", "setup.py", "--name", variables={"FORCE_MUSA": "1"})
    line = next(line for line in built.splitlines() if line.startswith("builds"))
    assert line.startswith("builds describe [('MMCV_WITH_MUSA', None), ('MUSA_ARCH', '22')]"), line
    assert "./mmcv/ops/csrc_musa/pytorch/cuda/nms_cuda.mu" in line
    assert line.endswith(" 22"), "MUSA_ARCH in the environment"
    plain = library.rehearsed("musa", "setup.py", "--name")
    assert "builds CppExtension []" in plain, "without its variable the build is as it was"
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_ops/test_box_iou_quadri.py")
    assert re.search(r"2 passed, 1 skipped", library.rehearsed("musa", *tests))
    library.says("undo", ".")
    assert library.read("setup.py") == before


def test_7_2_4_the_kernel_that_wants_too_much_shared_memory_is_named(library: Trial) -> None:
    said = port(library, "-v")
    assert "files to edit by hand           1: pytorch/cuda/upfirdn2d_kernel.cu\n" in said
    assert "shared memory, 65536 B, above the limit of a card (28672 B)" in said


@dear
def test_8_1_a_trace_is_read_and_two_are_compared(trial: Trial) -> None:
    program = """
        import sys, torch, torch_musa
        from torch.profiler import profile, schedule
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).musa()
        def trace_handler(p):
            print(p.key_averages().table(sort_by="self_musa_time_total", row_limit=10))
            p.export_chrome_trace(sys.argv[1] + "/trace_" + str(p.step_num) + ".json")
        with profile(schedule=schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2),
                     on_trace_ready=trace_handler, profile_memory=True, record_shapes=True) as prof:
            for step in range(11):
                for _ in range(int(sys.argv[2])):
                    model(torch.ones(2, 8).musa()).sum().backward()
                prof.step()
    """
    trial.write("sample.py", program)
    for folder, times in (("one", "1"), ("three", "3")):
        (trial.folder / folder).mkdir()
        trial.rehearsed("musa@2.0.0", "sample.py", folder, times)
        assert sorted(path.name for path in (trial.folder / folder).iterdir()) == ["trace_5.json", "trace_9.json"]
    said = trial.says("profile", "show", "one/trace_5.json")
    assert "2 steps" in said
    assert "aten::addmm" in said
    said = trial.says("profile", "compare", "one/trace_5.json", "three/trace_5.json", "--force")
    assert "aten::addmm" in said


@dear
def test_11_6_the_block_for_an_issue(trial: Trial) -> None:
    done = torchferry("doctor", "-t", "musa", "-f", "issue", cwd=trial.folder)
    for word in ("| torch_musa |", "| MUSA SDK |", "| torch |", "| driver |"):
        assert word in done.stdout, word


DEPLOYED = """
#include <torch/script.h>
int main(int argc, const char* argv[]) {
  torch::jit::script::Module module = torch::jit::load(argv[1]);
  std::vector<torch::jit::IValue> inputs;
  torch::Tensor input = torch::rand({1, 3, 224, 224}).to("cuda");
  inputs.push_back(input);
  at::Tensor output = module.forward(inputs).toTensor();
}
"""


def test_5_8_a_program_of_libtorch_is_told_its_device_and_its_registration(trial: Trial) -> None:
    trial.write("main.cpp", DEPLOYED)
    said = trial.says("scan", ".", "-t", "musa", "-v", code=1)
    assert 'main.cpp:6:58  the string "cuda" names the device' in said
    assert "call `c10::register_privateuse1_backend` with the target's device name before the model is loaded" in said
    trial.write("main.cpp", DEPLOYED.replace("  torch::jit::script", '  c10::register_privateuse1_backend("musa");\n'
                                             "  torch::jit::script").replace('"cuda"', '"musa"'))  # fmt: skip
    assert "nothing has to change" in trial.says("scan", ".", "-t", "musa")


PROFILED = """
import torch, torch_musa
from torch.profiler import profile, ProfilerActivity
model = torch.nn.Linear(2, 2).musa()
for options in ({"use_musa": True}, {"use_musa": False}, {"activities": [ProfilerActivity.CPU, ProfilerActivity.MUSA]}):
    with profile(**options) as p:
        model(torch.ones(1, 2).musa())
    print(sorted(options), "addmm" in p.key_averages().table())
"""


@dear
def test_8_1_the_switches_that_change_nothing(trial: Trial) -> None:
    trial.write("sample.py", PROFILED)
    said = trial.rehearsed("musa@2.0.0", "sample.py")
    assert said.count("['use_musa'] True\n") == 2
    assert "['activities'] True\n" in said
    assert "unexpected keyword argument 'use_musa'" in trial.rehearsed("musa", "sample.py", code=1), "gone since 2.1.0"


SINGLE = """
import torch, torch_musa
from torch_musa.utils.compare_tool import CompareWithCPU, nan_inf_track_for_single_op
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32)).musa().half()
try:
    with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True, dump_error_data=True, output_dir="path_to_save"):
        model(torch.ones(4, 64).musa().half())
except Exception as error:
    print("stopped", type(error).__name__)
correct, args, kwargs, out = nan_inf_track_for_single_op(
    "path_to_save/torch.ops.aten.addmm_inputs.pkl", torch.ops.aten.addmm)
print("found", correct, len(args), kwargs, out.dtype)
"""


@dear
def test_9_1_4_and_9_1_5_a_half_dtype_and_one_written_call_for_nan(trial: Trial) -> None:
    trial.write("half.py", SINGLE)
    said = trial.rehearsed("musa@2.0.0", "half.py", options=("--fault", "op=aten.addmm,kind=noise,scale=0.9"))
    assert "[ERROR] torch.ops.aten.addmm(forward) fails to pass" in said.replace("Sequential.0/", "")
    assert "stopped ComparisonFailed\nfound False 3 {} torch.float16\n" in said


NODES = """
import argparse, os, torch, torch_musa
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
def runner(gpu, args):
    rank = args.nr * args.gpus + gpu
    torch_musa.set_device(rank % torch.musa.device_count())
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    dist.init_process_group("mccl", rank=rank, world_size=args.world_size)
    model = torch.nn.Linear(4, 4).to("musa")
    ddp_model = DDP(model, device_ids=[rank % torch.musa.device_count()])
    handler = torch.profiler.tensorboard_trace_handler("./result_dist_ddp", worker_name="worker" + str(rank))
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.MUSA]
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(activities=both, schedule=schedule, on_trace_ready=handler) as p:
        for step in range(4):
            ddp_model(torch.ones(2, 4).to("musa")).sum().backward()
            p.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--nodes", default=1, type=int)
    parser.add_argument("-g", "--gpus", default=1, type=int)
    parser.add_argument("-nr", "--nr", default=0, type=int)
    args = parser.parse_args()
    args.world_size = args.gpus * args.nodes
    mp.spawn(runner, args=(args,), nprocs=args.gpus, join=True)
"""


@dear
def test_8_1_two_nodes_with_two_ranks_each_leave_a_trace_a_rank(trial: Trial) -> None:
    """Both nodes are processes of this machine: how many ranks are a node's own is said as torchrun says it."""
    trial.write("nodes.py", NODES)
    tool = [sys.executable, "-m", "torchferry", "rehearse", "-t", "musa@2.0.0", "--devices", "2", "--", sys.executable]
    environment = {**os.environ, "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    nodes = [
        subprocess.Popen([*tool, "nodes.py", "-n", "2", "-g", "2", "-nr", number], cwd=trial.folder, env=environment)
        for number in ("0", "1")
    ]
    try:
        assert [node.wait(timeout=120) for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            node.kill()
    names = {path.name.partition(".")[0] for path in (trial.folder / "result_dist_ddp").iterdir()}
    assert names == {f"worker{rank}" for rank in range(4)}
    assert "rank 0 of 4" in trial.says("profile", "show", "result_dist_ddp")
