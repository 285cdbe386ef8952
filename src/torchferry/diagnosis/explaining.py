"""The diagnosis of logs by the tables of errors: the one matcher of `explain`, and of commands that saw a run fail."""

from __future__ import annotations

from torchferry.backends import registry
from torchferry.backends.errors import errors_of, errors_of_all
from torchferry.diagnosis.inputs import LogReader
from torchferry.diagnosis.judging import RunDiagnosis, diagnose
from torchferry.diagnosis.scanning import Scan


def diagnosed(reader: LogReader, target: str = "") -> RunDiagnosis:
    """Read logs and return what they say of a failure.

    Args:
        reader: The logs.
        target: Whose entries are asked, with the common ones; those of all targets where it is empty.

    Raises:
        UsageError: there is no such target, or standard input is asked for and closed.
    """
    if target:
        entries = errors_of(registry.load(target.partition("@")[0]))
    else:
        entries = errors_of_all([registry.load(name) for name in registry.names()])
    return diagnose(Scan(reader, [entry for entry in entries if "log" in entry.where]))
