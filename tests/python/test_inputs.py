"""Inputs are checked when they are made, with the texts of the command line."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq

TINY = eq.ModelShape("tiny", layers=4, hidden=64, query_heads=8, kv_heads=2, head_size=16, ffn=128, vocabulary=100)


def test_defaults_come_from_mesh_window_and_model() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=12, cp=2, tp=4), window=4096, model="llama3-8b")
    assert inputs.pool == 6
    assert (inputs.align, inputs.max_tokens) == (4, 4096)
    assert inputs.model.layers == 32
    assert inputs.heads == eq.Heads(query=8, kv=2, size=128)
    assert inputs.masks == (eq.Mask("causal", 0, 32),)


def test_every_option_reaches_the_planner() -> None:
    inputs = eq.PlanInputs(
        mesh=eq.Mesh(dp=4, pp=2, cp=2, tp=2, ranks_per_node=4),
        pool=2,
        window=1000,
        max_tokens=1200,
        micro_steps=3,
        model=TINY,
        strategy="libra",
        masks=[eq.Mask(layers=1), eq.Mask("sliding_window", 16, 2), eq.Mask("full", layers=1)],
        dp_sync="micro_step",
        overlong="drop",
        align=2,
        exchange_bytes=10**9,
        speeds=[1000] * 7 + [900],
        effort="thorough",
        gradient_sum="invariant",
        grid_rows=64,
    )
    fields = dict(inputs.fields)
    assert fields["strategy"] == "libra"
    assert fields["mesh"] == "dp=4,pp=2,cp=2,tp=2"
    assert fields["ranks_per_node"] == "4"
    assert (fields["pool"], fields["window"], fields["max_tokens"], fields["micro_steps"]) == ("2", "1000", "1200", "3")
    assert fields["heads"] == "4,1,16"
    assert fields["masks"] == "causal x 1; sliding_window 16 x 2; full x 1"
    assert (fields["dp_sync"], fields["overlong"], fields["align"]) == ("micro_step", "drop", "2")
    assert fields["exchange_bytes"] == "1000000000"
    assert fields["speeds"] == "1000,1000,1000,1000,1000,1000,1000,900"
    assert fields["max_delay"] == "0"
    assert fields["effort"] == "thorough"
    assert (fields["gradient_sum"], fields["grid_rows"]) == ("invariant", "64")
    assert fields["cost.model"] == "tiny"


def test_options_of_waiting_reach_the_planner() -> None:
    shape = {"mesh": eq.Mesh(dp=4), "window": 1000, "model": TINY}
    wlb = dict(eq.PlanInputs(**shape, strategy="wlb", queues=[500, 800]).fields)
    assert (wlb["queues"], wlb["max_delay"]) == ("500,800", "-1")
    assert dict(eq.PlanInputs(**shape, max_delay=4).fields)["max_delay"] == "4"
    assert dict(eq.PlanInputs(**shape, strategy="fixed", repack_window=8).fields)["repack_window"] == "8"


@pytest.mark.parametrize("sequence", [list, tuple, iter, np.array])
def test_integers_may_come_in_any_sequence(sequence) -> None:
    arguments = {"mesh": eq.Mesh(dp=2), "window": 1000, "model": TINY, "strategy": "wlb"}
    inputs = eq.PlanInputs(**arguments, speeds=sequence([1000, 900]), queues=sequence([500, 800]))
    fields = dict(inputs.fields)
    assert (fields["speeds"], fields["queues"]) == ("1000,900", "500,800")
    assert inputs == replace(inputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool": 3}, "pool 3 does not divide dp 4, field pool: use one of 1, 2, 4"),
        ({"window": 1}, "window 1 is smaller than the context group of 2 ranks, field window: "),
        ({"window": "8k"}, "window '8k' is not an integer of 64 bits, field window: "),
        ({"window": 2.5}, "window 2.5 is not an integer of 64 bits, field window: "),
        ({"window": 2**70}, "is not an integer of 64 bits, field window: "),
        ({"max_tokens": 10}, "window 1000 is above max_tokens 10, field max_tokens: "),
        ({"micro_steps": 0}, "micro_steps 0 is out of range, field micro_steps: "),
        ({"mesh": eq.Mesh(dp=0)}, "dp 0 is out of range, field dp: "),
        ({"mesh": eq.Mesh(tp=0)}, "tp 0 does not divide the 8 query heads of tiny, field mesh: "),
        ({"mesh": "dp=2"}, "mesh 'dp=2' is no Mesh, field mesh: "),
        ({"model": "no-such-model"}, "model 'no-such-model' is not known, field model: "),
        ({"model": replace(TINY, layers=0)}, "layers 0 is out of range, field model: "),
        ({"model": replace(TINY, head_size=-4)}, "head_size -4 is out of range, field model: "),
        ({"model": replace(TINY, query_heads=12, kv_heads=8)}, "12 query heads are no multiple of 8 KV heads, "),
        ({"hardware": "no-such-machine"}, "hardware 'no-such-machine' is not known, field hardware: "),
        ({"hardware": "/no/such/file.json"}, "/no/such/file.json"),
        ({"strategy": "best"}, "strategy 'best' is not known, field strategy: use one of plain, "),
        (
            {"strategy": "libra", "max_delay": 2},
            "strategy 'libra' holds no document for later steps, field max_delay: ",
        ),
        ({"repack_window": 2}, "strategy 'equipoise' does not repack global batches, field repack_window: "),
        ({"queues": [500]}, "strategy 'equipoise' has no outlier queues, field queues: "),
        ({"dp_sync": "often"}, "dp_sync 'often' is not known, field dp_sync: "),
        ({"effort": "hard"}, "effort 'hard' is not known, field effort: "),
        (
            {"gradient_sum": "invariant", "strategy": "ulysses", "mesh": eq.Mesh(cp=4)},
            "strategy 'ulysses' splits the query heads of one KV head where 2 KV heads go to 4 ranks, ",
        ),
        ({"gradient_sum": "exact"}, "gradient_sum 'exact' is not known, field gradient_sum: "),
        ({"grid_rows": 0}, "grid_rows 0 "),
        ({"overlong": "cut"}, "overlong 'cut' is not known, field overlong: "),
        ({"masks": []}, "there is no mask, field masks: "),
        ({"masks": ["causal"]}, "'causal' is no mask, field masks[0]: "),
        ({"masks": [eq.Mask("diagonal", layers=4)]}, "is no mask, field masks[0]: "),
        ({"masks": [eq.Mask(layers=3)]}, "masks are given for 3 layers and the model has 4, field masks: "),
        ({"masks": [eq.Mask("sliding_window", 0, 4)]}, "masks[0].window 0 is out of range, field masks[0].window: "),
        ({"masks": eq.Mask(layers=4)}, "is no sequence, field masks: give a list of Mask"),
        ({"masks": 5}, "masks 5 is no sequence, field masks: "),
        ({"speeds": 5}, "speeds 5 is no sequence, field speeds: give a list of whole numbers"),
        ({"speeds": [1000.5] * 8}, "speeds 1000.5 is not an integer of 64 bits, field speeds: "),
        ({"queues": "500"}, "queues '500' is no sequence, field queues: "),
        ({"queues": None}, "queues None is no sequence, field queues: "),
        ({"align": 0}, "align 0 is out of range, field align: "),
        ({"align": 1001}, "align 1001 is above the window of 1000 tokens, field align: give at most 1000, "),
        ({"align": 7, "max_tokens": 1000}, "max_tokens 1000 has no room for the padding of 2 ranks "),
        ({"exchange_bytes": 0}, "exchange_bytes 0 is out of range, field exchange_bytes: "),
        ({"speeds": [1000]}, "1 speeds are given for 8 ranks of dp x cp, field speeds: "),
        ({"speeds": [0] * 8}, "speeds[0] 0 is out of range, field speeds[0]: "),
    ],
)
def test_wrong_arguments_are_value_errors_that_name_the_field(arguments: dict, message: str) -> None:
    sound = {"mesh": eq.Mesh(dp=4, cp=2), "window": 1000, "model": TINY}
    eq.PlanInputs(**sound)
    with pytest.raises(ValueError) as error:
        eq.PlanInputs(**(sound | arguments))
    assert message in str(error.value)


def test_inputs_pickle_and_can_be_changed_in_one_field() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=4), window=1000, model=TINY)
    assert pickle.loads(pickle.dumps(inputs)).fields == inputs.fields
    changed = dict(replace(inputs, strategy="plain").fields)
    assert {name for name, value in inputs.fields if changed[name] != value} == {"strategy"}


def test_a_change_finds_the_defaults_again_and_keeps_what_was_given() -> None:
    inputs = pickle.loads(pickle.dumps(eq.PlanInputs(mesh=eq.Mesh(dp=8), window=1000, model=TINY)))
    changed = replace(inputs, mesh=eq.Mesh(dp=12), window=4000, model="llama3-8b")
    assert (changed.pool, changed.max_tokens, changed.masks) == (6, 4000, (eq.Mask(layers=32),))
    assert replace(replace(changed, window=128), window=256).max_tokens == 256
    split = replace(changed, mesh=eq.Mesh(dp=12, cp=3, tp=2))
    assert (split.align, split.max_tokens) == (2, 4002), "room for the rows of three ranks, each in twos"
    assert (replace(split, align=1).max_tokens, replace(split, align=1).align) == (4000, 1)
    given = eq.PlanInputs(mesh=eq.Mesh(dp=8), pool=8, window=1000, max_tokens=2000, model=TINY)
    assert replace(given, window=128).max_tokens == 2000
    with pytest.raises(ValueError, match="pool 8 does not divide dp 12, field pool: "):
        replace(given, mesh=eq.Mesh(dp=12))


def test_a_broken_hardware_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=str(path)):
        eq.PlanInputs(model=TINY, hardware=str(path))


def test_importing_and_planning_inputs_need_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "import equipoise as eq; print(eq.PlanInputs(mesh=eq.Mesh(dp=2)).pool)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("2\n", "")


def test_the_module_names_what_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = eq.nonsense
