"""The shipped tables of paths, which a user's own may stand beside."""

from __future__ import annotations

import pytest

from torchferry.backends.path_profiles import path_profiles, profile_paths
from torchferry.core.config import check_paths
from torchferry.core.errors import UsageError
from torchferry.core.pathmap import PathMap


@pytest.mark.parametrize("name", path_profiles())
def test_a_shipped_table_is_one_that_settings_take(name: str) -> None:
    check_paths(name, dict(profile_paths(name)))


@pytest.mark.parametrize(
    ("path", "new"),
    {
        "/kaggle/input/loveda/train": "/workspace/datasets/loveda/train",
        "/kaggle/working/best_mIoU_iter_6000.pth": "/workspace/checkpoints/best_mIoU_iter_6000.pth",
        "/kaggle/working/run/last.pth.tar": "/workspace/checkpoints/run/last.pth.tar",
        "/kaggle/working/": "/workspace/outputs/",
        "/kaggle/working/submission.csv": "/workspace/outputs/submission.csv",
        "/kaggle/temp/x": "/kaggle/temp/x",
    }.items(),
)
def test_where_the_files_of_kaggle_go(path: str, new: str) -> None:
    text = f'"{path}"'
    for found in PathMap.of(profile_paths("kaggle")).replacements(text):
        assert found.new is not None
        assert not found.doubt
        text = text[: found.start] + found.new + text[found.end :]
    assert text == f'"{new}"'


def test_an_unknown_table_is_said() -> None:
    with pytest.raises(UsageError, match="kagle"):
        profile_paths("kagle")
