"""What users may write into ``spec.template`` and ``spec.overrides``, and what becomes of it.

Pure: templates in, sentences with the field's path out. The API server checks a pod only when one
is created, in the member and rank by rank; here a template is checked whole, before anything is
planned with it and without a cluster, by the same functions in controller and command line.

    fields      names and JSON types, against core/v1 of Kubernetes
    baseline    Pod Security "baseline", and what may go beyond it
    owned       what geotrain itself sets
    gpus        the GPUs of a pod against parallelism.tensor
    merging     a template with the overrides of one data centre
    problems    all of these for a job or a pool
"""

from geotrain.api.pod_template.merging import differences, template_in
from geotrain.api.pod_template.problems import (
    center_problems,
    job_problems,
    joined,
    pool_problems,
    refusal,
    unfit_centers,
    unknown_centers,
)

__all__ = [
    "center_problems",
    "differences",
    "job_problems",
    "joined",
    "pool_problems",
    "refusal",
    "template_in",
    "unfit_centers",
    "unknown_centers",
]
