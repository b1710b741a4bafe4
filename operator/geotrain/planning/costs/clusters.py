"""Clusters by name, with what was measured or calibrated on them.

``VTRAIN`` is the cluster of vTrain (Bang et al., arXiv 2312.12391): nodes of eight A100 behind
NVSwitch and four HDR InfiniBand adapters. Its all-reduces inside a node are the published table
(AR_GPU8_1M_1024M_LUT, MIT licence). ``SELENE`` has the same nodes: table 5 of Korthikanti
et al. (arXiv 2205.05198) was measured on it, and nothing in it was calibrated there.
"""

from dataclasses import replace
from typing import Final

from geotrain.model.topology import MessageRates
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.iterations import Cluster
from geotrain.planning.costs.layers import Node
from geotrain.planning.costs.tiers import Constant, Tier, from_table

_MIB = 2**20

NVSWITCH_A100: Final[MessageRates] = from_table(
    sizes=[_MIB * 2**power for power in range(11)],
    seconds=[
        92.79e-6, 93.25e-6, 95.8e-6, 134.3e-6, 232.4e-6, 358.1e-6,
        579.9e-6, 1162e-6, 2162.3e-6, 4191.5e-6, 8193e-6,
    ],
    volume=2 * 7 / 8,
)  # fmt: skip
"""What a ring all-reduce over eight A100 reaches, by size: every second power of the table."""

_NODE_RATE = 89.5e9 * 8  # calibrated; four adapters of 200 Gbit/s make 100 GB/s
_HOP_RATE = 25e9 * 8  # one adapter
_CONTENTION = 0.1095  # calibrated
_FIXED = 0.010

VTRAIN: Final = Cluster(
    accelerator=ACCELERATORS["A100"],
    node=Node(8, Tier(NVSWITCH_A100), Tier(Constant(_NODE_RATE))),
    hop=Tier(Constant(_HOP_RATE), 10e-6),
    fixed=_FIXED,
    contention=_CONTENTION,
)

SELENE: Final = replace(VTRAIN, contention=0.0)
