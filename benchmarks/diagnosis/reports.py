"""What `torchferry explain` says of public reports whose cause was written down before.

    python -m benchmarks.diagnosis.reports

Each report of `reports.toml` is a log of its own. Whether an answer is right is a person's judgement of the first run;
later runs are compared with the entry that was judged right.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from torchferry.core.toml import load
from torchferry.diagnosis.explaining import diagnosed
from torchferry.diagnosis.inputs import LogReader


def main() -> None:
    """Print what each report gets, and how many get the entry that is right."""
    reports = load(Path(__file__).with_name("reports.toml"))["report"]
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, report in enumerate(reports):
            log = Path(folder, f"{number}.log")
            log.write_text(report["log"].lstrip("\n"), encoding="utf-8")
            first = diagnosed(LogReader([log])).first
            name = first.entry.id if first is not None else ""
            right += name == report.get("entry", "")
            match = first.first.match if first is not None else None
            meaning = (match.meaning if match.meaning.en else match.causes[0]).render("en") if match else "not known"
            print(f"{report['source']}: {name or '-'} ({first.entry.role if first else '-'}): {meaning}")
    print(f"{right} of {len(reports)} get the entry that was judged right")


if __name__ == "__main__":
    main()
