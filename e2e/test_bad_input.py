"""What is wrong is answered by a condition: a reason, and a sentence that a person can act on.

That nothing crashes over it is watched by the fixture ``geotrain``.
"""

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import SYSTEM, condition, hub, wait_for
from e2e.testbed.config import Bed

pytestmark = pytest.mark.e2e

CENTER = "dc-e2e"
LINK = "west-nowhere"
WITHIN = 30.0  # seconds
NOBODY_THERE = """
apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: none}}]
contexts: [{name: it, context: {cluster: it, user: me}}]
current-context: it
"""


@pytest.fixture
def center(geotrain: Bed) -> Iterator[str]:
    """A DataCenter whose kubeconfig is not there."""
    reference = {"namespace": SYSTEM, "name": CENTER}
    hub().apply(
        {
            "apiVersion": "geotrain.io/v1alpha1",
            "kind": "DataCenter",
            "metadata": {"name": CENTER},
            "spec": {"cluster": {"kubeconfigSecretRef": reference}},
        }
    )
    yield CENTER
    hub().delete("datacenter", CENTER)
    hub().delete("secret", CENTER, SYSTEM)
    assert hub().get("datacenter", CENTER) is None


def secret(kubeconfig: str, key: str = "kubeconfig") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CENTER, "namespace": SYSTEM},
        "data": {key: base64.b64encode(kubeconfig.encode()).decode()},
    }


def hold(content: dict[str, Any]) -> None:
    """Write the Secret, and have the data centre looked at before its turn comes."""
    hub().apply(content)
    mark = f"e2e.geotrain.io/written={time.monotonic():.3f}"
    hub().kubectl("annotate", "datacenter", CENTER, mark, "--overwrite")


def await_reason(kind: str, name: str, about: str, reason: str, word: str) -> None:
    """Wait until a condition is false for a reason, and its sentence has a word in it."""

    def look() -> bool:
        found = condition(hub().get(kind, name), about)
        right = (found.get("status"), found.get("reason")) == ("False", reason)
        return right and word in found["message"]

    def seen() -> str:
        return str(condition(hub().get(kind, name), about))

    wait_for(f"{reason} of {name} that speaks of {word}", look, WITHIN, seen=seen)


def test_a_data_centre_says_what_is_wrong_with_its_kubeconfig(center: str) -> None:
    """It goes on to say it as the Secret is made, mended and mistaken again."""
    kind, about = "datacenter", "Reachable"
    await_reason(kind, center, about, "CredentialsMissing", f"Secret {SYSTEM}/{CENTER} does not")
    hold(secret("no: [kubeconfig", key="config"))
    await_reason(kind, center, about, "CredentialsMissing", "no key 'kubeconfig'")
    hold(secret("no: [kubeconfig"))
    await_reason(kind, center, about, "CredentialsInvalid", f"{SYSTEM}/{CENTER}")
    hold(secret(NOBODY_THERE))
    await_reason(kind, center, about, "Unreachable", "127.0.0.1")


def test_a_link_to_nowhere_names_what_is_missing(geotrain: Bed) -> None:
    link = {
        "apiVersion": "geotrain.io/v1alpha1",
        "kind": "WanLink",
        "metadata": {"name": LINK},
        "spec": {"from": "dc-west", "to": "nowhere", "capacity": "1G", "roundTripTime": "40ms"},
    }
    hub().apply(link)
    try:
        await_reason("wanlink", LINK, "Valid", "UnknownDataCenter", "no DataCenter nowhere")
    finally:
        hub().delete("wanlink", LINK)


def test_a_profile_with_a_negative_time_is_told_by_its_field(namespace: str) -> None:
    hub().apply(jobs.profile(namespace, forward="-3ms"))
    job = Job.applied(jobs.manifest(namespace, {"dc-west": 1}))
    said = job.await_reason("Planned", "ProfileInvalid", WITHIN)
    assert "forward" in said
    assert "-3ms" in said
    assert job.resource()["status"]["phase"] == "Pending"
    assert job.pods() == []
    # Mended, it runs: nobody has to touch the job.
    hub().apply(jobs.profile(namespace))
    job.await_running()


def test_a_missing_profile_and_an_impossible_cut_are_told(namespace: str) -> None:
    job = Job.applied(jobs.manifest(namespace, {"dc-west": 1}, profileRef={"name": "forgotten"}))
    assert "forgotten" in job.await_reason("Planned", "ProfileMissing", WITHIN)
    job.delete()
    # Thirteen stages of twelve layers.
    job = Job.applied(jobs.manifest(namespace, {"dc-west": 1}, name="thin"))
    job.patch(
        parallelism={"data": 1, "pipeline": 13},
        placement={"policy": "Atlas", "stages": None},
    )
    said = job.await_reason("Planned", "InvalidParallelism", WITHIN)
    assert "13" in said
    assert "12" in said


def test_a_job_for_an_unknown_data_centre_names_it(namespace: str) -> None:
    job = Job.applied(jobs.manifest(namespace, {"nowhere": 1}))
    assert "nowhere" in job.await_reason("Planned", "UnknownDataCenter", WITHIN)
