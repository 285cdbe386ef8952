"""What the families of rules are called."""

from __future__ import annotations

from torchferry.core.messages import Message, say

TITLES: dict[str, Message] = {
    "AMP": say("mixed precision"),
    "ATT": say("attention"),
    "BKD": say("library switches"),
    "CFG": say("configuration files"),
    "CMP": say("compilers"),
    "CNT": say("containers"),
    "CUD": say("torch.cuda"),
    "DEP": say("requirements"),
    "DEV": say("devices and tensors"),
    "DOC": say("documents"),
    "DST": say("distributed"),
    "DTY": say("dtypes"),
    "ENV": say("environment variables"),
    "EXT": say("CUDA C++"),
    "FIL": say("files"),
    "IMP": say("imports"),
    "LIB": say("other libraries"),
    "MEM": say("memory"),
    "PRC": say("programs"),
    "PRF": say("profiling"),
    "PTH": say("paths"),
    "RNG": say("random numbers"),
    "RUN": say("seen at run time"),
    "SHL": say("shell scripts"),
    "STR": say("streams and graphs"),
    "SUP": say("suppressions"),
    "TCH": say("removed from torch and its libraries"),
}
"""Title of each family, in order of their letters."""
