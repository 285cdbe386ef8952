"""The read-me and the migration guide that are next to a migrated project, in English or Chinese."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from torchferry import __version__
from torchferry.backends.tables import normalised
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.kit.needs import Needs
from torchferry.kit.target_list import TargetLists
from torchferry.source.requirements import requirement

MARK = "<!-- torchferry: ignore-file -->"
"""What keeps a later run from reading the commands of a document as the project's own."""

_LONGEST = 160
"""Characters of a line that a table shows."""


_KEY = lazy_regex(r"//[^/@\s]+@")

_MAIN = lazy_regex(r"(?:train|main|infer|run|generate|sample|predict|detect)")
"""How programs are called that do what a project is for."""


class ChangedFile(NamedTuple):
    """A file that a migration changed: its original's path, and its content before and after."""

    path: str
    before: bytes
    after: bytes


class Migrated(NamedTuple):
    """What was migrated, for the documents.

    Attributes:
        project: Its name.
        target: The target.
        style: `native`, `portable` or `shim`.
        way: `beside` the originals, `in place`, in a `copy`, or as a `patch`.
        moved: For each original, the file that replaces it; the same one where it was changed in place.
        changed: The changed files, in order of the migrations that changed them.
        programs: What a user starts, by the original's name.
        fixed: The findings whose fixes were applied.
        remaining: Findings that are left, in the files as they are to be.
        lists: The lists of requirements.
        needs: What the code needs.
        setup_test: The file with the setup test.
        guide: The file with the guide.
        files: All files of the kit.
    """

    project: str
    target: Target
    style: str
    way: str
    moved: Mapping[str, str]
    changed: tuple[ChangedFile, ...]
    programs: tuple[str, ...]
    fixed: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    lists: TargetLists
    needs: Needs
    setup_test: str
    guide: str
    files: tuple[str, ...]


def readme(migrated: Migrated, lang: str) -> str:
    """Return how the project is set up and started on the target."""
    return _document(_readme(migrated), lang)


def guide(migrated: Migrated, lang: str) -> str:
    """Return what changed and why, what is left, how it is tested and taken back."""
    return _document(_guide(migrated), lang)


def _document(parts: Iterable[Message | str], lang: str) -> str:
    lines = [part if isinstance(part, str) else part.render(lang) for part in parts]
    return f"{MARK}\n" + "\n".join(lines).rstrip("\n") + "\n"


def _heading(level: int, text: Message) -> tuple[str, Message, str]:
    return "", _joined("#" * level + " ", text), ""


def _joined(*parts: Message | str) -> Message:
    """Put parts together as they are."""
    names = [f"part{number}" for number in range(len(parts))]
    return Message("".join(f"{{{name}}}" for name in names), tuple(zip(names, parts, strict=True)))


def _shell(*lines: str) -> Iterator[str]:
    yield "```bash"
    yield from lines
    yield "```"


# --- the read-me ---


def _readme(done: Migrated) -> Iterator[Message | str]:
    title = done.target.title
    yield from _heading(1, say("{project} on {target}", project=done.project, target=title))
    if done.way == "beside":
        yield say(
            "The files in the table below are new. The original ones are untouched and still run on CUDA. "
            "{guide} says what is different, and why.",
            guide=f"[{done.guide}]({done.guide})",
        )
    elif done.way == "copy":
        yield say(
            "This folder is a migrated copy; the original is untouched. {guide} says what is different, and why.",
            guide=f"[{done.guide}]({done.guide})",
        )
    elif done.way == "patch":
        yield say(
            "The code was changed by a patch, which `git apply -R` takes back. {guide} says what is "
            "different, and why.",
            guide=f"[{done.guide}]({done.guide})",
        )
    else:
        yield say(
            "The code was changed in place; `torchferry undo .` brings the original back. {guide} says what is "
            "different, and why.",
            guide=f"[{done.guide}]({done.guide})",
        )
    yield from _heading(2, say("Set up"))
    yield say("1. The vendor's software stack: {install}.", install=done.target.install)
    if done.lists.stack.note is not None:
        yield say("   torch {version}: {note}.", version=done.lists.stack.torch, note=done.lists.stack.note)
    yield say("2. The packages. Those that need CUDA are not in this list:")
    yield ""
    if isinstance(done.target.backend.PIP_NAME, str):
        yield from _shell(f"pip install -r {done.lists.main}")
    else:
        yield from _shell(
            "pip list --format=freeze | grep -i torch > installed_torch.txt",
            f"pip install -r {done.lists.main} -c installed_torch.txt",
        )
        yield ""
        yield say("   The first line records the vendor's torch, so that no other package makes pip replace it.")
    yield ""
    yield say("3. The test of the machine. It says for each failure what to do:")
    yield ""
    yield from _shell(f"python {done.setup_test}")
    yield from _heading(2, say("Run"))
    commands = [_command(done, program) for program in done.programs]
    if commands:
        away = done.needs.from_root & set(done.programs)
        if away:
            yield say(
                "Run them from this folder, which must be on Python's path: programs below it import modules from it."
            )
            yield ""
        yield from _shell(*(['export PYTHONPATH="$PWD"'] if away else []), *commands)
    else:
        yield say("No program of the project uses the device by itself; start yours as before.")
    if done.style == "portable":
        yield ""
        yield say(
            "The code uses the first accelerator that it finds. The environment variable `PREFERRED_DEVICE={name}` "
            "asks for this one: the program then stops if it is missing. Without an accelerator, it runs on the CPU.",
            name=done.target.name,
        )
    elif done.style == "native":
        yield ""
        yield say(
            "The programs name the vendor's device. `PREFERRED_DEVICE` has no effect on them: `device_utils.py` reads "
            "it, which only your own code uses; `migrate --style portable` writes programs that read it."
        )
        variable = done.target.backend.VISIBLE_DEVICES
        if isinstance(variable, str):
            yield say("`{variable}=0` in the environment chooses the card.", variable=variable)
    if done.needs.models:
        yield from _heading(2, say("Models"))
        yield say("They are downloaded when a program first needs them. For some, accept the licence and log in first.")
        yield ""
        yield from (f"- `{model.name}` ({model.place})" for model in done.needs.models)
    yield from _heading(2, say("Files"))
    yield from _table((say_in("kit", "file"), say("what it is")), _files(done))
    yield from _heading(2, say("When it is accepted"))
    yield say(
        "`torchferry accept init` writes what the port has to keep: its figures on CUDA, images, memory, logs and "
        "documents. `torchferry accept --rehearse` judges it without a card, `torchferry accept` on the card, where "
        "also the speed counts. `torchferry advise` names what may make it faster."
    )
    yield from _heading(2, say("When something fails"))
    yield say("- `python {file}` names the cause and the remedy for what the machine lacks.", file=done.setup_test)
    yield say("- {guide} lists what is left to do.", guide=f"[{done.guide}]({done.guide})")
    yield say(
        "- `torchferry doctor --target {name}` examines driver, toolkit and container, where torchferry is installed.",
        name=done.target,
    )


def _command(done: Migrated, program: str) -> str:
    path = done.moved.get(program, program)
    return f"bash {path}" if path.endswith((".sh", ".bash")) else f"python {path}"


def _files(done: Migrated) -> Iterator[tuple[Message | str, ...]]:
    for original, new in sorted(done.moved.items()):
        if original != new:
            yield f"`{new}`", say("in place of `{original}`", original=original)
    what = {
        done.lists.main: say("packages to install"),
        done.setup_test: say("test of the machine"),
        done.guide: say("what was changed, and why"),
        done.needs.manager: say(
            "the device, for code that you write: `from {module} import DeviceManager`",
            module=done.needs.manager.removesuffix(".py").replace("/", "."),
        ),
    }
    for file in done.files:
        if file in what:
            yield f"`{file}`", what[file]
        elif file in done.lists.files:
            yield f"`{file}`", say("further list of packages")


# --- the guide ---


def _guide(done: Migrated) -> Iterator[Message | str]:
    title = done.target.title
    work = [finding for finding in done.remaining if finding.grade is not Grade.NOTE]
    yield from _heading(1, say("Migration of {project} to {target}", project=done.project, target=title))
    yield say(
        "{fixes} in {files}; {left} left to do by hand. Written by torchferry {version}.",
        fixes=say_plural("{count} fix", "{count} fixes", count=len(done.fixed)),
        files=say_plural("{count} file", "{count} files", count=len({file.path for file in done.changed})),
        left=say_plural("{count} place", "{count} places", count=len(work)),
        version=__version__,
    )
    yield ""
    yield say("This guide was written without a card: neither speed nor results on the card were measured.")
    yield from _heading(2, say("What changed in the code"))
    rows = list(_changed_lines(done))
    if rows:
        yield from _table((say("place"), say("before"), say("after")), rows)
    else:
        yield say("Nothing.")
    yield from _heading(2, say("Why"))
    yield from _reasons(done)
    yield from _heading(2, say("What changed in the requirements"))
    if done.lists.changes:
        yield from _table(
            (say("place"), say("before"), say("after"), say("why")),
            (
                (_code(change.place), _code(_without_key(change.before)), _code(change.after) or "-", change.reason)
                for change in done.lists.changes
            ),
        )
    else:
        yield say("Nothing.")
    yield from _heading(2, say("Decisions"))
    yield from _decisions(done)
    yield from _heading(2, say("What is left"))
    yield from _left(done, work)
    yield from _heading(2, say("How to test"))
    yield from _tests(done)
    yield from _heading(2, say("How to undo"))
    if done.way == "copy":
        yield say("Remove this folder: the original is untouched.")
        return
    if done.way == "patch":
        yield say("Apply the patch backwards: `git apply -R` with its file.")
        return
    yield from _shell("torchferry undo .")
    yield ""
    yield say(
        "This restores the original files byte by byte, and removes the files that were written. It refuses if one "
        "was edited since."
    )


def _reasons(done: Migrated) -> Iterator[Message | str]:
    """Yield each message of a fix once, with the places that it is about."""
    places: dict[tuple[str, Message], list[str]] = {}
    for finding in sorted(done.fixed, key=lambda finding: finding.location.order):
        places.setdefault((finding.code, finding.message), []).append(
            f"{finding.location.path}:{finding.location.line}"
        )
    if not places:
        yield say("Nothing was rewritten.")
    for (code, message), where in places.items():
        yield say("- {code}: {message} ({places})", code=code, message=message, places=", ".join(dict.fromkeys(where)))
    if places:
        yield ""
        yield say("`torchferry rule CODE` explains a rule.")


def _changed_lines(done: Migrated) -> Iterator[tuple[str, str, str]]:
    """Yield the lines that are different, with their place in the original."""
    for path, original, migrated in sorted(done.changed, key=lambda file: file.path):
        old = original.decode("utf-8", "replace").splitlines()
        new = migrated.decode("utf-8", "replace").splitlines()
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for tag, first, last, new_first, new_last in matcher.get_opcodes():
            if tag == "equal":
                continue
            removed, added = old[first:last], new[new_first:new_last]
            line = first + 1
            for before, after in _paired(removed, added):
                yield f"{path}:{min(line, max(last, 1))}", _code((before or "").strip()), _code((after or "").strip())
                line += before is not None


_MOST_COMPARED = 400


def _paired(removed: list[str], added: list[str]) -> list[tuple[str | None, str | None]]:
    """Return which new line is in the place of which old one, in order; None where a line has no counterpart.

    Lines that are added beside changed ones, such as imports, must not shift the others: the most alike go together.
    """
    if len(removed) == len(added) or len(removed) * len(added) > _MOST_COMPARED:
        return list(zip_longest(removed, added))
    likeness = [[difflib.SequenceMatcher(None, old.strip(), new.strip()).ratio() for new in added] for old in removed]
    best = [[0.0] * (len(added) + 1) for _ in range(len(removed) + 1)]
    for i in range(len(removed) - 1, -1, -1):
        for j in range(len(added) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + likeness[i][j])
    pairs: list[tuple[str | None, str | None]] = []
    i = j = 0
    while i < len(removed) and j < len(added):
        if best[i][j] == best[i + 1][j + 1] + likeness[i][j]:
            pairs.append((removed[i], added[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i][j + 1]:
            pairs.append((None, added[j]))
            j += 1
        else:
            pairs.append((removed[i], None))
            i += 1
    return pairs + [(old, None) for old in removed[i:]] + [(None, new) for new in added[j:]]


def _decisions(done: Migrated) -> Iterator[Message | str]:
    stack = done.lists.stack
    if done.way == "beside":
        yield say("- New files beside the originals: both versions run, and both have to be maintained.")
    elif done.way == "copy":
        yield say("- A copy of the whole tree: both versions run, and both have to be maintained.")
    else:
        yield say("- Changed in place: there is one version, for {target}.", target=done.target.title)
    if done.style == "portable":
        yield say("- The code asks `device_utils.py` for the device, so it runs on every device, including CUDA.")
    elif done.style == "shim":
        yield say("- The code is redirected when it starts, and stays written for CUDA.")
    else:
        yield say("- The code uses the vendor's own API, and runs only on {target}.", target=done.target.title)
    if stack.torch:
        yield say(
            "- torch {torch} with {plugins}: {reason}.",
            torch=stack.torch,
            plugins=", ".join(stack.plugins),
            reason=stack.reason,
        )
    else:
        yield _joined("- ", stack.reason)
    examined = done.target.version or next(iter(done.target.backend.table("api").verified[-1:]), "")
    if examined and examined not in stack.plugin_versions:
        yield say(
            "- **Check this:** the code was examined for version {examined} of the plugin, and the list installs "
            "another one. Examine it for the installed version with `--target {name}@VERSION`.",
            examined=examined,
            name=done.target.name,
        )
    if stack.decision:
        yield say("- **Agree to this or choose another:** the project asks for another torch than the one above.")
    for dtype, place in sorted(done.needs.dtypes.items()):
        note = done.target.backend.DTYPE_NOTES.get(dtype)
        if note is not None:
            yield say(
                "- {dtype} is used ({place}). On {target}: {note}.",
                dtype=dtype,
                place=place,
                target=done.target.title,
                note=note,
            )
    for change in done.lists.changes:
        if not change.after and change.place and change.before and not change.before.startswith("-"):
            yield say("- `{name}` is not installed: {reason}.", name=_without_key(change.before), reason=change.reason)


def _left(done: Migrated, work: list[Finding]) -> Iterator[Message | str]:
    notes = [finding for finding in done.remaining if finding.grade is Grade.NOTE]
    if not work:
        yield say("Nothing in the code has to be changed by hand.")
    for finding in sorted(work, key=lambda finding: finding.location.order):
        yield _line(done, finding)
    unlisted = _unlisted(done)
    if unlisted:
        yield ""
        yield say("These packages are imported, but are in no list of requirements; install those that you need:")
        yield ""
        yield from (f"- `{name}` ({place})" for name, place in unlisted)
    decisions = [change for change in done.lists.changes if change.decision]
    if decisions:
        yield ""
        yield say("Requirements to look at:")
        yield ""
        for change in decisions:
            place = change.place or "-"
            yield say(
                "- `{name}` ({place}): {reason}", name=_without_key(change.before), place=place, reason=change.reason
            )
    if notes:
        yield ""
        yield say("These places stay as they are on purpose:")
        yield ""
        yield from (_line(done, finding) for finding in sorted(notes, key=lambda finding: finding.location.order))


def _line(done: Migrated, finding: Finding) -> Message:
    path = done.moved.get(finding.location.path, finding.location.path)
    place = f"{path}:{finding.location.line}"
    return say("- `{place}` {code}: {message}", place=place, code=finding.code, message=finding.message)


def _unlisted(done: Migrated) -> list[tuple[str, str]]:
    listed = set()
    for text, _ in done.lists.required:
        found = requirement(text, 0, len(text))
        if found is not None:
            listed.add(found.name)
    listed |= {normalised(change.before.partition("=")[0].partition(">")[0].strip()) for change in done.lists.changes}
    ours = {normalised(done.target.backend.PLUGIN)}
    return [
        (module.distribution or module.module, module.place)
        for module in done.needs.modules
        if module.needed and normalised(module.distribution or module.module.replace(".", "-")) not in listed | ours
    ]


def _tests(done: Migrated) -> Iterator[Message | str]:
    yield say("1. The machine:")
    yield ""
    yield from _shell(f"python {done.setup_test}")
    listed = [program for program in done.programs if program.endswith(".py")]
    first = sorted(listed, key=lambda path: (_MAIN.match(path.rpartition("/")[2]) is None, path.count("/"), path))
    programs = [done.moved.get(program, program) for program in first]
    if programs:
        yield ""
        yield say(
            "2. The code on a simulated card, on the CPU, with small sizes; it shows names that the plugin lacks:"
        )
        yield ""
        yield from _shell(f"torchferry rehearse --target {done.target} -- python {programs[0]}")
        yield ""
        yield say("3. The program on the card, to its end:")
        yield ""
        yield from _shell(*(f"python {program}" for program in programs))
        yield ""
        yield say(
            "4. Compare its results with those of CUDA: the same seed gives other random numbers on another vendor's "
            "card, so give both the same input. Compare images by eye or by a metric, losses with `torchferry compare "
            "curves`, and operators with `torchferry compare cpu`."
        )
        yield ""
        yield say("5. Compare time and memory of one run with those of CUDA.")


# --- tables ---


def _without_key(text: str) -> str:
    """Return a line of a list without the user and the key that an address may hold."""
    return _KEY.sub("//...@", text)


def _code(text: str) -> str:
    """Return a text as code in a cell of a table; empty for none."""
    if not text:
        return ""
    shown = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    fence = "``" if "`" in shown else "`"
    pad = " " if "`" in shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", "\\|").replace("\r", "")


def _table(head: tuple[Message, ...], rows: Iterable[tuple[Message | str, ...]]) -> Iterator[Message | str]:
    yield _row(head)
    yield "|" + " --- |" * len(head)
    yield from map(_row, rows)


def _row(cells: tuple[Message | str, ...]) -> Message:
    return _joined("|", *(part for cell in cells for part in (" ", cell, " |")))
