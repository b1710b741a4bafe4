"""Pod Security "baseline" as of Kubernetes 1.37, and the one thing that may go beyond it.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards. The chart's admission
policy says the same; this holds for what was created before it, or without it. The addition: a
hostPath volume of exactly ``/run/geotrain``, the node's folder of gate pages, which every training
pod has anyway, and through which an emulated accelerator is reached.
"""

from collections.abc import Iterator
from typing import Final

from geotrain.api import labels
from geotrain.api.pod_template.faults import Fault, Part, containers, entries, part, texts

CAPABILITIES: Final = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
SELINUX_TYPES: Final = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROFILE_TYPES: Final = ("RuntimeDefault", "Localhost")
_HOST_PATH_TYPES: Final = (None, "", "Directory", "DirectoryOrCreate")


def baseline_faults(template: Part) -> Iterator[Fault]:
    """Everything in a pod template that "baseline" and our addition do not allow."""
    spec = part(template, "spec")
    yield from _namespaces(spec)
    yield from _sysctls(spec)
    yield from _host_paths(spec)
    yield from _profiles(spec, "spec")
    for path, container in containers(spec):
        yield from _profiles(container, f"spec.{path}")
        yield from _container(container, f"spec.{path}", spec.get("hostUsers") is False)
    for name, value in part(template, "metadata", "annotations").items():
        if str(name).startswith(APPARMOR_ANNOTATION) and not _is_profile(str(value)):
            where = f"metadata.annotations[{name}]"
            yield _beyond(where, "write runtime/default or localhost/NAME")


def _is_profile(text: str) -> bool:
    return text in ("", "runtime/default") or text.startswith("localhost/")


def _beyond(path: str, right: str) -> Fault:
    return Fault(path, f"goes beyond Pod Security baseline; {right}")


def _namespaces(spec: Part) -> Iterator[Fault]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield _beyond(f"spec.{field}", "leave it out")


def _sysctls(spec: Part) -> Iterator[Fault]:
    security = part(spec, "securityContext")
    for path, sysctl in entries(security, "sysctls", "spec.securityContext."):
        if sysctl.get("name") not in SYSCTLS:
            yield _beyond(f"{path}.name", f"only the safe ones: {', '.join(sorted(SYSCTLS))}")


def _host_paths(spec: Part) -> Iterator[Fault]:
    for path, volume in entries(spec, "volumes", "spec."):
        if volume.get("hostPath") is None:
            continue
        source = part(volume, "hostPath")
        is_ours = source.get("path") == labels.NODE_DIRECTORY
        if not is_ours or source.get("type") not in _HOST_PATH_TYPES:
            right = f"use a persistentVolumeClaim; of the node only {labels.NODE_DIRECTORY} is open"
            yield _beyond(f"{path}.hostPath", right)


def _profiles(holder: Part, path: str) -> Iterator[Fault]:
    """What a pod and a container may both say about seccomp, AppArmor, SELinux and Windows."""
    path, security = f"{path}.securityContext", part(holder, "securityContext")
    for profile in ("seccompProfile", "appArmorProfile"):
        if security.get(profile) is None:
            continue
        if part(security, profile).get("type") not in _PROFILE_TYPES:
            yield _beyond(f"{path}.{profile}.type", f"write {' or '.join(_PROFILE_TYPES)}")
    selinux = part(security, "seLinuxOptions")
    if (selinux.get("type") or "") not in ("", *SELINUX_TYPES):
        right = f"write one of {', '.join(sorted(SELINUX_TYPES))}"
        yield _beyond(f"{path}.seLinuxOptions.type", right)
    for field in ("user", "role"):
        if selinux.get(field):
            yield _beyond(f"{path}.seLinuxOptions.{field}", "leave it out")
    if part(security, "windowsOptions").get("hostProcess"):
        yield _beyond(f"{path}.windowsOptions.hostProcess", "leave it out")


def _container(container: Part, path: str, has_own_users: bool) -> Iterator[Fault]:
    security = part(container, "securityContext")
    if security.get("privileged"):
        yield _beyond(f"{path}.securityContext.privileged", "leave it out")
    if security.get("procMount") not in (None, "Default") and not has_own_users:
        right = "write Default, or give the pod its own users (hostUsers: false)"
        yield _beyond(f"{path}.securityContext.procMount", right)
    added = texts(part(security, "capabilities"), "add")
    if extra := [name for name in added if name not in CAPABILITIES]:
        right = f"{', '.join(extra)} may not be added, only {', '.join(sorted(CAPABILITIES))}"
        yield _beyond(f"{path}.securityContext.capabilities.add", right)
    for where, port in entries(container, "ports", f"{path}."):
        if port.get("hostPort"):
            yield _beyond(f"{where}.hostPort", "write 0 or leave it out")
    yield from _hosts(container, path)


def _hosts(container: Part, path: str) -> Iterator[Fault]:
    """A probe or hook with a host of its own makes the kubelet knock at doors that are not ours."""
    handlers = [(name, part(container, name)) for name in PROBES]
    handlers += [
        (f"lifecycle.{name}", part(container, "lifecycle", name))
        for name in ("postStart", "preStop")
    ]
    for name, handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            if part(handler, action).get("host"):
                yield _beyond(f"{path}.{name}.{action}.host", "leave it out")
