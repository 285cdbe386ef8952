"""Compare each operator of a running program with the CPU in higher precision."""

from torchferry.numerics.compare.seed_names import ModuleInfo, open_module_tracker
from torchferry.numerics.compare.tool import CompareWithCPU, ComparisonFailed

__all__ = ["CompareWithCPU", "ComparisonFailed", "ModuleInfo", "open_module_tracker"]
