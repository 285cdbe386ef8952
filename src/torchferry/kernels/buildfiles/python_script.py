"""Python files that build extensions: `setup.py`, and calls that compile when a program runs.

With the style `replace` the target's words replace CUDA's. With `branch` they are next to them, and nothing
is different as long as the target's variable is not set::

    FORCE_ACME = os.getenv("FORCE_ACME", "0") == "1"
    ...
    elif FORCE_ACME:
        define_macros += [("WITH_ACME", None)]
        op_files = glob.glob("./csrc_acme/*.acme")
        extension = AcmeExtension
    elif torch.cuda.is_available():
        define_macros += [("WITH_CUDA", None)]
        op_files = glob.glob("./csrc/*.cu")
        extension = CUDAExtension

Where the code asks for CUDA and then sets everything up in one arm of a condition, that arm gets a twin. Elsewhere each
expression becomes a conditional one. The result is parsed; if it is not Python, nothing is changed and the review list
says what to write.
"""

from __future__ import annotations

import ast

from torchferry.core.messages import Message, noted, say
from torchferry.kernels.buildfiles.model import BuildSettings, PortedBuildFile, ReviewList, disjoint
from torchferry.kernels.buildfiles.python_changes import BUILDERS, ScriptChanges
from torchferry.kernels.buildfiles.python_writing import script_edits
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import SourceText, apply_edits


def port_python(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what becomes of a Python file that builds extensions; one that does not is left as it is."""
    source = SourceText(text)
    review = ReviewList(path, source)
    if "cpp_extension" not in text:
        return PortedBuildFile(path)
    facts = settings.facts
    try:
        file = PythonFile(path, source)
    except (UnparsableError, RecursionError, MemoryError) as error:
        line = error.line if isinstance(error, UnparsableError) else 0
        reason = error.message if isinstance(error, UnparsableError) else say("it is nested too deeply")
        at = source.starts[min(max(line, 1), len(source.starts)) - 1]
        review.add(at, "build-unread", say("this build script does not parse: {reason}", reason=reason))
        review.add(at, "build-extension", by_hand(settings))
        return PortedBuildFile(path, (), review.items())
    found = ScriptChanges(file, settings, review)
    if facts.kernels != "port" or not found.ported(f"{BUILDERS}.CUDAExtension"):
        for reference in found.names.references(BUILDERS.partition(".")[0]):
            if reference.name.startswith(f"{BUILDERS}.CUDA"):
                review.add(file.span(reference.node)[0], "build-extension", by_hand(settings))
                break
        return PortedBuildFile(path, (), review.items())
    own = [word for word in (facts.switch, settings.target.backend.IMPORT_NAMESPACE) if word and word in text]
    if own:
        at = text.index(own[0])
        message = say(
            "the script already builds for {target} (`{word}`): it is left as it is",
            target=settings.target.title,
            word=own[0],
        )
        review.add(at, "build-extension", message)
        return PortedBuildFile(path, (), review.items())
    found.find()
    edits = disjoint(script_edits(found, settings))
    if edits and not _parses(apply_edits(text, edits)):
        edits = ()
        review.add(0, "build-extension", by_hand(settings))
    if not found.makes_extensions():
        at = file.span(found.imports[0].node)[0] if found.imports else 0
        message = say("it is unclear where the script creates the extension; {advice}", advice=by_hand(settings))
        review.add(at, "build-extension", message)
    return PortedBuildFile(path, edits, review.items())


def by_hand(settings: BuildSettings) -> Message:
    """Say what a build script needs for the target, for those who write it themselves."""
    facts = settings.facts
    row = settings.target.api(f"{BUILDERS}.CUDAExtension")
    extension = facts.extension or row.use
    if not extension:
        return noted(
            say("how extensions are built for {target} is not publicly known", target=settings.target.title), row.remark
        )
    suffix = facts.uses("suffix").get(".cu", "")
    if facts.kernels == "rewrite":
        return say(
            "write by hand: `{extension}` from `{module}` in place of CUDAExtension, with kernels rewritten in "
            "{language} ({suffix})",
            extension=extension.rpartition(".")[2],
            module=extension.rpartition(".")[0],
            language=facts.language,
            suffix=suffix,
        )
    return say(
        "write by hand: `{extension}` and BuildExtension from `{module}`, sources `*{suffix}` of the ported folder, "
        "and the key `{compiler}` in place of `nvcc`",
        extension=extension.rpartition(".")[2],
        module=extension.rpartition(".")[0],
        suffix=suffix,
        compiler=facts.uses("compiler").get("nvcc", ""),
    )


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
