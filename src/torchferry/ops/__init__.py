"""Operators: which of them a program needs, and which of those a vendor's plugin has.

Without torch, and on any machine: what a run needs is read from a file, what a plugin has from the vendor's tables.
"""

from __future__ import annotations
