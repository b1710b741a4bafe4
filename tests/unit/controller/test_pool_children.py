import json

import pytest

from geotrain.api import convert, labels
from geotrain.roles.controller import pool_children
from geotrain.roles.controller.pool_children import Parts, Slot
from geotrain.roles.router.config import RouterSettings
from support.pools import PROFILE, job, pool

SLOT = Slot("dc-west", 1, 3)


def parts(**spec):
    return Parts(pool(**spec), PROFILE, "geotrain:test")


def environment(container):
    return {each["name"]: each["value"] for each in container["env"]}


@pytest.fixture
def worker():
    return pool_children.worker(parts(), job(), SLOT)


def test_a_worker_says_whose_it_is_and_beside_whom(worker):
    assert worker["metadata"]["name"] == "chat-dc-west-1"
    tags = worker["metadata"]["labels"]
    assert tags[labels.ROLE] == "prefill"
    assert tags[labels.JOB] == "gpt"
    assert tags[labels.BESIDE_RANK] == "3"
    assert tags[labels.POOL_UID] == "pool-uid"
    assert labels.JOB_UID not in tags, "the job must not take it for its own"
    assert worker["metadata"]["annotations"][labels.MAX_PREFILL_PER_GPU] == "1"


def test_a_worker_is_the_first_to_leave_and_goes_where_its_rank_is(worker):
    spec = worker["spec"]
    assert spec["priorityClassName"] == "geotrain-prefill"
    assert spec["schedulerName"] == "geotrain-scheduler"
    assert spec["nodeSelector"] == {labels.DATA_CENTER: "dc-west"}
    assert spec["terminationGracePeriodSeconds"] == 5
    requests = spec["containers"][0]["resources"]["requests"]
    assert requests[labels.MANAGED_RESOURCE] == "1"


def test_a_worker_finds_its_gate_and_its_profile(worker):
    (container,) = worker["spec"]["containers"]
    found = environment(container)
    assert found["GEOTRAIN_GATE"] == "/run/geotrain/gates/team-a_gpt_r3"
    assert found["GEOTRAIN_PROFILE"] == "/etc/geotrain/prefill.json"
    assert found["GEOTRAIN_POOL"] == "team-a/chat"
    assert {m["mountPath"] for m in container["volumeMounts"]} == {
        "/etc/geotrain",
        "/run/geotrain",
    }


def test_the_templates_own_wishes_are_kept():
    template = {
        "metadata": {"labels": {"team": "x", labels.ROLE: "mine"}, "annotations": {"a": "b"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"disk": "ssd"},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "w",
                    "image": "i",
                    "env": [
                        {"name": "MINE", "value": "1"},
                        {"name": "GEOTRAIN_GATE", "value": "x"},
                    ],
                    "readinessProbe": {"tcpSocket": {"port": 8000}},
                    "resources": {"requests": {"cpu": "2"}},
                },
                {"name": "second", "image": "j"},
            ],
        },
    }
    made = pool_children.worker(parts(template=template), job(), SLOT)
    first, second = made["spec"]["containers"]
    assert made["metadata"]["labels"]["team"] == "x"
    assert made["metadata"]["labels"][labels.ROLE] == "prefill"
    assert made["metadata"]["annotations"]["a"] == "b"
    assert made["spec"]["terminationGracePeriodSeconds"] == 1
    assert made["spec"]["nodeSelector"]["disk"] == "ssd"
    assert made["spec"]["volumes"][0]["name"] == "v"
    assert environment(first)["MINE"] == "1"
    assert environment(first)["GEOTRAIN_GATE"] != "x"
    assert first["readinessProbe"] == {"tcpSocket": {"port": 8000}}
    assert first["resources"]["requests"]["cpu"] == "2"
    assert second == {"name": "second", "image": "j"}


def test_a_workers_revision_changes_with_what_it_is_made_from():
    def revision(slot=SLOT, **spec):
        made = pool_children.worker(parts(**spec), job(), slot)
        return made["metadata"]["labels"][labels.REVISION]

    assert revision() == revision()
    assert revision(guard="3ms") != revision()
    assert revision(slot=Slot("dc-west", 1, 2)) != revision()


def test_the_profile_reads_back_as_it_was():
    config = pool_children.worker_config(parts())
    assert convert.prefill_profile(json.loads(config["data"]["prefill.json"])) == PROFILE


def test_the_router_understands_what_it_is_told():
    spec = {
        "objective": {"timeToFirstToken": "1500ms", "percentile": 99},
        "guard": "3ms",
        "minimumBubble": "8ms",
        "decode": {"url": "http://decode:9"},
    }
    deployment = pool_children.router_deployment(parts(**spec))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    settings = RouterSettings.from_environment(environment(container))
    assert (settings.objective, settings.percentile) == (1.5, 99.0)
    assert (settings.guard, settings.minimum_bubble) == (0.003, 0.008)
    assert settings.decode_url == "http://decode:9"
    assert settings.model == "llama"
    assert settings.port == container["ports"][0]["containerPort"]
    assert container["image"] == "geotrain:test"
    assert container["args"] == ["router"]


def test_the_router_fits_the_restricted_standard():
    pod = pool_children.router_deployment(parts())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [list(volume) for volume in pod["volumes"]] == [["name", "configMap"]]


def test_without_a_model_the_pools_name_is_the_models():
    made = parts(model=None, profileRef={"name": "p"}, decode=None)
    (container,) = pool_children.router_deployment(made)["spec"]["template"]["spec"]["containers"]
    assert environment(container)["GEOTRAIN_MODEL"] == "chat"
    assert "GEOTRAIN_DECODE_URL" not in environment(container)


def test_the_service_finds_the_router_and_goes_with_the_pool():
    service = pool_children.router_service(parts())
    deployment = pool_children.router_deployment(parts())
    tags = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= tags.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= tags.items()
    for made in (service, deployment, pool_children.router_config(parts(), [], "")):
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("PrefillPool", "pool-uid")


def test_a_new_profile_takes_a_new_router_and_new_workers_do_not():
    def template(made):
        return pool_children.router_deployment(made)["spec"]["template"]

    other = Parts(pool(), PROFILE.__class__(5, PROFILE.layer_times), "geotrain:test")
    assert template(parts()) == template(parts(scaling={"max": 1}))
    assert template(parts()) != template(other)


def test_routers_of_other_clusters_are_named_by_address():
    policy = pool_children.worker_policy(parts(), ["10.0.0.2", "fd00::1"])
    blocks = [each["ipBlock"]["cidr"] for each in policy["spec"]["ingress"][0]["from"][1:]]
    assert blocks == ["10.0.0.2/32", "fd00::1/128"]
