"""Logs whose values have no names beside them: bare numbers, `step value`, and the tables of YOLOv7 and RAFT."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.numerics.curves.reading import Wanted, read

YOLO = """
     Epoch   gpu_mem       box       obj       cls     total    labels  img_size
     0/299     2.05G   0.06000   0.0200   0.01000   0.09000        40       640:  50%|#####     | 4/8 [00:01<00:01]
     0/299     2.05G   0.05000   0.0200   0.01000   0.08000        40       640: 100%|##########| 8/8 [00:03<00:00]
               Class      Images      Labels           P           R      mAP@.5  mAP@.5:.95: 100%|####| 4/4 [00:01]
                 all         128         929       0.612       0.522       0.601       0.441

     Epoch   gpu_mem       box       obj       cls     total    labels  img_size
     1/299     2.05G   0.04000   0.0200   0.01000   0.07000        40       640: 100%|##########| 8/8 [00:03<00:00]
"""
RAFT = """
[   101,  0.0000124]     0.1012,     0.3012,     0.4012,    18.8712,
[   201,  0.0000224]     0.1212,     0.3212,     0.4212,    15.1712,
[   301,  0.0000324]     0.1312,     0.3312,     0.4312,    12.0712,
"""
LOGS: dict[str, tuple[str, str, list[tuple[float, float]]]] = {
    "bare numbers": ("0.9\n0.8\n0.7\n0.65\n", "loss", [(0, 0.9), (1, 0.8), (2, 0.7), (3, 0.65)]),
    "bare numbers of numpy": ("9.0e-01\n8.0e-01\n\n7.0e-01\n", "loss", [(0, 0.9), (1, 0.8), (2, 0.7)]),
    "step value": ("0 0.9\n100 0.8\n200 nan\n", "loss", [(0, 0.9), (100, 0.8), (200, float("nan"))]),
    "step, value": ("10,0.9\n20,0.8\n30,0.7\n", "loss", [(10, 0.9), (20, 0.8), (30, 0.7)]),
    "RAFT": (RAFT, "epe", [(101, 18.8712), (201, 15.1712), (301, 12.0712)]),
}


def same(found: list[tuple[float, float]], expected: list[tuple[float, float]]) -> bool:
    return repr([(float(a), b) for a, b in found]) == repr([(float(a), b) for a, b in expected])


@pytest.mark.parametrize("name", LOGS)
def test_columns_are_read_with_their_steps(name: str, tmp_path: Path) -> None:
    text, metric, expected = LOGS[name]
    for suffix in (".txt", ".log", ".csv"):
        path = tmp_path / f"log{suffix}"
        path.write_text(text, encoding="utf-8")
        for wanted in (Wanted(), Wanted((metric,)), Wanted(every=True)):
            points = read(path, wanted).points[metric][None]
            assert same(list(zip(points.steps, points.values, strict=True)), expected)


def test_a_table_of_yolov7_has_a_value_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("hyperparameters: lr0=0.01, momentum=0.937\n" + YOLO, encoding="utf-8")
    points = read(path, Wanted()).points
    assert sorted(points) == ["box loss", "cls loss", "obj loss", "total loss"]
    total = points["total loss"][None]
    assert (list(total.epochs), list(total.values), total.bars) == ([0.0, 0.0, 1.0], [0.09, 0.08, 0.07], True)
    assert "gpu mem" not in read(path, Wanted(every=True)).points


OTHERS = {
    "two numbers that count nothing": "0.5 0.9\n0.1 0.8\n0.7 0.7\n",
    "steps that go back": "3 0.9\n2 0.8\n1 0.7\n",
    "three numbers": "1 2 3\n4 5 6\n7 8 9\n",
    "two lines are too few": "1\n2\n",
    "infinite steps": "inf 1\ninf 2\nnan 3\n",
    "words": "one\ntwo\nthree\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_numbers_are_not_taken_for_a_curve(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(OTHERS[name], encoding="utf-8")
    assert read(path, Wanted()).points == {}


def test_a_line_that_is_unlike_the_others_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"{n} 0.5\n" for n in range(9)) + "killed\n9 0.4\n10 0.", encoding="utf-8")
    log = read(path, Wanted())
    assert len(log.points["loss"][None].values) == 10
    assert log.troubles[0].render("en").endswith("was left out: killed")
