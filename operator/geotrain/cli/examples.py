"""Examples of every command, for its help and for docs/cli.md."""

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "calibrate": (
        (
            "an A100's shares, from vTrain's published runs",
            "geotrain calibrate tests/data/vtrain/ground_truth_multi.csv --accelerator A100"
            " --source vTrain --licence MIT -o a100.json",
        ),
    ),
    "completion": (
        (
            "in this bash; in ~/.bashrc it is for every new one",
            "source <(geotrain completion bash)",
        ),
        ("the same for fish", "geotrain completion fish | source"),
    ),
    "costs": (
        (
            "what every stage of a job takes and holds",
            "geotrain costs -f examples/three-dc",
        ),
    ),
    "doctor": (
        ("the hub of the current context and its members", "geotrain doctor"),
        ("also connect pods of all data centres", "geotrain doctor --hub-context hub --connect"),
    ),
    "explain": (
        ("why a job is pending, here, and slow", "geotrain explain gpt -n team-a"),
        ("from the hub's objects alone", "geotrain explain gpt --no-members --no-replay"),
        (
            "where a data centre's context has another name",
            "geotrain explain gpt --member-context dc-east=prod-east",
        ),
    ),
    "explore": (
        (
            "the best layout of a large dense model",
            "geotrain explore -f examples/explore/dense-405b.yaml --budget 10s",
        ),
        (
            "apply the job with the best degrees",
            "geotrain explore -f job.yaml --topology cluster -o job | kubectl apply -f -",
        ),
    ),
    "join": (
        ("register another cluster", "geotrain join dc-west --hub-context hub --context west"),
        ("register the hub itself", "geotrain join dc-central --hub-context hub --local"),
        ("what it would write", "geotrain join dc-west --hub-context hub --context west -o yaml"),
    ),
    "leave": (("undo a join", "geotrain leave dc-west --hub-context hub"),),
    "links": (
        ("all links, and what is wrong with them", "geotrain links"),
        ("their names, for kubectl", "kubectl get $(geotrain links -o name) -o yaml"),
    ),
    "logs": (
        ("the last lines of every rank", "geotrain logs gpt --tail 5"),
        ("two ranks as they go on, through restarts", "geotrain logs gpt --rank 0,11 -f"),
        ("the sidecar of a rank", "geotrain logs gpt --rank 4 -c geotrain-sidecar"),
    ),
    "plan": (
        ("without a cluster", "geotrain plan -f examples/three-dc"),
        (
            "with the data centres and links of the hub",
            "geotrain plan -f job.yaml --topology cluster",
        ),
        ("as a page to zoom in", "geotrain plan -f examples/three-dc --gantt plan.html"),
    ),
    "schedule": (
        (
            "a zero-bubble schedule of four ranks",
            "geotrain schedule --policy zb-1p --stages 4 --microbatches 8 --forward 2ms"
            " --input-gradient 2ms --weight-gradient 2ms",
        ),
    ),
    "timeline": (("every rank and flow of a plan", "geotrain timeline -f examples/three-dc"),),
    "top": (
        ("everything in the context's namespace", "geotrain top"),
        ("all jobs, every five seconds", "geotrain top jobs -A --watch --interval 5s"),
    ),
    "topology import": (
        (
            "three regions of Azure",
            "geotrain topology import azure azure_rtt.csv --regions 'East US,West US,South Central"
            " US' --capacity 5G",
        ),
    ),
    "version": (("of this command alone", "geotrain version --client"),),
}
"""Command → what an example shows, and the example."""
