"""What a user reads when a member's API server takes no pod."""

import pytest

from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.errors import Forbidden, Invalid
from geotrain.roles.controller import reconcile, refusals
from geotrain.roles.controller.observed import Observed
from geotrain.roles.controller.pools import refused
from support.pools import NOW, World
from support.world import job

SIDECAR = (
    'pods "gpt-r3" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities'
    ' (container "geotrain-sidecar" must not include "NET_ADMIN" in'
    ' securityContext.capabilities.add), hostPath volumes (volume "geotrain-node")'
)
PLAIN = (
    'pods "gpt-r0" is forbidden: violates PodSecurity "restricted:v1.37": runAsNonRoot != true (pod'
    ' or container "trainer" must set securityContext.runAsNonRoot=true)'
)
WORKER = (
    'pods "chat-dc-west-0" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes'
    ' (volume "geotrain-node")'
)
HOMES = {"gpt-r0": "dc-west", "gpt-r3": "dc-east"}


def test_a_namespace_too_strict_for_the_sidecar_is_named_with_its_level_and_what_to_do():
    assert refusals.of_job(SIDECAR, "team-a", HOMES, has_sidecar=True) == (
        Reason.POD_SECURITY_REFUSED,
        'namespace team-a in dc-east enforces Pod Security "baseline", which gpt-r3 violates:'
        ' non-default capabilities (container "geotrain-sidecar" must not include "NET_ADMIN" in'
        ' securityContext.capabilities.add), hostPath volumes (volume "geotrain-node"); geotrain\'s'
        " sidecar needs NET_ADMIN and the node's folder /run/geotrain: in that cluster run kubectl"
        " label --overwrite namespace team-a pod-security.kubernetes.io/enforce=privileged, or do"
        " without sidecars: spec.network.enforcement: None",
    )


def test_without_a_sidecar_it_is_the_template_that_goes_too_far():
    reason, message = refusals.of_job(PLAIN, "team-a", HOMES, has_sidecar=False)
    assert reason == Reason.POD_SECURITY_REFUSED
    assert message.startswith('namespace team-a in dc-west enforces Pod Security "restricted"')
    assert message.endswith("change spec.template to what the namespace allows")


def test_a_pod_that_the_plan_does_not_know_has_no_data_center():
    _, message = refusals.of_job(PLAIN, "team-a", {}, has_sidecar=False)
    assert message.startswith("namespace team-a enforces")


@pytest.mark.parametrize(
    "sentence",
    ['pods "gpt-r0" is forbidden: exceeded quota: q', "spec.containers[0].image: Required", ""],
)
def test_any_other_refusal_is_told_as_it_is(sentence):
    assert refusals.of_job(sentence, "a", {}, has_sidecar=True) == (
        Reason.MEMBER_REFUSED,
        sentence,
    )
    assert refusals.of_pool(sentence, "a", {}) == (Reason.MEMBER_REFUSED, sentence)


def test_a_worker_needs_the_nodes_folder():
    world = World()
    decision = refused(world.observed(), Forbidden(WORKER), NOW)
    world.carry_out(decision)
    found = world.pool.status.condition("Serving")
    assert (found.status, found.reason) == ("False", "PodSecurityRefused")
    assert found.message.startswith('namespace team-a in dc-west enforces Pod Security "baseline"')
    assert found.message.endswith("pod-security.kubernetes.io/enforce=privileged")
    assert world.pool.status.phase == "Starting"
    assert decision.requeue_after == 15.0
    assert decision.children == {}


def test_a_pool_without_a_job_can_be_refused_too():
    world = World(job=None)
    world.carry_out(refused(world.observed(), Invalid("no"), NOW))
    found = world.pool.status.condition("Serving")
    assert (found.reason, found.message) == ("MemberRefused", "no")


def test_a_job_without_a_plan_can_be_refused_too():
    manifest = job()
    manifest["metadata"] |= {"uid": "1", "resourceVersion": "1", "generation": 1}
    seen = Observed(GeoTrainingJob.from_manifest(manifest))
    decision = reconcile.refused(seen, Invalid("no"), NOW)
    (found,) = (c for c in decision.status["conditions"] if c["type"] == "Reserved")
    assert (found["reason"], found["message"]) == ("MemberRefused", "no")
