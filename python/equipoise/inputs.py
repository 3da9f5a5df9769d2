"""What decides a plan, by value. Everything is checked when it is made: a wrong argument is a ValueError in the form
`what, where: remedy`, before any rank waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from equipoise import _core
from equipoise.arguments import flag, integer, integers, items, text

MASK_KINDS = ("causal", "full", "sliding_window")
ELEMENT_SIZES = (1, 2, 4, 8)
LARGEST_SIZE = 2**24  # of a model: products of three stay far from 64 bits


@dataclass(frozen=True)
class Mesh:
    """The training mesh: replicas, pipeline stages, context and tensor-parallel ranks."""

    dp: int = 1
    pp: int = 1
    cp: int = 1
    tp: int = 1
    ranks_per_node: int = 8  # that share the fast links


@dataclass(frozen=True)
class Heads:
    """Attention heads of one tensor-parallel rank; query is a multiple of kv."""

    query: int
    kv: int
    size: int  # elements of one head of one row


@dataclass(frozen=True)
class Mask:
    """Which keys a row sees, and in how many layers. A window counts the row itself."""

    kind: str = "causal"
    window: int = 0
    layers: int = 1


@dataclass(frozen=True)
class ModelShape:
    """The shape of a decoder-only transformer, whole model."""

    name: str
    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_size: int
    ffn: int  # of one expert
    active_experts: int = 1  # experts a token goes through
    vocabulary: int = 1


class DefaultSize(int):
    """A number that inputs found for None: given again, as dataclasses.replace does, it is found again."""


class DefaultMasks(tuple):
    """Masks that inputs found for None, likewise."""


def is_default(value: Any) -> bool:
    return value is None or isinstance(value, DefaultSize | DefaultMasks)


@dataclass(frozen=True)
class PlanInputs:
    """Everything that decides a plan but the documents and their order, which come with the sampler.

    pool: replicas that share attention, a divisor of mesh.dp; None: the largest up to 8.
    window: tokens of a packed sequence. align: rows of a rank are padded to a multiple of it; None: mesh.tp, whose
    ranks share them under sequence parallelism. max_tokens: rows that the memory of one sequence allows, padding
    included; None: the window, padded.
    model: a ModelShape, or a name such as "llama3-8b"; hardware: "h100" or the path of a hardware file.
    masks: their layers sum to the model's; None: causal in all layers. speeds: of each rank of dp x cp, in parts per
    thousand. max_delay: steps that a document may be held; None: 0, or for wlb no bound. queues: outlier thresholds of
    wlb, in tokens. repack_window: global batches that fixed repacks together. effort: how long pooled tiles are
    searched, "fast", "normal" or "thorough". gradient_sum: "fast", or "invariant", whose outputs and gradients have the
    same bits whoever computes what; grid_rows: query rows of a cell of its grid. element_bytes: of q, k and v, 2 for
    bf16, 4 for fp32; None: what the hardware was described for. keep_received: members keep received rows from forward
    to backward, which costs memory, instead of having them sent again. What None stands for can be read from pool,
    max_tokens, align and masks,
    and dataclasses.replace finds it again for what it changes.
    """

    mesh: Mesh = Mesh()
    pool: int | None = None
    window: int = 131072
    max_tokens: int | None = None
    micro_steps: int = 1
    model: str | ModelShape = "llama3-8b"
    hardware: str = "h100"
    strategy: str = "equipoise"
    masks: Sequence[Mask] | None = None
    dp_sync: str = "step"
    overlong: str = "split"
    align: int | None = None
    exchange_bytes: int | None = None
    speeds: Sequence[int] | None = None
    max_delay: int | None = None
    queues: Sequence[int] = ()
    repack_window: int = 1
    effort: str = "normal"
    gradient_sum: str = "fast"
    grid_rows: int = 512
    element_bytes: int | None = None
    keep_received: bool = False

    def __post_init__(self) -> None:
        core, model = make_core(self)
        sizes = ("pool", "max_tokens", "align")
        size_of = {name: DefaultSize if is_default(getattr(self, name)) else int for name in sizes}
        masks_of = DefaultMasks if is_default(self.masks) else tuple
        found = {
            "pool": size_of["pool"](core.pool),
            "max_tokens": size_of["max_tokens"](core.limits.max_tokens),
            "align": size_of["align"](core.limits.align_tokens),
            "model": ModelShape(**{field.name: getattr(model, field.name) for field in fields(ModelShape)}),
            "heads": Heads(core.heads.query, core.heads.kv, core.heads.size),
            "masks": masks_of(Mask(mask.kind.name, mask.window_tokens, mask.layers) for mask in core.masks),
            "speeds": tuple(core.speeds_ppt),
            "queues": tuple(core.delay.queue_tokens),
            "core": core,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type, tuple]:
        return PlanInputs, tuple(getattr(self, field.name) for field in fields(self))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Every input as (name, value), in a fixed order."""
        return _core.input_fields(self.core)


def make_core(inputs: PlanInputs) -> tuple[_core.PlanInputs, _core.ModelShape]:
    """The inputs as the planner takes them, validated, and the model's shape."""
    core, model = _core.PlanInputs(), make_model(inputs.model)
    hardware = _core.load_hardware(text("hardware", inputs.hardware))
    core.strategy = text("strategy", inputs.strategy)
    core.dp_sync = text("dp_sync", inputs.dp_sync)
    core.effort = text("effort", inputs.effort)
    core.gradient_sum = text("gradient_sum", inputs.gradient_sum)
    core.grid_rows = integer("grid_rows", inputs.grid_rows)
    fill(core.mesh, "mesh", inputs.mesh, Mesh)
    core.pool = _core.default_pool(core.mesh.dp) if is_default(inputs.pool) else integer("pool", inputs.pool)
    core.micro_steps = integer("micro_steps", inputs.micro_steps)
    if inputs.element_bytes is not None:
        hardware.element_bytes = element_bytes(inputs.element_bytes)
    core.keep_received = flag("keep_received", inputs.keep_received)
    core.heads = _core.heads_of(model, core.mesh.tp)
    core.cost = _core.make_cost_table(model, hardware, core.mesh.tp)
    core.masks = make_masks(inputs.masks, model.layers)
    fill_limits(core.limits, inputs, core.mesh)
    core.arrival.overlong = text("overlong", inputs.overlong)
    fill_delay(core.delay, inputs)
    core.speeds_ppt = [] if inputs.speeds is None else integers("speeds", inputs.speeds)
    _core.validate(core)
    _core.check_strategy(core)
    return core, model


def element_bytes(value: Any) -> int:
    if (size := integer("element_bytes", value)) not in ELEMENT_SIZES:
        sizes = ", ".join(map(str, ELEMENT_SIZES))
        raise ValueError(f"element_bytes {size} is no size of a number, field element_bytes: give one of {sizes}")
    return size


def fill_limits(limits: _core.Limits, inputs: PlanInputs, mesh: _core.Mesh) -> None:
    limits.window_tokens = integer("window", inputs.window)
    limits.align_tokens = mesh.tp if is_default(inputs.align) else integer("align", inputs.align)
    padded = _core.default_max_tokens(limits.window_tokens, mesh, limits.align_tokens)
    limits.max_tokens = padded if is_default(inputs.max_tokens) else integer("max_tokens", inputs.max_tokens)
    if inputs.exchange_bytes is not None:
        limits.exchange_bytes = integer("exchange_bytes", inputs.exchange_bytes)


def fill_delay(delay: _core.Delay, inputs: PlanInputs) -> None:
    delay.max_delay_steps = _core.default_max_delay(inputs.strategy)
    if inputs.max_delay is not None:
        delay.max_delay_steps = integer("max_delay", inputs.max_delay)
    delay.queue_tokens = integers("queues", inputs.queues)
    delay.repack_window_steps = integer("repack_window", inputs.repack_window)


def make_model(model: str | ModelShape) -> _core.ModelShape:
    if isinstance(model, str):
        return _core.load_model(model)
    shape = fill(_core.ModelShape(), "model", model, ModelShape)
    for name in [field.name for field in fields(ModelShape) if field.name != "name"]:
        if not 1 <= (size := getattr(shape, name)) <= LARGEST_SIZE:
            raise ValueError(f"{name} {size} is out of range, field model: give a value from 1 to {LARGEST_SIZE}")
    if shape.query_heads % shape.kv_heads:
        raise ValueError(
            f"{shape.query_heads} query heads are no multiple of {shape.kv_heads} KV heads, field model: "
            "give a number of query heads that KV heads divide"
        )
    return shape


def make_masks(masks: Sequence[Mask] | None, layers: int) -> list[_core.Mask]:
    given = [Mask(layers=layers)] if is_default(masks) else items("masks", masks, "Mask")
    return [make_mask(f"masks[{i}]", mask) for i, mask in enumerate(given)]


def make_mask(place: str, mask: Mask) -> _core.Mask:
    if not isinstance(mask, Mask) or mask.kind not in MASK_KINDS:
        raise ValueError(f"{mask!r} is no mask, field {place}: give a Mask of kind {', '.join(MASK_KINDS)}")
    core = _core.Mask()
    core.kind = getattr(_core.MaskKind, mask.kind)
    core.window_tokens = integer(f"{place}.window", mask.window)
    core.layers = integer(f"{place}.layers", mask.layers)
    return core


def fill(core: Any, name: str, values: Any, kind: type) -> Any:
    """Copies the fields of a dataclass into the planner's struct of the same fields."""
    if not isinstance(values, kind):
        raise ValueError(f"{name} {values!r} is no {kind.__name__}, field {name}: give a {kind.__name__}")
    for field in fields(kind):
        value = getattr(values, field.name)
        setattr(core, field.name, text("name", value) if field.name == "name" else integer(field.name, value))
    return core
