"""Documents whose commands are rewritten on demand."""

from __future__ import annotations

from pathlib import Path

from torchferry.backends import registry as backends
from torchferry.backends.target import Target
from torchferry.core.finding import Grade
from torchferry.rules.base import Options
from torchferry.rules.engine import Engine
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import list_files

DOCUMENT = """Set `CUDA_VISIBLE_DEVICES` first; `--device cuda` is the default.\r
\r
```bash\r
CUDA_VISIBLE_DEVICES=0 python train.py --device cuda:0 \\\r
    --dist-backend nccl  # on cuda\r
nsys profile python x.py\r
```\r
"""


def test_commands_are_rewritten_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(DOCUMENT.encode())
    choice = backends.choose("npu")
    engine = Engine(tmp_path, Target(choice.backend, ""), rules(), options=Options(rewrite_documents=True))
    [entry] = list_files(tmp_path).entries
    assert entry.kind is Kind.MARKDOWN
    examined = engine.examine(entry, rewrite=True)
    assert examined.failure is None
    expected = DOCUMENT.replace("CUDA_VISIBLE_DEVICES=", "ASCEND_RT_VISIBLE_DEVICES=")
    expected = expected.replace("cuda:0", "npu:0").replace("nccl", "hccl")
    assert examined.after == expected.encode()
    assert any(finding.location.line == 6 for finding in examined.remaining)
    assert not any(finding.grade is Grade.SAFE for finding in examined.remaining)
