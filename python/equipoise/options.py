"""What a training run is told, as one frozen struct, and the command line that fills it."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import equipoise as eq
from equipoise.corpus import VOCABULARY

DAY_S = 86400
ELEMENT_BYTES = {"fp32": 4, "bf16": 2}
MESH = {"dp": 0, "cp": 1}
MODEL = {"layers": 2, "hidden": 256, "query_heads": 4, "kv_heads": 2, "head_size": 64, "ffn": 512}


@dataclass(frozen=True)
class Options:
    """A field for each flag, by the same name."""

    strategy: str
    mesh: dict[str, int]
    pool: int | None
    window: int
    max_tokens: int | None
    micro_steps: int
    overlong: str
    max_delay: int | None
    queues: tuple[int, ...]
    repack_window: int
    exchange_bytes: int | None
    keep_received: bool
    gradient_sum: str
    hardware: str
    corpus: Path | None
    model: dict[str, int]
    dtype: str
    learning_rate: float
    steps: int | None
    epochs: int
    seed: int
    out: Path
    checkpoint_every: int
    resume: Path | None
    timeout: float
    demo: bool


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults that tell something, as they are written on a command line."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, dict):
            return f"{action.help} (default: {','.join(f'{name}={n}' for name, n in action.default.items())})"
        if action.default in (None, (), False):
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """argparse with our form of message: a caller prints it and ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}, command line: {self.prog} --help lists the flags")


def parse_options(arguments: list[str] | None = None) -> Options:
    parser = make_parser()
    options = Options(**vars(parser.parse_args(arguments)))
    check_ranges(options)
    return options


def make_parser() -> Parser:
    parser = Parser(
        prog="python -m equipoise.train",
        description="Trains a small decoder-only transformer on documents of bytes; one process a rank, by torchrun.",
        formatter_class=HelpFormatter,
    )
    add = parser.add_argument
    add("--strategy", default="equipoise", help="plain, allgather, ulysses, fixed, wlb, libra or equipoise")
    add("--mesh", type=pairs(MESH), default=dict(MESH), metavar="dp=N,cp=N", help="dp=0 takes all ranks there are")
    add(
        "--pool",
        type=int,
        metavar="N",
        help="replicas that share attention; largest divisor of dp to 8 by default",
    )
    add("--window", type=int, default=8192, metavar="TOKENS", help="tokens of a packed sequence")
    add("--max-tokens", type=int, metavar="TOKENS", help="tokens that memory allows a sequence; the window by default")
    add("--micro-steps", type=int, default=1, metavar="N", help="sequences of a replica in one optimizer step")
    add("--overlong", default="split", help="documents longer than the window: error, split, truncate or drop")
    add("--max-delay", type=int, metavar="STEPS", help="steps that equipoise or wlb may hold a document")
    add("--queues", type=integers, default=(), metavar="TOKENS,...", help="outlier thresholds of wlb")
    add("--repack-window", type=int, default=1, metavar="STEPS", help="global batches that fixed repacks together")
    add("--exchange-bytes", type=int, metavar="BYTES", help="of exchange buffers that a rank may hold at once")
    add(
        "--keep-received", action="store_true", help="received rows stay from forward to backward: more held, less sent"
    )
    add("--gradient-sum", default="fast", help="fast, or invariant: the same bits whoever computes what, at a price")
    add(
        "--hardware",
        default="h100",
        metavar="NAME|FILE",
        help="what plans are made for; see python -m equipoise.calibrate",
    )
    add(
        "--corpus", type=Path, metavar="PATH", help="a folder or a text file; the standard library's sources by default"
    )
    add(
        "--model",
        type=pairs(MODEL),
        default=dict(MODEL),
        metavar="layers=N,...",
        help="sizes that differ from the default",
    )
    add("--dtype", choices=tuple(ELEMENT_BYTES), default="fp32", help="what layers compute in; weights stay in fp32")
    add("--learning-rate", type=float, default=1e-3, metavar="X", help="of AdamW, constant")
    add("--steps", type=int, metavar="N", help="optimizer steps in all; to the end of the epochs by default")
    add("--epochs", type=int, default=1, metavar="N", help="times that the corpus is read, each in another order")
    add("--seed", type=int, default=0, metavar="N", help="of the first weights and of the order of documents")
    add("--out", type=Path, default=Path("build/train"), metavar="FOLDER", help="for checkpoints and reports")
    add("--checkpoint-every", type=int, default=0, metavar="STEPS", help="0: never")
    add("--resume", type=Path, metavar="FOLDER", help="a checkpoint, or a run whose last one is taken")
    add("--timeout", type=float, default=300.0, metavar="SECONDS", help="the longest that a rank waits for another")
    add("--demo", action="store_true", help="train two copies step by step, plain and --strategy, and write a report")
    return parser


def pairs(defaults: dict[str, int]):
    """A parser of `name=integer,...` for these names."""

    def parse(text: str) -> dict[str, int]:
        values = dict(defaults)
        for part in text.split(","):
            name, _, number = part.partition("=")
            if name not in defaults or not number.isdecimal():
                raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(f'{key}=N' for key in defaults)}")
            values[name] = int(number)
        return values

    return parse


def integers(text: str) -> tuple[int, ...]:
    if not all(part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 2048,4096")
    return tuple(int(part) for part in text.split(","))


def check_ranges(options: Options) -> None:
    """Numbers that no plan checks for us."""
    if options.model["head_size"] % 2:
        raise ValueError(
            f"head_size {options.model['head_size']} is odd, --model: give an even one, positions turn pairs"
        )
    if options.mesh["cp"] < 1:
        raise ValueError("cp=0, --mesh: give at least 1")
    least = {"steps": 1, "epochs": 1, "seed": 0, "checkpoint_every": 0}
    most = {"learning_rate": 1000, "timeout": DAY_S}
    for name in (*least, *most):
        value, limit = getattr(options, name), most.get(name, 2**62 - 1)
        if value is None or least.get(name, 0) <= value <= limit and not (name in most and value == 0):
            continue
        wanted = "above 0" if name in most else f"of at least {least[name]}"
        raise ValueError(
            f"{value} is out of range, --{name.replace('_', '-')}: give a number {wanted} and of at most {limit}"
        )


def model_shape(options: Options) -> "eq.ModelShape":
    return eq.ModelShape(name="bytes", vocabulary=VOCABULARY, **options.model)
