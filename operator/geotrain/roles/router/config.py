"""The router's settings, from environment variables: whole or refused, never global."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from geotrain.api.labels import CONFIG_DIRECTORY, PORT_ROUTER
from geotrain.errors import InputError
from geotrain.units import Seconds, parse_duration

PREFIX = "GEOTRAIN_"


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[Seconds, BeforeValidator(_read_duration)]
"""A Go duration, in seconds once read."""


class RouterSettings(BaseModel):
    """What the router is told. Each field is ``GEOTRAIN_`` and its name in capitals."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    workers: str = f"{CONFIG_DIRECTORY}/workers.json"
    """Base URLs of workers with commas between them, or a file that lists them."""
    profile: str = f"{CONFIG_DIRECTORY}/prefill.json"
    """File with the model's measured prefill times."""
    model: str = Field(default="default", min_length=1)
    """Name under which clients ask for the model."""
    decode_url: str = ""
    """Base URL of the decode service; empty: only the first token is returned."""
    objective: Annotated[Duration, Field(gt=0)] = 1.0
    """Time to first token that is promised."""
    percentile: Annotated[float, Field(gt=0, le=100)] = 90.0
    """Share of the admitted requests that should meet it, in percent."""
    guard: Annotated[Duration, Field(ge=0)] = 0.002
    """A layer ends so long before training needs the GPU."""
    minimum_bubble: Annotated[Duration, Field(ge=0)] = 0.005
    """Shorter bubbles are left alone."""
    listen: str = "0.0.0.0"  # noqa: S104  (pods are reached from others; a policy restricts it)
    """Address to listen at."""
    port: Annotated[int, Field(ge=0, le=65535)] = PORT_ROUTER
    """Port to listen at; 0 takes a free one."""
    poll: Annotated[Duration | None, Field(gt=0)] = None
    """Time between two questions for a worker's state; None: see ``interval``."""
    patience: Annotated[Duration, Field(gt=0)] = 2.0
    """A worker that is silent for so long is given up."""
    timeout: Annotated[Duration, Field(gt=0)] = 60.0
    """Most time for the prefill of an admitted request, retries included."""
    queue: Annotated[int, Field(ge=1)] = 64
    """Most requests that are booked at one worker."""
    concurrency: Annotated[int, Field(ge=1)] = 512
    """Most requests that are open at a time; more are answered 429."""
    body_limit: Annotated[int, Field(ge=1024)] = 2 * 2**20
    """Largest request body in bytes."""
    drain: Annotated[Duration, Field(ge=0)] = 25.0
    """Time for open requests to end after SIGTERM, less than the pod's grace period."""

    @property
    def interval(self) -> Seconds:
        """Time between two questions for a worker's state.

        What is known of a worker may be older where first tokens are promised later, and each
        answer costs the CPUs that carry training's traffic: a fortieth of the objective, from a
        quarter to three quarters of a second, so that ``patience`` still covers two questions.
        """
        return self.poll or min(max(self.objective / 40, 0.25), 0.75)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read every ``GEOTRAIN_`` variable that is a setting. Raises InputError with all faults.

        Other variables of the prefix belong to other roles and are left alone.
        """
        found = {
            name: environment[PREFIX + name.upper()]
            for name in cls.model_fields
            if environment.get(PREFIX + name.upper())
        }
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            faults = "; ".join(
                f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault['msg']}"
                for fault in error.errors()
            )
            raise InputError(faults) from error
