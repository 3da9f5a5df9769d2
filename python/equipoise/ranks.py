"""Which rank this process is, and the groups it trains with. Works under torchrun, with RANK, WORLD_SIZE and
MASTER_ADDR set by hand, and alone.
"""

import os
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import equipoise as eq
from equipoise.faults import FAILED, RunError, end, short_reason
from equipoise.options import ELEMENT_BYTES, Options, model_shape

LAST_PORT = 65535


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    dp: int
    cp: int
    ranks_per_node: int

    @property
    def replica(self) -> int:
        return self.rank // self.cp

    @property
    def cp_rank(self) -> int:
        return self.rank % self.cp


def read_world(options: Options) -> World:
    """Errors: ValueError where the environment is wrong or the mesh has not as many ranks as were started."""
    rank, size = (number(name, default) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    check_meeting(rank, size)
    cp = options.mesh["cp"]
    dp = options.mesh["dp"] or max(1, size // cp)
    if dp * cp != size:
        raise ValueError(
            f"{size} ranks were started, mesh dp={dp},cp={cp}: start dp x cp = {dp * cp} ranks or give another --mesh"
        )
    return World(rank, size, dp, cp, number("LOCAL_WORLD_SIZE", size))


def check_meeting(rank: int, size: int) -> None:
    """Whether the ranks can find each other. Errors: ValueError."""
    if rank >= max(1, size):
        raise ValueError(
            f"RANK is {rank} of {size} ranks, environment variables RANK and WORLD_SIZE: start the ranks with torchrun"
        )
    if "MASTER_ADDR" not in os.environ:
        if size > 1:
            raise ValueError(
                f"MASTER_ADDR is not set for {size} ranks, environment variable MASTER_ADDR: "
                "give the host of rank 0 or start the ranks with torchrun"
            )
        return
    text = os.environ.get("MASTER_PORT", "")
    if not text.isdecimal() or int(text) > LAST_PORT:
        raise ValueError(
            f"{text!r} is no port, environment variable MASTER_PORT: give a number of at most {LAST_PORT} beside "
            "MASTER_ADDR or start the ranks with torchrun"
        )


def number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number, environment variable {name}: start the ranks with torchrun")
    return int(text)


def make_inputs(options: Options, world: World, hardware: str) -> "eq.PlanInputs":
    """Errors: ValueError for impossible pools, windows, models, strategies and hardware."""
    return eq.PlanInputs(
        mesh=eq.Mesh(dp=world.dp, cp=world.cp, ranks_per_node=world.ranks_per_node),
        pool=options.pool,
        window=options.window,
        max_tokens=options.max_tokens,
        max_delay=options.max_delay,
        queues=options.queues,
        repack_window=options.repack_window,
        micro_steps=options.micro_steps,
        model=model_shape(options),
        hardware=hardware,
        strategy=options.strategy,
        dp_sync="micro_step",  # FSDP gathers each layer's weights in every micro-step, and so replicas wait
        overlong=options.overlong,
        exchange_bytes=options.exchange_bytes,
        element_bytes=ELEMENT_BYTES[options.dtype],
        keep_received=options.keep_received,
        gradient_sum=options.gradient_sum,
    )


def connect(world: World, timeout_s: float) -> None:
    """Starts torch.distributed. Errors: RunError; ends the process when the time is over, as torch tries again."""
    timeout = timedelta(seconds=timeout_s)
    if "MASTER_ADDR" not in os.environ:
        dist.init_process_group("gloo", store=dist.HashStore(), timeout=timeout, world_size=1, rank=0)
        return
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    failed = (
        f"rank {world.rank} of {world.size} could not meet at {address}, init_process_group before step 0: "
        "look for the rank that ended first, or correct MASTER_ADDR and MASTER_PORT"
    )
    timer = threading.Timer(timeout_s, end, (f"{failed} (waited {timeout_s:g} s)", FAILED))
    timer.daemon = True
    timer.start()
    try:
        dist.init_process_group("gloo", "env://", timeout, world.size, world.rank)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{failed} ({short_reason(error)})") from error
    finally:
        timer.cancel()


def make_mesh(world: World) -> DeviceMesh:
    """All ranks as (dp, cp)."""
    return init_device_mesh("cpu", (world.dp, world.cp), mesh_dim_names=("dp", "cp"))


def share_hardware(options: Options) -> str:
    """Plans must be the same everywhere, so all ranks take the measured integers of rank 0. Returns their name here."""
    path = Path(options.hardware)
    is_file = "/" in options.hardware or path.suffix == ".json"
    if not is_file:
        return options.hardware
    text = [path.read_text() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(text, src=0)
    copy = options.out / f"hardware-{dist.get_rank()}.json"
    copy.write_text(text[0])
    return str(copy)
