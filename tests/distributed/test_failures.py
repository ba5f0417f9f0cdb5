"""When things go wrong: every process that is left says what is wrong, and ends. None hangs, none aborts.

The processes are started here, not by the launcher, who would end those that are left.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.jobs import START, environment

pytestmark = pytest.mark.ci  # starts processes

SOON = 60.0  # seconds in which those that are left end: a busy machine needs some of them just to print


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class Running:
    """The processes of a job."""

    def __init__(self, folder: Path, script: str, count: int, address: str | None = None):
        path = folder / f"{count}-{len(list(folder.iterdir()))}.py"
        path.write_text(script)
        place = {
            "DIDAX_COORDINATOR_ADDRESS": address or free_address(),
            "DIDAX_NUM_PROCESSES": str(count),
        }
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-u", str(path)],
                env=environment(**place, DIDAX_PROCESS_ID=str(number)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(count)
        ]

    def wait_until_all_print(self, word: str) -> None:
        for process in self.processes:
            assert process.stdout is not None
            lines: list[str] = []
            while word not in (line := process.stdout.readline()):
                lines.append(line)
                assert line, "".join(lines)

    def endings(self, numbers: list[int], within: float) -> dict[int, tuple[int, str]]:
        """How these processes end in that time, and what they print."""
        until = time.monotonic() + within
        found: dict[int, tuple[int, str]] = {}
        for number in numbers:
            process = self.processes[number]
            output, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
            found[number] = process.returncode, output
        return found


@contextlib.contextmanager
def running(folder: Path, script: str, count: int, address: str | None = None) -> Iterator[Running]:
    job = Running(folder, script, count, address)
    try:
        yield job
    finally:
        for process in job.processes:
            process.kill()
            process.communicate()


SILENCE = 3
WORK = START.replace(
    "initialization_timeout=120", f"initialization_timeout=120, heartbeat_timeout_seconds={SILENCE}"
)
COMPUTE = {
    # In a loop of programs that exchange.
    "loop": """
total = dx.jit(lambda x: x * x.sum())
x = total(dx.make_array_from_process_local_data(split, np.ones(1)))
print("ready", flush=True)
while True:
    total(x).block_until_ready()
""",
    # While the others wait for its part of a program.
    "waiting": """
total = dx.jit(lambda x: x * x.sum())
x = total(dx.make_array_from_process_local_data(split, np.ones(1)))
print("ready", flush=True)
if me == VICTIM:
    time.sleep(600)
total(x).block_until_ready()
""",
    # While the others wait for it at a program that they have staged.
    "staging": """
x = dx.make_array_from_process_local_data(split, np.ones(1))
print("ready", flush=True)
if me == VICTIM:
    time.sleep(600)
dx.jit(lambda x: x * x.sum())(x)
""",
    # While the others wait at a barrier.
    "barrier": """
print("ready", flush=True)
if me == VICTIM:
    time.sleep(600)
multihost_utils.sync_global_devices("there")
""",
}


def kill_and_see(folder: Path, where: str, victim: int, how: signal.Signals, count: int = 3) -> None:
    script = WORK + f"VICTIM = {victim}\n" + COMPUTE[where]
    with running(folder, script, count) as job:
        job.wait_until_all_print("ready")
        time.sleep(0.3)
        os.kill(job.processes[victim].pid, how)
        left = [number for number in range(count) if number != victim]
        for number, (status, output) in job.endings(left, SOON).items():
            assert status == 1, output
            assert "DistributedError: The processes of a job compute together" in output
            word = "has ended" if how == signal.SIGKILL else f"has been silent for {SILENCE} s"
            assert f"process {victim} of {count} {word}" in output and f"this is process {number}" in output


@pytest.mark.parametrize(
    "where, victim, how",
    [
        ("loop", 0, signal.SIGKILL),
        *[
            pytest.param(where, victim, how, marks=pytest.mark.slow)
            for where in COMPUTE
            for victim in (0, 1)
            for how in (signal.SIGKILL, signal.SIGSTOP)
        ],
    ],
)
def test_those_that_are_left_are_told(tmp_path: Path, where: str, victim: int, how: signal.Signals) -> None:
    kill_and_see(tmp_path, where, victim, how)


@pytest.mark.slow
def test_killed_twenty_times_none_hangs(tmp_path: Path) -> None:
    for turn in range(20):
        where = list(COMPUTE)[turn % len(COMPUTE)]
        kill_and_see(tmp_path, where, turn // len(COMPUTE) % 3, signal.SIGKILL)


CATCH = """
import socket
import didax as dx
from didax.errors import DistributedError

def error(*arguments, **options):
    try:
        dx.distributed.initialize(*arguments, initialization_timeout=0.5, **options)
    except DistributedError as found:
        assert not dx.distributed.is_initialized()
        return str(found)
"""


def test_who_cannot_meet_is_told_why(tmp_path: Path) -> None:
    """A wrong address, a taken port, what is not a coordinator, and a process that does not come."""
    script = f"""
free = {free_address()!r}
text = error(free, 2, 1)
assert "connects to the coordinator" in text and f"coordinator_address: {{free}}" in text and "for 0.5 s" in text, text
text = error(free, 3, 0)
assert "have not all come" in text and "after 0.5 s there is no process 1, 2 of 3" in text, text
with socket.create_server(("127.0.0.1", 0)) as other:
    taken = "127.0.0.1:%d" % other.getsockname()[1]
    text = error(taken, 2, 0)
    assert "must be free" in text and taken in text and "second process 0" in text, text
    text = error(taken, 2, 1)
    assert "does not answer" in text, text
import threading
with socket.create_server(("127.0.0.1", 0)) as other:
    def serve():
        connection, _ = other.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")
        connection.close()
    threading.Thread(target=serve).start()
    text = error("127.0.0.1:%d" % other.getsockname()[1], 2, 1)
    assert "is not a coordinator" in text, text
text = error("no-such-host.invalid:1234", 2, 1)
assert "no-such-host.invalid:1234" in text, text
dx.distributed.initialize(free, 1, 0)  # and now it works
assert dx.process_count() == 1 and float(dx.numpy.ones(1000).sum()) == 1000
"""
    with running(tmp_path, CATCH + script, 1) as job:
        ((status, output),) = job.endings([0], 60).values()
        assert status == 0, output


@pytest.mark.parametrize(
    "arguments, text",
    [
        ("2, min(me, 0)", "must be free"),
        ("3, min(me, 1)", "there are two processes with process_id=1"),
        ("3 - me % 2, me", "process 1 has num_processes=2, process 0 has 3"),
    ],
)
@pytest.mark.slow
def test_processes_that_were_started_wrongly_are_told(tmp_path: Path, arguments: str, text: str) -> None:
    script = f"""
import os, didax as dx
me = int(os.environ["DIDAX_PROCESS_ID"])
count, index = {arguments}
dx.distributed.initialize(num_processes=count, process_id=index, initialization_timeout=20)
"""
    with running(tmp_path, script, 3) as job:
        endings = job.endings([0, 1, 2], SOON + 20)
        assert all(status == 1 and "DistributedError" in output for status, output in endings.values()), (
            endings
        )
        assert any(text in output for _, output in endings.values()), endings


def test_who_comes_late_to_a_program_or_not_at_all_is_named(tmp_path: Path) -> None:
    script = START.replace("program_timeout_seconds=200", "program_timeout_seconds=1")
    script += (
        f"told = {str(tmp_path / 'told')!r}"
        + """
import os
x = dx.make_array_from_process_local_data(split, np.ones(1))
while me == 1 and not os.path.exists(told):
    time.sleep(0.1)
try:
    dx.jit(lambda x: x.sum())(x)
except dx.errors.DistributedError as error:
    text = str(error)
if me == 0:
    assert "process 0 waits at the program _lambda_" in text, text
    assert "process 1 has not come there for 1 s" in text, text
    open(told, "w").close()
    raise ValueError("the learning rate is odd")
assert "process 0 of 2 has ended with an error: ValueError: the learning rate is odd" in text, text
"""
    )
    with running(tmp_path, script, 2) as job:
        endings = job.endings([0, 1], SOON)
        assert endings[1][0] == 0, endings[1][1]
        assert endings[0][1].rstrip().endswith("ValueError: the learning rate is odd")


@pytest.mark.slow
def test_who_ends_first_is_no_failure(tmp_path: Path) -> None:
    """Process 0 serves the others until they end; what needs a process that has ended is an error."""
    script = (
        START
        + """
x = dx.make_array_from_process_local_data(split, np.ones(1))
assert float(x.sum()) == 3
if me == 0:
    raise SystemExit
time.sleep(1)
assert float(dx.numpy.arange(1000.0).sum()) == 499500  # alone
both = dx.sharding.Mesh(dx.devices()[1:], ("d",))
assert float(dx.make_array_from_process_local_data(dx.NamedSharding(both, dx.P("d")), np.ones(1)).sum()) == 2
try:
    multihost_utils.sync_global_devices("end")
except dx.errors.DistributedError as error:
    assert "process 0 of 3 has come to the end of its program" in str(error)
    print("told")
"""
    )
    with running(tmp_path, script, 3) as job:
        endings = job.endings([0, 1, 2], SOON)
        assert all(status == 0 for status, _ in endings.values()), endings
        assert "told" in endings[1][1] and "told" in endings[2][1]
