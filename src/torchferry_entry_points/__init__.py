"""What other programs load from every environment that has torchferry: torch at its import, pytest at its start.

These few lines are installed as files of their own, also by an editable installation, whose package is only a path to a
clone. When the clone is moved or removed, they are still there and do nothing: nobody's `import torch` and nobody's
tests may fail for it. So nothing here imports torchferry but where it was asked for.
"""
