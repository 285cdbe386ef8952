"""The torch_musa developer manual, tried."""

from __future__ import annotations

import json

import pytest

from tests.documents.trial import Trial

pytestmark = pytest.mark.rehearsal

MODEL = """
import torch, torch_musa
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 2)).musa()
x = torch.ones(4, 3).musa()
"""


def test_7_2_2_the_vendors_porting_class_with_its_arguments(trial: Trial) -> None:
    trial.write("csrc/cuda/k.cu", "#ifdef __NVCC__\nbool f(at::Tensor x) { return x.is_cuda(); }\n#endif\n")
    trial.write("csrc/mlu/k.cpp", "int mlu;\n")
    trial.write(
        "setup.py",
        """
        from torch_musa.utils.simple_porting import SimplePorting
        from torch_musa.utils.musa_extension import MUSAExtension, BuildExtension
        from torch_musa.testing import get_musa_arch
        SimplePorting(cuda_dir_path="./csrc", ignore_dir_paths=["./csrc/mlu"],
                      mapping_rule={"__NVCC__": "__MUSACC__", ".is_cuda()": ".is_privateuseone()"}).run()
        print("arch", get_musa_arch())
        """,
    )
    assert "arch 22\n" in trial.rehearsed("musa", "setup.py")
    ported = trial.read("csrc_musa/cuda/k.mu")
    assert "#ifdef __MUSACC__" in ported
    assert "x.is_privateuseone()" in ported
    assert not (trial.folder / "csrc_musa/mlu").exists()


def test_7_2_2_rules_without_the_default_mapping(trial: Trial) -> None:
    trial.write("k/a.cu", "#ifdef __NVCC__\nbool f(at::Tensor x) { return x.is_cuda(); }\n#endif\n")
    trial.write("r.json", json.dumps({"__NVCC__": "__MUSACC__", ".is_cuda()": ".is_privateuseone()"}))
    trial.says("port", "k", "-t", "musa", "--map", "r.json", "--drop-default-map")
    ported = trial.read("k_musa/a.mu")
    assert ("__MUSACC__" in ported, ".is_privateuseone()" in ported) == (True, True)


PROFILE = """
import torch, torch_musa
from torch.profiler import profile, schedule
model = torch.nn.Linear(3, 2).musa()
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), record_shapes=True, with_stack=True,
             experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)) as p:
    for _ in range(5):
        model(torch.ones(2, 3).musa()).sum().backward()
        p.step()
print(p.key_averages(group_by_input_shape=True).table(sort_by="self_musa_time_total", row_limit=2))
p.export_stacks("stacks.txt", "self_musa_time_total")
print("TABLES")
"""


def test_8_1_the_sort_keys_of_the_manuals_version(trial: Trial) -> None:
    trial.write("sample.py", PROFILE)
    assert "TABLES\n" in trial.rehearsed("musa@2.0.0", "sample.py")
    assert (trial.folder / "stacks.txt").exists()


def test_8_1_a_newer_version_names_them_otherwise_and_scan_says_so(trial: Trial) -> None:
    trial.write("sample.py", PROFILE)
    assert "no attribute 'self_musa_time_total'" in trial.rehearsed("musa", "sample.py", code=1)
    fixed = trial.migrated("musa", "sample.py")
    assert 'sort_by="self_device_time_total"' in fixed
    assert "TABLES\n" in trial.rehearsed("musa", "sample.py")


def test_8_1_the_schedule_of_many_ranks_is_read_from_a_whole_cycle(trial: Trial) -> None:
    trial.write(
        "sample.py",
        """
        import torch, torch_musa
        from torch.profiler import ProfilerActivity as A
        model = torch.nn.Linear(3, 2).musa()
        writer = torch.profiler.tensorboard_trace_handler("result", worker_name="worker0")
        with torch.profiler.profile(activities=[A.CPU, A.MUSA], on_trace_ready=writer,
                                    schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as p:
            for _ in range(10):
                model(torch.ones(2, 3).musa()).sum().backward()
                p.step()
        """,
    )
    trial.rehearsed("musa", "sample.py")
    said = trial.says("profile", "show", "result")
    assert "2 steps" in said
    assert "aten::addmm" in said


COMPARE = f"""
from torch_musa.utils.compare_tool import CompareWithCPU, NanInfTracker, open_module_tracker
{MODEL}
open_module_tracker(model)
with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True, white_list=["torch.ops.aten.zero_"]):
    model(x)
with NanInfTracker():
    model(x)
with CompareWithCPU(enabled=False) as off, NanInfTracker(enabled=False):
    print("OFF")
    model(x)
print("END")
"""


def test_9_1_3_the_vendors_tools_by_their_names(trial: Trial) -> None:
    trial.write("train.py", COMPARE)
    said = trial.rehearsed("musa", "train.py")
    assert "Sequential.0/torch.ops.aten.addmm(forward) succeeds to pass CompareWithCPU test" in said
    assert "END\n" in said
    assert "addmm" not in said.partition("OFF\n")[2].partition("END\n")[0], "switched off"


def test_9_1_5_the_failing_call_is_written_and_tried_again_by_the_manuals_file(trial: Trial) -> None:
    trial.write(
        "train.py",
        f"""
{MODEL}
from torch_musa.utils.compare_tool import CompareWithCPU
with CompareWithCPU(atol=0.001, rtol=0.001, dump_error_data=True, output_dir="saved"):
    model(x)
print("NEVER")
""",
    )
    said = trial.rehearsed("musa", "train.py", options=("--fault", "op=aten.addmm,kind=noise"), code=1)
    assert "fails to pass CompareWithCPU test" in said
    assert "NEVER" not in said
    trial.write(
        "again.py",
        """
        import torch, torch_musa
        from torch_musa.utils.compare_tool import compare_for_single_op
        correct, args, kwargs, out = compare_for_single_op(
            "saved/torch.ops.aten.addmm_inputs.pkl", torch.ops.aten.addmm, atol=0.01, rtol=0.01)
        print("CORRECT", correct, len(args), kwargs)
        """,
    )
    assert "CORRECT True 3 {}\n" in trial.rehearsed("musa", "again.py")


def test_9_1_5_target_op_is_of_no_version_and_the_other_name_is_named(trial: Trial) -> None:
    trial.write("t.py", "import torch_musa\nfrom torch_musa.utils.compare_tool import CompareWithCPU\n"
                        "CompareWithCPU(target_op=['torch.ops.aten.addmm'])\n")  # fmt: skip
    assert "write target_list" in trial.rehearsed("musa", "t.py", code=1)


STEPS = """
import sys, torch, torch_musa
from torch_musa.utils.compare_tool import NanInfTracker
torch.manual_seed(0)
model = torch.nn.Linear(5, 4).musa()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
window = [int(text) for text in sys.argv[1:]] or [None, None]
with NanInfTracker(start_step=window[0], end_step=window[1]) as tracker:
    for step in range(5):
        x = torch.randn(6, 5)
        if step == 3:
            x[0, 0] = float("nan")
        optimizer.zero_grad()
        model(x.musa()).sum().backward()
        optimizer.step()
        tracker.step()
"""


@pytest.mark.parametrize(
    ("window", "named"),
    [((), "step 3: nan first came from input"), (("3", "4"), "step 3: nan first came from input"),
     (("4", "5"), "nan before step 4, the first that was looked at"), (("0", "3"), "")],
)  # fmt: skip
def test_9_1_6_a_step_is_counted_once_and_a_window_blames_nobody_outside(
    trial: Trial, window: tuple[str, ...], named: str
) -> None:
    trial.write("train.py", STEPS)
    said = trial.rehearsed("musa", "train.py", *window)
    assert named in said
    assert ("[WARNING]" in said) == bool(named)


def test_10_2_the_converters_own_options(trial: Trial) -> None:
    program = "import torch\nfrom utils import pick\nprint(torch.ones(1).to(pick.device).device)\n"
    trial.write("yolo/train.py", program)
    trial.write("yolo/utils/pick.py", "device = 'cuda:0'\nimport torch\ntorch.ones(1).to(device)\n")
    left_out = trial.write("yolo/data/x.py", "import torch\ntorch.ones(1).cuda()\n").read_text(encoding="utf-8")
    trial.says("migrate", "-r", "./yolo", "-l", "./yolo/train.py", "-e", "./yolo/data,./yolo/none.py", "-t", "musa")
    assert "import torch_musa\n" in trial.read("yolo/train.py")
    assert "'musa:0'" in trial.read("yolo/utils/pick.py")
    assert trial.read("yolo/data/x.py") == left_out
