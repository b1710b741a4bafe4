"""Settings, a section for each role: read once from a YAML file, checked whole, passed down.

    geotrain-system/geotrain-settings, key settings.yaml:
      controller: {sidecarImage: "registry.example.com/geotrain:1.2"}
      log: {level: DEBUG}

The file is named by ``--settings`` or GEOTRAIN_SETTINGS; without one all defaults hold. The roles
that run beside user code (sidecar, extender, router) are configured by their pod's environment
and by ConfigMaps of the job or pool, because these differ from pod to pod.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from geotrain.errors import InputError
from geotrain.units import Seconds

VARIABLE: Final = "GEOTRAIN_SETTINGS"


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class LogSettings(_Section):
    """What is logged, and how."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Lines below this level are dropped."""
    form: Literal["json", "text"] = "json"
    """json: one object a line, for collectors. text: for a terminal."""


class ControllerSettings(_Section):
    """The hub's controller."""

    sidecar_image: str = Field(default="geotrain:dev", min_length=1)
    """Image of the sidecar in training pods; the chart sets it to the controller's own."""
    health_port: int = Field(default=8080, ge=0, le=65535)
    """/healthz and /metrics; 0 opens a free port, for tests."""
    contact_period: Seconds = Field(default=15.0, gt=0)
    """Seconds between two looks at a member, its agents and the kubeconfig that leads to it."""
    settle_timeout: Seconds = Field(default=10.0, gt=0)
    """Seconds that a decision about a job waits for a member's first lists after the start."""
    in_flight: int = Field(default=32, ge=1, le=512)
    """Requests at one time to one cluster; measured: more does not bind pods sooner."""
    workers: int = Field(default=8, ge=1, le=256)
    """Objects that are reconciled at one time."""


class Settings(_Section):
    """Everything that can be set."""

    log: LogSettings = LogSettings()
    controller: ControllerSettings = ControllerSettings()

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Check a parsed file. Raises InputError that names every fault by its path."""
        if not isinstance(document, Mapping):
            raise InputError("the settings are not a mapping")
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InputError(f"settings: {'; '.join(faults)}") from error

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a YAML file. Raises InputError when it is missing or wrong."""
        try:
            return cls.from_text(path.read_text())
        except OSError as error:
            raise InputError(f"the settings cannot be read: {error}") from error

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read YAML. Raises InputError when it is wrong."""
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"the settings are not YAML: {error}") from error
        return cls.from_document({} if document is None else document)
