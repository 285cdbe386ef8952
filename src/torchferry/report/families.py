"""What the families of rules are called."""

from __future__ import annotations

from torchferry.core.messages import Message, say_in

TITLES: dict[str, Message] = {
    "AMP": say_in("family of rules", "mixed precision"),
    "ATT": say_in("family of rules", "attention"),
    "BKD": say_in("family of rules", "library switches"),
    "CFG": say_in("family of rules", "configuration files"),
    "CMP": say_in("family of rules", "compilers"),
    "CNT": say_in("family of rules", "containers"),
    "CUD": say_in("family of rules", "torch.cuda"),
    "DEP": say_in("family of rules", "requirements"),
    "DEV": say_in("family of rules", "devices and tensors"),
    "DOC": say_in("family of rules", "documents"),
    "DST": say_in("family of rules", "distributed"),
    "DTY": say_in("family of rules", "dtypes"),
    "ENV": say_in("family of rules", "environment variables"),
    "EXT": say_in("family of rules", "CUDA C++"),
    "FIL": say_in("family of rules", "files"),
    "IMP": say_in("family of rules", "imports"),
    "LIB": say_in("family of rules", "other libraries"),
    "MEM": say_in("family of rules", "memory"),
    "PRC": say_in("family of rules", "programs"),
    "PRF": say_in("family of rules", "profiling"),
    "PTH": say_in("family of rules", "paths"),
    "RNG": say_in("family of rules", "random numbers"),
    "RUN": say_in("family of rules", "seen at run time"),
    "SHL": say_in("family of rules", "shell scripts"),
    "STR": say_in("family of rules", "streams and graphs"),
    "SUP": say_in("family of rules", "suppressions"),
    "TCH": say_in("family of rules", "removed from torch and its libraries"),
}
"""Title of each family, in order of their letters."""
