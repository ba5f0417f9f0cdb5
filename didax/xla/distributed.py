"""How a job begins and ends: the processes meet, and each starts XLA on the devices of all of them.

XLA's distributed runtime, as jaxlib has it, does the work: a service in process 0, and a client in every process. They
hold the key-value store by which devices, and the addresses for collectives (Gloo on the CPU, NCCL on GPUs), are made
known. Didax adds two things: the rendezvous (`rendezvous.py`), where the processes find each other, and learn when one
has ended; and the relay (`relay.py`), which keeps XLA's client from ending its process when the service is gone.
Read next: `agreement.py` (what processes tell each other), `didax/core/job.py` (how to wait), `didax/distributed.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core import job as jobs
from didax.core.errors import DistributedError, message
from didax.core.process import after_fork
from didax.version import __version__, installed_jaxlib
from didax.xla.agreement import NEVER, StoreJob
from didax.xla.client import Distributed, backend, start_among, xe
from didax.xla.relay import Relay
from didax.xla.rendezvous import Hub, Member


class Plan(NamedTuple):
    """What a process has to know to take part in a job; times are in seconds."""

    index: int
    count: int
    address: tuple[str, int]
    bind: tuple[str, int]
    local_device_ids: Sequence[int] | None
    initialization_timeout: float
    heartbeat_timeout: float
    shutdown_timeout: float
    program_timeout: float


class Connections:
    """What a process holds while it takes part in a job."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.job = StoreJob(plan.index, plan.count)
        self.job.patience = plan.program_timeout
        self.hub: Hub | None = None
        self.member: Member | None = None
        self.relay: Relay | None = None
        self.service: Any = None  # XLA's, which lives as long as somebody refers to it


def start(plan: Plan) -> Connections:
    """Meet the other processes, and start XLA with them."""
    held = Connections(plan)
    job = held.job
    try:
        host = _meet(held)
        jobs.set_current(job)
        job.wait_for(job.client.connect)
        collectives = xe.make_gloo_tcp_collectives(distributed_client=job.client, hostname=host)
        runtime = Distributed(job.client, job.index, job.count, collectives)
        job.wait_for(lambda: start_among(runtime, plan.local_device_ids))
    except BaseException:
        _hang_up(held)
        raise
    after_fork(lambda: _close(held))  # otherwise the other end would not notice that this process has ended
    return held


def _meet(held: Connections) -> str:
    """Connect to the other processes; returns the address by which they reach this one."""
    plan = held.plan
    versions = f"didax {__version__} with jaxlib {installed_jaxlib()}"
    times = plan.initialization_timeout, plan.heartbeat_timeout
    if plan.index == 0:
        held.hub = Hub(*plan.bind, plan.count, *times, versions, lambda: _serve(held))
    # Process 0 reaches itself without the network, in which its address may mean something else.
    address = plan.address if plan.index else (plan.bind[0] or "127.0.0.1", plan.bind[1])
    held.member = Member(address, plan.index, plan.count, *times, versions, held.job.lose)
    host, port = address[0], held.member.told["service"]
    _check_reachable(host, port, plan)
    held.relay = Relay(host, port)
    held.job.client = xe.get_distributed_runtime_client(
        f"127.0.0.1:{held.relay.port}",
        plan.index,
        init_timeout=NEVER,
        heartbeat_timeout=NEVER,
        shutdown_on_destruction=False,
        use_compression=True,
    )
    return held.member.host


def _serve(held: Connections) -> dict[str, Any]:
    """Start XLA's service; returns what the processes are told of it.

    Its heartbeats are set never to come: a process that missed one would be aborted.
    """
    host = held.plan.bind[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as probe:
        port = probe.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host or ("[::]" if socket.has_dualstack_ipv6() else "0.0.0.0")
    held.service = xe.get_distributed_runtime_service(
        f"{shown}:{port}",
        held.plan.count,
        heartbeat_timeout=NEVER,
        cluster_register_timeout=NEVER,
    )
    # It is never freed: its end would wait for clients that are silent.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held.service))
    return {"service": port}


def _check_reachable(host: str, port: int, plan: Plan) -> None:
    """Try what XLA's client will do, because it ends the whole process where it cannot connect."""
    try:
        socket.create_connection((host, port), timeout=min(30.0, plan.initialization_timeout)).close()
    except OSError as error:
        raise DistributedError(
            message(
                "Process 0 serves the job at a port that it chooses itself, besides that of the coordinator's address.",
                f"address: {host}:{port}: {error.strerror or error}; this is process {plan.index} of {plan.count}",
                fix="Let the firewall pass connections between the machines of the job.",
            )
        ) from None


def leave(held: Connections) -> None:
    """End this process's part of the job: when its work is done and, in process 0, when the others have ended, too."""
    job, error = held.job, getattr(sys, "last_value", None)
    jobs.set_current(None)
    if error is None and not job.failed:
        with contextlib.suppress(DistributedError):
            job.wait_for(_finish_work)
    if held.member is not None:
        held.member.leave(_how_it_ends(error), clean=error is None)
    if held.hub is not None:
        held.hub.wait_for_news(job.index, timeout=2)
        if error is None and not job.failed:
            held.hub.wait_for_all(held.plan.shutdown_timeout)
    _hang_up(held)


def _how_it_ends(error: BaseException | None) -> str:
    if error is None:
        return "has come to the end of its program"
    return f"has ended with an error: {type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _finish_work() -> None:
    for array in backend().client.live_arrays():
        with contextlib.suppress(xe.JaxRuntimeError):
            array.block_until_ready()


def _hang_up(held: Connections) -> None:
    """End all connections. XLA's client does not sign off with its service, which may be gone, but just goes silent."""
    jobs.set_current(None)
    if held.hub is not None:
        held.hub.close()
    _close(held)


def _close(held: Connections) -> None:
    if held.member is not None:
        held.member.close()
