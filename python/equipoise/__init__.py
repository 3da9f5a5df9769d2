"""Equipoise levels attention work over the ranks of a training job with long, uneven documents.

Inputs, plans and files need no torch; what trains (PooledAttention, pool_groups, PackedDataset, agreement) is loaded
when it is first used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from equipoise.inputs import Heads, Mask, Mesh, ModelShape, PlanInputs
from equipoise.plan_files import verify_plan

try:
    __version__ = version("equipoise")
except PackageNotFoundError:  # run from a folder that was not installed
    __version__ = "0"

# Name -> module that holds it; modules of their own hold themselves.
LAZY = {
    "StepSampler": "sampler",
    "plan_step": "sampler",
    "compare": "comparison",
    "measure_run": "comparison",
    "tune_queues": "tuning",
    "advise_pool": "advice",
    "PackedDataset": "data",
    "PooledAttention": "attention",
    "pool_groups": "groups",
    "agreement": "agreement",
}

__all__ = ["Heads", "Mask", "Mesh", "ModelShape", "PlanInputs", "verify_plan", *LAZY]


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    module = import_module(f"equipoise.{LAZY[name]}")
    return module if name == LAZY[name] else getattr(module, name)
