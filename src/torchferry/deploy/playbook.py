"""The playbook of a plan: a folder with a play, two small roles, and one script for each step.

It can be read, kept, and run with `ansible-playbook` alone. Text of ours that Ansible is not to expand is marked
`!unsafe`; scripts are files, which it sends as they are.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchferry.deploy.plan import DeployPlan, PlannedStep, bundle_part, project_folder

SURVEY = "survey"
SEND_SUFFIX = "-send"
_CONFIGURATION = """\
[defaults]
roles_path = roles
forks = 25
retry_files_enabled = False
interpreter_python = auto_silent
nocows = True
timeout = 30
[ssh_connection]
pipelining = True
ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 -o ServerAliveCountMax=8
"""

_CONNECTION = (
    "{{ ['sh', '-c'] if ansible_connection | default('') == 'local' else "
    "(['sshpass', '-e'] if ansible_password is defined or ansible_ssh_pass is defined "
    "or lookup('ansible.builtin.env', 'SSHPASS') else []) "
    "+ ['ssh', '-o', 'ServerAliveInterval=15', '-o', 'ServerAliveCountMax=8'] "
    "+ ['-p', ansible_port | default(22) | string] "
    "+ (['-i', ansible_ssh_private_key_file] "
    "if ansible_ssh_private_key_file is defined else []) "
    "+ ((ansible_ssh_common_args | default('')) ~ ' ' ~ (ansible_ssh_extra_args | default(''))).split() "
    "+ (['-l', ansible_user] if ansible_user is defined else []) "
    "+ ['--', ansible_host | default(inventory_hostname)] }}"
)
"""The words that reach a host's shell, of the variables that Ansible's own connection takes."""

_MISSING = (
    "{{ torchferry_survey.stdout_lines | select('match', '^[0-9]+ [^ ]+ [1-9]') | map('split', ' ') | map(attribute=1) "
    "| list }}"
)
_FIRST = (
    "{{ torchferry_survey.stdout_lines | select('match', '^[0-9]+ (?!copy-)[^ ]+ [1-9]') | map('split', ' ') "
    "| map(attribute=0) | map('int') | sort | first | default(999999) }}"
)


_ENDINGS = {
    "undo": """\
test -s "$STATE/changed" && exit 0
rm -rf "${STATE%/state}"
rmdir "${STATE%/*/state}" 2>/dev/null || true
""",
    "commit": """\
if "$ENGINE" inspect "$CONTAINER-before" >/dev/null 2>&1; then "$ENGINE" rm -f "$CONTAINER-before" || exit 1; fi
test ! -e "$STATE/changed" || : > "$STATE/changed"
rm -f "$STATE/container-before.running"
""",
}
"""What follows the steps of a mode: nothing of ours stays after a rollback that took back everything."""


class _Unsafe(str):
    """A text that Ansible takes as it is."""

    __slots__ = ()


def write_project(plan: DeployPlan, folder: Path, mode: str) -> Path:
    """Write the playbook of a plan into an empty folder; return the play's file.

    Args:
        plan: The plan.
        folder: An existing folder.
        mode: `survey` looks at every step, `run` brings them about, `undo` takes back what was done on hosts, `commit`
            drops what was kept for that.
    """
    scripts = folder / "scripts"
    scripts.mkdir()
    shutil.copytree(project_folder() / "ansible" / "roles", folder / "roles")
    shutil.copy(project_folder() / "send.sh", scripts / "send.sh")
    (folder / "ansible.cfg").write_text(_CONFIGURATION, encoding="utf-8")
    (scripts / "survey.sh").write_text(plan.survey(), encoding="utf-8")
    for planned in plan.planned:
        (scripts / f"{planned.step.id}.sh").write_text(plan.script(planned), encoding="utf-8")
    play = folder / "site.yml"
    play.write_text("\n".join(_play(plan, scripts, mode)) + "\n", encoding="utf-8")
    return play


def _play(plan: DeployPlan, scripts: Path, mode: str) -> Iterable[str]:
    yield f"# torchferry deploy: {plan.facts.product.en}"
    yield f"- name: {_yaml(_Unsafe(f'torchferry {mode} {plan.target}'))}"
    yield "  hosts: all"
    yield "  become: true"
    yield "  gather_facts: false"
    yield "  strategy: free"  # a host does not wait for a slower one
    yield "  vars:"
    yield f"    torchferry_python: {_yaml(_Unsafe(sys.executable))}"
    yield f"    torchferry_first: {0 if mode == 'undo' else 999999}"
    yield f"    copy_send: {_yaml(_Unsafe(str(scripts / 'send.sh')))}"
    yield "  tasks:"
    if mode in ("survey", "run"):
        yield from _survey(scripts)
    if mode == "run":
        yield "    - name: complete"
        yield "      ansible.builtin.meta: end_host"
        yield "      when: torchferry_first | int == 999999"
        for planned in plan.planned:
            yield from _step(plan, planned, scripts, mode)
    if mode == "undo":
        for planned in reversed(plan.planned):
            if not planned.step.in_container and (planned.step.run or planned.step.undo):
                yield from _step(plan, planned, scripts, mode)
    if mode in _ENDINGS:
        yield f"    - name: {mode}-end"
        yield "      ansible.builtin.command:"
        yield f"        argv: [bash, -c, {_yaml(_Unsafe(_ENDINGS[mode]))}, {mode}]"
        state, engine = plan.settings.values["STATE"], plan.values["engine"]
        names = {"STATE": state, "ENGINE": engine, "CONTAINER": plan.values["container"]}
        yield f"      environment: {{{', '.join(f'{name}: {_yaml(_Unsafe(text))}' for name, text in names.items())}}}"


def _survey(scripts: Path) -> Iterable[str]:
    yield f"    - name: {SURVEY}"
    yield "      ansible.builtin.command:"
    yield "        argv: [bash, -s]"
    yield "        stdin: \"{{ lookup('ansible.builtin.file', survey_script) }}\""
    yield f"      vars: {{survey_script: {_yaml(_Unsafe(str(scripts / 'survey.sh')))}}}"
    yield "      register: torchferry_survey"
    yield "      changed_when: false"
    yield "    - name: survey-read"
    yield "      ansible.builtin.set_fact:"
    yield f"        torchferry_missing: {_yaml(_MISSING)}"
    yield f"        torchferry_first: {_yaml(_FIRST)}"
    # settled here, where `ansible_connection` is the host's: the task that sends runs on this machine
    yield f"        copy_connection: {_yaml(_CONNECTION)}"


def _step(plan: DeployPlan, planned: PlannedStep, scripts: Path, mode: str) -> Iterable[str]:
    step = planned.step
    is_copy = planned.copied is not None and mode == "run"
    # a vendor's command goes on when the connection is lost; what is asked later costs more than a short step takes
    long = planned.timeout > 300 and mode == "run" and planned.copied is None
    argv = ["bash", "-s"]
    if step.in_container:
        argv = [plan.values["engine"], "exec", "-i", plan.values["container"], "bash", "-s"]
    variables: dict[str, Any] = {
        "step_id": step.id,
        "step_number": planned.number,
        "step_mode": mode,
        "step_script": _Unsafe(str(scripts / f"{step.id}.sh")),
        "step_argv": [_Unsafe(word) for word in argv],
        # the lock may be waited for as long as the command may take, and then the command takes its time
        "step_async": 2 * planned.timeout + 6 * step.verify_retries + 600 if long else 0,
        "step_poll": 2 if long else 0,
        "step_reboot": step.reboot and mode == "run",
    }
    if is_copy:
        assert planned.copied is not None
        variables["copy_source"] = _Unsafe(str(planned.copied.path.resolve()))
        variables["copy_bytes"] = str(planned.copied.size)
        variables["copy_part"] = bundle_part(planned, plan.target)
        variables["copy_wanted"] = list(planned.wanted_by)
    yield f"    - name: {step.id}-begin"
    yield f"      ansible.builtin.include_role: {{name: {'copy' if is_copy else 'step'}}}"
    yield "      vars:"
    for name, value in variables.items():
        yield f"        {name}: {_yaml(value)}"


def _yaml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_yaml, value))}]"
    text = json.dumps(str(value) if isinstance(value, str) else value, ensure_ascii=True)
    return f"!unsafe {text}" if isinstance(value, _Unsafe) else text
