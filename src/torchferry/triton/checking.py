"""Checks the kernels of a project: which cases there are of each, and what the front end says of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from torchferry.backends.target import Target
from torchferry.backends.triton_target import TABLE, effect_of
from torchferry.core.finding import Effect
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import doing
from torchferry.rules.triton.kernels import entries_of, kernels_of
from torchferry.source.project import Project
from torchferry.triton.compiling import CompileCase, Compiler
from torchferry.triton.definitions import Cutter, KernelText
from torchferry.triton.evaluating import Configuration, Evaluator, NotToldError
from torchferry.triton.model import (
    SCALAR,
    TENSOR,
    VALUE,
    CaseState,
    CheckedCase,
    CheckedKernel,
    ElementAccess,
    KernelArgument,
    ProjectKernel,
    Signature,
)  # fmt: skip
from torchferry.triton.project_kernels import context_of, heuristic_value, project_kernels, project_launches
from torchferry.triton.signatures import LaunchReader, suggestion

_STATES = {
    "accepted": CaseState.ACCEPTED,
    "refused": CaseState.REFUSED,
    "crashed": CaseState.CRASHED,
    "timeout": CaseState.TIMEOUT,
    "not isolated": CaseState.NOT_COMPILED,
}


@dataclass(frozen=True)
class CheckRequest:
    """What is to be checked.

    Attributes:
        root: The folder that paths are relative to.
        paths: The files whose kernels are checked.
        target: The target.
        given: Signatures that the user wrote, by kernel.
        recorded: Signatures that a rehearsal recorded, by kernel.
        assume: The dtype of tensors of which nobody knows it; empty to leave them unknown.
        most: How many configurations of a kernel are compiled with one signature.
        is_imported: Whether the files are imported, which runs the project.
    """

    root: Path
    paths: tuple[str, ...]
    target: Target
    given: Mapping[tuple[str, str], list[Signature]] = field(default_factory=dict)
    recorded: Mapping[tuple[str, str], list[Signature]] = field(default_factory=dict)
    assume: str = ""
    most: int = 100
    is_imported: bool = False


class Checker:
    """Checks the kernels of some files.

    Args:
        request: What is to be checked.
        project: The project's files.
        kernels: The kernels.
    """

    def __init__(self, request: CheckRequest, project: Project, kernels: Sequence[ProjectKernel]) -> None:
        self._request = request
        self._project = project
        self._kernels = kernels
        self._cut: dict[tuple[str, str, int], KernelText] = {}
        self._cases: dict[tuple[str, str, int], list[CheckedCase]] = {}
        self._waiting: list[tuple[ProjectKernel, int, CompileCase]] = []
        self._remarks: dict[tuple[str, str, int], dict[Message, None]] = {}
        self._without_effect = self._options_without_effect()

    def plan(self) -> int:
        """Find the cases of all kernels; return how many are to be compiled."""
        literal = self._literal_signatures()
        for kernel in self._kernels:
            self._cases[kernel.place] = []
            self._remarks[kernel.place] = {}
            self._cut[kernel.place] = self._cut_of(kernel, None)
            for signature in self._signatures(kernel, literal):
                self._plan_signature(kernel, signature)
            if kernel.choices:
                self._remark(
                    kernel, say("the text does not tell whether `{code}`: both are tried", code=kernel.choices[0])
                )
            if kernel.unread is not None and self._cases[kernel.place]:
                self._remark(kernel, kernel.unread)
        return len(self._waiting)

    def _cut_of(self, kernel: ProjectKernel, supposed: bool | None) -> KernelText:
        return Cutter(self._project, kernel.path, kernel.function, self._request.target, supposed).cut()

    def _variants(self, kernel: ProjectKernel) -> list[tuple[str, str]]:
        """Return what a kernel is made of, and what is supposed for it: both sides of what the text does not tell."""
        if self._request.is_imported:
            return [(self._imported(kernel), "")]
        text = self._cut[kernel.place]
        if not text.assumed:
            return [(_bundle(text), "")]
        condition = text.assumed[0]
        sides = ((True, condition), (False, f"not ({condition})"))
        texts = [(self._cut_of(kernel, supposed), shown) for supposed, shown in sides]
        whole = [(_bundle(each), shown) for each, shown in texts if not each.lacking]
        is_same = len({bundle for bundle, _ in whole}) < 2
        return [(_bundle(text), condition)] if is_same else whole

    def run(self, compiler: Compiler) -> float:
        """Compile what is to be compiled; return the seconds of the compiler."""
        seconds = 0.0
        left: list[tuple[ProjectKernel, int, CompileCase]] = []
        for kernel, number, case in self._waiting:
            known = compiler.known(case)
            if known is None:
                left.append((kernel, number, case))
            else:
                self._settle(kernel, number, known, from_cache=True)
        with doing(say("compiling kernels"), len(left)) as work:
            for place, answer in compiler.compile([case for _, _, case in left]):
                kernel, number, _ = left[place]
                self._settle(kernel, number, answer, from_cache=False)
                seconds += answer.get("seconds", 0.0)
                work.add()
        return seconds

    def kernels(self) -> tuple[CheckedKernel, ...]:
        """Return what became of each kernel."""
        accepted = {
            kernel.place
            for kernel in self._kernels
            if any(case.state is CaseState.ACCEPTED for case in self._cases[kernel.place])
        }
        callers: dict[tuple[str, str, int], list[ProjectKernel]] = {}
        for kernel in self._kernels:
            for called in self._cut[kernel.place].called:
                callers.setdefault(called, []).append(kernel)
        return tuple(self._checked(kernel, callers.get(kernel.place, []), accepted) for kernel in self._kernels)

    # --- signatures ---

    def _literal_signatures(self) -> dict[tuple[str, str], list[Signature]]:
        """Return what the launches in the code say, by kernel."""
        by_key = {kernel.key: kernel for kernel in self._kernels}
        reader = LaunchReader(self._project, self._request.assume)
        found: dict[tuple[str, str], list[Signature]] = {}
        names = {kernel.name for kernel in self._kernels}
        paths = sorted(self._project.paths)
        for path, launch in project_launches(self._project, paths, names, self._request.target):
            key = self._definition(path, launch.kernel)
            kernel = by_key.get(key) if key is not None else None
            signature = reader.signature(path, launch, kernel) if kernel is not None else None
            if kernel is not None and signature is not None:
                found.setdefault(kernel.key, []).append(signature)
        return found

    def _definition(self, path: str, name: str, depth: int = 8) -> tuple[str, str] | None:
        """Return where a name of a file is defined: the file and its name there."""
        loaded = self._project.file(path)
        for binding in loaded[1].module_bindings(name) if loaded is not None else ():
            statement = loaded[0].statement(binding) if loaded is not None else None
            module = getattr(statement, "module", None)
            if loaded is not None and module is not None and hasattr(binding, "asname") and depth:
                home = self._project.module_path(loaded[1].imported_module(statement), path)  # type: ignore[arg-type]
                return None if home is None or home == path else self._definition(home, binding.name, depth - 1)  # type: ignore[attr-defined]
            return path, name
        return None

    def _signatures(self, kernel: ProjectKernel, literal: Mapping[tuple[str, str], list[Signature]]) -> list[Signature]:
        """Return the signatures to check: those that are given, else the complete ones, else what is known."""
        if kernel.key in self._request.given:
            return _distinct(self._request.given[kernel.key])
        found = _distinct([*self._request.recorded.get(kernel.key, ()), *literal.get(kernel.key, ())])
        complete = [signature for signature in found if not signature.unknown]
        others = [signature for signature in found if signature.unknown]
        # where a rehearsal recorded the kernel, its launches of that run are known
        if complete and others and kernel.key not in self._request.recorded:
            self._remark(
                kernel,
                say_plural(
                    "not compiled for one further launch whose signature is not known: {origin}",
                    "not compiled for {count} further launches whose signatures are not known, such as {origin}",
                    count=len(others),
                    origin=others[0].origin,
                ),
            )
        return complete or found[:1]

    # --- cases ---

    def _options_without_effect(self) -> frozenset[str]:
        target = self._request.target
        names = ("num_warps", "num_stages", "num_ctas", "maxnreg")
        rows = {name: target.row(TABLE, f"launch({name})") for name in names}
        return frozenset(name for name, row in rows.items() if row.source and effect_of(row) is Effect.NOTHING)

    def _plan_signature(self, kernel: ProjectKernel, signature: Signature) -> None:
        cases = self._cases[kernel.place]
        lacking = self._why_not(kernel, signature)
        if lacking is not None:
            cases.append(CheckedCase(None, signature, CaseState.NOT_COMPILED, lacking))
            return
        same: dict[tuple[Any, ...], int] = {}
        listed: Sequence[Configuration | None] = kernel.configurations or (None,)
        for place, configuration in enumerate(listed):
            key = self._distinguishing(configuration)
            if key in same:
                case = cases[same[key]]
                cases[same[key]] = replace(case, same_as=case.same_as + 1)
                continue
            if len(same) >= self._request.most:
                left = len(listed) - place
                message = say_plural(
                    "one further configuration is not compiled: --configurations takes a larger number",
                    "{count} further configurations are not compiled: --configurations takes a larger number",
                    count=left,
                )
                cases.append(CheckedCase(None, signature, CaseState.NOT_COMPILED, message))
                break
            same[key] = len(cases)
            self._plan_case(kernel, signature, configuration)

    def _distinguishing(self, configuration: Configuration | None) -> tuple[Any, ...]:
        if configuration is None:
            return ()
        options = tuple(each for each in configuration.options if each[0] not in self._without_effect)
        return repr(configuration.constants), repr(options)

    def _why_not(self, kernel: ProjectKernel, signature: Signature) -> Message | None:
        text = self._cut[kernel.place]
        if text.lacking and not self._request.is_imported:
            return say("needs an import, which runs the project (`--import` does it): {reason}", reason=text.lacking[0])
        if kernel.unread is not None and not signature_has_constants(
            kernel, [each.name for each in signature.arguments]
        ):
            return kernel.unread
        if signature.unknown:
            return say(
                "its signature is not known: {names} of {origin}",
                names=", ".join(f"`{name}`" for name in signature.unknown[:6])
                + (", ..." if len(signature.unknown) > 6 else ""),
                origin=signature.origin,
            )
        return None

    def _plan_case(self, kernel: ProjectKernel, signature: Signature, configuration: Configuration | None) -> None:
        constants = dict(configuration.constants) if configuration is not None else {}
        values: dict[str, KernelArgument] = {each.name: each for each in signature.arguments}
        values.update({name: KernelArgument(name, VALUE, value=value) for name, value in constants.items()})
        try:
            self._compute(kernel, values)
        except NotToldError as error:
            message = say("the text does not tell a constant that is computed at each launch: {code}", code=error)
            self._cases[kernel.place].append(CheckedCase(configuration, signature, CaseState.NOT_COMPILED, message))
            return
        names = [each.name for each in kernel.parameters]
        arguments = tuple(_described(values[name]) for name in names if name in values)
        options = dict(signature.options) | (dict(configuration.options) if configuration is not None else {})
        options |= {name: value for name, value in constants.items() if name not in names}
        for bundle, supposed in self._variants(kernel):
            number = len(self._cases[kernel.place])
            self._cases[kernel.place].append(
                CheckedCase(configuration, signature, CaseState.NOT_COMPILED, supposed=supposed)
            )
            case = CompileCase(kernel.name, bundle, arguments, tuple(sorted(options.items())))
            self._waiting.append((kernel, number, case))

    def _compute(self, kernel: ProjectKernel, values: dict[str, KernelArgument]) -> None:
        """Add the constants that are computed at each launch; one that the text does not tell stays as recorded.

        Raises:
            NotToldError: one is neither told nor recorded.
        """
        known = {
            name: each.value
            for name, each in values.items()
            if each.kind == VALUE or (each.kind == SCALAR and each.value is not None)
        }
        known |= {name: "tensor" for name, each in values.items() if each.kind == TENSOR}
        for name, rule in kernel.heuristics:
            try:
                value = heuristic_value(Evaluator(self._project, self._request.target), kernel, rule, known)
            except NotToldError:
                if name not in values and (name != "*" or not signature_has_constants(kernel, values)):
                    raise
                self._remark(kernel, say("constants that are computed at each launch are as in the recorded one"))
                continue
            known[name] = value
            values[name] = KernelArgument(name, VALUE, value=value)

    def _imported(self, kernel: ProjectKernel) -> str:
        parts = PurePosixPath(kernel.path).with_suffix("").parts
        inside = parts[1:] if parts[:1] == ("src",) else parts
        paths = [str(self._request.root / "src"), str(self._request.root)]
        return json.dumps({"import": {"module": ".".join(inside).removesuffix(".__init__"), "paths": paths}})

    # --- results ---

    def _settle(self, kernel: ProjectKernel, number: int, answer: dict[str, Any], *, from_cache: bool) -> None:
        case = self._cases[kernel.place][number]
        state = _STATES.get(answer["state"], CaseState.NOT_COMPILED)
        message: Message | str = answer.get("message", "")
        if answer["state"] == "not isolated":
            message = say("its definitions could not be compiled by themselves: {reason}", reason=message)
        self._cases[kernel.place][number] = replace(
            case,
            state=state,
            message=message,
            path=self._relative(answer.get("file", "")),
            line=answer.get("line", 0),
            stage=answer.get("stage", ""),
            overflows=answer.get("overflows", False),
            memory=tuple(sorted(answer.get("memory", {}).items())),
            core=answer.get("core", ""),
            elements=tuple(
                ElementAccess(self._relative(file), line, times) for file, line, times in answer.get("elements", ())
            ),
            seconds=answer.get("seconds", 0.0),
            warnings=tuple(answer.get("warnings", ())),
            from_cache=from_cache,
            attempts=answer.get("attempts", 1),
        )

    def _relative(self, file: str) -> str:
        path = Path(file)
        if path.is_absolute() and path.is_relative_to(self._request.root.absolute()):
            return path.relative_to(self._request.root.absolute()).as_posix()
        return file

    def _remark(self, kernel: ProjectKernel, message: Message) -> None:
        self._remarks[kernel.place][message] = None

    def _checked(
        self, kernel: ProjectKernel, callers: list[ProjectKernel], accepted: set[tuple[str, str, int]]
    ) -> CheckedKernel:
        cases = tuple(self._cases[kernel.place])
        called_by: tuple[str, ...] = ()
        if not cases and callers:
            called_by = tuple(dict.fromkeys(each.name for each in callers if each.place in accepted))
            if not called_by:
                message = say("it is compiled with its callers, of which none was accepted: {names}",
                              names=", ".join(each.name for each in callers[:6]))  # fmt: skip
                cases = (CheckedCase(None, None, CaseState.NOT_COMPILED, message),)
        elif not cases:
            message = say("its signature is not known: no launch of it stands in these files")
            cases = (CheckedCase(None, None, CaseState.NOT_COMPILED, message),)
        remarks = dict(self._remarks[kernel.place])
        if any(case.state is not CaseState.NOT_COMPILED for case in cases):
            if any(case.signature is not None and case.signature.is_assumed for case in cases):
                remarks[say("dtypes that the code does not say were taken as {dtype}", dtype=self._request.assume)] = (
                    None
                )
        is_unknown = any(case.state is CaseState.NOT_COMPILED for case in cases)
        doubts: tuple[Message, ...] = ()
        if called_by or any(case.state is CaseState.ACCEPTED for case in cases):
            doubts = tuple(dict.fromkeys(self._doubts(kernel)))
        return CheckedKernel(
            kernel.path, kernel.name, kernel.line, cases, called_by, tuple(remarks),
            self._suggestion(kernel, cases) if is_unknown else "",
            doubts,
        )  # fmt: skip

    def _doubts(self, kernel: ProjectKernel) -> Iterator[Message]:
        """Yield what the table of the target says against a kernel that the front end accepts."""
        context = context_of(self._project, kernel.path, self._request.target)
        for each in kernels_of(context) if context is not None else ():
            if (each.function.name, each.function.lineno) != (kernel.name, kernel.line) or context is None:
                continue
            for entry in entries_of(context, each):
                effect = effect_of(entry.row)
                is_harmless = effect in (Effect.NOTHING, Effect.SLOW)
                if not entry.is_certain or is_harmless or entry.row.status not in ("missing", "partial"):
                    continue
                name = entry.construct.name.replace("triton.language.", "tl.")
                yield say(
                    "`{code}` in line {line}: {note}",
                    code=name,
                    line=getattr(entry.construct.node, "lineno", kernel.line),
                    note=entry.row.remark or "",
                )

    def _suggestion(self, kernel: ProjectKernel, cases: Iterable[CheckedCase]) -> str:
        known: dict[str, str] = {}
        for case in cases:
            if case.signature is not None:
                known |= {each.name: each.text for each in case.signature.arguments if each.kind != SCALAR or each.type}
        return suggestion(kernel, lambda name: known.get(name, ""))


def signature_has_constants(kernel: ProjectKernel, given: Collection[str]) -> bool:
    """Whether each constant of a kernel that has no default is among some names."""
    return all(each.name in given for each in kernel.parameters if each.is_constant and each.default is None)


def unread_files(request: CheckRequest, project: Project) -> tuple[Message, ...]:
    """Return which of the files that are checked could not be read."""
    return tuple(
        say("{path} could not be read: its kernels are not known", path=path)
        for path in request.paths
        if project.file(path) is None and _may_have_kernels(project, path)
    )


def _may_have_kernels(project: Project, path: str) -> bool:
    source = project.text(path)
    return source is None or "triton" in source.text


def kernels_in(request: CheckRequest, project: Project) -> list[ProjectKernel]:
    """Return the kernels of the files that are checked."""
    return [*project_kernels(project, request.paths, request.target)]


def _bundle(text: KernelText) -> str:
    modules = [
        {"file": each.path, "text": each.text, "names": [list(name) for name in each.names]} for each in text.modules
    ]
    return json.dumps({"modules": modules})


def _distinct(signatures: Iterable[Signature]) -> list[Signature]:
    found: dict[tuple[str, ...], Signature] = {}
    for signature in signatures:
        key = (
            *(f"{each.name}={each.text}@{each.is_aligned}" for each in signature.arguments),
            repr(signature.options),
            repr(signature.unknown),
        )
        found.setdefault(key, signature)
    return [*found.values()]


def _described(argument: KernelArgument) -> tuple[tuple[str, Any], ...]:
    """Return an argument as the program takes it."""
    described: dict[str, Any] = {"name": argument.name, "kind": argument.kind}
    if argument.kind == TENSOR:
        described |= {"dtype": argument.type, "aligned": argument.is_aligned}
    elif argument.kind == SCALAR:
        described |= {"type": argument.type} | ({} if argument.value is None else {"value": argument.value})
    elif argument.kind == VALUE:
        described["value"] = argument.value
    else:
        described["dtype"] = argument.type
    return tuple(described.items())
