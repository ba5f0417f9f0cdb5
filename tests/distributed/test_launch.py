"""`python -m didax.launch`: output, signals and exit statuses of the processes that it starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from didax.launch import _Launcher, main
from tests.distributed.jobs import environment, launch

pytestmark = pytest.mark.ci  # starts processes


def test_each_process_has_its_place_and_its_output(tmp_path: Path) -> None:
    script = """
    import os, sys
    print("place", os.environ["DIDAX_PROCESS_ID"], os.environ["DIDAX_NUM_PROCESSES"], sys.argv[1:])
    print("problem", file=sys.stderr)
    sys.stdout.write("no end of line")
    """
    done = launch(tmp_path, script, "-n", "2", arguments=("--flag", "x y"), start="")
    assert done.returncode == 0 and sorted(done.stderr.splitlines()) == ["[0] problem", "[1] problem"]
    for number in "01":
        assert f"[{number}] place {number} 2 ['--flag', 'x y']\n" in done.stdout
        assert f"[{number}] no end of line\n" in done.stdout


def test_one_that_ends_badly_ends_all_with_its_status(tmp_path: Path) -> None:
    """Also those that take no notice of SIGTERM, and what they have started."""
    script = """
    import os, signal, subprocess, sys, time
    if os.environ["DIDAX_PROCESS_ID"] == "1":
        time.sleep(0.5)
        sys.exit(7)
    if os.environ["DIDAX_PROCESS_ID"] == "2":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    time.sleep(600)
    """
    begun = time.monotonic()
    done = launch(tmp_path, script, "-n", "3", "--grace", "1", start="")
    assert done.returncode == 7 and time.monotonic() - begun < 100
    assert "didax.launch: process 1 ended with status 7; ending processes 0, 2" in done.stderr


def test_signals_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells make background processes ignore it
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    command = [sys.executable, "-m", "didax.launch", "-n", "2", str(path)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as launcher:
        try:
            assert launcher.stdout is not None
            assert {launcher.stdout.readline(), launcher.stdout.readline()} == {"[0] ready\n", "[1] ready\n"}
            os.kill(launcher.pid, signal.SIGUSR1)
            assert {launcher.stdout.readline(), launcher.stdout.readline()} == {"[0] heard\n", "[1] heard\n"}
            os.kill(launcher.pid, signal.SIGINT)
            _, errors = launcher.communicate(timeout=60)
        finally:
            launcher.terminate()  # it ends its processes
    assert launcher.returncode in (1, 130, -signal.SIGINT), (launcher.returncode, errors)
    assert errors.count("KeyboardInterrupt") == 2 and "ending processes" in errors


def test_signals_that_come_while_processes_are_started_are_passed_on() -> None:
    """The launcher took no signals until all processes were there: such a signal ended it, and left them behind."""
    launcher = _Launcher(grace=5.0)
    launcher.pass_on(signal.SIGTERM)
    launcher.start([sys.executable, "-c", "import time; time.sleep(600)"], 2, dict(os.environ))
    assert launcher.wait() == -signal.SIGTERM


@pytest.mark.parametrize(
    "arguments, text",
    [(["-n", "0", __file__], "1 or more; got: 0"), (["nothing.py"], "no file 'nothing.py'")],
)
def test_wrong_arguments_are_told(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert text in capsys.readouterr().err
