"""The kinds of checks that the rules of forms ask for: each yields what is wrong, with its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from torchferry.backends.handover_forms import ZooLogger, ZooRule
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.handover.addresses import public_addresses
from torchferry.handover.brought_operators import brought_operators
from torchferry.handover.handed_over import PULL_REQUEST, HandedOver
from torchferry.handover.licences import has_header, has_notice, language_of_comments
from torchferry.handover.project_files import is_data
from torchferry.handover.record import FileOrigin
from torchferry.handover.templates import GAP

_HEADING = re.compile(r"(#{1,6})[ \t]+")
_DOWNLOAD = re.compile(r"\b(?:wget|curl|gdown|aria2c)\b[^\n]*(?:https?://|\bid\b)|urlretrieve\(|download_url\(")
_LINK = re.compile(r"https?://\S+")
_SHELL = (".sh", ".bash")


class BrokenRule(NamedTuple):
    """A place where a rule is broken.

    Attributes:
        message: What is wrong there.
        path: The file, from the folder that was checked; empty where none can be named.
        line: The line, from 1; 0 where none can be named.
    """

    message: Message
    path: str = ""
    line: int = 0


def _is_named(handed: HandedOver, name: str) -> bool:
    """Whether another rule names a file that is missing, so that it is said once."""
    return any(
        rule.check == "files"
        and set(name.split("|")) & {one for each in rule.texts("files") for one in each.split("|")}
        for rule in handed.form.rules
    )


Check = Callable[[HandedOver, ZooRule], Iterator[BrokenRule]]


def _folder(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    if not handed.is_placed:
        yield BrokenRule(say("there is no folder {layout}", layout=handed.form.layout))


def _domain(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    if handed.is_placed and handed.domain not in handed.form.domains:
        names = ", ".join(handed.form.domains)
        yield BrokenRule(
            say("the domain `{name}` is not one of {names}", name=handed.domain, names=names), handed.folder
        )


def _name(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    if not re.fullmatch(str(rule.options["pattern"]), handed.model):
        yield BrokenRule(say("the folder is called `{name}`", name=handed.model), handed.folder)


def _files(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    for wanted in rule.texts("files"):
        present = handed.named(wanted)
        if not present:
            yield BrokenRule(
                say("{name} is missing", name=wanted.replace("|", " / ")), handed.path_of(wanted.split("|")[0])
            )
        elif not any(handed.sizes[path] for path in present):
            yield BrokenRule(say("{name} is empty", name=present[0]), handed.path_of(present[0]))


def _no_data(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    for path, size in handed.sizes.items():
        if size > int(rule.options["limit"]):
            limit = int(rule.options["limit"]) >> 20
            too_large = say("larger than the limit of {limit} MiB: {size} MiB", limit=limit, size=-(-size >> 20))
            yield BrokenRule(too_large, handed.path_of(path))
        elif is_data(path):
            yield BrokenRule(say("the file is part of a data set, or holds weights"), handed.path_of(path))


def _own_header(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    form = handed.form
    for path in handed.sizes:
        language, text = language_of_comments(path), handed.text(path)
        if not language or text is None or (path.endswith(_SHELL) and not rule.options.get("shell")):
            continue
        origin = handed.origin(path)
        if has_header(text, form.own_header, language):
            continue
        if origin in (FileOrigin.GENERATED, FileOrigin.OWN):
            yield BrokenRule(say("the header is missing"), handed.path_of(path), 1)
        elif origin is None and not has_notice(text) and not _has_changed_line(handed, text, language):
            yield BrokenRule(say("the file has neither the header nor a third-party licence"), handed.path_of(path), 1)


def _has_changed_line(handed: HandedOver, text: str, language: str) -> bool:
    return bool(handed.form.changed_line) and has_header(text, handed.form.changed_line, language)


def _changed_line(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    for path in handed.sizes:
        language, text = language_of_comments(path), handed.text(path)
        if handed.origin(path) is FileOrigin.CHANGED and language:
            if text is None:
                yield BrokenRule(
                    say("the file was changed but cannot be decoded: add the line by hand"), handed.path_of(path)
                )
            elif not _has_changed_line(handed, text, language):
                yield BrokenRule(say("the file was changed, and the line is missing"), handed.path_of(path), 1)


def _licence(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    for path in handed.named("LICENSE*|LICENCE*|COPYING*"):
        for pattern in rule.texts("never"):
            match = re.search(pattern, handed.text(path) or "", re.IGNORECASE)
            if match is not None:
                line = (handed.text(path) or "").count("\n", 0, match.start()) + 1
                yield BrokenRule(say("the licence is the {name}", name=match.group()), handed.path_of(path), line)


def _never(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    modules, calls = set(rule.texts("imports")), set(rule.texts("calls"))
    for path in handed.python:
        tree = handed.tree(path)
        for node in () if tree is None else ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.partition(".")[0] in modules]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in modules:
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in calls:
                names = [f"{node.func.id}()"]
            for name in names:
                yield BrokenRule(say("`{name}` is used", name=name), handed.path_of(path), getattr(node, "lineno", 0))


def _joined_paths(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    for path in handed.python:
        tree = handed.tree(path)
        for node in () if tree is None else ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                texts = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
                if any(isinstance(text, str) and re.fullmatch(r"/[\w./-]*|[\w.-]*/", text) for text in texts):
                    yield BrokenRule(say("a path is joined with `+`"), handed.path_of(path), node.lineno)


def _logged(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    logger = handed.form.logger
    if logger is None:
        return
    users = [path for path in handed.python if _imports(handed, path, {logger.package})]
    if not users:
        yield BrokenRule(say("no file imports {name}", name=logger.package), handed.folder)
        return
    texts = [handed.text(path) or "" for path in users]
    for name in logger.names:
        if not any(name in text for text in texts):
            yield BrokenRule(say("`{name}` is not logged", name=name), handed.path_of(users[0]))
    called = [
        path
        for path in handed.python
        if path not in users and _imports(handed, path, {logger.module}) and _calls(handed, path, logger.train)
    ]
    direct = [
        path
        for path in users
        if re.search(r"\.log\(", handed.text(path) or "") and not path.endswith(f"{logger.module}.py")
    ]
    if not called and not direct:
        yield BrokenRule(say("no training program logs a loss"), handed.path_of(users[0]))
    if not direct:
        yield from _incomplete_calls(handed, called, logger)


def _incomplete_calls(handed: HandedOver, called: list[str], logger: ZooLogger) -> Iterator[BrokenRule]:
    """Yield the calls of the logger that cannot log a speed, where no call can, or that log one epoch for all."""
    places = ["epoch", "step", "loss", "batch"]
    form = ast.parse(logger.train.format(**{place: place for place in places}), mode="eval").body
    if not isinstance(form, ast.Call):
        return
    order = [argument.id for argument in form.args if isinstance(argument, ast.Name)]
    without: list[BrokenRule] = []
    calls = 0
    for path in called:
        tree = handed.tree(path)
        loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))] if tree is not None else []
        for node in ast.walk(tree) if tree is not None else ():
            if not isinstance(node, ast.Call) or ast.dump(node.func) != ast.dump(form.func):
                continue
            calls += 1
            given = dict(zip(order, node.args, strict=False))
            around = sum(loop.lineno < node.lineno <= (loop.end_lineno or 0) for loop in loops)
            epoch, batch = given.get("epoch"), given.get("batch")
            if isinstance(epoch, ast.Constant) and epoch.value is not None and around > 1:
                message = say("every epoch is logged as epoch {number}", number=epoch.value)
                yield BrokenRule(message, handed.path_of(path), node.lineno)
            if batch is None or (isinstance(batch, ast.Constant) and batch.value is None):
                message = say("`{name}` is never logged: the call names no batch", name=logger.names[-1])
                without.append(BrokenRule(message, handed.path_of(path), node.lineno))
    if calls and len(without) == calls:
        yield from without


def _calls(handed: HandedOver, path: str, template: str) -> bool:
    return template.partition("(")[0] + "(" in (handed.text(path) or "")


def _imports(handed: HandedOver, path: str, names: set[str]) -> bool:
    tree = handed.tree(path)
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] in names for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in names:
            return True
    return False


def _logged_validation(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    logger = handed.form.logger
    validating = [path for path in handed.reached if re.search(r"\.eval\(\)", handed.text(path) or "")]
    if logger is None or not validating:
        return
    every = [handed.text(path) or "" for path in handed.python if not path.endswith(f"{logger.module}.py")]
    if any(logger.val.partition("(")[0] + "(" in text for text in every):
        return
    for name in rule.texts("names"):
        if not any(name in text for text in every):
            yield BrokenRule(say("`{name}` is not logged", name=name), handed.path_of(validating[0]))


def _lines(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    present = handed.named(str(rule.options["file"]))
    for path in present[:1]:
        for pattern in rule.texts("patterns"):
            if not re.search(pattern, GAP.sub("[]", handed.text(path) or ""), re.MULTILINE):
                yield BrokenRule(say("no line matches `{pattern}`", pattern=pattern), handed.path_of(path))
    if not present and not _is_named(handed, str(rule.options["file"])):
        name = str(rule.options["file"]).split("|")[0]
        yield BrokenRule(say("{name} is missing", name=name), handed.path_of(name))


def _words(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    words: set[str] = set()
    for path in handed.python:
        tree = handed.tree(path)
        for node in () if tree is None else ast.walk(tree):
            if isinstance(node, ast.Name):
                words.add(node.id)
            elif isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                words |= {part for alias in node.names for part in alias.name.split(".")}
    for alternatives in rule.texts("words"):
        if not words.intersection(alternatives.split("|")):
            named = alternatives.replace("|", " / ")
            yield BrokenRule(say("no file uses one of {names}", names=named), handed.folder)


def _parameters(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    path = str(rule.options["file"])
    text = handed.text(path)
    if text is None:
        return  # another rule names the file
    flags = set(re.findall(r"[\"']--?([\w-]+)[\"']", text))
    missing = [name for name in rule.texts("names") if name not in flags and name.replace("_", "-") not in flags]
    if missing:
        yield BrokenRule(say("missing arguments: {names}", names=", ".join(missing)), handed.path_of(path))


def _document(handed: HandedOver, name: str) -> tuple[str, str | None]:
    if name == PULL_REQUEST:
        return name, handed.pull_request
    return handed.path_of(name), handed.text(name)


def _sections_of(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, heading and body of each section; a body ends at the next heading of its level or a higher one."""
    lines = text.split("\n")
    heads: list[tuple[int, int, str]] = []
    fenced = False
    for number, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        match = None if fenced else _HEADING.match(line)
        if match is not None:
            heading = line[match.end() :].rstrip(" \t").rstrip("#").rstrip(" \t")
            heads.append((number, len(match.group(1)), heading))
    following = [len(lines)] * 7  # for each level, the next heading of that level or a higher one
    ends = []
    for number, level, _ in reversed(heads):
        ends.append(following[level])
        following[level:] = [number] * (7 - level)
    for (number, _, heading), end in zip(heads, reversed(ends), strict=True):
        yield number + 1, heading, "\n".join(lines[number + 1 : end])


def _sections(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    name = str(rule.options["file"])
    path, text = _document(handed, name)
    if text is None:
        if name != PULL_REQUEST and not _is_named(handed, name):
            yield BrokenRule(say("{name} is missing", name=name), path)
        return
    sections = list(_sections_of(text))
    for wanted in rule.texts("headings"):
        fitting = [each for each in sections if re.search(wanted, each[1])]
        if not fitting:
            yield BrokenRule(say("the section {name} is missing", name=wanted.replace("|", " / ")), path)
        elif not any(body.strip() for _, _, body in fitting):
            yield BrokenRule(say("the section {name} is empty", name=fitting[0][1]), path, fitting[0][0])


def _results(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    name, heading = str(rule.options["file"]), str(rule.options["heading"])
    path, text = _document(handed, name)
    if text is None and _is_named(handed, name):
        return
    fitting = [each for each in _sections_of(text or "") if re.search(heading, each[1])]
    if not fitting:
        yield BrokenRule(say("the section {name} is missing", name=heading.replace("|", " / ")), path)
        return
    line, _, body = fitting[0]
    gaps = list(_gaps_in(body))
    for offset, missing in gaps:
        yield BrokenRule(say("missing: {what}", what=missing), path, line + offset)
    rows = [row for row in body.split("\n") if row.count("|") >= 3 and re.search(r"\d", row)]
    has_curve = re.search(r"!\[[^\[\]]*\]\([^()]+\)", body) is not None
    if not gaps and not rows and not has_curve:
        yield BrokenRule(say("the section has no table with figures and no curve"), path, line)


def _gaps_in(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        for match in GAP.finditer(line):
            yield number, match.group(1)


def _gaps(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    path, text = _document(handed, str(rule.options["file"]))
    if text is None:
        return  # another rule names the file
    apart: set[int] = set()
    excepted = str(rule.options.get("except", ""))
    for line, heading, body in _sections_of(text) if excepted else ():
        if re.search(excepted, heading):
            apart |= set(range(line, line + body.count("\n") + 2))
    titled = path == PULL_REQUEST
    for number, missing in _gaps_in(text):
        if number not in apart and not (titled and number <= 3):  # the rules about its first lines name these
            yield BrokenRule(say("missing: {what}", what=missing), path, number)


def _verdict(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    verdict = handed.verdict
    if verdict == "accepted":
        return
    if verdict == "rehearsal":
        yield BrokenRule(
            say("the evidence is from a rehearsal, which shows neither the speed nor the accuracy of the card")
        )
    elif verdict:
        yield BrokenRule(say("the verdict of the evidence is: {verdict}", verdict=verdict))
    else:
        yield BrokenRule(say("no evidence of `torchferry accept` was handed over"))


def _levels(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    name = str(rule.options["file"])
    text = handed.text(name)
    if text is None:
        yield BrokenRule(say("{name} is missing", name=name), handed.path_of(name))
        return
    lines = {line.partition(":")[0].strip(): (number, line) for number, line in enumerate(text.split("\n"), 1)}
    values: dict[str, list[str]] = dict(rule.options["values"])
    for key, allowed in values.items():
        if key not in lines:
            yield BrokenRule(say("{name} is missing", name=key), handed.path_of(name))
            continue
        number, line = lines[key]
        stated = line.partition(":")[2]
        value = stated if GAP.search(line) else re.sub(r"(?<!\s)\s*[(（-].*", "", stated)
        if value not in allowed:
            yield BrokenRule(
                say("{name} is `{value}`; allowed: {names}", name=key, value=value, names=", ".join(allowed)),
                handed.path_of(name),
                number,
            )


def _addresses(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    declared = handed.text(str(rule.options["file"])) or ""
    for path in handed.sizes:
        text = handed.text(path)
        seen: set[str] = set()
        for each in () if text is None else public_addresses(path, text):
            if each.address not in declared and each.address not in seen:
                seen.add(each.address)
                yield BrokenRule(
                    say("{address} is not declared", address=each.address), handed.path_of(path), each.line
                )


def _addresses_named(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    name = str(rule.options["file"])
    readme = handed.text("README.md")
    if name in handed.sizes and readme is not None and name not in readme:
        yield BrokenRule(say("{name} is not mentioned", name=name), handed.path_of("README.md"))


def _no_downloads(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    name = str(rule.options["file"])
    for line, heading, body in _sections_of(handed.text(name) or ""):
        if re.search(str(rule.options["heading"]), heading):
            for offset, text in enumerate(body.split("\n"), 1):
                if _LINK.search(text):
                    yield BrokenRule(say("a download link"), handed.path_of(name), line + offset)
    for path in handed.sizes:
        if path.endswith((".py", *_SHELL)):
            for number, text in enumerate((handed.text(path) or "").split("\n"), 1):
                if _DOWNLOAD.search(text.partition("#")[0]):
                    yield BrokenRule(say("this line downloads a file"), handed.path_of(path), number)


def _own_operators(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    merged = str(rule.options["merged"])
    texts = [handed.pull_request or "", *(handed.text(path) or "" for path in handed.named("README*.md"))]
    if any(re.search(merged, text) for text in texts):
        return  # whether they were merged there, and can be called, another rule asks a person
    for each in brought_operators(handed, rule.texts("kernels")):
        message = say("an operator of the model's own, and no text names where it was merged: {name}", name=each.name)
        yield BrokenRule(message, handed.path_of(each.path), each.line)


def _pull_request(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    text = handed.pull_request
    key = str(rule.options["key"])
    if text is None:
        return  # another rule names the file
    for number, line in enumerate(text.split("\n")[:10], 1):
        if line.startswith(f"{key}:"):
            value = line.partition(":")[2].strip()
            if not re.fullmatch(str(rule.options["pattern"]), value):
                yield BrokenRule(say("{name} is `{value}`", name=key, value=value), PULL_REQUEST, number)
            return
    yield BrokenRule(say("the line `{name}: ...` is missing", name=key), PULL_REQUEST)


def _request(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    if handed.pull_request is None:
        yield BrokenRule(say("{name} is missing", name=PULL_REQUEST), PULL_REQUEST)


def _person(handed: HandedOver, rule: ZooRule) -> Iterator[BrokenRule]:
    yield BrokenRule(say("only a person can judge this"))


CHECKS: dict[str, Check] = {
    "addresses": _addresses,
    "addresses_named": _addresses_named,
    "changed_line": _changed_line,
    "domain": _domain,
    "files": _files,
    "folder": _folder,
    "gaps": _gaps,
    "joined_paths": _joined_paths,
    "levels": _levels,
    "licence": _licence,
    "lines": _lines,
    "logged": _logged,
    "logged_validation": _logged_validation,
    "name": _name,
    "never": _never,
    "no_data": _no_data,
    "no_downloads": _no_downloads,
    "own_header": _own_header,
    "own_operators": _own_operators,
    "parameters": _parameters,
    "person": _person,
    "pull_request": _pull_request,
    "request": _request,
    "results": _results,
    "sections": _sections,
    "verdict": _verdict,
    "words": _words,
}
"""The checks, by the names that forms give them."""
