"""The verdict of programs that come to parts of packages, by themselves or through another package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from torchferry.programs.model import JudgedProgram, Reachability, Verdict

GUARDED = "\nif __name__ == '__main__':\n    main()\n"
ARGUMENTS = "import argparse\nparser = argparse.ArgumentParser()\n"


def program(body: str, *imports: str) -> str:
    """Return a program whose function `main` has a body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return "import torch\n" + "".join(f"{line}\n" for line in imports) + f"def main():\n{lines}" + GUARDED


def verdict(tmp_path: Path, text: str, target: str = "npu", others: Files | None = None) -> JudgedProgram:
    return judged(tmp_path, {"train.py": text, **(others or {})}, target)["train.py"]


def blocked_by(found: JudgedProgram) -> list[str]:
    return [obstacle.what for obstacle in found.blockers]


SOFTMAX = program("scatter_softmax(x, i)", "from torch_scatter import scatter_softmax")
KNN = program("knn_graph(x, 16)", "from torch_cluster import knn_graph")
LAUNCH = "parser.add_argument('--num-gpus', type=int, default=1)\nargs = parser.parse_args()\n"
FOUR = "AutoModel.from_pretrained('x', load_in_4bit=args.bits == 4, load_in_8bit=args.bits == 8)\n"


@pytest.mark.parametrize(
    ("text", "target", "expected", "what"),
    [
        (program("scatter_mean(x, i)", "from torch_scatter import scatter_mean"), "npu", Verdict.READY, []),
        (program("scatter(x, i, reduce='sum')", "from torch_scatter import scatter"), "npu", Verdict.READY, []),
        (program("scatter(x, i, reduce='max')", "from torch_scatter import scatter"), "npu", Verdict.BLOCKED, ["torch-scatter"]),  # noqa: E501
        (SOFTMAX, "npu", Verdict.BLOCKED, ["torch-scatter"]),
        (SOFTMAX, "musa", Verdict.DECISIONS, []),
        (SOFTMAX, "sdaa", Verdict.DECISIONS, []),
        (KNN, "npu", Verdict.BLOCKED, ["torch-cluster"]),
        (KNN, "musa", Verdict.BLOCKED, ["torch-cluster"]),
        (program("nn.knn_graph(x, 16)", "from torch_geometric import nn"), "npu", Verdict.BLOCKED, ["torch-cluster"]),
        (program("knn_graph(x, 16)\ndef other():\n    knn_graph(x, 16)", "from torch_cluster import knn_graph").replace("    knn_graph(x, 16)\n    def", "    def"), "npu", Verdict.READY, []),  # noqa: E501
        (program("return dgl.data.CoraGraphDataset()", "import dgl"), "npu", Verdict.READY, []),
        (program("return dgl.graph(edges)", "import dgl"), "npu", Verdict.BLOCKED, ["dgl"]),
        (program("ti.init(arch=ti.cuda)", "import taichi as ti"), "npu", Verdict.BLOCKED, ["taichi"]),
        (program("ti.init(arch=ti.cpu)", "import taichi as ti"), "npu", Verdict.READY, []),
        (program("from_spherical()", "from pytorch3d.transforms import from_spherical"), "npu", Verdict.READY, []),
        (program("knn_points(x, y)", "from pytorch3d.ops import knn_points"), "npu", Verdict.BLOCKED, ["pytorch3d"]),
        (program("knn_points(x, y)", "from pytorch3d.ops import knn_points"), "musa", Verdict.DECISIONS, []),
        (program("init_detector('x')", "from mmdet.apis import init_detector"), "npu", Verdict.DECISIONS, []),
        (program("init_detector('x')", "from mmdet.apis import init_detector"), "musa", Verdict.DECISIONS, []),
        (program("init_detector('x')", "from mmdet.apis import init_detector"), "ptex", Verdict.BLOCKED, ["mmcv"]),
        (program("return Config", "from mmcv import Config"), "npu", Verdict.READY, []),
        (program("EmbeddingBagCollection()", "from torchrec import EmbeddingBagCollection"), "npu", Verdict.DECISIONS, []),  # noqa: E501
        (program("EmbeddingBagCollection()", "from torchrec import EmbeddingBagCollection"), "musa", Verdict.BLOCKED, ["torchrec"]),  # noqa: E501
        (program("torch.ops.fbgemm.dense_to_jagged(x, y)", "import fbgemm_gpu"), "musa", Verdict.BLOCKED, ["fbgemm-gpu"]),  # noqa: E501
        (program("torch.ops.fbgemm.dense_to_jagged(x, y)", "import fbgemm_gpu"), "npu", Verdict.DECISIONS, []),
        (program("return 1", "import fbgemm_gpu"), "musa", Verdict.READY, []),
        (program("return days", "from torchrec.datasets.criteo import days"), "musa", Verdict.READY, []),
        (program("return", "import vllm"), "npu", Verdict.DECISIONS, []),
    ],
)  # fmt: skip
def test_what_is_used_of_a_package_decides(
    text: str, target: str, expected: Verdict, what: list[str], tmp_path: Path
) -> None:
    found = verdict(tmp_path, text, target)
    assert (found.verdict, blocked_by(found)) == (expected, what)


@pytest.mark.parametrize(
    ("text", "need", "option"),
    [
        ("from transformers import AutoModel\nAutoModel.from_pretrained('x', load_in_8bit=True)\n", "ALWAYS", ""),
        ("from transformers import AutoModel\nAutoModel.from_pretrained('x', load_in_8bit=False)\n", "", ""),
        (ARGUMENTS + "from transformers import AutoModel\nparser.add_argument('--bits', type=int, default=4)\n"
         "args = parser.parse_args()\n" + FOUR, "ALWAYS", ""),
        (ARGUMENTS + "from transformers import AutoModel\nparser.add_argument('--bits', type=int, default=16)\n"
         "args = parser.parse_args()\n" + FOUR, "OPTION", "--bits 4"),
        (ARGUMENTS + "from transformers import AutoModel\nparser.add_argument('--small', action='store_true')\n"
         "args = parser.parse_args()\nAutoModel.from_pretrained('x', load_in_8bit=args.small)\n", "OPTION", "--small"),
        ("from transformers import AutoModel\nAutoModel.from_pretrained('x', load_in_8bit=len(input()) > 3)\n", "CHOSEN", ""),  # noqa: E501
        (ARGUMENTS + LAUNCH + "from detectron2.engine import launch\nlaunch(print, args.num_gpus)\n", "OPTION", "--num-gpus"),  # noqa: E501
        ("from detectron2.engine import launch\nlaunch(print, 8)\n", "ALWAYS", ""),
        ("from detectron2.engine import launch\nlaunch(print, 1)\n", "", ""),
    ],
)  # fmt: skip
def test_the_value_that_chooses_a_part_is_asked(text: str, need: str, option: str, tmp_path: Path) -> None:
    found = verdict(tmp_path, f"import torch\n{text}")
    ways = [obstacle.call_path for obstacle in (*found.blockers, *found.optional)]
    assert [way.reachability for way in ways] == ([Reachability[need]] if need else [])
    assert not option or ways[0].options[0] == option


def test_the_command_that_starts_a_program_says_the_value(tmp_path: Path) -> None:
    text = (
        "import torch\n" + ARGUMENTS + LAUNCH + "from detectron2.engine import launch\nlaunch(print, args.num_gpus)\n"
    )
    found = verdict(tmp_path, text, others={"README.md": "```\npython train.py --num-gpus 8\n```\n"})
    assert (found.verdict, blocked_by(found)) == (Verdict.BLOCKED, ["detectron2"])


def test_another_build_is_a_decision_with_its_chain_unless_the_code_goes_on_without_it(tmp_path: Path) -> None:
    others = {"data.py": "from mmdet.datasets import CocoDataset\n"}
    found = verdict(tmp_path, "import torch\nimport data\nprint(torch.ones(1))\n", others=others)
    assert found.verdict is Verdict.DECISIONS
    assert [(build.what.split()[0], [str(step) for step in build.call_path.steps]) for build in found.builds] == [
        ("mmcv", ["train.py:2", "data.py:1"])
    ]
    assert len(found.decisions) == 1
    guarded = "import torch\ntry:\n    import mmdet.apis\nexcept ImportError:\n    pass\nprint(torch.ones(1))\n"
    assert verdict(tmp_path / "guarded", guarded).verdict is Verdict.READY


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Runner.from_cfg(cfg)", Verdict.DECISIONS),
        ("MODELS.build(cfg.model)", Verdict.DECISIONS),
        ("print(cfg)", Verdict.READY),
    ],
)
def test_what_a_configuration_of_mmengine_may_name_is_reached(call: str, expected: Verdict, tmp_path: Path) -> None:
    others = {
        "own/__init__.py": "",
        "own/registry.py": "from mmengine.registry import Registry\nMODELS = Registry('models')\n",
        "own/head.py": "from mmcv.ops import nms\nfrom own.registry import MODELS\n"
        "@MODELS.register_module()\nclass Head:\n    pass\n",
        "own/plain.py": "from mmcv.ops import nms\n",
    }
    text = (
        "from mmengine.config import Config\nfrom mmengine.runner import Runner\nfrom mmengine.registry import MODELS\n"
    )
    found = verdict(tmp_path, text + f"cfg = Config.fromfile('x.py')\n{call}\n", others=others)
    assert found.verdict is expected
    assert [build.place.path for build in found.builds] == (["own/head.py"] if expected is Verdict.DECISIONS else [])


SETUP = (
    "import torch\nfrom setuptools import setup\nfrom torch.utils.cpp_extension import CppExtension, CUDAExtension\n"
    "extension = CppExtension\nif torch.cuda.is_available():\n    extension = CUDAExtension\n"
    "setup(ext_modules=[extension('own._C', ['own.cpp'])])\n"
)
LAYER = (
    "import torch\nfrom own import _C\nclass _Align(torch.autograd.Function):\n    @staticmethod\n"
    "    def forward(ctx, x):\n        return _C.align(x)\nalign = _Align.apply\n"
)


@pytest.mark.parametrize(("use", "expected"), [("align(x)", Verdict.BLOCKED), ("print(x)", Verdict.READY)])
def test_a_module_that_is_built_for_the_cpu_too_is_needed_where_it_is_called(
    use: str, expected: Verdict, tmp_path: Path
) -> None:
    others = {"setup.py": SETUP, "own/__init__.py": "", "own/layer.py": LAYER}
    text = f"import torch\nfrom own.layer import align\nx = torch.ones(2)\n{use}\n"
    found = verdict(tmp_path, text, others=others)
    assert (found.verdict, blocked_by(found)) == (expected, ["_C"] if expected is Verdict.BLOCKED else [])


def test_a_name_that_python_binds_is_no_compiled_module(tmp_path: Path) -> None:
    others = {
        "setup.py": SETUP,
        "own/__init__.py": "",
        "own/defaults.py": "from detectron2.config.defaults import _C\n_C.SIZE = 3\n",
    }
    text = "import torch\nfrom own.defaults import _C\nprint(_C.SIZE, torch.ones(2))\n"
    assert verdict(tmp_path, text, others=others).verdict is Verdict.READY


@pytest.mark.parametrize(
    "line", ["assert base_model, 'name one'", "if not base_model:\n        raise ValueError('name one')"]
)
def test_what_a_program_asks_to_be_told_is_told(line: str, tmp_path: Path) -> None:
    text = (
        "import fire\nimport torch\nfrom transformers import AutoModel\ndef main(base_model: str = ''):\n"
        f"    {line}\n    AutoModel.from_pretrained(base_model, load_in_8bit=True)\nfire.Fire(main)\n"
    )
    assert blocked_by(verdict(tmp_path, text)) == ["bitsandbytes"]


LORA = {
    "lab/__init__.py": "",
    "lab/asks.py": (
        "from importlib.util import find_spec\ndef has_it():\n    return find_spec('bitsandbytes') is not None\n"
    ),
    "lab/lora.py": (
        "from .asks import has_it\nif has_it():\n    import bitsandbytes as bnb\n"
        "    class Layer(bnb.nn.Linear8bitLt):\n        def __init__(self):\n"
        "            bnb.nn.Linear8bitLt.__init__(self)\ndef plain():\n    pass\n"
    ),
}


@pytest.mark.parametrize(("used", "blockers"), [("plain", []), ("Layer", ["bitsandbytes"])])
def test_a_base_class_works_where_its_objects_are_made(used: str, blockers: list[str], tmp_path: Path) -> None:
    text = program(f"{used}()", f"from lab.lora import {used}")
    assert blocked_by(verdict(tmp_path, text, others=LORA)) == blockers


COMPILED = f"{ARGUMENTS}parser.add_argument('--fast', action='store_true')\nargs = parser.parse_args()\n"


@pytest.mark.parametrize(
    ("disable", "asks"),
    [
        ("not args.fast", False),
        ("args.fast", True),
        ("args.fast or torch.rand(1) > 0", True),
        ("None", True),
        ("True", False),
    ],
)
def test_whether_a_model_is_compiled(disable: str, *, asks: bool, tmp_path: Path) -> None:
    text = program(f"torch.compile(torch.nn.Linear(1, 1), disable={disable})(1)", *COMPILED.splitlines())
    assert (verdict(tmp_path, text).verdict is Verdict.DECISIONS) == asks


COMMANDS = "import fire\nimport torch\ndef train():\n    import cupy\ndef test():\n    pass\nfire.Fire()\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", Verdict.MAY_NEED),
        ("python train.py test", Verdict.WITHOUT),
        ("python train.py train", Verdict.BLOCKED),
    ],
)
def test_commands_of_fire(command: str, expected: Verdict, tmp_path: Path) -> None:
    assert verdict(tmp_path, COMMANDS, others={"run.sh": f"{command}\n"}).verdict is expected


READ = "nvmlInit()\nprint(nvmlDeviceGetCount())"
TRIED = "try:\n    nvml.nvmlInit()\nexcept {}:\n    {}\nprint(nvml.nvmlDeviceGetCount())"


@pytest.mark.parametrize(
    ("text", "expected", "what"),
    [
        # what a star brings of a package nobody has read
        (program("print(array([1]))", "from cupy import *"), Verdict.BLOCKED, ["cupy"]),
        (program("pass", "from flash_attn.flash_attn_interface import *"), Verdict.BLOCKED, ["flash-attn"]),
        (program("FusedAdam([])", "from apex.optimizers import *"), Verdict.DECISIONS, []),
        (program("print(StandardGpuResources())", "from faiss import *"), Verdict.DECISIONS, []),
        (program("print(IndexFlatL2(4))", "from faiss import *"), Verdict.READY, []),
        (program("nms(a, b, 0.5)", "from torchvision.ops import *"), Verdict.DECISIONS, []),
        (program("pass", "try:\n    from cupy import *\nexcept ImportError:\n    pass"), Verdict.WITHOUT, []),
        # what can be imported anywhere, and raises where it is called
        (program("pass", "import pynvml"), Verdict.READY, []),
        (program("pynvml.nvmlInit()", "import pynvml"), Verdict.BLOCKED, ["pynvml"]),
        (program(READ, "from pynvml import nvmlInit, nvmlDeviceGetCount"), Verdict.BLOCKED, ["pynvml"]),
        (program(READ, "from pynvml import *"), Verdict.BLOCKED, ["pynvml"]),
        (program("pass\ndef other():\n    nvml.nvmlInit()", "import pynvml as nvml"), Verdict.READY, []),
        (program(TRIED.format("nvml.NVMLError", "return"), "import pynvml as nvml"), Verdict.WITHOUT, []),
        (program(TRIED.format("Exception", "return"), "import pynvml as nvml"), Verdict.WITHOUT, []),
        (
            program(TRIED.format("nvml.NVMLError_LibraryNotFound", "return"), "import pynvml as nvml"),
            Verdict.WITHOUT,
            [],
        ),
        (
            program(TRIED.format("nvml.NVMLError_NotSupported", "return"), "import pynvml as nvml"),
            Verdict.BLOCKED,
            ["pynvml"],
        ),
        (program(TRIED.format("ImportError", "return"), "import pynvml as nvml"), Verdict.BLOCKED, ["pynvml"]),
        (program(TRIED.format("nvml.NVMLError", "pass"), "import pynvml as nvml"), Verdict.BLOCKED, ["pynvml"]),
        (
            program(
                "if args.gpu:\n    nvml.nvmlInit()",
                "import pynvml as nvml",
                ARGUMENTS + "parser.add_argument('--gpu', action='store_true')\nargs = parser.parse_args()",
            ),
            Verdict.WITHOUT,
            [],
        ),
    ],
)
def test_names_of_packages_that_are_read_where_they_are_used(
    tmp_path: Path, text: str, expected: Verdict, what: list[str]
) -> None:
    found = verdict(tmp_path, text)
    assert (found.verdict, blocked_by(found)) == (expected, what)


def test_each_function_that_uses_a_part_is_a_place_of_its_own(tmp_path: Path) -> None:
    text = program(
        "two()\ndef one():\n    faiss.GpuIndexFlat()\ndef two():\n    faiss.StandardGpuResources()", "import faiss"
    )
    assert verdict(tmp_path, text).verdict is Verdict.DECISIONS
