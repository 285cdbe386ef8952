"""Record the numbers of a run, so that it can be compared with the same run elsewhere.

    with Recorder("there") as recorder:
        train()

`torchferry compare record -o there -- python train.py` does the same around a command.
"""

from torchferry.numerics.recording.recorder import Recorder

__all__ = ["Recorder"]
