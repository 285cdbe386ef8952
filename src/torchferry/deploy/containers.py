"""Files for container engines and clusters, of the same facts: Dockerfile, compose file, Kubernetes manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torchferry.backends.deployment import Deployment
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.deploy.plan import container_flags
from torchferry.deploy.yaml_text import yaml_text

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,51}[a-z0-9])?")
"""A name that Kubernetes takes for a job and a service, with room for what it adds to those of pods."""

_SHARED_MEMORY = "8Gi"
"""Where nothing is known of a target: enough for the loaders of torch, whose default of 64 MiB is not."""


class TrainingJob(NamedTuple):
    """A training job on a cluster.

    Attributes:
        name: Its name.
        command: What each pod runs.
        nodes: Pods.
        cards: Cards of each pod.
        resource: What the device plugin calls a card; empty: the known facts about the target.
        port: Where rank 0 listens.
    """

    name: str
    command: tuple[str, ...]
    nodes: int = 1
    cards: int = 1
    resource: str = ""
    port: int = 29500


def dockerfile(facts: Deployment, values: Mapping[str, str]) -> str:
    """Return a Dockerfile for a project that computes on the target's cards."""
    lines = [
        f"# {facts.product.en}. How the container is started, with its devices and memory, is in compose.yaml.",
        f"# source: {facts.container.source or facts.source}",
        f"FROM {values['image']}",
        *(f"ENV {variable}" for variable in facts.container.environment),
        "WORKDIR /workspace",
        "COPY . /workspace",
        "# packages of the project go in here; torch and the plugin are the image's, so keep pip from replacing them:",
        "# RUN pip install --no-deps -r requirements.txt",
        'CMD ["bash"]',
    ]
    return "\n".join(lines) + "\n"


def compose(facts: Deployment, values: Mapping[str, str]) -> str:
    """Return a compose file that starts the container with what the cards need."""
    flags = container_flags(facts, values)
    service: dict[str, Any] = {"build": ".", "container_name": values["container"]}
    lists = {"--cap-add": "cap_add", "--env": "environment", "--volume": "volumes"}
    single = {"--ipc": "ipc", "--network": "network_mode", "--runtime": "runtime", "--shm-size": "shm_size"}
    for flag in flags:
        option, _, value = flag.partition("=")
        if option == "--privileged":
            service["privileged"] = True
        elif option in single:
            service[single[option]] = value
        else:
            service.setdefault(lists[option], []).append(value)
    if facts.container.devices:
        service["devices"] = [_first(pattern) for pattern in facts.container.devices]
    service["stdin_open"] = service["tty"] = True
    lines = list(_yaml({"services": {"training": service}}))
    if any("[" in pattern for pattern in facts.container.devices):
        lines.insert(0, "# under devices, the first card alone is listed: add a line for each further one")
    return "\n".join(lines) + "\n"


def kubernetes(facts: Deployment, values: Mapping[str, str], job: TrainingJob) -> str:
    """Return the manifests of a training job: a service by which the pods find rank 0, and the job.

    Raises:
        UsageError: the resource of the cards is not public and was not given, or a name is none.
    """
    resource = job.resource or facts.kubernetes.resource
    if not resource:
        raise UsageError(
            say("the vendor has not published the resource name of its device plugin"),
            say("`kubectl describe node` lists it under Allocatable; give it with --resource"),
        )
    if not _NAME.fullmatch(job.name):
        raise UsageError(
            say("`{name}` is not a valid name of a Kubernetes job", name=job.name[:80]),
            say("use lower-case letters, digits and `-`, at most 53, with a letter or digit at both ends"),
        )
    labels = {"app.kubernetes.io/name": job.name, "app.kubernetes.io/managed-by": "torchferry"}
    needs = facts.container
    environment = [_variable(*text.partition("=")[::2]) for text in needs.environment]
    environment += [
        _variable("MASTER_ADDR", f"{job.name}-0.{job.name}"),
        _variable("MASTER_PORT", str(job.port)),
        _variable("NNODES", str(job.nodes)),
        _variable("NPROC_PER_NODE", str(job.cards)),
        {
            "name": "NODE_RANK",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
            },
        },
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _quantity(needs.shm_size)}}
    ]
    mounts: list[dict[str, Any]] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]  # noqa: S108 - the pod's own
    for number, mount in enumerate(needs.mounts):
        source, _, rest = mount.partition(":")
        path, _, mode = rest.partition(":")
        volumes.append({"name": f"host-{number}", "hostPath": {"path": source}})
        mounts.append({"name": f"host-{number}", "mountPath": path, **({"readOnly": True} if mode == "ro" else {})})
    security: dict[str, Any] = {"privileged": True} if needs.privileged else {}
    if needs.capabilities:
        security["capabilities"] = {"add": list(needs.capabilities)}
    container: dict[str, Any] = {
        "name": "training",
        "image": values["image"],
        "command": list(job.command),
        "env": environment,
        "resources": {"limits": {resource: str(job.cards)}},
        "volumeMounts": mounts,
    }
    if security:
        container["securityContext"] = security
    pod: dict[str, Any] = {
        "subdomain": job.name,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": volumes,
    }
    if needs.ipc == "host":
        pod["hostIPC"] = True
    if needs.network == "host":
        pod["hostNetwork"], pod["dnsPolicy"] = True, "ClusterFirstWithHostNet"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": job.name, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"job-name": job.name},
            "ports": [{"name": "rendezvous", "port": job.port}],
        },
    }
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": job.nodes,
            "parallelism": job.nodes,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    heads = [f"# {facts.product.en}", f"# source: {facts.kubernetes.source or needs.source}"]
    return "\n".join([*heads, *_yaml(service), "---", *_yaml(batch)]) + "\n"


def _first(pattern: str) -> str:
    """Return the node of the first card, for a pattern such as `/dev/acme[0-9]*`."""
    return pattern.replace("[0-9]*", "0")


def _variable(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def _quantity(size: str) -> str:
    """Return a size of Docker's, such as `64g`, as Kubernetes writes it."""
    match = re.fullmatch(r"(\d+)([kmg])b?", size.lower())
    return f"{match[1]}{match[2].upper().replace('K', 'K')}i" if match else _SHARED_MEMORY


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Yield a document as YAML; texts are written as JSON writes them, which YAML reads the same."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _entry(f"{indent}{_scalar(name)}:", item, indent)
    else:
        for item in value:
            lines = (
                list(_yaml(item, indent + "  ")) if isinstance(item, (dict, list)) else [indent + "  " + _scalar(item)]
            )
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, (dict, list)) and item:
        yield head
        yield from _yaml(item, indent + "  ")
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][A-Za-z0-9_./-]*", value) and value.lower() not in _WORDS:
        return value
    return yaml_text(value)


_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""What YAML reads as something else than a text."""
