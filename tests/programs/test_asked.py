"""Questions after a package, and methods of one name in several classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
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
