"""The playbook of a plan: a folder with a play, two small roles, and one script for each step.

It can be read, kept, and run with `ansible-playbook` alone. Text of ours that Ansible is not to expand is marked
`!unsafe`; scripts are files, which it sends as they are.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchferry.core.record import NamedTuple
from torchferry.deploy.engine import CONFIGURATION
from torchferry.deploy.plan import DeployPlan, PlannedStep, bundle_part, project_folder
from torchferry.deploy.yaml_text import Unsafe, yaml_text

SURVEY = "survey"

TYPED = "torchferry_password"
"""The variable that has the password of `--ask-pass` for what is sent beside Ansible's own connection."""

_CONNECTION = (
    "{{ ['sh', '-c'] if ansible_connection | default('') == 'local' else "
    "(['sshpass', '-d', '3'] if ansible_password is defined or ansible_ssh_pass is defined "
    f"or {TYPED} is defined else []) "
    "+ ['ssh', '-o', 'ServerAliveInterval=15', '-o', 'ServerAliveCountMax=8'] "
    "+ ['-p', ansible_port | default(22) | string] "
    "+ (['-i', ansible_ssh_private_key_file] "
    "if ansible_ssh_private_key_file is defined else []) "
    "+ ['@', (ansible_ssh_args | default('')) ~ ' ' ~ (ansible_ssh_common_args | default('')) ~ ' ' "
    "~ (ansible_ssh_extra_args | default('-o StrictHostKeyChecking=accept-new'))] "
    "+ (['-l', ansible_user] if ansible_user is defined else []) "
    "+ ['--', ansible_host | default(inventory_hostname)] }}"
)
"""The words that reach a host's shell, of the variables that Ansible's own connection takes; `@` precedes several.

A password is on descriptor 3: others can read the words of a command, and the variables of a process stay readable.
"""

_MISSING = (
    "{{ torchferry_survey.stdout_lines | select('match', '^[0-9]+ [^ ]+ [1-9]') | map('split', ' ') | map(attribute=1) "
    "| list }}"
)
_IS_WANTED = "step_id in torchferry_missing and copy_wanted | max >= torchferry_first | int"
_WANTED = f"{{{{ {_IS_WANTED} }}}}"
_FIRST = (
    "{{ torchferry_survey.stdout_lines | select('match', '^[0-9]+ (?!copy-)[^ ]+ [1-9]') | map('split', ' ') "
    "| map(attribute=0) | map('int') | sort | first | default(999999) }}"
)


_ENDINGS = {
    "undo": """\
test -s "$STATE/changed" && exit 0
# what was committed stays: marks of what is installed, and the files that the container sees
test -e "$STATE/committed" && exit 0
rm -rf "${STATE%/state}"
rmdir "${STATE%/*/state}" 2>/dev/null || true
""",
    "commit": """\
if "$ENGINE" inspect "$CONTAINER-before" >/dev/null 2>&1; then "$ENGINE" rm -f "$CONTAINER-before" || exit 1; fi
if test -e "$STATE/changed"; then
  : > "$STATE/committed" && : > "$STATE/changed" || exit 1
fi
rm -f "$STATE/container-before.running"
""",
}
"""What follows the steps of a mode: nothing of ours stays after a rollback that took back everything there ever was."""


class TreePlace(NamedTuple):
    """Where a host stands when files are passed on: its level, who sends to it (empty: we), to how many it does."""

    level: int
    parent: str
    children: int


def tree(hosts: Sequence[str], width: int) -> dict[str, TreePlace]:
    """Return the places of hosts in a tree in which this machine and every host send to `width` others."""
    parents = {host: hosts[number // width - 1] if number >= width else "" for number, host in enumerate(hosts)}
    levels: dict[str, int] = {}
    children = dict.fromkeys(hosts, 0)
    for host, parent in parents.items():  # a parent stands before its children
        levels[host] = levels[parent] + 1 if parent else 0
        if parent:
            children[parent] += 1
    return {host: TreePlace(levels[host], parents[host], children[host]) for host in hosts}


def write_project(plan: DeployPlan, folder: Path, mode: str, places: Mapping[str, TreePlace] | None = None) -> Path:
    """Write the playbook of a plan into an empty folder; return the play's file.

    Args:
        plan: The plan.
        folder: An existing folder.
        mode: `survey` looks at every step, `verify` also runs the sample once more where the others hold, `run` brings
            them about, `undo` takes back what was done on hosts, `commit` drops what was kept for that.
        places: The places of the hosts where they pass files on; None where this machine sends all of them.
    """
    scripts = folder / "scripts"
    scripts.mkdir()
    shutil.copytree(project_folder() / "ansible" / "roles", folder / "roles")
    shutil.copy(project_folder() / "send.sh", scripts / "send.sh")
    for program in ("offer.py", "fetch.py"):
        shutil.copy(project_folder() / "remote" / program, scripts / program)
    shutil.copy(CONFIGURATION, folder / "ansible.cfg")
    (scripts / "survey.sh").write_text(plan.survey(), encoding="utf-8")
    for planned in plan.planned:
        (scripts / f"{planned.step.id}.sh").write_text(plan.script(planned), encoding="utf-8")
    play = folder / "site.yml"
    play.write_text("\n".join(_play(plan, scripts, mode, places)) + "\n", encoding="utf-8")
    return play


def _play(plan: DeployPlan, scripts: Path, mode: str, places: Mapping[str, TreePlace] | None) -> Iterable[str]:
    yield f"# torchferry deploy: {plan.facts.product.en}"
    spreads = mode == "run" and places is not None
    yield from _head(plan, scripts, mode, "free")  # a host does not wait for a slower one
    if mode in ("survey", "verify", "run"):
        yield from _survey(scripts)
    if mode == "verify" and (samples := samples_of(plan)):
        again = [planned.step.id for planned in samples]
        others = f"torchferry_missing | reject('match', '^copy-') | difference({yaml_text(again)})"
        yield "    - name: others"
        yield "      ansible.builtin.meta: end_host"
        yield f"      when: {others} | length > 0"
        for planned in samples:
            yield from _step(plan, planned, scripts, mode)
    if spreads and places is not None:
        yield from _head(plan, scripts, mode, "linear")  # a level waits for the one above it
        yield from _spread(plan, places, scripts)
        yield from _head(plan, scripts, mode, "free")
    if mode == "run":
        yield "    - name: complete"
        yield "      ansible.builtin.meta: end_host"
        yield "      when: torchferry_first | int == 999999"
        asked = [planned for planned in plan.planned if _only_judges(planned)]
        if asked:
            # looked at only where the survey found one of them not met: elsewhere it is one task and not many
            lines = ["# what is asked before all"]
            for planned in asked:
                lines += [line.removeprefix("    ") for line in _step(plan, planned, scripts, mode)]
            (scripts.parent / "prechecks.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
            yield "    - name: prechecks"
            yield "      ansible.builtin.include_tasks: prechecks.yml"
            yield f"      when: torchferry_first | int <= {asked[-1].number}"
        for planned in plan.planned[len(asked) :]:
            yield from _step(plan, planned, scripts, mode)
    if mode == "undo":
        for planned in reversed(plan.planned):
            if not planned.step.in_container and (planned.step.run or planned.step.undo):
                yield from _step(plan, planned, scripts, mode)
    if mode in _ENDINGS:
        yield f"    - name: {mode}-end"
        yield "      ansible.builtin.command:"
        yield f"        argv: [bash, -c, {yaml_text(Unsafe(_ENDINGS[mode]))}, {mode}]"
        state, engine = plan.settings.values["STATE"], plan.values["engine"]
        names = {"STATE": state, "ENGINE": engine, "CONTAINER": plan.values["container"]}
        rows = ", ".join(f"{name}: {yaml_text(Unsafe(text))}" for name, text in names.items())
        yield f"      environment: {{{rows}}}"


def samples_of(plan: DeployPlan) -> list[PlannedStep]:
    """Return the steps that run a sample, which `verify` does once more: that one ran before says nothing of today."""
    return [planned for planned in plan.planned if planned.step.stage == "sample" and planned.step.run]


def _only_judges(planned: PlannedStep) -> bool:
    """Whether a step is asked before all and does nothing: these come first in every plan."""
    return planned.step.stage == "precheck" and not planned.step.run and planned.copied is None


def _head(plan: DeployPlan, scripts: Path, mode: str, strategy: str) -> Iterable[str]:
    yield f"- name: {yaml_text(Unsafe(f'torchferry {mode} {plan.target}'))}"
    yield "  hosts: all"
    yield "  become: true"
    yield "  gather_facts: false"
    yield f"  strategy: {strategy}"
    yield "  vars:"
    yield f"    torchferry_python: {yaml_text(Unsafe(sys.executable))}"
    # what does not outlive a restart: elsewhere Ansible would wait for a job that the restart ended
    yield "    ansible_async_dir: /run/torchferry"
    if mode == "undo":
        yield "    torchferry_first: 0"
    yield f"    copy_send: {yaml_text(Unsafe(str(scripts / 'send.sh')))}"
    yield "  tasks:"


def _spread(plan: DeployPlan, places: Mapping[str, TreePlace], scripts: Path) -> Iterable[str]:
    """Yield, for each file, the tasks that pass it from host to host."""
    texts = {host: yaml_text([Unsafe(word) for word in map(str, place)]) for host, place in places.items()}
    rows = [f"{yaml_text(Unsafe(host))}: {text}" for host, text in texts.items()]
    yield "    - ansible.builtin.set_fact:"
    yield f"        spread_tree: {{{', '.join(rows)}}}"
    for planned in plan.planned:
        if planned.copied is None:
            continue
        yield f"    - name: {planned.step.id}-begin"
        yield "      ansible.builtin.include_role: {name: spread}"
        yield from _variables({"step_id": planned.step.id, **_copy_variables(plan, planned)})
        yield f"        spread_scripts: {yaml_text(Unsafe(scripts))}"
        yield f"        spread_token: {secrets.token_hex(16)}"
        yield f"        spread_levels: {1 + max(place.level for place in places.values())}"
        yield '        spread_level: "{{ spread_tree[inventory_hostname][0] }}"'
        yield '        spread_parent: "{{ spread_tree[inventory_hostname][1] }}"'
        yield '        spread_children: "{{ spread_tree[inventory_hostname][2] }}"'
        yield f"        spread_wanted: {yaml_text(_WANTED)}"


def _copy_variables(plan: DeployPlan, planned: PlannedStep) -> dict[str, Any]:
    """Return what the role that copies a file is told."""
    assert planned.copied is not None
    return {
        "copy_source": Unsafe(str(planned.copied.path.resolve())),
        "copy_bytes": str(planned.copied.size),
        "copy_part": bundle_part(planned, plan.target),
        "copy_wanted": list(planned.wanted_by),
    }


def _survey(scripts: Path) -> Iterable[str]:
    yield f"    - name: {SURVEY}"
    yield "      ansible.builtin.command:"
    yield "        argv: [bash, -s]"
    yield "        stdin: \"{{ lookup('ansible.builtin.file', survey_script) }}\""
    yield f"      vars: {{survey_script: {yaml_text(Unsafe(str(scripts / 'survey.sh')))}}}"
    yield "      register: torchferry_survey"
    yield "      changed_when: false"
    yield "    - name: survey-read"
    yield "      ansible.builtin.set_fact:"
    yield f"        torchferry_missing: {yaml_text(_MISSING)}"
    yield f"        torchferry_first: {yaml_text(_FIRST)}"
    # settled here, where `ansible_connection` is the host's: the task that sends runs on this machine
    yield f"        copy_connection: {yaml_text(_CONNECTION)}"


def _step(plan: DeployPlan, planned: PlannedStep, scripts: Path, mode: str) -> Iterable[str]:
    step = planned.step
    is_copy = planned.copied is not None and mode == "run"
    # a vendor's command goes on when the connection is lost; what is asked later costs more than a short step takes,
    # and an hour's installation is not asked every two seconds
    long = bool(step.run) and planned.timeout > 300 and mode != "undo" and not is_copy
    argv = ["bash", "-s"]
    if step.in_container:
        argv = [plan.values["engine"], "exec", "-i", plan.values["container"], "bash", "-s"]
    variables: dict[str, Any] = {
        "step_id": step.id,
        "step_number": planned.number,
        "step_mode": "again" if mode == "verify" else mode,
        "step_script": Unsafe(str(scripts / f"{step.id}.sh")),
        "step_argv": [Unsafe(word) for word in argv],
        # the lock may be waited for as long as the command may take, and then the command takes its time
        "step_async": 2 * planned.timeout + 6 * step.verify_retries + 600 if long else 0,
        "step_poll": min(max(planned.timeout // 1200, 2), 15) if long else 0,
    }
    if is_copy:
        # looked at when its turn has come: where nothing is to be copied it is one task and not many
        yield f"    - name: {step.id}-begin"
        yield "      ansible.builtin.include_role: {name: copy}"
        yield f"      when: {yaml_text(_IS_WANTED)}"
        variables |= _copy_variables(plan, planned)
    else:
        yield "    - ansible.builtin.import_role: {name: step}"
    yield from _variables(variables)
    if step.reboot and mode == "run":
        yield "    - ansible.builtin.import_role: {name: step, tasks_from: restart}"
        yield from _variables({"step_id": step.id, "step_engine": [plan.values["engine"], "version"]})


def _variables(variables: Mapping[str, Any]) -> Iterable[str]:
    yield "      vars:"
    for name, value in variables.items():
        yield f"        {name}: {yaml_text(value)}"
