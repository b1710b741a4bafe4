"""Every condition type and reason that users see. docs/reference/reasons.md is made from this.

Reasons are stable: programs compare them. The sentence beside a reason tells people what to do.
"""

from enum import StrEnum

from geotrain.model.decision import NoPlan


class _Explained(StrEnum):
    """A word with its meaning; the meaning becomes the member's docstring."""

    def __new__(cls, value: str, meaning: str) -> "_Explained":
        """Make a member from its text and what it means."""
        member = str.__new__(cls, value)
        member._value_ = str(value)  # of a word of the core too
        member.__doc__ = meaning
        return member


class ConditionType(_Explained):
    """What is observed of an object."""

    PLANNED = "Planned", "GeoTrainingJob: a plan exists for the present spec"
    RESERVED = "Reserved", "GeoTrainingJob: every pod exists in the members and all fit together"
    PODS_READY = "PodsReady", "GeoTrainingJob: all pods of the gang are Ready"
    NAMESPACES_ENABLED = (
        "NamespacesEnabled",
        "GeoTrainingJob: every member that it needs lets pods run in its namespace; only there once"
        " one did not",
    )
    WINDOWS_ENFORCED = (
        "WindowsEnforced",
        "GeoTrainingJob, BandwidthSchedule: measured bytes agree with the windows",
    )
    SUSPENDED = "Suspended", "GeoTrainingJob: held on purpose, without pods"
    COMPLETE = "Complete", "GeoTrainingJob: every rank ended with success"
    FAILED = "Failed", "GeoTrainingJob: given up for good"
    REACHABLE = "Reachable", "DataCenter: the member's API server answers"
    AGENTS_READY = "AgentsReady", "DataCenter: scheduler and priorities are installed and ready"
    NETWORK_READY = (
        "NetworkReady",
        "DataCenter: its pod networks are known, can be carried and overlap no other's",
    )
    TOKEN_FRESH = "TokenFresh", "DataCenter: the token in its Secret is renewed in time"
    VALID = "Valid", "WanLink: both ends exist"
    MEASURED = "Measured", "WanLink: status.measured is fresh"
    BOUND = "Bound", "PrefillPool: a planned training job has been found"
    SERVING = "Serving", "PrefillPool: router and enough workers are ready"
    TRAINING_PROTECTED = (
        "TrainingProtected",
        "PrefillPool: training iterations are not longer than before by more than the guard",
    )


class Reason(_Explained):
    """Why a condition is as it is."""

    # Planned
    PLAN_READY = "PlanReady", "A plan was found for the present spec"
    NO_FEASIBLE_PLACEMENT = (
        NoPlan.NO_FEASIBLE_PLACEMENT,
        "No set of data centres holds the job; the message says which lacks what",
    )
    LINK_MISSING = NoPlan.LINK_MISSING, "Neighbouring data centres have no WanLink between them"
    PROFILE_MISSING = "ProfileMissing", "The ConfigMap or key that profileRef names is not there"
    PROFILE_INVALID = "ProfileInvalid", "The profile has a wrong value; the message says where"
    INVALID_PARALLELISM = (
        NoPlan.INVALID_PARALLELISM,
        "Stages, replicas and micro-batches do not divide layers and batch",
    )
    NOT_ENOUGH_MEMORY = (
        NoPlan.NOT_ENOUGH_MEMORY,
        "Not even one micro-batch in flight fits into schedule.memoryPerGpu",
    )
    UNKNOWN_DATA_CENTER = NoPlan.UNKNOWN_DATA_CENTER, "A DataCenter that is named does not exist"
    NO_DATA_CENTERS = NoPlan.NO_DATA_CENTERS, "No DataCenter is registered or reachable"
    UNKNOWN_ACCELERATOR = (
        "UnknownAccelerator",
        "Costs cannot be estimated: no data centre names an accelerator that is in the table",
    )
    INVALID_SPEC = "InvalidSpec", "A field is wrong in a way that admission could not see"

    # NamespacesEnabled, Planned, Reserved
    NAMESPACES_ENABLED = "NamespacesEnabled", "Every member that is needed has opted in"
    NAMESPACE_NOT_ENABLED = (
        "NamespaceNotEnabled",
        "The namespace is missing in a member, has not opted in there, or does not allow the pods'"
        " service account; the message names the command",
    )

    # Reserved, PodsReady
    GANG_RESERVED = "GangReserved", "Every pod was let go together"
    RESERVING = "Reserving", "Pods are being created behind their scheduling gates"
    WAITING_FOR_CAPACITY = "WaitingForCapacity", "Some member has no room for the whole gang now"
    RESERVE_TIMEOUT = (
        "ReserveTimeout",
        "Not all pods ran within reserveTimeout; everything was taken back",
    )
    MEMBER_UNREACHABLE = "MemberUnreachable", "A member that the job needs does not answer"
    MEMBER_REFUSED = "MemberRefused", "A member's API server refused an object of the job or pool"
    NAME_TAKEN = (
        "NameTaken",
        "An object that is not the job's or pool's own has a name that it needs; it is left alone."
        " Rename the job or pool, or remove that object",
    )
    POD_SECURITY_REFUSED = (
        "PodSecurityRefused",
        "The Pod Security level of a namespace does not allow the pods; the message says which"
        " namespace, which level, and what to do",
    )
    POD_NETWORK_UNKNOWN = (
        "PodNetworkUnknown",
        "Pod networks are not known, so sidecars could not tell what crosses the wide area;"
        " spec.network.podCIDRs of the DataCenter gives them",
    )
    POD_NETWORK_OVERLAP = (
        "PodNetworkOverlap",
        "Data centres share addresses of pods, so pods cannot reach each other",
    )
    POD_NETWORK_UNSUPPORTED = (
        "PodNetworkUnsupported",
        "Pods have IPv6 addresses only, which sidecars cannot carry",
    )
    NOT_PLANNED = "NotPlanned", "There is no plan yet"
    PODS_STARTING = "PodsStarting", "Pods are bound and are starting"
    PODS_RUNNING = "PodsRunning", "All pods are Ready"
    GANG_RESTARTING = "GangRestarting", "A pod failed, and the gang is being replaced"
    PODS_FINISHED = "PodsFinished", "The pods have ended"
    REPLANNING = "Replanning", "The spec changed; the old gang is being removed"

    # WindowsEnforced
    WINDOWS_MEASURED = "WindowsMeasured", "The sidecars' byte counts agree with the windows"
    WINDOWS_MISSED = "WindowsMissed", "More bytes than allowed were sent against the turn"
    NOT_INTERCEPTED = "NotIntercepted", "A sidecar cannot redirect the trainer's connections"
    NOT_SHAPED = "NotShaped", "A sidecar cannot shape its pod's interface"
    TRAINING_DONE = "TrainingDone", "The trainers have ended"
    NO_SIGNAL = "NoSignal", "The trainer does not tell when iterations begin, so shares are spatial"
    DISABLED = "Disabled", "network.enforcement is None"
    NO_WINDOWS = "NoWindows", "The plan crosses no wide-area link"
    NOT_RUNNING = "NotRunning", "The gang does not run"
    NO_REPORT = "NoReport", "Some sidecar's status could not be read"

    # Suspended
    SUSPENDED = "Suspended", "spec.suspend is true, and no pod is left"
    SUSPENDING = (
        "Suspending",
        "spec.suspend is true, and pods still end; links and GPUs are held until the last has gone",
    )
    RESUMED = "Resumed", "spec.suspend is false"

    # Complete, Failed
    ALL_RANKS_SUCCEEDED = "AllRanksSucceeded", "Every rank ended with success"
    NOT_FINISHED = "NotFinished", "The job is not at its end"
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded", "A pod failed once more than maxRestarts allows"
    DEADLINE_EXCEEDED = "DeadlineExceeded", "The job ran longer than activeDeadline"

    # DataCenter
    CONTACTED = "Contacted", "The member answered"
    UNREACHABLE = "Unreachable", "The member's API server gives no answer"
    CREDENTIALS_MISSING = (
        "CredentialsMissing",
        "The Secret or key that kubeconfigSecretRef names is not there",
    )
    CREDENTIALS_INVALID = "CredentialsInvalid", "The kubeconfig in the Secret cannot be used"
    FORBIDDEN = "Forbidden", "The credentials do not allow what geotrain has to do"
    TOKEN_EXPIRED = "TokenExpired", "The member's token has ended; geotrain join makes a new one"
    TOKEN_REFUSED = (
        "TokenRefused",
        "The member does not know who the token is of; geotrain join makes a new one",
    )
    ANOTHER_CLUSTER = (
        "AnotherCluster",
        "The kubeconfig leads to another cluster than the one that joined; nothing is done there",
    )
    NETWORK_KNOWN = "NetworkKnown", "Pod networks are known"
    TOKEN_RENEWED = "TokenRenewed", "The token is renewed before two thirds of its time are over"
    TOKEN_NOT_RENEWED = (
        "TokenNotRenewed",
        "The token ends and could not be renewed; the message says why",
    )
    TOKEN_NOT_OURS = (
        "TokenNotOurs",
        "The Secret was made by hand: the controller does not renew what is in it",
    )
    AGENTS_READY = "AgentsReady", "geotrain-scheduler and the priority classes are there"
    SCHEDULER_MISSING = "SchedulerMissing", "geotrain-scheduler is not installed in the member"
    SCHEDULER_NOT_READY = "SchedulerNotReady", "geotrain-scheduler has no ready pod"
    PRIORITY_CLASSES_MISSING = (
        "PriorityClassesMissing",
        "The priority classes geotrain-training and geotrain-prefill are not installed",
    )
    UNKNOWN = "Unknown", "The member could not be asked"

    # WanLink
    LINK_VALID = "LinkValid", "Both data centres exist"
    MEASUREMENT_FRESH = "MeasurementFresh", "status.measured is fresh"
    NOT_MEASURED = "NotMeasured", "Nobody has measured the link; the declared values hold"
    OVERLAPPING_LINK = "OverlappingLink", "Another WanLink already describes this direction"

    # PrefillPool
    JOB_BOUND = "JobBound", "The training job was found and runs"
    JOB_MISSING = "JobMissing", "No training job has this name or these labels"
    JOB_NOT_RUNNING = "JobNotRunning", "The training job has no running gang"
    NO_SUCH_STAGE = "NoSuchStage", "placement.stages names a stage that the job does not have"
    WORKERS_READY = "WorkersReady", "Router and workers answer"
    WORKERS_STARTING = "WorkersStarting", "Fewer workers than scaling.min are ready"
    ROUTER_NOT_READY = "RouterNotReady", "The router has no ready pod"
    WITHIN_GUARD = "WithinGuard", "Training iterations are as long as without prefill"
    TRAINING_STRETCHED = (
        "TrainingStretched",
        "Training iterations are longer since prefill runs; workers are held back",
    )
    NO_BASELINE = "NoBaseline", "No iteration without prefill has been measured yet"

    # Events that are no condition
    POD_FAILED = "PodFailed", "A pod of the gang failed; the message says which and how"
    CLEANED_UP = "CleanedUp", "Everything that the object had in the members was removed"
    LEFTOVERS_REMOVED = (
        "LeftoversRemoved",
        "Objects of a job that is gone were removed from a member that came back",
    )
