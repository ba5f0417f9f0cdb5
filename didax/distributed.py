"""Several processes, on one machine or many, that compute together.

    didax.distributed.initialize("10.0.0.1:1234", num_processes=4, process_id=0)    in each process, with its number
    didax.devices()                                                                the devices of all of them

Each process runs the same program on the arrays that they share, whose parts lie on the devices of all. On one machine
`python -m didax.launch -n 4 SCRIPT` starts the processes. Read next: docs/devices.md; `didax/xla/distributed.py`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from didax.api.clusters import METHODS, Place
from didax.core import job
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access

if TYPE_CHECKING:
    from didax.xla.distributed import Connections

__all__ = ["initialize", "is_initialized", "shutdown"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

_held: Connections | None = None


@api_boundary
def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    program_timeout_seconds: float = 300,
) -> None:
    """Meet the other processes of a job, and start XLA with them. Call it first, in each process.

    What is not passed is found out: from the variables that `didax.launch`, Slurm, Open MPI or Kubernetes set.

    Args:
      coordinator_address: host and port of process 0, where all processes meet. The port must be free there.
      num_processes: how many processes there are.
      process_id: the number of this one, from 0 on.
      local_device_ids: the GPUs of the machine that this process takes: by default all, and one where several processes
        were started on the machine by the launcher, Slurm or Open MPI.
      cluster_detection_method: 'didax', 'slurm', 'ompi' or 'k8s' to ask only one of them; 'deactivate' to ask none.
      initialization_timeout: seconds after which a process that has not come is an error in the others.
      heartbeat_timeout_seconds: seconds after which a process that is silent counts as lost. One that has ended counts
        as lost at once.
      shutdown_timeout_seconds: how long process 0, at its end, waits for the others.
      coordinator_bind_address: where process 0 listens, if that is not the port of the coordinator's address.
      program_timeout_seconds: how long processes that have come to a program wait for one that has not.

    Raises:
      ValueError: where an argument is wrong, or not known.
      DistributedError: where the processes cannot meet.
      RuntimeError: where XLA has started already, or this was called before.

    >>> initialize("10.0.0.1:9999", num_processes=2, process_id=0)  # doctest: +SKIP
    """
    global _held
    _check_is_first()
    place = _place(coordinator_address, num_processes, process_id, cluster_detection_method)
    from didax.xla.distributed import Plan, start

    assert place.address is not None and place.count is not None and place.index is not None
    address = _host_and_port("coordinator_address", place.address)
    bind = coordinator_bind_address or os.environ.get("DIDAX_COORDINATOR_BIND_ADDRESS")
    plan = Plan(
        place.index,
        place.count,
        address,
        _host_and_port("coordinator_bind_address", bind) if bind else _bind_address(address),
        _devices(local_device_ids, place),
        _seconds("initialization_timeout", initialization_timeout),
        _seconds("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
        _seconds("shutdown_timeout_seconds", shutdown_timeout_seconds),
        _seconds("program_timeout_seconds", program_timeout_seconds),
    )
    _held = start(plan)
    atexit.register(shutdown)


def shutdown() -> None:
    """Leave the job, when this process's work is done; process 0 waits for the others. Called at the end of a process.

    Arrays that lie on devices of several processes cannot be used any more. Does nothing where there is no job.

    >>> shutdown()  # there is no job
    >>> is_initialized()
    False
    """
    global _held
    held, _held = _held, None
    if held is not None and job.current is held.job:  # a forked child has none
        from didax.xla.distributed import leave

        atexit.unregister(shutdown)
        leave(held)


def is_initialized() -> bool:
    """Whether this process takes part in a job: between `initialize` and `shutdown`.

    >>> is_initialized()
    False
    """
    return job.current is not None


def _check_is_first() -> None:
    if is_initialized():
        rule = "A process takes part in one job."
        facts = f"this is process {job.own_index()} of {job.own_count()} already"
        raise RuntimeError(message(rule, facts, fix="Call distributed.initialize once."))
    from didax.xla.client import is_started

    if is_started():
        rule = (
            "distributed.initialize comes before XLA starts, which it does with the first array on a device."
        )
        raise RuntimeError(
            message(rule, "XLA has started in this process", fix="Call it first, before any array is made.")
        )


def _place(address: str | None, count: int | None, index: int | None, method: str | None) -> Place:
    """What was passed, completed by what the environment says."""
    found = Place(address, count, index)
    if method not in (None, "deactivate"):
        _check_method(method)
    if None in (address, count, index) and method != "deactivate":
        for each in METHODS if method is None else [method]:
            told = METHODS[each](os.environ)
            if told is not None:
                found = found.completed(told)
                break
    needed = {"coordinator_address": found.address, "num_processes": found.count, "process_id": found.index}
    for name, value in needed.items():
        if value is None:
            raise ValueError(
                message(
                    f"distributed.initialize has to know {name}.",
                    f"got: {_shown(found)}; the environment of {', '.join(METHODS)} does not say it",
                    fix="Pass coordinator_address, num_processes and process_id, "
                    "or start the processes with python -m didax.launch, srun or mpirun.",
                )
            )
    given: tuple[Any, Any] = found.count, found.index
    if not (type(given[0]) is int and type(given[1]) is int and 0 <= given[1] < given[0]):
        rule = "process_id is an integer from 0 to num_processes - 1."
        raise ValueError(message(rule, f"got: {_shown(found)}", fix="Number the processes from 0 on."))
    return found


def _shown(place: Place) -> str:
    return f"coordinator_address={place.address!r}, num_processes={place.count}, process_id={place.index}"


def _check_method(method: str) -> None:
    if method not in METHODS:
        rule = f"cluster_detection_method is one of {', '.join(map(repr, METHODS))} or 'deactivate'."
        raise ValueError(message(rule, f"got: {method!r}", fix="Leave it out to ask all."))


def _host_and_port(name: str, address: Any) -> tuple[str, int]:
    host, _, port = str(address).rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536 or not host:
        rule, fix = f"{name} is a host and a port.", "Pass it as 'host:port', for example '10.0.0.1:1234'."
        raise ValueError(message(rule, f"got: {address!r}", fix=fix))
    return host.removeprefix("[").removesuffix("]"), int(port)


def _bind_address(address: tuple[str, int]) -> tuple[str, int]:
    """Where process 0 listens: at every address of its machine, unless all processes are on this machine."""
    host, port = address
    return (host if host.startswith("127.") or host in ("localhost", "::1") else ""), port


def _devices(given: int | Sequence[int] | None, place: Place) -> Sequence[int] | None:
    named = os.environ.get("DIDAX_LOCAL_DEVICE_IDS")
    if given is None and named:
        given = [int(number) for number in named.split(",")]
    if given is None and place.local is not None:
        given = place.local
    return [given] if isinstance(given, int) else given


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not value > 0:
        rule = f"{name} is a number of seconds, more than 0."
        raise ValueError(message(rule, f"got: {value!r}", fix="Pass a number."))
    return float(value)
