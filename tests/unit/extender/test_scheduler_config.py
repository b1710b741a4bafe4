from importlib.resources import files

import yaml

from geotrain.api import labels
from geotrain.roles.extender import app

CONFIG = yaml.safe_load((files("geotrain.roles.extender") / "scheduler-config.yaml").read_text())


def test_only_our_pods_come_here():
    assert [p["schedulerName"] for p in CONFIG["profiles"]] == [labels.SCHEDULER_NAME]
    (extender,) = CONFIG["extenders"]
    assert extender["managedResources"] == [
        {"name": labels.MANAGED_RESOURCE, "ignoredByScheduler": True}
    ]


def test_the_extender_is_asked_where_it_listens_and_never_skipped():
    (extender,) = CONFIG["extenders"]
    assert extender["urlPrefix"] == f"http://{app.HOST}:{app.PORT}"
    assert not extender["ignorable"]
    assert extender["nodeCacheCapable"]
    assert "bindVerb" not in extender


def test_the_lease_is_not_the_clusters_own():
    assert CONFIG["leaderElection"]["resourceName"] == labels.SCHEDULER_NAME
