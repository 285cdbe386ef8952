"""What the doctor advises on machines with Enflame T20 cards."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.recorded import commands, companions
from tests.vendors.ptex.doctor import t20


def test_a_replaced_torch_is_mended_by_the_framework_and_not_by_the_same_wheel(tmp_path: Path) -> None:
    wheel = "/usr/local/topsrider/ai_development_toolkit/pytorch-gcu/ptex-2.1.0+torch1.11.0-py3-none-any.whl"
    lines = commands("python.versions", "ptex", tmp_path, {wheel: ""}, **t20("1.13.1"))
    assert set(lines) == {"./TopsRider_t2x_2.5.136_deb_amd64.run -y -C torch-gcu"}


def test_a_replaced_torchvision_is_installed_alone(tmp_path: Path) -> None:
    lines = commands("python.companions", "ptex", tmp_path, {}, **companions("1.10.0", torchvision="0.14.1"))
    assert lines == ["/venv/bin/python -m pip install torchvision==0.11.1 --no-deps"]
