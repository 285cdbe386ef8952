"""Questions after a package, and methods of one name in several classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, KERNEL, judged
from tests.programs.test_judging import needs

START = "import torch\n{}\nif __name__ == '__main__':\n    {}\n"


@pytest.mark.parametrize(
    ("question", "need"),
    [
        ("from transformers.utils import is_xformers_available\nif is_xformers_available():", "GUARDED"),
        ("from transformers.utils import is_flash_attn_2_available\nif is_flash_attn_2_available():", "GUARDED"),
        ("from other import HAS_TRITON_KERNELS\nif HAS_TRITON_KERNELS:", "GUARDED"),
        ("from transformers.utils import is_torch_available\nif is_torch_available():", "ALWAYS"),
        ("from other import is_disk_available\nif is_disk_available():", "CHOSEN"),
        ("from other import use_flash\nif use_flash:", "CHOSEN"),
    ],
)
def test_what_a_question_says(question: str, need: str, tmp_path: Path) -> None:
    text = START.format(f"{question}\n    import fast_ops", "pass")
    assert needs(judged(tmp_path, {**BUILT, "train.py": text})["train.py"]) == need


@pytest.mark.parametrize(
    ("made", "need"),
    [
        ("Fast()", "ALWAYS"),
        ("Derived()", "ALWAYS"),
        ("Plain()", "NEVER"),
        ("Alias()", "NEVER"),
        ("Typed()", "ALWAYS"),
        ("Twice()", "ALWAYS"),
        ("anything()", "ALWAYS"),
        ("Plain() if torch else Fast()", "ALWAYS"),
    ],
)
def test_a_method_is_called_on_an_object_of_its_class(made: str, need: str, tmp_path: Path) -> None:
    classes = (
        "from other import anything\nclass Fast:\n    def step(self):\n        import fast_ops\n"
        "class Middle(Fast):\n    pass\nclass Derived(Middle):\n    pass\n"
        "class Plain:\n    def step(self):\n        pass\n"
        "Alias = Plain  # by its old name\nTyped: type = Derived\nTwice = Plain\nif torch:\n    pass\nTwice = Fast"
    )
    text = START.format(classes, f"Fast\n    Fast()\n    item = {made}\n    item.step()")
    assert needs(judged(tmp_path, {**BUILT, "train.py": text})["train.py"]) == need


COMPILED = "import torch\ntry:\n    from lab import _C\n    FUSED = True\nexcept ImportError:\n    FUSED = False\n"
SETUP = (
    "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
    'setup(ext_modules=[CUDAExtension("lab._C", ["csrc/ops.cu"])])\n'
)


@pytest.mark.parametrize(
    ("chosen", "decisions"),
    [
        ("torch.float16 if FUSED else torch.float32", 1),
        ("'cuda' if FUSED else 'cpu'", 1),
        ("torch.float16 if not FUSED else torch.float32", 1),
        ("'fused' if FUSED else 'plain'", 0),
        ("_C.run if FUSED else torch.relu", 0),
    ],
)
def test_an_extension_that_is_not_there_chooses_no_device_in_silence(
    chosen: str, decisions: int, tmp_path: Path
) -> None:
    text = f"{COMPILED}kind = {chosen}\nif __name__ == '__main__':\n    print(torch.ones(2), kind)\n"
    files = {"setup.py": SETUP, "csrc/ops.cu": KERNEL, "lab/__init__.py": "", "train.py": text}
    assert len(judged(tmp_path, files)["train.py"].decisions) == decisions


def test_an_attempt_in_another_file_chooses(tmp_path: Path) -> None:
    flags = "try:\n    import cupy\n    HAS_CUPY = True\nexcept ImportError:\n    HAS_CUPY = False\n"
    text = "import torch\nfrom flags import HAS_CUPY\nprint(torch.ones(2, device='cuda' if HAS_CUPY else 'cpu'))\n"
    assert len(judged(tmp_path, {"flags.py": flags, "train.py": text})["train.py"].decisions) == 1
