"""Rule fixtures: one text file a rule, with what must stay unchanged first and what each target gets beside the input.

    === unchanged: a message is no device
    print("cuda")
    === case: an argument of .to()
    model.to("cuda:0")
    >>> safe 1:11
    --- npu
    model.to("npu:0")
    --- ptex
    model.to("xla:0")
    === case: a Dockerfile
    @@@ Dockerfile
    FROM nvidia/cuda:12.1
    >>> npu,musa: manual 1:6
    --- npu unchanged

A case that begins with `=== example:` is shown on the page of the rule; without one, the first short case that is
rewritten is.

A case is one file, `input.py` unless a line `@@@ NAME` says otherwise; further `@@@ NAME` lines begin other files of
the same project. `!!! path OLD = NEW` sets an entry of the user's path table; `!!! encode NAME`, `!!! mode 444`,
`!!! link TARGET`, `!!! gone` and `!!! largest BYTES` say what the first file is on the disk. `!!! seen LINE NAME` is a
line of the first file that a run saw, and `!!! style shim` or `!!! style portable` the style of the migration (the
portable names are those of `device_utils`; those of the installed package with `!!! style package`); `!!! dtype auto`
is its option `--dtype`, `!!! status-line on` its `--status-line`.
`>>> [TARGETS:] GRADE LINE:COLUMN` expects a finding of the fixture's rule, in order; without targets, for all of them.
`--- TARGET` begins the expected output, `--- TARGET unsafe` that with unsafe fixes, `--- TARGET unchanged` says that
there is none. An unchanged case is run for every target, and the rule may report nothing but the notes that are listed.

A fixture of the same name in `tests/vendors/NAME/rules/` says of the same cases, by their titles, what one vendor's
target gets: its findings, all of them and without targets, and its outputs, `--- safe`, `--- unsafe` or
`--- unchanged`. So a vendor that is added has its expectations in its own folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torchferry.backends import registry

TARGETS = tuple(registry.built_in())
RULES = Path(__file__).parent
VENDORS = RULES.parent / "vendors"


class Expected(NamedTuple):
    grade: str
    place: str


class Output(NamedTuple):
    target: str
    unsafe: bool
    text: str | None  # None: unchanged


class Case(NamedTuple):
    title: str
    unchanged: bool
    example: bool
    files: tuple[tuple[str, str], ...]
    findings: tuple[tuple[tuple[str, ...], Expected], ...]
    outputs: tuple[Output, ...]
    paths: tuple[tuple[str, str], ...]
    disk: tuple[tuple[str, str], ...]
    of_vendors: tuple[tuple[str, tuple[Expected, ...]], ...] = ()

    @property
    def main(self) -> tuple[str, str]:
        return self.files[0]

    def expected(self, target: str) -> list[Expected]:
        own = dict(self.of_vendors).get(target)
        if own is not None:
            return list(own)
        return [expected for targets, expected in self.findings if not targets or target in targets]


def fixture_of(module: str) -> Path:
    """Return the fixture of the rule in a module: `torchferry.rules.<family>.<name>`."""
    return RULES.joinpath(*module.split(".")[2:]).with_suffix(".txt")


def load(path: Path, vendors: Path = VENDORS) -> list[Case]:
    """Read the cases of a fixture, and what vendors' own test data say of them."""
    cases = _cases(path)
    for name in TARGETS:
        own = vendors / name / "rules" / path.relative_to(RULES)
        if own.exists():
            cases = _with_vendor(cases, own, name)
    return cases


def _with_vendor(cases: list[Case], path: Path, name: str) -> list[Case]:
    """Return the cases with what a vendor's fixture says of them."""
    said = {case.title: case for case in _cases(path, name)}
    assert set(said) <= {case.title for case in cases}, f"{path}: no such case"
    return [
        case
        if case.title not in said
        else case._replace(
            outputs=(*case.outputs, *said[case.title].outputs),
            of_vendors=(*case.of_vendors, (name, tuple(expected for _, expected in said[case.title].findings))),
        )
        for case in cases
    ]


def _cases(path: Path, vendor: str = "") -> list[Case]:
    cases: list[Case] = []
    for block in ("\n" + path.read_text(encoding="utf-8")).split("\n=== ")[1:]:
        header, _, body = block.partition("\n")
        kind, _, title = header.partition(":")
        cases.append(_case(path, kind.strip(), title.strip(), body, vendor))
    return cases


def _case(path: Path, kind: str, title: str, body: str, vendor: str) -> Case:
    assert kind in ("case", "example", "unchanged"), f"{path}: {kind}: {title}"
    files: list[tuple[str, list[str]]] = [("input.py", [])]
    findings: list[tuple[tuple[str, ...], Expected]] = []
    outputs: list[tuple[str, bool, list[str] | None]] = []
    paths: list[tuple[str, str]] = []
    disk: list[tuple[str, str]] = []
    into = files[0][1]
    for line in body.removesuffix("\n").split("\n"):
        if line.startswith("@@@ "):
            name = line[4:].strip()
            if len(files) == 1 and not files[0][1]:
                files[0] = (name, [])
            else:
                files.append((name, []))
            into = files[-1][1]
        elif line.startswith("!!! path "):
            old, _, new = line[len("!!! path ") :].partition(" = ")
            paths.append((old, new))
        elif line.startswith("!!! "):
            name, _, value = line[4:].partition(" ")
            disk.append((name, value))
        elif line.startswith(">>> "):
            targets, _, rest = line[4:].rpartition(": ")
            grade, place = rest.split()
            names = tuple(target.strip() for target in targets.split(",")) if targets else ()
            findings.append((names, Expected(grade, place)))
        elif line.startswith("--- "):
            target, *flags = [vendor] * bool(vendor) + line[4:].split()
            assert target in TARGETS, f"{path}: {title}: unknown target {target}"
            text: list[str] | None = None if "unchanged" in flags else []
            outputs.append((target, "unsafe" in flags, text))
            into = text if text is not None else []
        else:
            into.append(line)
    return Case(
        title,
        kind == "unchanged",
        kind == "example",
        tuple((name, _text(lines)) for name, lines in files),
        tuple(findings),
        tuple(Output(target, unsafe, None if lines is None else _text(lines)) for target, unsafe, lines in outputs),
        tuple(paths),
        tuple(disk),
    )


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
