"""Runs that somebody published, as manifests of a job and of the place where it ran."""

import csv
import json
from pathlib import Path

from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.cli.manifests import Manifests

DATA = Path(__file__).parents[1] / "data"
POD = {"spec": {"containers": [{"name": "t", "image": "x"}]}}


def _manifest(kind, name, spec, **metadata):
    return {
        "apiVersion": "geotrain.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def job(model, degrees, batch, micro, **spec):
    """``degrees`` are tensor, data and pipeline."""
    tensor, data, pipeline = degrees
    parallelism = {"data": data, "pipeline": pipeline, "tensor": tensor}
    parallelism |= spec.pop("parallelism", {})
    template = {
        "spec": {
            "containers": [
                {"name": "t", "image": "x", "resources": {"limits": {"nvidia.com/gpu": tensor}}}
            ]
        }
    }
    return _manifest(
        "GeoTrainingJob",
        "job",
        {
            "model": model,
            "parallelism": parallelism,
            "batch": {"global": batch, "micro": micro},
            "template": template,
            **spec,
        },
        namespace="team",
    )


def place(gpus, accelerator, network):
    annotations = {"geotrain.io/gpus": str(gpus)}
    spec = {"cluster": {"local": True}, "accelerator": accelerator, "network": network}
    return _manifest("DataCenter", "one", spec, annotations=annotations)


def read(*documents):
    """As the command line reads them."""
    jobs = [GeoTrainingJob.from_manifest(d) for d in documents if d["kind"] == "GeoTrainingJob"]
    centers = [DataCenter.from_manifest(d) for d in documents if d["kind"] == "DataCenter"]
    return Manifests(tuple(jobs), tuple(centers), ())


VTRAIN_NETWORK = {"podRate": "766G", "latency": "10us"}


def vtrain():
    """Every row of vTrain's table: manifests of job and data centre, and seconds."""
    with (DATA / "vtrain" / "ground_truth_multi.csv").open(encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    for _, gpus, batch, micro, hidden, heads, layers, sequence, *degrees, time in rows:
        model = {
            "layers": int(layers),
            "hiddenSize": int(hidden),
            "heads": int(heads),
            "sequenceLength": int(sequence),
            "vocabularySize": 51_200,
            "attention": "Unfused",
        }
        made = job(
            model,
            [int(each) for each in degrees],
            int(batch),
            int(micro),
            schedule={"policy": "OneFOneB", "recompute": True},
            network={"sends": "Overlapped"},
        )
        yield made, place(int(gpus), "A100", VTRAIN_NETWORK), float(time) / 1e3


_SAILORS = {
    "OPT-350": {"layers": 24, "hiddenSize": 1024, "heads": 16, "vocabularySize": 50_272},
    "GPT-Neo-2.7": {"layers": 32, "hiddenSize": 2560, "heads": 32, "vocabularySize": 50_257},
}
_ADAPTER = "183G"
"""What one GH200 reached of one on another node with large messages: 22.9 GB/s."""


def sailor():
    """Sailor's plans: job, data centre, profile, stages, seconds.

    Left out are iterations of a single micro-batch, and two runs whose iteration is given as long
    as another model's gradients alone.
    """
    with (DATA / "sailor" / "gh200_plans.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        degrees = [int(row[name]) for name in ("tensor", "data", "pipeline")]
        batch, micro = int(row["globalBatch"]), int(row["microBatch"])
        if row["gradientSeconds"] == "1.06094" or batch == micro:
            continue
        # Sailor's lists count the embedding and the output as layers.
        layers = [int(each) for each in row["layersPerStage"].split()]
        layers[0] -= 1
        layers[-1] -= 1
        model = {**_SAILORS[row["model"]], "sequenceLength": 2048, "parameterDtype": "float32"}
        made = job(
            model,
            degrees,
            batch,
            micro,
            parallelism={"layersPerStage": layers},
            schedule={"policy": "OneFOneB", "recompute": False},
            network={"boundaries": "Replicated", "sends": "Blocking"},
        )
        where = place(4 * int(row["nodes"]), "GH200", {"gpuRate": _ADAPTER, "latency": "10us"})
        path = DATA / "sailor" / f"profile_{row['model']}_GH-96_t4.json"
        yield made, where, path, degrees[2], float(row["iterationSeconds"])


def content(path):
    return json.loads(path.read_text(encoding="utf-8"))
