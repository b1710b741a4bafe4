"""Bare control planes for tests: etcd and kube-apiserver on loopback, without containers.

One is ready in about four seconds and takes 300 MiB, so a test may have several::

    with ControlPlane(tmp_path, controller_manager=True) as plane:
        plane.kubectl("create", "namespace", "team-a")

On request it also runs the controller-manager (garbage collection, namespace deletion), a real
kube-scheduler with a given configuration, and kwok, which plays the kubelet of nodes that do not
exist. Everything listens on loopback, keeps its state in one folder, and ends with the block.
"""

import base64
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

PROGRAMS_VARIABLE = "GEOTRAIN_PROGRAMS"
PROGRAMS_FOLDER = Path("~/.cache/geotrain/bin")
NEEDED = ("etcd", "kube-apiserver", "kubectl")
KWOK_STAGES = Path(__file__).with_name("kwok-stages.yaml")

_CONTROLLER_MANAGER = "system:kube-controller-manager"
ADMIN_TOKEN = "admin-token"  # the server listens on loopback for the length of a test
READY_TIMEOUT = 90.0  # seconds; 4 are usual, more when the cores are shared
STOP_TIMEOUT = 10.0  # seconds between asking a program to end and killing it


class ProgramsMissingError(Exception):
    """A Kubernetes program that a test needs is not on this machine; says what to do."""


class ControlPlaneError(Exception):
    """A program of the control plane ended or did not become ready; holds the end of its log."""


def find_programs(*names: str) -> Path:
    """The folder that holds the programs ``names`` (by default those of a bare control plane).

    It is the one that the environment variable GEOTRAIN_PROGRAMS names, or the cache that
    ``make programs`` fills.

    Raises:
        ProgramsMissingError: some program is absent; the message says which and what to do.
    """
    folder = Path(os.environ.get(PROGRAMS_VARIABLE) or PROGRAMS_FOLDER).expanduser()
    missing = [name for name in names or NEEDED if not os.access(folder / name, os.X_OK)]
    if missing:
        raise ProgramsMissingError(
            f"{', '.join(missing)} not found in {folder}: run `make programs`, which builds the"
            f" Kubernetes programs once, or point {PROGRAMS_VARIABLE} at a folder that holds them"
        )
    return folder


def free_ports(count: int) -> list[int]:
    """``count`` different TCP ports that are free on loopback now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ControlPlane:
    """One control plane; a context manager that ends every program it started.

    Args:
        directory: an existing or new folder for state, logs and credentials.
        controller_manager: whether to run kube-controller-manager.
        without: controllers that it does not run, such as ``job-controller``.
        admission: configurations of the API server's admission plugins, plugin to configuration.
        scheduler: a KubeSchedulerConfiguration as text or parsed; kube-scheduler runs with it.
            The client connection and leader election in it are set here.
        nodes: nodes to be played by kwok, as for ``add_node``: name to (labels, extra resources).
            An empty mapping starts kwok without nodes; None starts no kwok.
        users: further users, name to groups; ``kubeconfig_of(name)`` logs in as one. The admin is
            in system:masters, which bypasses both RBAC and API priority and fairness.
        audit_policy: an audit Policy as text; ``audit_log`` then gives what was logged by it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        controller_manager: bool = False,
        without: Sequence[str] = (),
        admission: Mapping[str, Mapping[str, Any]] | None = None,
        scheduler: str | Mapping[str, Any] | None = None,
        nodes: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
        audit_policy: str = "",
    ) -> None:
        self.directory = directory
        self.token = ADMIN_TOKEN
        self.kubeconfig = directory / "kubeconfig"
        self._controller_manager = controller_manager
        self._without = ("node-ipam-controller", *without)
        self._admission = dict(admission or {})
        self._scheduler = yaml.safe_load(scheduler) if isinstance(scheduler, str) else scheduler
        self._nodes = nodes
        self._users = {**(users or {}), _CONTROLLER_MANAGER: ()}
        self._audit_policy = audit_policy
        self._programs = find_programs(*self._needed())
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._connection: http.client.HTTPSConnection | None = None
        self.port, self._etcd, self._peer, *self._spare = free_ports(6)
        self.url = f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def certificate(self) -> Path:
        """The PEM bundle by which a client knows the API server."""
        return self.directory / "certificates" / "apiserver.crt"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Runs kubectl as admin and returns what it printed.

        Raises:
            ControlPlaneError: kubectl failed; the message holds what it said.
        """
        command = [str(self._programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """``kubectl get … -o json``, parsed."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def request(
        self, method: str, path: str, body: Any = None, *, user: str = "", content: str = ""
    ) -> tuple[int, Any]:
        """One call to the API as admin, or as ``user`` whom the admin impersonates.

        Returns the status and the parsed answer. Much cheaper than kubectl.
        """
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": content or "application/json",
            **({"Impersonate-User": user} if user else {}),
        }
        data = None if body is None else json.dumps(body)
        try:
            answer = self._answer(method, path, data, headers)
        except (http.client.HTTPException, OSError):  # closed while it was idle
            self._connection = None
            answer = self._answer(method, path, data, headers)
        return answer.status, json.loads(answer.read())

    def _answer(
        self, method: str, path: str, data: str | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=30, context=self._trust()
            )
        self._connection.request(method, path, data, headers)
        return self._connection.getresponse()

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Server-side applies manifests, in one call."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def add_node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a node of 64 CPUs, 512 GiB, 110 pods and ``resources``, which kwok makes Ready."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **(resources or {})}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(node))

    def audit_log(self) -> str:
        """What the API server logged by its audit policy, a JSON object a line."""
        path = self.directory / "audit.log"
        return path.read_text() if path.exists() else ""

    def service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig for a service account, with a token of an hour."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=1h").strip()
        path = self.directory / f"kubeconfig-{namespace}-{name}"
        self._write_kubeconfig(path, name, token)
        return path

    def kubeconfig_of(self, user: str) -> Path:
        """A kubeconfig for one of ``users``; its token is the user's name with ``-token``."""
        path = self._kubeconfig_path(user)
        self._write_kubeconfig(path, user)
        return path

    def kill(self, program: str) -> None:
        """Kills a running program (such as kube-apiserver) as a crash would."""
        process = self._processes.pop(program)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def start(self, program: str) -> None:
        """Starts a killed program again, with the arguments that it had, and waits for it."""
        self._launch(program)
        if program == "kube-apiserver":
            self._await_ready()

    def stop(self) -> None:
        """Ends whatever is still running, the API server before its store."""
        if self._connection is not None:
            self._connection.close()
        for process in reversed(self._processes.values()):
            _end(process)
        self._processes.clear()

    def _needed(self) -> list[str]:
        optional = {
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler is not None,
            "kwok": self._nodes is not None,
        }
        return [*NEEDED, *(name for name, wanted in optional.items() if wanted)]

    def _start_all(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_credentials()
        self._plan_commands()
        for program in ("etcd", "kube-apiserver"):
            self._launch(program)
        self._await_ready()
        self._write_kubeconfig(self.kubeconfig, "admin")
        self.kubeconfig_of(_CONTROLLER_MANAGER)
        for program in self._commands.keys() - {"etcd", "kube-apiserver"}:
            self._launch(program)
        for name, (labels, resources) in (self._nodes or {}).items():
            self.add_node(name, labels, resources)

    def _write_credentials(self) -> None:
        subprocess.run(
            ["openssl", "genrsa", "-out", self.directory / "sa.key", "2048"],
            check=True,
            capture_output=True,
        )
        accounts = {"admin": ["system:masters"], **self._users}
        lines = (f'{n}-token,{n},{n}-uid,"{",".join(groups)}"\n' for n, groups in accounts.items())
        (self.directory / "tokens.csv").write_text("".join(lines))

    def _plan_commands(self) -> None:
        self._commands = {"etcd": self._etcd_arguments(), "kube-apiserver": self._api_arguments()}
        if self._controller_manager:
            self._commands["kube-controller-manager"] = [
                # As in a real cluster: each controller is a service account of kube-system.
                f"--kubeconfig={self._kubeconfig_path(_CONTROLLER_MANAGER)}",
                "--use-service-account-credentials=true",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._spare[0]}",
                f"--service-account-private-key-file={self.directory / 'sa.key'}",
                "--leader-elect=false",
                f"--controllers=*,{','.join(f'-{name}' for name in self._without)}",
                "--node-monitor-grace-period=3600s",  # nobody sends heartbeats
            ]
        if self._scheduler is not None:
            self._commands["kube-scheduler"] = [
                f"--config={self._write_scheduler_configuration()}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._spare[1]}",
            ]
        if self._nodes is not None:
            self._commands["kwok"] = [
                f"--kubeconfig={self.kubeconfig}",
                "--manage-all-nodes",
                "--node-lease-duration-seconds=0",  # leases of many nodes eat the machine
                f"--config={KWOK_STAGES}",
            ]

    def _etcd_arguments(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_arguments(self) -> list[str]:
        key = self.directory / "sa.key"
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'certificates'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            # Nobody would create service accounts' tokens or lift the new nodes' taints.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *self._audit_arguments(),
            *self._admission_arguments(),
        ]

    def _audit_arguments(self) -> list[str]:
        if not self._audit_policy:
            return []
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(self._audit_policy)
        log = self.directory / "audit.log"
        return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]

    def _admission_arguments(self) -> list[str]:
        if not self._admission:
            return []
        plugins = [{"name": n, "configuration": dict(c)} for n, c in self._admission.items()]
        document = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": plugins,
        }
        path = self.directory / "admission.yaml"
        path.write_text(yaml.safe_dump(document))
        return [f"--admission-control-config-file={path}"]

    def _write_scheduler_configuration(self) -> Path:
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **(self._scheduler or {}),
        }
        connection = dict(configuration.get("clientConnection") or {})
        connection["kubeconfig"] = str(self.kubeconfig)
        configuration |= {
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
        }
        path = self.directory / "scheduler.yaml"
        path.write_text(yaml.safe_dump(configuration))
        return path

    def _kubeconfig_path(self, user: str) -> Path:
        return self.directory / f"kubeconfig-{user}"

    def _write_kubeconfig(self, path: Path, user: str, token: str = "") -> None:
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "users": [{"name": user, "user": {"token": token or f"{user}-token"}}],
        }
        path.write_text(yaml.safe_dump(document))

    def _launch(self, program: str) -> None:
        command = [str(self._programs / program), *self._commands[program]]
        guard = shutil.which("setpriv")
        if guard and threading.current_thread() is threading.main_thread():
            # Where the tests themselves are killed, the programs go too.
            command = [guard, "--pdeathsig", "KILL", *command]
        with self._log(program).open("ab") as log:
            self._processes[program] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, program: str) -> Path:
        return self.directory / f"{program}.log"

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        while not self._is_ready():
            for program, process in self._processes.items():
                if process.poll() is not None:
                    raise ControlPlaneError(f"{program} ended: {self._tail(program)}")
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"not ready after {READY_TIMEOUT:.0f} s: {self._tail('kube-apiserver')}"
                )
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            request = urllib.request.Request(
                f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
            )
            with urllib.request.urlopen(request, timeout=5, context=self._trust()) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def _trust(self) -> ssl.SSLContext:
        trust = ssl.create_default_context(cafile=str(self.certificate))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the self-made CA names no key id
        return trust

    def _tail(self, program: str) -> str:
        return self._log(program).read_text(errors="replace")[-2000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks a program and its children to end, and insists after a while."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
