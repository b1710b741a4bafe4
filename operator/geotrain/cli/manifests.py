"""Manifests from files: what ``kubectl apply -f`` takes, read without a cluster."""

import difflib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from geotrain.api import calibrations, convert, estimate, measured_profiles
from geotrain.api.estimate import JobCosts
from geotrain.api.labels import API_VERSION, GROUP
from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, WanLink
from geotrain.api.v1alpha1.resource import Metadata, metadata_of
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
_LONGEST_KIND: Final = 63


@dataclass(frozen=True, slots=True)
class Manifests:
    """Every object of some files, by kind; of ``others`` just the kinds.

    ``remarks`` are sentences on what the files say more than once.
    """

    jobs: tuple[GeoTrainingJob, ...]
    data_centers: tuple[DataCenter, ...]
    links: tuple[WanLink, ...]
    config_maps: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
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
            (*self.remarks, *other.remarks),
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
    read: dict[str, dict[tuple[str, str], Any]] = defaultdict(dict)
    others: set[str] = set()
    repeated: dict[str, str] = {}
    for place, document in documents:
        kind = str(document.get("kind"))
        _require_kind(place, kind, str(document.get("apiVersion") or ""))
        if kind not in _READERS:
            others.add(kind)
            continue
        try:
            metadata, found = _READERS[kind](document)
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        key = metadata.namespace, metadata.name
        if key in read[kind]:
            repeated[f"{kind} {metadata.name} is given twice; the last, of {place}, counts"] = ""
        read[kind][key] = found
    return Manifests(
        tuple(read["GeoTrainingJob"].values()),
        tuple(read["DataCenter"].values()),
        tuple(read["WanLink"].values()),
        read["ConfigMap"],
        tuple(sorted(others)),
        tuple(repeated),
    )


def _require_kind(place: str, kind: str, version: str) -> None:
    """Refuse what may be meant as one of ours and is none."""
    is_ours = version.startswith(f"{GROUP}/")
    if kind in _KINDS or not (is_ours or not version):
        return
    near = difflib.get_close_matches(kind[:_LONGEST_KIND], _KINDS, n=1)
    if is_ours:
        raise InputError(f"{place}: {GROUP} has no kind {kind!r}; write {' or '.join(_KINDS)}")
    if near:
        raise InputError(
            f"{place}: {kind!r} without apiVersion is no kind; did you mean {near[0]} of"
            f" {API_VERSION}?"
        )


_Read = tuple[Metadata, Any]


def _job(document: Mapping[str, Any]) -> _Read:
    job = GeoTrainingJob.from_manifest(document)
    return job.metadata, job


def _center(document: Mapping[str, Any]) -> _Read:
    center = DataCenter.from_manifest(document)
    membership.require_name(center.name)
    return center.metadata, center


def _link(document: Mapping[str, Any]) -> _Read:
    link = WanLink.from_manifest(document)
    return link.metadata, link


def _config_map(document: Mapping[str, Any]) -> _Read:
    metadata = metadata_of(document, "ConfigMap")
    data = document.get("data") or {}
    if not isinstance(data, Mapping):
        raise InputError(f"ConfigMap {metadata.name}: data: write a mapping of keys and texts")
    return metadata, data


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Read]]] = {
    "GeoTrainingJob": _job,
    "DataCenter": _center,
    "WanLink": _link,
    "ConfigMap": _config_map,
}


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
        if texts.is_folder(path):
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
    documents = texts.load_either(path)
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
