"""How a vendor wants to be asked for an operator, kept as `request.toml` in the vendor's folder.

A file::

    [sources]
    FORM = "the vendor's template for requests"

    [request]
    form = "sections"                   # the vendor's own sections; or "issue", for an issue tracker
    language = "zh"                     # that the vendor reads
    where = "https://..."               # where it is handed in
    label = "operator"                  # of the issue; empty where the tracker has none that is known
    acceptance = "on card {card}, precision aligned with CUDA"   # {card}: that of the request
    acceptance_zh = "..."
    source = "FORM"

A vendor without this file is asked with the text of an issue, and nothing is said of where.
"""

from __future__ import annotations

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

FORMS = ("issue", "sections")

_KEYS = frozenset({"form", "language", "where", "label", "acceptance", "acceptance_zh", "source"})


class RequestFacts(NamedTuple):
    """How a vendor wants to be asked; the fields are those of `[request]`, see the module."""

    form: str = "issue"
    language: str = "en"
    where: str = ""
    label: str = ""
    acceptance: Bilingual = Bilingual("", "")
    source: str = ""


def request_facts(backend: type[DataOwner]) -> RequestFacts:
    """Return how a backend's vendor wants to be asked.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "request.toml")
    if path is None:
        return RequestFacts()
    file = DataFile(path)
    table = file.table("request")
    file.check_keys(table, _KEYS, "[request]")
    form = file.text(table, "form", "[request]")
    language = file.text(table, "language", "[request]", "en")
    if form not in FORMS or language not in ("en", "zh"):
        raise file.wrong(f"[request]: `form` is one of {', '.join(FORMS)}, `language` is en or zh")
    acceptance = Bilingual(file.text(table, "acceptance", "[request]"), file.text(table, "acceptance_zh", "[request]"))
    return RequestFacts(
        form,
        language,
        file.text(table, "where", "[request]"),
        file.text(table, "label", "[request]"),
        acceptance,
        file.cited(table, "[request]"),
    )
