"""`torchferry run`: the environment of the command, and how the redirect begins in its processes."""

from __future__ import annotations

import os
from pathlib import Path

from torchferry.backends import cuda
from torchferry.backends.diagnostics import diagnostics
from torchferry.backends.installed import installed
from torchferry.backends.target import Target
from torchferry.backends.visible_cards import unread_variables
from torchferry.core import env, exitcodes, supported_torch
from torchferry.core.command import run as run_command
from torchferry.core.errors import UsageError
from torchferry.core.messages import Bilingual, Message, say, say_plural
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice, print_own_lines
from torchferry.core.torch_start import noting, python_without_torch, search_path
from torchferry.shim import failures, no_device
from torchferry.shim.call_sites import collect
from torchferry.shim.redirect import Redirect, current, enable, untested
from torchferry.shim.visible_devices import hidden

SITE = Path(__file__).with_name("site")
"""In front of PYTHONPATH: an entry point by which torch loads the redirect."""


def run(command: list[str], target: str, report: Path | None = None, vendor_log: str = "") -> int:
    """Run a command with torch.cuda of its processes redirected and return its exit code.

    Args:
        command: What to run.
        target: Where it goes, or `auto`.
        report: File for the lines of the project that went through the redirect.
        vendor_log: How much the vendor's software is to say, one of `diagnostics.LEVELS`; empty leaves it alone.

    Raises:
        UsageError: there is no such command, or the report cannot be written.
    """
    if report is not None:
        _check_report(report)
    with temporary_folder("torchferry-run-") as folder:
        mark = folder / "begun"
        values = {
            env.SHIM: "1",
            "TORCHFERRY_SHIM_TARGET": target,
            no_device.MARK: str(mark),
            **noting(folder),
            "PYTHONPATH": search_path(SITE),
        }
        if report is not None:
            values[env.SITES] = str(folder)
        if vendor_log:
            values |= _vendor_log(target, vendor_log)
        _tell_unread(target)
        code = run_command(command, {**os.environ, **values})
        if report is not None:
            _report(folder, target, report)
        if target != cuda.DEVICE_TYPE and not mark.exists():
            without_torch = python_without_torch(folder)
            first, *others = _why_nothing(without_torch)
            print_notice(f"torchferry: {first}", *(f"  {line}" for line in others))
            if without_torch:
                code = exitcodes.without_work(code)
        for reason in failures.explanations_left(str(mark)):
            print_own_lines(reason)
        if no_device.refused_somewhere(str(mark)):
            unredirected = _unredirected(code)
            if unredirected is not None:
                print_notice(f"torchferry: {unredirected}")
            code = exitcodes.without_work(code)
    return code


def _tell_unread(target: str) -> None:
    """Say which variables of the environment nobody reads, where the target is known before a process begins."""
    if target not in ("auto", cuda.DEVICE_TYPE):
        for _, text in unread_variables(Target.requested(target), os.environ):
            print_notice(f"torchferry: {text}")


def _unredirected(code: int) -> Message | None:
    """Return what is said where a process was not redirected and the command's own exit code is not passed on."""
    if code == exitcodes.CLEAN:
        return say(
            "a process of the command was not redirected, for the reason above, but the command ended "
            "normally; torchferry ends with 2"
        )
    if code == exitcodes.without_work(code):
        return None
    return say(
        "a process of the command was not redirected, for the reason above; torchferry ends with 2, "
        "not with the command's {code}",
        code=code,
    )


def _why_nothing(without_torch: str) -> list[str]:
    if without_torch:
        text = say("NOTHING WAS REDIRECTED: torch is not installed in {python}", python=without_torch)
        return [str(text), str(supported_torch.how_to_install(without_torch))]
    return [str(say("NOTHING WAS REDIRECTED: no process of the command loaded torch"))]


def _vendor_log(target: str, level: str) -> dict[str, str]:
    """Return the variables that make the vendor's software say more, and print each; what the user set stays."""
    backend = None
    if target not in ("auto", cuda.DEVICE_TYPE):
        backend = Target.named(target).backend
    elif target == "auto" and len(plugins := installed()) == 1:
        backend = plugins[0]
    if backend is None:
        unknown = say("--vendor-log {level}: no single vendor is known, so only torch's variables are set", level=level)
        print_notice(f"torchferry: {unknown}")
    else:
        title = Bilingual(backend.TITLE, backend.TITLE_ZH)
        print_notice(f"torchferry: {say('--vendor-log {level} for {target}:', level=level, target=title)}")
    values = {}
    for variable in diagnostics(backend):
        value = variable.values.get(level)
        if value is None:
            continue
        before = os.environ.get(variable.name)
        if before is None or before == value:
            values[variable.name] = value
            print_notice(f"  {variable.name}={value}  {variable.note}")
        else:
            text = say(
                "you have set {name}={before}, and it stays; {level} would set {value}",
                name=variable.name,
                before=before,
                level=level,
                value=value,
            )
            print_notice(f"  {text}")
    if backend is not None and not any(level in variable.values for variable in diagnostics(backend, alone=True)):
        print_notice(f"  {say('no variable is known for the software of {target} itself', target=title)}")
    return values


def _check_report(report: Path) -> None:
    """Try to write there before the command runs for hours, without leaving a file behind."""
    existed_before = report.exists()
    try:
        with report.open("a", encoding="utf-8"):
            pass
        if not existed_before:
            report.unlink()
    except OSError as error:
        raise UsageError(
            say("cannot write {path}: {error}", path=report, error=error.strerror),
            say("name a file in a folder that exists"),
        ) from None


def _report(folder: Path, target: str, report: Path) -> None:
    document, broken_off = collect(folder, target, Path.cwd())
    report.write_text(document, encoding="utf-8")
    if broken_off:
        text = say(
            "processes that ended before they could report: {count}; their lines are in {path}, each counted once",
            count=broken_off,
            path=report,
        )
        print_notice(f"torchferry: {text}")


def begin() -> None:
    """Begin the redirect in this process, and say so in the first one of the command."""
    if no_device.refused() or current() is not None:
        return  # torch loads our entry point twice where torchferry is installed
    redirect = enable(env.shim_target())
    if no_device.first():
        announce(redirect)


def announce(redirect: Redirect) -> None:
    """Say what is redirected, and with a torch that was not tested, that too."""
    for text in (opening(redirect), untested(redirect)):
        if text:
            print_notice(f"torchferry: {text}")


def opening(redirect: Redirect) -> str:
    """Return the line that says what is redirected."""
    target = redirect.target
    if target is None:
        return str(say("torch.cuda is CUDA itself here; nothing is redirected"))
    text = say_plural(
        "torch.cuda of this program runs on {target} (`{device}`), {count} name of torch redirected",
        "torch.cuda of this program runs on {target} (`{device}`), {count} names of torch redirected",
        target=target.title,
        device=target.backend.DEVICE_TYPE,
        count=sum(name.startswith("torch.") for name in redirect.names),
    )
    if hidden(target):
        variable = str(target.backend.VISIBLE_DEVICES)
        value = os.environ[variable]
        text = say("{text}; `{variable}={value}` hides every card", text=text, variable=variable, value=value)
    return str(text)
