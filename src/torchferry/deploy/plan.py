"""The plan of a deployment: which steps, with which settings and files, in which order. Making it touches no host."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from torchferry.backends import machine, registry
from torchferry.backends.deployment import STAGES, Deployment, DeployStep, DeployValue, deployment
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Bilingual, Message, language, say, translatable
from torchferry.core.record import NamedTuple
from torchferry.deploy.bundle import Bundle, BundledFile
from torchferry.deploy.script import ScriptSettings, step_script, survey_script

_STEP = translatable("step or stage")
_SETTING = translatable("setting")
_FILE = translatable("file of a bundle")

PLUGIN_VERSION = "plugin_version"
"""The setting that says which version of the plugin the container is to have."""

STATE = "/var/lib/torchferry"
"""Folder on hosts and in containers: `<target>/state` for what torchferry remembers, `<target>/bundle` for files."""

LOGS = "/var/log/torchferry"


class PlannedStep(NamedTuple):
    """A step that will be looked at, and run where it is not complete.

    Attributes:
        number: Its place in the plan.
        step: What it does; of a copy, how the host sees and checks the file.
        timeout: Seconds.
        copied: The file that it brings to the host; None for other steps.
        wanted_by: Of a copy, the numbers of the steps that need the file.
    """

    number: int
    step: DeployStep
    timeout: int
    copied: BundledFile | None = None
    wanted_by: tuple[int, ...] = ()


class LeftOutStep(NamedTuple):
    """A step that is not done, and why; `chosen` is false where the user left it out."""

    step: DeployStep
    reason: Message
    chosen: bool = True


class DeployPlan(NamedTuple):
    """What a deployment does.

    Attributes:
        target: The name of the target.
        facts: The known facts about its installation.
        values: The settings by name.
        settings: What scripts see.
        planned: The steps.
        left_out: Steps that lack a file or that were not chosen.
        bundle: What is carried to the hosts; None without files.
    """

    target: str
    facts: Deployment
    values: Mapping[str, str]
    settings: ScriptSettings
    planned: tuple[PlannedStep, ...]
    left_out: tuple[LeftOutStep, ...]
    bundle: Bundle | None

    def script(self, planned: PlannedStep) -> str:
        """Return the script of a step."""
        return step_script(planned.step, self.settings, self.facts.busy, planned.timeout)

    def survey(self) -> str:
        """Return the script that looks at all steps of a host."""
        pairs = [(planned.number, planned.step) for planned in self.planned]
        return survey_script(pairs, self.settings, self.facts.busy, self.values["engine"], self.values["container"])

    def find(self, name: str) -> PlannedStep | None:
        """Return the step of this name."""
        return next((planned for planned in self.planned if planned.step.id == name), None)


class StepChoice(NamedTuple):
    """Which steps a user wants: from a stage on, or only these stages and steps; and time limits in seconds by step."""

    from_stage: str = ""
    only: tuple[str, ...] = ()
    timeouts: Mapping[str, int] = {}


ALL_STEPS = StepChoice()


def facts_of(target: str) -> Deployment:
    """Return the known facts about a target's installation.

    Raises:
        UsageError: there is no such target, or nothing is known.
    """
    facts = deployment(registry.load(target))
    if facts is None:
        raise UsageError(
            say("torchferry does not know how to install {target}: there is no deploy.toml for it", target=target),
            say('the section "Add a vendor" of CONTRIBUTING.md describes deploy.toml'),
        )
    return facts


def make_plan(
    target: str, bundle: Bundle | None, given: Mapping[str, str], choice: StepChoice = ALL_STEPS
) -> DeployPlan:
    """Return what a deployment does.

    Args:
        target: The name of a target.
        bundle: What is carried to the hosts.
        given: Settings of the user; they come before the bundle's and the defaults.
        choice: Which steps.

    Raises:
        UsageError: a setting is unknown, wrong or missing; a stage or step is unknown; the bundle is another target's.
    """
    target = registry.load(target).NAME
    facts = facts_of(target)
    if bundle is not None and bundle.target != target:
        raise UsageError(
            say("the bundle is for {bundled}, not for {target}", bundled=bundle.target, target=target),
            say("give a bundle for {target} with --bundle", target=target),
        )
    values = settled(facts, {**(bundle.values if bundle else {}), **given})
    files = bundle.files if bundle else {}
    for name in files:
        if facts.file(name) is None:
            raise unknown_name(_FILE, name, [file.name for file in facts.files])
    settings = _settings(target, facts, values, files)
    wanted = _chosen(facts, choice)
    steps: list[DeployStep] = []
    left_out: list[LeftOutStep] = []
    for step in facts.steps:
        reason = _reason_to_leave_out(facts, step, values, files)
        if step.id not in wanted or (step.when[1] is None and not values[step.when[0]]):
            left_out.append(LeftOutStep(step, say("it was not chosen"), chosen=False))
        elif reason is not None:
            left_out.append(LeftOutStep(step, reason))
        else:
            steps.append(step)
    planned = tuple(_with_copies(steps, files, choice.timeouts))
    return DeployPlan(target, facts, values, settings, planned, tuple(left_out), bundle)


def settled(facts: Deployment, given: Mapping[str, str]) -> dict[str, str]:
    """Return all settings: what was given, or the defaults.

    Raises:
        UsageError: one is unknown, wrong, or has neither a default nor a value.
    """
    check_given(facts, given)
    values = {value.name: given.get(value.name, value.default) for value in facts.values}
    missing = [value for value in facts.values if values[value.name] is None]
    if missing:
        raise UsageError(
            say(
                "the vendor has not published these settings: {values}",
                values="; ".join(f"{value.name} ({value.about.render(language())})" for value in missing),
            ),
            say("give each with {example}", example=" ".join(f"--set {value.name}=..." for value in missing)),
        )
    return {name: text or "" for name, text in values.items()}


def check_given(facts: Deployment, given: Mapping[str, str]) -> None:
    """Raise a `UsageError` where a setting that was given is unknown or wrong."""
    for name, text in given.items():
        value = facts.value(name)
        if value is None:
            raise unknown_name(_SETTING, name, [value.name for value in facts.values])
        check_value(value, text)


def unknown_values(facts: Deployment, given: Collection[str]) -> list[DeployValue]:
    """Return the settings that have no default and were not given."""
    return [value for value in facts.values if value.default is None and value.name not in given]


def check_value(value: DeployValue, text: str) -> None:
    """Raise a `UsageError` where a text is no value of a setting."""
    fits = text in value.choices if value.choices else not value.pattern or re.fullmatch(value.pattern, text)
    if not fits or any(character in text for character in "\0\n\r"):
        allowed = ", ".join(value.choices) if value.choices else value.pattern or "one line"
        raise UsageError(
            say("`{text}` is not allowed for {name}", text=text[:80], name=value.name),
            say("allowed: {values}", values=allowed),
        )


def _settings(
    target: str, facts: Deployment, values: Mapping[str, str], files: Mapping[str, BundledFile]
) -> ScriptSettings:
    folder = f"{STATE}/{target}/bundle"
    variables = {value.variable: values[value.name] for value in facts.values}
    variables["STATE"], variables["LOGS"] = f"{STATE}/{target}/state", f"{LOGS}/{target}"
    variables["BUNDLE"] = folder
    for file in facts.files:
        bundled = files.get(file.name)
        variables[file.variable] = f"{folder}/{file.name}" if bundled else ""
        if bundled:
            variables[f"{file.variable}_SHA256"] = bundled.sha256
    variables["ARCHITECTURE"], variables["CARDS"] = facts.architecture, facts.cards
    variables["MODULE"] = facts.module
    variables["INTERPRETER"], variables["PLUGIN"] = facts.interpreter, registry.load(target).PLUGIN
    driver = machine.facts(registry.load(target)).driver
    variables["PCI_VENDOR"], variables["PCI_DEVICES"] = driver.pci_vendor, " ".join(driver.pci_devices)
    brings = any(step.stage == "driver" and step.needs and set(step.needs) <= files.keys() for step in facts.steps)
    variables["BRINGS_DRIVER"] = "yes" if brings else "no"
    flags = container_flags(facts, values)
    text = "\n".join([*flags, *facts.container.devices, values["image"]])
    variables["CONTAINER_SPEC"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return ScriptSettings(variables, {"CONTAINER_FLAGS": flags, "CONTAINER_DEVICES": facts.container.devices})


def container_flags(facts: Deployment, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of `docker run` with which a container sees the cards, but for the nodes of these.

    `${name}` in them is a setting.
    """
    needs = facts.container
    flags = ["--privileged"] if needs.privileged else []
    flags += [f"--ipc={needs.ipc}"] if needs.ipc else []
    flags += [f"--network={needs.network}"] if needs.network else []
    flags += [f"--runtime={needs.runtime}"] if needs.runtime else []
    flags += [f"--shm-size={needs.shm_size}"] if needs.shm_size else []
    flags += [f"--cap-add={capability}" for capability in needs.capabilities]
    flags += [f"--env={variable}" for variable in needs.environment]
    flags += [f"--volume={mount}" for mount in needs.mounts]
    return tuple(re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), flag) for flag in flags)


def _chosen(facts: Deployment, choice: StepChoice) -> set[str]:
    ids = {step.id for step in facts.steps}
    for name in [*choice.only, *([choice.from_stage] if choice.from_stage else [])]:
        if name not in ids and name not in STAGES:
            raise unknown_name(_STEP, name, [*STAGES, *ids])
    for name in choice.timeouts:
        if name not in ids:
            raise unknown_name(_STEP, name, ids)
    wanted = {step.id for step in facts.steps if step.stage == "precheck"}
    begun = not choice.from_stage
    for step in facts.steps:
        begun = begun or choice.from_stage in (step.id, step.stage)
        if not begun and choice.from_stage in STAGES:
            begun = STAGES.index(step.stage) >= STAGES.index(choice.from_stage)
        if begun and (not choice.only or {step.id, step.stage} & set(choice.only)):
            wanted.add(step.id)
    return wanted


def _reason_to_leave_out(
    facts: Deployment, step: DeployStep, values: Mapping[str, str], files: Mapping[str, BundledFile]
) -> Message | None:
    setting, wanted = step.when
    if setting and wanted is not None and values[setting] != wanted:
        return say("{name} is {value}", name=setting, value=values[setting])
    missing = [name for name in step.needs if name not in files]
    if not missing:
        return None
    described = "; ".join(f"{name}: {_about(facts, name).render(language())}" for name in missing)
    return say("not in the bundle: {files}", files=described)


def _about(facts: Deployment, name: str) -> Bilingual:
    file = facts.file(name)
    return file.about if file else Bilingual(name)


def _with_copies(
    steps: list[DeployStep], files: Mapping[str, BundledFile], timeouts: Mapping[str, int]
) -> Iterator[PlannedStep]:
    """Number the steps; each file is copied before the first step that needs it."""
    rows: list[tuple[DeployStep, BundledFile | None]] = []
    copied: set[str] = set()
    for step in steps:
        for name in (*step.needs, *step.uses):
            if name in files and name not in copied:
                copied.add(name)
                rows.append((_copy_step(files[name], step), files[name]))
        rows.append((step, None))
    numbers = {step.id: number for number, (step, _) in enumerate(rows)}
    for number, (step, file) in enumerate(rows):
        wanted_by: tuple[int, ...] = ()
        if file is not None:
            wanted_by = tuple(numbers[other.id] for other in steps if file.name in (*other.needs, *other.uses))
        yield PlannedStep(number, step, timeouts.get(step.id, step.timeout), file, wanted_by)


def _copy_step(file: BundledFile, before: DeployStep) -> DeployStep:
    """Return the step that takes a file which has arrived: its hash is compared, then it is put in place."""
    folder, mark = f'"$BUNDLE/{file.name}"', f'"$STATE/file.{file.name}"'
    seal = f"find {folder} -type f -printf '%P %s %T@\\n' | LC_ALL=C sort | sha256sum"
    check = (
        f'test "$(cat {mark} 2>/dev/null)" = "{file.sha256} $({seal})" '
        f'|| {{ echo "{file.name} has not arrived, or was changed"; exit 1; }}'
    )
    part = f'"$BUNDLE/incoming/{file.name}.{file.sha256[:16]}"'
    placed = (
        f"rm -rf {folder}.new && mkdir {folder}.new && tar -xf {part} --no-same-owner -C {folder}.new && chmod -R a+rX "
        f"{folder}.new && rm -rf {folder} && mv {folder}.new {folder} && rm -f {part}"
        if file.packed
        else f"chown 0:0 {part} && chmod 755 {part} && mv -f {part} {folder}"
    )
    run = "\n".join(
        [
            f"test \"$(sha256sum < {part} | cut -d ' ' -f 1)\" = {file.sha256} || {{ rm -f {part}; "
            f'echo "{file.name} was damaged on its way: its hash is not the one of the manifest"; exit 1; }}',
            f"{{ {placed}; }} || exit 1",
            f'echo "{file.sha256} $({seal})" > {mark}',
        ]
    )
    return DeployStep(
        f"copy-{file.name.replace('_', '-')}",
        before.stage,
        Bilingual(f"copy {file.name} ({file.original})", f"复制 {file.name}（{file.original}）"),
        check,
        run=run,
        undo=f"rm -rf {folder} {mark}",
        timeout=3600,
    )


def bundle_part(planned: PlannedStep, target: str) -> str:
    """Return the path on the host that a file is sent to."""
    assert planned.copied is not None
    file = planned.copied
    return f"{STATE}/{target}/bundle/incoming/{file.name}.{file.sha256[:16]}"


def project_folder() -> Path:
    """Return the folder of the package that has the roles and scripts."""
    return Path(__file__).parent
