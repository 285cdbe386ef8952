"""Documents: code blocks that are shell, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.markdown import command_view

DOCUMENTS = [
    ("prose with `nvidia-smi`\n", []),
    ("```bash\npip install x\n```\nnvidia-smi\n", ["pip install x"]),
    ("```.bash\nls\n```\n", ["ls"]),
    ("```python\nmodel.cuda()\n```\n", []),
    ("```python\n>>> model.cuda()\n```\n", []),
    ("```\npip install x\nUsing cuda\n```\n", ["pip install x"]),
    ("```\n$ ./run.sh\nUsing cuda\npython is used\n```\n", ["./run.sh"]),
    ("```console\n$ docker run \\\n    --gpus all\nnvidia-smi\n```\n", ["docker run \\", "--gpus all"]),
    ("```console\n(base) $ nvidia-smi\nroot@host:~/x# nvcc\n```\n", ["nvidia-smi", "nvcc"]),
    ("```sh\n$ ps elf\npython x --backend nccl\n```\n", ["ps elf"]),
    ("```sh\npip install x\n> out.txt\n```\n", ["pip install x", "out.txt"]),
    ("```sh\n# comment\nls\n", ["# comment", "ls"]),
    ("~~~sh\n```\nls\n~~~\n", ["```", "ls"]),
    ("> ```sh\n> ls\n> ```\n", ["ls"]),
    ("$ nvidia-smi\n", ["nvidia-smi"]),
    ("Run::\n\n    python a.py\n    text\n\nnvidia-smi\n", ["python a.py"]),
    (".. code-block:: bash\n\n   ls\n\n.. code-block:: python\n\n   ls\n", ["ls"]),
    ("- a\n  ```sh\r\n  ls\r\n  ```\r\n", ["ls"]),
]


@pytest.mark.parametrize(("text", "expected"), DOCUMENTS)
def test_commands(text: str, expected: list[str]) -> None:
    assert [line.strip() for line in command_view(text).split("\n") if line.strip()] == expected


@given(st.text(alphabet="ab`~$>#:.\\ \n\r\tsh-") | st.text())
def test_every_character_stays_where_it_is_or_is_blank(text: str) -> None:
    view = command_view(text)
    assert len(view) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, view, strict=True))
