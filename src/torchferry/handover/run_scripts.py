"""The scripts that start a model as the zoo wants it, made from the arguments of the project's own program."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pprint import pformat

from torchferry.backends.handover_forms import HandoverForm, ZooParameter
from torchferry.core.record import NamedTuple
from torchferry.handover.arguments import ArgumentForm, ProgramArgument, ProgramArguments

_LAUNCH = "launch"
_TYPES = {"int": "int", "float": "float", "str": "str", "bool": "truth"}


class StartParameters(NamedTuple):
    """How the arguments of the start script become those of the program.

    Attributes:
        taken: For each parameter of the zoo that the program has, its argument.
        not_taken: Parameters of the zoo that the program has no argument for.
        own: Arguments of the program that the zoo has no parameter for.
    """

    taken: Mapping[str, ProgramArgument]
    not_taken: tuple[str, ...]
    own: tuple[ProgramArgument, ...]


def start_parameters(
    form: HandoverForm, arguments: ProgramArguments, roles: Mapping[str, Sequence[str]]
) -> StartParameters:
    """Return how the parameters of a zoo and the arguments of a program belong together."""
    taken: dict[str, ProgramArgument] = {}
    used: set[str] = set()
    for parameter in form.parameters:
        argument = arguments.with_role((*parameter.flags, parameter.name, *roles.get(parameter.role, ())))
        if parameter.role != _LAUNCH and argument is not None and argument.flag not in used:
            taken[parameter.name] = argument
            used.add(argument.flag)
    names = {flag for parameter in form.parameters for flag in parameter.flags}
    return StartParameters(
        taken,
        tuple(
            parameter.name for parameter in form.parameters if parameter.role != _LAUNCH and parameter.name not in taken
        ),
        tuple(
            argument
            for argument in arguments.arguments
            if argument.flag not in used
            and argument.form is not ArgumentForm.POSITION
            and not names & {*argument.flags}
        ),
    )


def script_values(form: HandoverForm, parameters: StartParameters, lang: str) -> dict[str, str]:
    """Return what the templates of the start scripts are filled with."""
    lines = [_zoo_line(parameter, lang) for parameter in form.parameters]
    lines += [_own_line(argument) for argument in parameters.own]
    passed = {name: (argument.flag, argument.form.value) for name, argument in parameters.taken.items()}
    switched = {ArgumentForm.OFF_SWITCH: ArgumentForm.SWITCH}  # given under its own name, it is passed on as it is
    passed |= {own.dest: (own.flag, switched.get(own.form, own.form).value) for own in parameters.own}
    return {
        "argument_lines": "\n".join(lines),
        "passed": pformat(passed, width=100, sort_dicts=False),
        "not_taken": repr(parameters.not_taken),
        "parameter_table": "\n".join(_table(form, parameters, lang)),
    }


def shell_arguments(parameters: StartParameters, given: Mapping[str, str]) -> str:
    """Return arguments for a shell script: values may be words of the shell, such as `"${data_path}"`."""
    words: list[str] = []
    for name, value in given.items():
        argument = parameters.taken.get(name)
        if argument is None:
            continue
        if argument.form in (ArgumentForm.SWITCH, ArgumentForm.PAIR):
            words.append(shlex.quote(argument.flag))
        elif argument.form is ArgumentForm.POSITION:
            words.insert(0, value)
        elif argument.form is not ArgumentForm.OFF_SWITCH:
            words.append(f"{shlex.quote(argument.flag)} {value}")
    return " ".join(words)


def _zoo_line(parameter: ZooParameter, lang: str) -> str:
    flags = ", ".join(map(repr, parameter.flags))
    default = {"nproc_per_node": "1", "nnode": "1", "node_rank": "0", "master_addr": "'127.0.0.1'"}
    value = default.get(parameter.name, "29500" if parameter.name == "master_port" else "None")
    return (
        f"    parser.add_argument({flags}, dest={parameter.name!r}, type={_TYPES[parameter.type]}, default={value},\n"
        f"                        help={parameter.help.render(lang).replace('%', '%%')!r})"
    )


def _own_line(argument: ProgramArgument) -> str:
    flags = ", ".join(map(repr, argument.flags))
    details = [f"dest={argument.dest!r}"]
    if argument.form is ArgumentForm.VALUES:
        details.append("nargs='*'")
    if argument.form is ArgumentForm.OPTIONAL:
        details.append("nargs='?', const=''")
    if argument.form in (ArgumentForm.SWITCH, ArgumentForm.OFF_SWITCH):
        details.append("action='store_const', const=True")
    elif argument.form is ArgumentForm.PAIR:
        details.append("action=argparse.BooleanOptionalAction")
    details.append("default=None")
    # a `%` that the program's own help has is a placeholder of argparse, and stays one
    details.append(f"help={argument.help!r}" if _is_plain(argument.help) else "help=''")
    return f"    parser.add_argument({flags}, {', '.join(details)})"


def _is_plain(text: str) -> bool:
    try:
        text % {"default": None, "prog": "", "dest": "", "type": "", "choices": ""}
    except (TypeError, ValueError, KeyError):
        return False
    return True


def _table(form: HandoverForm, parameters: StartParameters, lang: str) -> list[str]:
    rows = []
    for parameter in form.parameters:
        argument = parameters.taken.get(parameter.name)
        becomes = "torchrun" if parameter.role == _LAUNCH else "-" if argument is None else f"`{argument.flag}`"
        shown = parameter.help.render(lang).replace("|", r"\|")
        rows.append(f"| {parameter.name} | {shown} | {becomes} |")
    return rows
