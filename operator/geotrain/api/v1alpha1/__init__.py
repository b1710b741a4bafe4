"""One pydantic model a kind. The CRDs, their rules and the reference are made from these."""

from geotrain.api.v1alpha1.bandwidth_schedule import BandwidthSchedule
from geotrain.api.v1alpha1.data_center import DataCenter
from geotrain.api.v1alpha1.geo_training_job import GeoTrainingJob
from geotrain.api.v1alpha1.prefill_pool import PrefillPool
from geotrain.api.v1alpha1.resource import Resource
from geotrain.api.v1alpha1.wan_link import WanLink

KINDS: tuple[type[Resource], ...] = (
    DataCenter,
    WanLink,
    GeoTrainingJob,
    PrefillPool,
    BandwidthSchedule,
)

__all__ = [
    "KINDS",
    "BandwidthSchedule",
    "DataCenter",
    "GeoTrainingJob",
    "PrefillPool",
    "Resource",
    "WanLink",
]
