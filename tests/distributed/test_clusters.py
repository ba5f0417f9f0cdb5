"""What the environments of Slurm, Open MPI and Kubernetes say, and what `initialize` makes of it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import didax as dx
from didax.api.clusters import Place, of_kubernetes, of_launcher, of_open_mpi, of_slurm


def test_the_launcher_says_where_and_who():
    said = {
        "DIDAX_COORDINATOR_ADDRESS": "h:1",
        "DIDAX_NUM_PROCESSES": "4",
        "DIDAX_PROCESS_ID": "3",
        "DIDAX_LOCAL_PROCESS_ID": "1",
    }
    assert of_launcher(said) == Place("h:1", 4, 3, 1) and of_launcher({}) is None
    with pytest.raises(ValueError, match="DIDAX_PROCESS_ID='three'"):
        of_launcher(said | {"DIDAX_PROCESS_ID": "three"})


def test_slurm():
    said = {
        "SLURM_JOB_ID": "4097",
        "SLURM_STEP_NODELIST": "gpu[07-09],gpu12",
        "SLURM_NTASKS": "8",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
    }
    assert of_slurm(said) == Place("gpu07:61001", 8, 5, 1)
    assert of_slurm(said | {"SLURM_STEP_NUM_TASKS": "6"}) == Place("gpu07:61001", 6, 5, 1)
    assert of_slurm({"SLURM_JOB_ID": "1"}) is None  # in a batch script, outside of a step


def test_open_mpi():
    said = {
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_RANK": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_MCA_orte_hnp_uri": "12288.0;tcp://10.96.0.1,10.148.0.1:34911",
    }
    assert of_open_mpi(said) == Place("10.96.0.1:61003", 4, 2, 0)
    six = said | {"OMPI_MCA_orte_hnp_uri": "12288.0;tcp6://[fe80::1,2620::2]:43370"}
    assert of_open_mpi(six) == Place("[fe80::1]:61003", 4, 2, 0)
    assert of_open_mpi(said | {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) == Place("127.0.0.1:61003", 4, 2, 0)
    assert of_open_mpi({}) is None


class Api(BaseHTTPRequestHandler):
    """As much of Kubernetes' API as is asked."""

    subdomain: str | None = "workers"

    def do_GET(self) -> None:
        assert self.headers["Authorization"] == "Bearer secret"
        pod = {
            "metadata": {"name": "train-2-x7k", "labels": {"batch.kubernetes.io/job-name": "train"}},
            "spec": {"subdomain": self.subdomain} if self.subdomain else {},
        }
        answers = {
            "/api/v1/namespaces/team/pods?fieldSelector=status.podIP%3D127.0.0.1": {"items": [pod]},
            "/apis/batch/v1/namespaces/team/jobs/train": {"spec": {"completions": 3, "parallelism": 3}},
        }
        body = json.dumps(answers[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("team")
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(server.server_port),
            "JOB_COMPLETION_INDEX": "2",
            "HOSTNAME": "localhost",
            "DIDAX_KUBERNETES_ACCOUNT": str(tmp_path),
        }
        assert of_kubernetes(said) == Place("train-0.workers:55527", 3, 2)
        monkeypatch.setattr(Api, "subdomain", None)
        with pytest.raises(ValueError, match=r"headless service[\s\S]*job: train, pod: train-2-x7k"):
            of_kubernetes(said)
        server.shutdown()
    with pytest.raises(ValueError, match=r"read from Kubernetes[\s\S]*service account"):
        of_kubernetes(said)
    assert of_kubernetes({}) is None


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("h:1", 2), "know process_id"),
        (("h:1", 2, 2), "from 0 to num_processes - 1"),
        (("h", 2, 0), "coordinator_address is a host and a port"),
        (("h:99999", 2, 0), "got: 'h:99999'"),
        (("h:1", 2, 0, None, "lsf"), "'slurm'"),
        (("h:1", 2, 0, None, None, -1), "initialization_timeout is a number of seconds"),
    ],
)
def test_wrong_arguments_are_told(arguments: tuple[object, ...], text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("didax.distributed._check_is_first", lambda: None)
    monkeypatch.setattr("didax.xla.distributed.start", lambda plan: pytest.fail("it did start"))
    with pytest.raises(ValueError, match=text):
        dx.distributed.initialize(*arguments)


def test_a_process_that_computes_already_takes_part_in_no_job():
    dx.devices()
    with pytest.raises(RuntimeError, match="comes before XLA starts"):
        dx.distributed.initialize("h:1", 2, 0)
    dx.distributed.shutdown()  # nothing to leave
    assert not dx.distributed.is_initialized() and dx.process_count() == 1
