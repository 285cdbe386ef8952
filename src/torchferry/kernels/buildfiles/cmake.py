"""CMake files: what they need for a target, in place of what they need for CUDA or beside it.

Beside it means a condition around the commands that change, so that nothing is different where the target's variable
is not set::

    if("$ENV{FORCE_ACME}" STREQUAL "1")
      find_package(ACME REQUIRED)
    else()
      find_package(CUDAToolkit REQUIRED)
    endif()

What a command means beyond its words is not known here: variables are not followed further than `set` and `file(GLOB)`
of the same file, and every word of CUDA that has no counterpart in the vendor's table goes to the review list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.kernels.buildfiles.cmake_syntax import Argument, CmakeCommand, Quoting, commands
from torchferry.kernels.buildfiles.model import BuildSettings, PortedBuildFile, Renaming, ReviewList, disjoint
from torchferry.source.text import SourceText, apply_edits

KIND = "build-cmake"

_CUDA_WORD = lazy_regex(
    r"(?i)(?<![\w.-])[\w.-]*(?:cuda|nvcc)[\w.-]*|\b(?:cublas|cudnn|cusparse|cusolver|curand|cufft|nvrtc|nccl|nvtx)\w*"
    r"|(?<![\w./*-])[\w./*-]+\.cuh?\b|\bsm_[0-9]+"
)
_BLOCKS = frozenset(
    {"if", "elseif", "else", "endif", "while", "endwhile", "foreach", "endforeach"}
    | {"function", "endfunction", "macro", "endmacro", "block", "endblock"}
)
_TELLING = frozenset({"message", "option", "mark_as_advanced"})
_IDENTIFIER = lazy_regex(r"[A-Za-z_]\w*")
_TARGET_NAME = lazy_regex(r"(?<!\w)(\w+)::(\w+)")
_REFERENCE = lazy_regex(r"\$\{(\w+)\}")
_IN_EXPRESSION = lazy_regex(r"(?<![^<>:;,\s])[^<>:;,\s]+(?=[>;])")
"""What a generator expression such as `$<$<BOOL:${X}>:a.cu>` represents; never a reference to a variable alone."""

_LIBRARY_KINDS = frozenset({"OBJECT", "INTERFACE", "ALIAS", "IMPORTED"})
_BLANK = lazy_regex(r"[ \t]*(?:\r?\n[ \t]*)?\Z")


def port_cmake(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what becomes of a CMake file."""
    review = ReviewList(path, SourceText(text))
    porter = _Porter(text, settings, review, Renaming(settings, path))
    facts = settings.facts
    switch = facts.switch
    if facts.kernels != "port" or not facts.rows.get("package"):
        porter.review_only()
        return PortedBuildFile(path, (), review.items())
    own = next((word for word in (switch, *facts.uses("package").values()) if word and word in text), "")
    if own:
        message = say(
            "the file already builds for {target} (`{word}`): it is left as it is",
            target=settings.target.title,
            word=own,
        )
        review.add(text.index(own), KIND, message)
        return PortedBuildFile(path, (), review.items())
    edits = porter.edits()
    return PortedBuildFile(path, disjoint(edits), review.items())


@dataclass
class _CmakeArm:
    """An arm of a condition: its first command, the one behind its last, and whether one of them compiles CUDA."""

    start: int
    end: int = 0
    compiles: bool = False


class _Porter:
    """Ports one CMake file."""

    def __init__(self, text: str, settings: BuildSettings, review: ReviewList, renaming: Renaming) -> None:
        self.text = text
        self.target = settings.target
        self.facts = settings.facts
        self.beside = settings.style == "branch"
        self.review = review
        self.renaming = renaming
        self.commands = list(commands(text))
        self.condition = f'"$ENV{{{self.facts.switch}}}" STREQUAL "1"'
        self._holding: set[str] = set()  # variables that hold CUDA sources
        self._named: set[str] = set()
        self._begun = False

    def review_only(self) -> None:
        """Report every word of CUDA, and change nothing."""
        for command in self.commands:
            self._report(command, set())

    def edits(self) -> list[Edit]:
        """Return the edits of the file."""
        changed: list[tuple[CmakeCommand, list[Edit]]] = []
        others = self._in_other_arms()
        for number, command in enumerate(self.commands):
            if not command.closed:
                message = say("`{name}(` is not closed: the text after it was not read", name=command.name)
                self.review.add(command.start, "build-unread", message)
                continue
            if number in others:
                self._report(command, set())
                if any(self.renaming.ported_name(argument.text) != argument.text for argument in command.arguments):
                    message = say("this branch has no CUDA code, and another branch has: it keeps its sources")
                    self.review.add(command.start, "build-other-arms", message)
                continue
            edits, done = self._command(command)
            self._report(command, done, {edit.start: edit.text for edit in edits})
            if edits:
                changed.append((command, edits))
        if not self.beside:
            return [edit for _, edits in changed for edit in edits]
        return self._conditional(changed)

    def _in_other_arms(self) -> set[int]:
        """Return the commands in arms of conditions of which another arm compiles CUDA, and these do not.

        They build for the CPU or for other makers' cards, from the sources that stay beside the port.
        """
        spans: list[tuple[int, int]] = []
        opened: list[list[_CmakeArm]] = []
        compiling = self.facts.uses("command")
        for number, command in enumerate(self.commands):
            if command.name == "endif" and opened:
                arms = opened.pop()
                arms[-1].end = number
                if any(arm.compiles for arm in arms):
                    spans += [(arm.start, arm.end) for arm in arms if not arm.compiles]
                    if opened:
                        opened[-1][-1].compiles = True
            elif command.name in ("elseif", "else") and opened:
                opened[-1][-1].end = number
                opened[-1].append(_CmakeArm(number + 1))
            else:
                if opened and not opened[-1][-1].compiles:
                    opened[-1][-1].compiles = command.name in compiling or any(
                        self.renaming.is_source(argument.text) for argument in command.arguments
                    )
                if command.name == "if":
                    opened.append([_CmakeArm(number + 1)])
        return _numbers_in(spans)

    # one command

    def _command(self, command: CmakeCommand) -> tuple[list[Edit], set[Argument]]:
        """Return the edits of a command, and the arguments that need no report."""
        name = command.name
        if name in ("find_package", "find_dependency"):
            return self._package(command)
        if name in ("project", "enable_language"):
            return self._language(command)
        edits: list[Edit] = []
        done: set[Argument] = set()
        for argument in command.arguments:
            new = self._argument(command, argument)
            if new is not None and new != argument.text:
                edits.append(Edit(argument.start, argument.end, new))
                if "$<" not in new:  # an expression is told, whatever is changed in it
                    done.add(argument)
        if name in _BLOCKS:
            return (self._in_condition(command, edits) if self.beside else edits), done
        holding = self._notes_sources(command)
        renamed = self.facts.uses("command").get(name)
        if renamed is None and holding and name in ("add_library", "add_executable"):
            renamed = self.facts.uses("command").get(name.replace("add_", "cuda_add_"))
            if renamed and command.holds(*_LIBRARY_KINDS):
                message = say(
                    "`{command}` cannot make a library of this kind: compile its kernels by hand", command=renamed
                )
                self.review.add(command.start, KIND, message)
                renamed = None
        if renamed:
            edits.append(Edit(command.start, command.name_end, renamed))
        if name == "target_sources" and holding:
            command_name = self.facts.uses("command").get("cuda_add_library", "")
            message = say(
                "`target_sources` adds CUDA sources: they are compiled only if `{command}` made this CMake target",
                command=command_name,
            )
            self.review.add(command.start, KIND, message)
        return edits, done

    def _argument(self, command: CmakeCommand, argument: Argument) -> str | None:
        """Return what an argument becomes; None where it stays."""
        if argument.quoting is Quoting.BRACKET or command.name in _TELLING:
            return None
        facts = self.facts
        text = argument.text
        macros = self.renaming.macros
        variables = facts.uses("cmake_variable")

        def word(found: str) -> str:
            return macros.get(found) or variables.get(found) or found

        def library(namespace: str, name: str) -> str:
            known = facts.uses("library").get(name)
            own = facts.uses("namespace").get(namespace)
            return f"{own}::{known}" if own and known else f"{namespace}::{name}"

        if command.name in ("target_link_libraries", "link_libraries"):
            if text == "${TORCH_LIBRARIES}":
                return facts.uses("target").get("torch")
            if facts.uses("library").get(text):
                return facts.uses("library")[text]
        if "$<" in text and "COMPILE_LANGUAGE" in text:
            return None
        new = _TARGET_NAME.sub(lambda match: library(match[1], match[2]), text)
        new = _IDENTIFIER.sub(lambda match: word(match.group()), new) if _is_names(new) else new
        if "$<" in new:
            return _IN_EXPRESSION.sub(lambda match: self.renaming.ported_name(match.group()), new)
        return self.renaming.ported_name(new)

    def _package(self, command: CmakeCommand) -> tuple[list[Edit], set[Argument]]:
        if not command.arguments:
            return [], set()
        first = command.arguments[0]
        use = self.facts.uses("package").get(first.text)
        if not use:
            return [], set()
        row = self.facts.rows["package"][first.text]
        if row.note.en:
            message = say("`{found}` becomes `{use}`", found=first.text, use=use)
            self.review.add(first.start, KIND, noted(message, row.note))
        edits = [Edit(first.start, first.end, use)]
        done = {first}
        for argument in command.arguments[1:]:
            if argument.text[:1].isdigit() or argument.text == "EXACT":
                edits.append(Edit(argument.start, argument.end, ""))
                message = say(
                    "the CUDA version {version} is removed: the target's package has other version numbers",
                    version=argument.text,
                )
                self.review.add(argument.start, KIND, message)
            elif self.facts.uses("library").get(argument.text):
                edits.append(Edit(argument.start, argument.end, self.facts.uses("library")[argument.text]))
                done.add(argument)
        if first.text != "Torch":
            edits.append(self._begin(command, use))
        elif not command.holds("CONFIG"):
            edits.append(Edit(command.end - 1, command.end - 1, " CONFIG"))
        return edits, done

    def _language(self, command: CmakeCommand) -> tuple[list[Edit], set[Argument]]:
        """Take CUDA from the languages of a project: the kernels of the target are none of CMake's languages."""
        arguments = command.arguments[1:] if command.name == "project" else command.arguments
        named = [argument for argument in arguments if argument.text == "CUDA" and argument.quoting is Quoting.NONE]
        if not named:
            return [], set()
        rest = [argument for argument in arguments if argument not in named]
        indent = self._indent(command)
        begin = "\n".join(f"{indent}{line}" for line in self._lines())
        done = set(named)
        if command.name == "enable_language" and not any(argument.text != "OPTIONAL" for argument in rest):
            return [Edit(command.start, command.end, begin.lstrip())], done
        edits = [Edit(self._before(argument), argument.end, "") for argument in named]
        if command.name == "project" and all(argument.text == "LANGUAGES" for argument in rest[-1:]):
            edits.append(Edit(command.end - 1, command.end - 1, " CXX"))
        if self.beside:
            otherwise = f"{indent}else()\n{indent}  enable_language(CUDA)\n{indent}endif()"
            behind = f"\n{indent}if({self.condition})\n{begin}\n{otherwise}"
        else:
            behind = f"\n{begin}"
        edits.append(Edit(command.end, command.end, behind))
        return edits, done

    def _lines(self) -> list[str]:
        """Return what makes the target's compiler known, once a file."""
        lines = [] if self._begun else list(self.facts.cmake_begin)
        self._begun = True
        return lines or [f"# {self.facts.cmake_begin[-1]}: above"]

    def _begin(self, command: CmakeCommand, use: str) -> Edit:
        """Return the edit that puts the lines which every package needs before the first one."""
        if self._begun:
            return Edit(command.start, command.start, "")
        self._begun = True
        lines = [line for line in self.facts.cmake_begin if f"find_package({use} " not in line]
        indent = self._indent(command)
        return Edit(command.start, command.start, "".join(f"{line}\n{indent}" for line in lines))

    def _notes_sources(self, command: CmakeCommand) -> bool:
        """Note variables that hold CUDA sources; return whether a command is given some."""
        holding = any(
            self.renaming.is_source(argument.text)
            or any(name in self._holding for name in _REFERENCE.findall(argument.text))
            for argument in command.arguments
            if argument.quoting is not Quoting.BRACKET
        )
        if holding and command.arguments:
            if command.name in ("set", "append"):
                self._holding.add(command.arguments[0].text)
            elif command.name in ("list", "file") and len(command.arguments) > 1:
                self._holding.add(command.arguments[1].text)
        return holding

    def _report(self, command: CmakeCommand, done: set[Argument], new: Mapping[int, str] = {}) -> None:
        """Put words of CUDA that stay on the review list: each name of the project once, each other one where it is."""
        if command.name in _TELLING and command.name != "option":
            return
        if _CUDA_WORD.fullmatch(command.name) and command.name not in self.facts.uses("command"):
            message = say("no counterpart of the CUDA command `{name}` is known", name=command.name)
            self.review.add(command.start, KIND, message)
        for argument in command.arguments:
            if argument in done:
                continue
            for match in _CUDA_WORD.finditer(argument.text):
                if match.group() not in self._named:
                    self._named.add(match.group())
                    at = argument.start + match.start()
                    if match.group() in new.get(argument.start, match.group()):
                        self.review.add(at, KIND, self._about(argument.text, match.group()))
                    else:
                        self.review.add(at, KIND, self._about_expression(argument.text, match.group()))

    def _about_expression(self, text: str, word: str) -> Message:
        """Return what to say of a generator expression in which a word got its new name."""
        command = self.facts.uses("command").get("cuda_add_library", "")
        if self.renaming.is_source(word) and command:
            return say(
                "`{text}`: `{word}` was renamed; check that `{command}` compiles it: CMake evaluates such an "
                "expression only when it generates the build",
                text=text[:80],
                word=word,
                command=command,
            )
        return say("`{text}`: `{word}` was renamed; check the expression", text=text[:80], word=word)

    def _about(self, text: str, word: str) -> Message:
        if "COMPILE_LANGUAGE" in text and "CUDA" in text:
            return say(
                "`{text}`: CMake has no language for the target's kernels; write these flags into `{variable}`",
                text=text[:80],
                variable=self.facts.uses("cmake_variable").get("CMAKE_CUDA_FLAGS", ""),
            )
        if "ARCHITECTURES" in word or word.startswith("sm_"):
            return say("`{word}` names NVIDIA architectures: write those of the target", word=word)
        return say("`{word}` means CUDA and stays: decide what it means on the target", word=word)

    # style

    def _in_condition(self, command: CmakeCommand, edits: list[Edit]) -> list[Edit]:
        """Make a condition hold for both: `CUDA_FOUND` becomes `(CUDA_FOUND OR ACME_FOUND)`."""
        if command.name not in ("if", "elseif", "while"):
            return []
        variables = self.facts.uses("cmake_variable")
        return [
            Edit(edit.start, edit.end, f"({old} OR {edit.text})")
            for edit in edits
            if (old := self.text[edit.start : edit.end]) in variables
        ]

    def _conditional(self, changed: list[tuple[CmakeCommand, list[Edit]]]) -> list[Edit]:
        """Put the commands that change, one behind the other, under one condition."""
        result: list[Edit] = []
        group: list[tuple[CmakeCommand, list[Edit]]] = []
        for command, edits in changed:
            if command.name in _BLOCKS or command.name == "project":
                result += self._group(group) + edits
                group = []
                continue
            if group and not _BLANK.match(self.text[group[-1][0].end : command.start]):
                result += self._group(group)
                group = []
            group.append((command, edits))
        return result + self._group(group)

    def _group(self, group: list[tuple[CmakeCommand, list[Edit]]]) -> list[Edit]:
        if not group:
            return []
        start, end = group[0][0].start, group[-1][0].end
        old = self.text[start:end]
        shifted = (Edit(edit.start - start, edit.end - start, edit.text) for _, edits in group for edit in edits)
        new = apply_edits(old, disjoint(shifted))
        indent = self._indent(group[0][0])
        body = f"if({self.condition})\n{indent}  {new}\n{indent}else()\n{indent}  {old}\n{indent}endif()"
        return [Edit(start, end, body)]

    # text

    def _indent(self, command: CmakeCommand) -> str:
        line = self.text[self.text.rfind("\n", 0, command.start) + 1 : command.start]
        return line if not line.strip() else ""

    def _before(self, argument: Argument) -> int:
        """Return where the white space before an argument begins."""
        at = argument.start
        while self.text[at - 1 : at].isspace():
            at -= 1
        return at


def _numbers_in(spans: list[tuple[int, int]]) -> set[int]:
    """Return the numbers in spans that may lie in each other, each looked at once."""
    numbers: set[int] = set()
    done = 0
    for start, end in sorted(spans):
        numbers.update(range(max(start, done), end))
        done = max(done, end)
    return numbers


def _is_names(text: str) -> bool:
    """Whether an argument is made of names and flags rather than a path of a file."""
    return "/" not in _REFERENCE.sub("", text) and not text.endswith((".cu", ".cuh", ".cpp", ".h"))
