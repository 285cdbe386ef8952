"""Asks the hosts of a cluster about their cards and links, in a play with a task for each round."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.deploy.collective import CardAnswer, ClusterAnswers, Link, LinkAnswer, answer_of, rounds
from torchferry.deploy.engine import CONFIGURATION
from torchferry.deploy.inventory import PlayOptions, inventory_hosts
from torchferry.deploy.plan import DeployPlan, project_folder
from torchferry.deploy.playing import TaskResult, run_tasks
from torchferry.deploy.yaml_text import Unsafe, yaml_text
from torchferry.doctor.context import INSIDE
from torchferry.doctor.probe import question

PORT = 29400
"""Where rank 0 of the first round listens; each further round takes the next one."""

BYTES = 8 << 20
"""Bytes of the large sum."""

_FIGURES = ("devices", "compute_ms", "latency_ms", "gigabytes")
"""What has to be a number in an answer: what runs in a container is not trusted."""

_MOST_CARDS = 1024
_PROBE = "probe"
_EVERYONE = "everyone"
_SEVERAL_CARDS = ("allocate", "matmul")


def ask(
    plan: DeployPlan, options: PlayOptions, timeout: int, on_round: Callable[[str], None], port: int = PORT
) -> ClusterAnswers:
    """Ask all hosts of an inventory; return their answers.

    Args:
        plan: The plan of the target, for the container and its Python.
        options: Where, and how.
        timeout: Seconds for a round.
        on_round: Called with the name of each round when its first host answers.
        port: The first port.

    Raises:
        UsageError, TorchferryError: as `playing.play`.
    """
    variables = inventory_hosts(options)
    hosts = list(variables)
    cluster = _Cluster(plan, hosts, {host: _address(host, rows) for host, rows in variables.items()}, timeout)
    links = rounds(hosts)
    tasks = {**cluster.probe(hosts), **cluster.pairs(links, port)}
    said: dict[tuple[str, str], list[dict[str, Any]]] = {}
    silent: set[str] = set()

    def take(result: TaskResult) -> None:
        if not any(name == result.task for name, _ in said):
            on_round(result.task)
        if result.kind == "unreachable":
            silent.add(result.host)
        said[result.task, result.host] = list(_answers(result.output))

    # a round waits for both of its hosts, so all of them work at once
    together = options._replace(forks=max(options.forks, len(hosts)))
    with doing(say("asking the hosts")):
        run_tasks(together, variables, lambda folder: _write(folder, plan, hosts, tasks), take)
    counts = {host: _count(said.get((_PROBE, host), [])) for host in hosts if host not in silent}
    if counts and all(counts.values()):
        last = cluster.everyone(counts, port + len(links))
        with doing(say("asking the hosts")):
            run_tasks(together, variables, lambda folder: _write(folder, plan, hosts, last), take)
    cards = [card for host in hosts for card in _cards(host, said.get((_PROBE, host), []), host in silent)]
    answered = [
        answer_of(link, *(_one(said, f"link-{number}", host) for host in (link.first, link.second)))
        for number, row in enumerate(links)
        for link in row
        if not {link.first, link.second} & silent
    ]
    everyone, of_cards = _all_cards(hosts, said, silent)
    return ClusterAnswers((*cards, *of_cards), tuple(answered), everyone, tuple(sorted(silent)), counts)


def ask_cards(
    plan: DeployPlan, options: PlayOptions, timeout: int, asked: Collection[str], on_host: Callable[[str], None]
) -> ClusterAnswers:
    """Run the doctor's probe in the containers of some hosts; return what their cards came to.

    Args:
        plan: The plan of the target, for the container and its Python.
        options: Where, and how.
        timeout: Seconds for the probe of a host.
        asked: The hosts.
        on_host: Called with the name of each host that answers.

    Raises:
        UsageError, TorchferryError: as `playing.play`.
    """
    variables = inventory_hosts(options)
    hosts = [host for host in variables if host in asked]
    if not hosts:
        return ClusterAnswers()
    tasks = _Cluster(plan, hosts, {}, timeout).probe(hosts)
    said: dict[str, list[dict[str, Any]]] = {}
    silent: list[str] = []

    def take(result: TaskResult) -> None:
        on_host(result.host)
        if result.kind == "unreachable":
            silent.append(result.host)
        said[result.host] = list(_answers(result.output))

    with doing(say("asking the hosts")):
        run_tasks(options, variables, lambda folder: _write(folder, plan, list(variables), tasks), take)
    cards = [card for host in hosts for card in _cards(host, said.get(host, []), host in silent)]
    counts = {host: _count(said.get(host, [])) for host in hosts if host not in silent}
    return ClusterAnswers(tuple(cards), silent=tuple(sorted(silent)), counted=counts)


class _Cluster:
    """What each host is asked: the scripts of the tasks, by host."""

    def __init__(self, plan: DeployPlan, hosts: Sequence[str], addresses: Mapping[str, str], timeout: int) -> None:
        self._plan, self._hosts, self._addresses, self._timeout = plan, hosts, addresses, timeout
        self._asked = question(Target.named(plan.target), timeout, rehearsed=False)

    def probe(self, hosts: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the task of the doctor's probe on some hosts."""
        # gloo, which carries the collectives of a rehearsal, needs an interface that is there on every machine
        doctor = self._script(INSIDE / "live_probe.py", self._asked, "export GLOO_SOCKET_IFNAME=lo")
        return {_PROBE: dict.fromkeys(hosts, doctor)}

    def pairs(self, links: Sequence[Sequence[Link]], port: int) -> dict[str, dict[str, str]]:
        """Return the tasks of the links."""
        tasks: dict[str, dict[str, str]] = {}
        for number, row in enumerate(links):
            task = tasks.setdefault(f"link-{number}", {})
            for link in row:
                for rank, host in enumerate(link):
                    task[host] = self._rank(host, rank, 1, 2, link, port + number)
        return tasks

    def everyone(self, counts: Mapping[str, int], port: int) -> dict[str, dict[str, str]]:
        """Return the task in which the cards of all hosts add up their numbers."""
        total, first, task = sum(counts.values()), 0, {}
        for host, count in counts.items():
            ends = Link(self._hosts[0], self._hosts[0] if host != self._hosts[0] else self._hosts[-1])
            task[host] = self._rank(host, first, count, total, ends, port)
            first += count
        return {_EVERYONE: task}

    def _rank(self, host: str, first: int, cards: int, ranks: int, link: Link, port: int) -> str:
        """Return the script of a host: its first rank, how many of its cards take part, and of how many in all."""
        towards = link.second if host == link.first else link.first
        asked = {**self._asked, "first": first, "cards": cards, "ranks": ranks, "port": port, "bytes": BYTES}
        asked |= {"address": self._addresses[link.first], "towards": self._addresses[towards]}
        return self._script(project_folder() / "remote" / "cluster_probe.py", asked)

    def _script(self, program: Path, asked: Mapping[str, Any], before: str = ":") -> str:
        text = base64.b64encode(program.read_bytes()).decode()
        run = f'timeout -k 10 {self._timeout + 30} "${{PYTHON:-python3}}" "$work/probe.py"'
        lines = [
            "{",
            "work=$(mktemp -d) && trap 'rm -rf \"$work\"' EXIT || exit 1",
            self._plan.settings.text(),
            self._plan.facts.interpreter,
            before,
            f'printf %s {text} | base64 -d > "$work/probe.py" || exit 1',
            f"{run} {shlex.quote(json.dumps(asked))} </dev/null",
            "exit; }",
        ]
        return "\n".join(lines) + "\n"


def _count(answers: Iterable[Mapping[str, Any]]) -> int:
    """Return how many cards the doctor's probe counted."""
    return next((int(answer["devices"]) for answer in answers if 0 < (answer.get("devices") or 0) <= _MOST_CARDS), 0)


def _one(said: Mapping[tuple[str, str], list[dict[str, Any]]], task: str, host: str) -> dict[str, Any] | None:
    return next(iter(said.get((task, host), [])), None)


def _address(host: str, variables: Mapping[str, Any]) -> str:
    """Return by which address other hosts reach one: its own for that, or the one that Ansible takes."""
    found = variables.get("torchferry_address") or variables.get("ansible_host") or host
    return found if isinstance(found, str) else host


def _answers(output: str) -> Iterable[dict[str, Any]]:
    for line in output.splitlines():
        try:
            answer = parsed_json(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(answer, dict) and all(isinstance(answer.get(name) or 0, (int, float)) for name in _FIGURES):
            yield answer


def _cards(host: str, answers: Sequence[Mapping[str, Any]], silent: bool) -> Iterable[CardAnswer]:
    """Yield what the doctor's probe says of the cards of a host; what else it asks, `doctor --probe` judges."""
    if silent:
        return
    doing = ""
    for answer in answers:
        doing = str(answer.get("doing", doing))
        step, error = answer.get("step"), str(answer.get("error") or "")
        if step in _SEVERAL_CARDS and error:
            yield CardAnswer(host, str(answer.get("part", "")), error=f"{step}: {error}")
        elif step in ("start", "collective") and error:
            yield CardAnswer(host, "", error=f"{step}: {error}")
    if not any(answer.get("step") == "end" for answer in answers):
        yield CardAnswer(host, "", error=f"the probe ended early, during {doing or 'its start'}")


def _all_cards(
    hosts: Sequence[str], said: Mapping[tuple[str, str], list[dict[str, Any]]], silent: set[str]
) -> tuple[LinkAnswer | None, list[CardAnswer]]:
    """Return what the sum over all cards came to, and each card's own product."""
    asked = [(host, answer) for host in hosts for answer in said.get((_EVERYONE, host), [])]
    if not asked:
        return None, []
    cards = [
        CardAnswer(host, f"card {answer.get('card')}", float(answer.get("compute_ms") or 0.0))
        for host, answer in asked
        if not answer.get("error") or answer.get("doing") not in ("start", "compute")
    ]
    cards += [
        CardAnswer(host, f"card {answer.get('card')}", error=str(answer["error"]))
        for host, answer in asked
        if answer.get("error") and answer.get("doing") in ("start", "compute")
    ]
    link = Link(hosts[0], hosts[-1])
    missing = [host for host in hosts if not said.get((_EVERYONE, host))]
    error = next((f"{host}: {answer['error']}" for host, answer in asked if answer.get("error")), "")
    if missing or error or silent:
        return LinkAnswer(link, error=error or f"{missing[0] if missing else sorted(silent)[0]}: no answer"), cards
    latency = max(float(answer.get("latency_ms") or 0.0) for _, answer in asked)
    return LinkAnswer(link, latency, min(float(answer.get("gigabytes") or 0.0) for _, answer in asked)), cards


def _write(folder: Path, plan: DeployPlan, hosts: Sequence[str], tasks: Mapping[str, Mapping[str, str]]) -> None:
    """Write a play with a task for each round, in which some hosts or all of them run a script in their containers."""
    scripts = folder / "scripts"
    scripts.mkdir()
    shutil.copy(CONFIGURATION, folder / "ansible.cfg")
    indexes = {host: number for number, host in enumerate(hosts)}
    argv = [plan.values["engine"], "exec", "-i", plan.values["container"], "bash", "-s"]
    play = [
        "- name: torchferry collective",
        "  hosts: all",
        "  become: true",
        "  gather_facts: false",
        "  vars:",
        f"    collective_scripts: {yaml_text(Unsafe(scripts))}",
        f"    collective_index: {{{', '.join(f'{yaml_text(Unsafe(host))}: {row}' for host, row in indexes.items())}}}",
        '    collective_own: "{{ collective_index[inventory_hostname] }}"',
        "  tasks:",
    ]
    for name, texts in tasks.items():
        for host, text in texts.items():
            (scripts / f"{name}-{indexes[host]}.sh").write_text(text, encoding="utf-8")
        play += [
            f"    - name: {name}",
            "      ansible.builtin.command:",
            f"        argv: {yaml_text([Unsafe(word) for word in argv])}",
            "        stdin: \"{{ lookup('ansible.builtin.file', collective_scripts ~ '/"
            + name
            + "-' ~ collective_own ~ '.sh') }}\"",
            f"      when: collective_own | int in {yaml_text([indexes[host] for host in texts])}",
            "      failed_when: false",
            "      changed_when: false",
        ]
    (folder / "site.yml").write_text("\n".join(play) + "\n", encoding="utf-8")
