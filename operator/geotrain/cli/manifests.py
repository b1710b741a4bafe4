"""Manifests from files: what ``kubectl apply -f`` takes, read without a cluster."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from geotrain.api import calibrations, convert, estimate, measured_profiles
from geotrain.api.estimate import JobCosts
from geotrain.api.labels import GROUP
from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, WanLink
from geotrain.cli import membership, texts
from geotrain.errors import InputError
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.costs.calibrations import Calibration
from geotrain.roles.controller.inputs import with_reserved
from geotrain.units import BitsPerSecond, parse_rate

GPUS: Final = "geotrain.io/gpus"
"""Annotation of a DataCenter in a file: its free GPUs, where no cluster filled in the status."""

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_GPU_DIGITS: Final = 9
_KINDS: Final = tuple(each.kind() for each in KINDS)
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Manifests:
    """Every object of some files, by kind; of ``others`` just the kinds."""

    jobs: tuple[GeoTrainingJob, ...]
    data_centers: tuple[DataCenter, ...]
    links: tuple[WanLink, ...]
    config_maps: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    calibration: Calibration | None = None

    def job(self, name: str | None) -> GeoTrainingJob:
        """The job of that name, or the only one. Raises InputError where there is none."""
        found = [job for job in self.jobs if name in (None, job.name)]
        if len(found) == 1:
            return found[0]
        if not found:
            wanted = f" {name!r}" if name else ""
            raise InputError(f"there is no GeoTrainingJob{wanted} in -f{self._held()}")
        names = ", ".join(job.name for job in found)
        raise InputError(f"-f holds several GeoTrainingJobs ({names}); choose one with --job")

    def _held(self) -> str:
        """What there is instead of a job."""
        if self.jobs:
            return f"; there is {', '.join(sorted(job.name for job in self.jobs))}"
        kinds = {*self.others, *("ConfigMap" for _ in self.config_maps)}
        kinds |= {each.kind() for each in (*self.data_centers, *self.links)}
        return f"; it holds {', '.join(sorted(kinds))}" if kinds else ": it is empty"

    def below(self, other: "Manifests") -> "Manifests":
        """These together with ``other``, whose objects go before those of the same name."""
        centers = {each.name: each for each in (*self.data_centers, *other.data_centers)}
        links = {each.name: each for each in (*self.links, *other.links)}
        jobs = {(each.namespace, each.name): each for each in (*self.jobs, *other.jobs)}
        return Manifests(
            tuple(jobs.values()),
            tuple(centers.values()),
            tuple(links.values()),
            {**self.config_maps, **other.config_maps},
            (*self.others, *other.others),
        )

    def topology(self, job: GeoTrainingJob) -> Topology:
        """What there is for ``job``: links without what other jobs have reserved of them.

        Raises InputError where a data centre's free GPUs are not known.
        """
        free = {}
        for center in self.data_centers:
            if GPUS in center.metadata.annotations:
                free[center.name] = _count(center)
            elif center.status.gpus is None:
                raise InputError(
                    f"DataCenter {center.name}: no free GPUs are known; set the annotation {GPUS}, "
                    "or take the file from a cluster with kubectl get dc,wan -o yaml"
                )
        whole = convert.topology(self.data_centers, self.links, free)
        return with_reserved(whole, _reserved(self.links, f"{job.namespace}/{job.name}"))

    def workload(self, job: GeoTrainingJob, profile: Path | None) -> Workload:
        """The job with its costs: from ``profile``, its profileRef, or estimated from its model."""
        return convert.workload(job, self.costs(job, profile))

    def missing_profile(self, job: GeoTrainingJob, path: Path | None) -> tuple[str, str] | None:
        """Namespace and name of the ConfigMap that the job needs and that is not here, if any."""
        reference = job.spec.profile_ref
        if path is not None or reference is None:
            return None
        place = (job.namespace, reference.name)
        return None if place in self.config_maps else place

    def costs(self, job: GeoTrainingJob, profile: Path | None) -> JobCosts:
        """What the job's layers take and hold in each data centre, and where that is from."""
        if profile is not None:
            return measured_profiles.costs(_json_file(profile), job, self.data_centers)
        reference = job.spec.profile_ref
        if reference is None:
            return estimate.estimated(job, self.data_centers, self.calibrated(job))
        who = f"{job.name} takes its profile from"
        content = self._config(job, reference.name, reference.key, who, "--profile")
        return measured_profiles.costs(content, job, self.data_centers)

    def calibrated(self, job: GeoTrainingJob) -> Calibration | None:
        """The calibration that estimates count with, where one is given."""
        reference = job.spec.calibration_ref
        if self.calibration is not None or reference is None:
            return self.calibration
        who = f"{job.name} takes its calibration from"
        content = self._config(job, reference.name, reference.key, who, "--calibration")
        return calibrations.read(content)

    def _config(
        self, job: GeoTrainingJob, name: str, key: str, who: str, option: str
    ) -> Mapping[str, Any]:
        """The JSON object in a key of a ConfigMap of the job's namespace."""
        what = f"ConfigMap {name}, which {who},"
        data = self.config_maps.get((job.namespace, name))
        if data is None:
            raise InputError(f"{what} is not among the files; add it with -f, or give {option}")
        if key not in data:
            raise InputError(f"{what} has no key {key!r}")
        return convert.document(str(data[key]), f"ConfigMap {name} key {key}")

    def with_calibration(self, path: Path | None) -> "Manifests":
        """The same, where estimates count with the calibration of a file."""
        if path is None:
            return self
        return replace(self, calibration=calibrations.read(_json_file(path)))


def read(paths: Sequence[Path]) -> Manifests:
    """Read files and folders; ``-`` is standard input. Raises InputError that says where.

    Of several objects with one kind and name the last counts, as with ``kubectl apply``.
    """
    return collect(_documents(paths))


def collect(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> Manifests:
    """Read objects, each given with the place where it stands. Other kinds are passed over."""
    jobs: dict[tuple[str, str], GeoTrainingJob] = {}
    centers: dict[str, DataCenter] = {}
    links: dict[str, WanLink] = {}
    config_maps: dict[tuple[str, str], Mapping[str, Any]] = {}
    others: set[str] = set()
    for place, document in documents:
        kind, metadata = document.get("kind"), document.get("metadata")
        if str(document.get("apiVersion")).startswith(f"{GROUP}/") and kind not in _KINDS:
            raise InputError(f"{place}: {GROUP} has no kind {kind!r}; write {' or '.join(_KINDS)}")
        try:
            if kind == "GeoTrainingJob":
                job = GeoTrainingJob.from_manifest(document)
                jobs[job.namespace, job.name] = job
            elif kind == "DataCenter":
                center = DataCenter.from_manifest(document)
                membership.require_name(center.name)
                centers[center.name] = center
            elif kind == "WanLink":
                link = WanLink.from_manifest(document)
                links[link.name] = link
            elif kind == "ConfigMap" and isinstance(metadata, Mapping):
                name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
                data = document.get("data")
                config_maps[name] = data if isinstance(data, Mapping) else {}
            else:
                others.add(str(kind))
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
    return Manifests(
        tuple(jobs.values()),
        tuple(centers.values()),
        tuple(links.values()),
        config_maps,
        tuple(sorted(others)),
    )


def _documents(paths: Iterable[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object with its place, the items of Lists one by one."""
    for path in _files(paths):
        for number, document in enumerate(texts.load(path), start=1):
            place = f"{path} document {number}"
            if document is None:
                continue
            if not isinstance(document, Mapping) or "kind" not in document:
                raise InputError(f"{place}: not a Kubernetes object; it has no kind")
            items = document.get("items") if str(document["kind"]).endswith("List") else None
            for item in items if isinstance(items, list) else [document]:
                if not isinstance(item, Mapping):
                    raise InputError(f"{place}: an item is not a Kubernetes object")
                fault = _foreign_to_json(item)
                if fault:
                    raise InputError(f"{place}: {fault}")
                yield place, item


def _foreign_to_json(document: Any) -> str:
    """What YAML may say and an API server would refuse, as a sentence, or ''."""
    left = [("", document)]
    while left:
        path, value = left.pop()
        if isinstance(value, Mapping | list):
            inner = value.items() if isinstance(value, Mapping) else enumerate(value)
            left += [(f"{path}.{key}".removeprefix("."), each) for key, each in inner]
        elif isinstance(value, float) and not math.isfinite(value):
            return f"{path}: {value} is no number; write a finite one"
        elif isinstance(value, int) and abs(value) > _LARGEST:
            return f"{path}: the number is larger than 64 bits can hold"
    return ""


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from _in_folder(path)
        else:
            yield path


def _in_folder(folder: Path) -> list[Path]:
    try:
        children = sorted(each for each in folder.iterdir() if each.suffix in _SUFFIXES)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    found = [each for each in children if not each.is_dir()]
    if not found:
        raise InputError(f"{folder} holds no manifests: no file of it is {', '.join(_SUFFIXES)}")
    return found


def _json_file(path: Path) -> Mapping[str, Any]:
    text = texts.text_of(path)
    try:
        documents = [json.loads(text)]  # first: YAML takes 3e-06 for text
    except (ValueError, RecursionError):
        documents = texts.documents_of(text, path)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise InputError(f"{path} must hold one profile: a JSON object or a YAML mapping")
    return documents[0]


def _reserved(links: Iterable[WanLink], job: str) -> dict[tuple[str, str], BitsPerSecond]:
    """What other jobs than ``job`` (``namespace/name``) hold of each direction."""
    taken: dict[tuple[str, str], BitsPerSecond] = defaultdict(float)
    for link in links:
        try:
            rate = math.fsum(parse_rate(r.rate) for r in link.status.reserved if r.job != job)
        except ValueError as error:
            raise InputError(f"WanLink {link.name}: status.reserved: {error}") from error
        ends = (link.spec.source, link.spec.target)
        for way in (ends, ends[::-1]) if link.spec.symmetric else (ends,):
            taken[way] += rate
    return taken


def _count(center: DataCenter) -> int:
    text = center.metadata.annotations[GPUS]
    if not (text.isascii() and text.isdecimal() and len(text) <= _GPU_DIGITS):
        raise InputError(
            f"DataCenter {center.name}: annotation {GPUS} is {text!r}; write a whole number of at"
            f" most {_GPU_DIGITS} digits"
        )
    return int(text)
