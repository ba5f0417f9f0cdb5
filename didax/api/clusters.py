"""What the environment says of a job: a launcher tells its processes how many they are, and where they meet.

Each function of `METHODS` reads the variables of one such environment, and returns None where there are none.
Read next: `didax/distributed.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from didax.core.errors import message


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A process's place in a job; None for what is not known. `local` is its number on its machine."""

    address: str | None = None
    count: int | None = None
    index: int | None = None
    local: int | None = None

    def completed(self, other: Place) -> Place:
        """This place; what is not known is taken from another."""
        known = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        return dataclasses.replace(other, **known)


_FIRST_PORT, _PORTS = 61_000, 4_096  # above the ports that Linux hands out


def _port_of(job: int) -> int:
    """A port for a job of that number, so that two jobs on one machine seldom meet."""
    return _FIRST_PORT + job % _PORTS


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """The number that a variable holds, or None where it is not set."""
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal():
        rule = "The variable of the environment holds a number."
        raise ValueError(message(rule, f"{name}={text!r}", fix="Correct it, or unset it."))
    return int(text)


def of_launcher(environment: Mapping[str, str]) -> Place | None:
    """`python -m didax.launch`, or whoever else sets the variables DIDAX_COORDINATOR_ADDRESS and so on."""
    place = Place(
        environment.get("DIDAX_COORDINATOR_ADDRESS") or None,
        _number(environment, "DIDAX_NUM_PROCESSES"),
        _number(environment, "DIDAX_PROCESS_ID"),
        _number(environment, "DIDAX_LOCAL_PROCESS_ID"),
    )
    return None if place == Place() else place


def of_slurm(environment: Mapping[str, str]) -> Place | None:
    """Slurm: a step of a job, started by `srun`."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID")
    if not all(environment.get(name) for name in names):
        return None
    job, _, count, index = names
    number = _number(environment, job) or 0
    host = first_host(environment["SLURM_STEP_NODELIST"])
    address = f"{host}:{_port_of(number)}"
    # The step's own count, where a job of several steps has it.
    tasks = _number(environment, "SLURM_STEP_NUM_TASKS") or _number(environment, count)
    return Place(address, tasks, _number(environment, index), _number(environment, "SLURM_LOCALID"))


def first_host(nodes: str) -> str:
    """The first machine of a list as Slurm writes it.

    >>> first_host("n[07-09,12],gpu3"), first_host("gpu3,n07"), first_host("rack[2-3]n[1-4]-ib")
    ('n07', 'gpu3', 'rack2n1-ib')
    """
    found = re.match(r"(?:[^\[,]|\[[^\]]*\])+", nodes)
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", found[0] if found else nodes)


def of_open_mpi(environment: Mapping[str, str]) -> Place | None:
    """Open MPI: a process started by `mpirun`; the address is that of the machine where `mpirun` runs."""
    count = _number(environment, "OMPI_COMM_WORLD_SIZE")
    if count is None:
        return None
    index, local = (_number(environment, f"OMPI_COMM_WORLD_{name}") for name in ("RANK", "LOCAL_RANK"))
    # Open MPI 4: "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"; 5 has PRRTE's or PMIx's variables of the same form.
    uri = environment.get("OMPI_MCA_orte_hnp_uri") or environment.get("PMIX_SERVER_URI2", "")
    host = re.search(r"tcp4?://([^,:]+)|tcp6://\[([^,\]]+)", uri)
    job = re.match(r"(\d+)\.", uri)
    alone = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE") == count  # all on this machine
    address = "127.0.0.1" if alone else next((x for x in (host.groups() if host else ()) if x), None)
    number = int(job[1]) >> 12 if job else _number(environment, "OMPI_MCA_ess_base_jobid") or 0
    if address is not None:
        address = f"[{address}]" if ":" in address else address
        address = f"{address}:{_port_of(number)}"
    return Place(address, count, index, local)


_KUBERNETES_PORT = 55_527
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def of_kubernetes(environment: Mapping[str, str]) -> Place | None:
    """Kubernetes: a pod of an indexed Job (or JobSet), whose pods find each other by a headless service.

    The pod's service account must be allowed to read pods and jobs.
    """
    if "KUBERNETES_SERVICE_HOST" not in environment or "JOB_COMPLETION_INDEX" not in environment:
        return None
    index = _number(environment, "JOB_COMPLETION_INDEX")
    ask = _kubernetes_api(environment)
    name = environment.get("HOSTNAME") or socket.gethostname()
    pod = _own_pod(ask, name)
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    job_name = labels.get("batch.kubernetes.io/job-name") or labels["job-name"]
    job = ask("/apis/batch/v1", f"jobs/{job_name}")
    subdomain = pod["spec"].get("subdomain")
    count = int(job["spec"].get("completions") or job["spec"]["parallelism"])
    if subdomain is None:
        rule = "The pods of a job find each other by a headless service, whose name is the subdomain of the pods."
        fix = "Make such a service (clusterIP: None), and set spec.template.spec.subdomain to its name."
        raise ValueError(
            message(rule, f"job: {job_name}, pod: {pod['metadata']['name']}, subdomain: none", fix=fix)
        )
    return Place(f"{job_name}-0.{subdomain}:{_KUBERNETES_PORT}", count, index)


def _own_pod(ask: Callable[..., Any], name: str) -> Any:
    """The pod that this process runs in: the one with its address."""
    address = socket.gethostbyname(name)
    found = ask("/api/v1", "pods", fieldSelector=f"status.podIP={address}")["items"]
    if not found:
        rule, fix = "Kubernetes knows the pod of this process.", "Pass the arguments of initialize yourself."
        raise ValueError(message(rule, f"host: {name}, address: {address}; no pod has it", fix=fix))
    return found[0]


def _kubernetes_api(environment: Mapping[str, str]) -> Callable[..., Any]:
    """A function that reads from Kubernetes' API in this pod's namespace."""
    folder = environment.get("DIDAX_KUBERNETES_ACCOUNT", _ACCOUNT)
    token, namespace = (_read(os.path.join(folder, name)) for name in ("token", "namespace"))
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    scheme = "https" if port == "443" or environment.get("KUBERNETES_SERVICE_PORT_HTTPS") else "http"
    certificate = os.path.join(folder, "ca.crt")
    context = ssl.create_default_context(cafile=certificate) if scheme == "https" else None

    def ask(group: str, path: str, **query: str) -> Any:
        place = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{place}:{port}{group}/namespaces/{namespace}/{path}"
        url += "?" + urllib.parse.urlencode(query) if query else ""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError) as error:
            rule = "The place of a pod in its job is read from Kubernetes."
            fix = "Let the pod's service account read pods and jobs, or pass initialize its arguments."
            raise ValueError(message(rule, f"{url}: {error}", fix=fix)) from None

    return ask


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


METHODS: dict[str, Callable[[Mapping[str, str]], Place | None]] = {
    "didax": of_launcher,
    "slurm": of_slurm,
    "ompi": of_open_mpi,
    "k8s": of_kubernetes,
}
