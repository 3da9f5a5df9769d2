"""What the sampler of each rank gives: together exactly the documents, and the same again after a resume."""

import json
import pickle

import numpy as np
import pytest

import equipoise as eq
from sampler_cases import LENGTHS, TINY, as_bytes, inputs_for, ranks_of


@pytest.mark.parametrize("strategy", ["plain", "allgather", "ulysses", "fixed", "wlb", "libra", "equipoise"])
@pytest.mark.parametrize("overlong", ["split", "truncate", "drop"])
def test_ranks_together_train_every_token_once(strategy: str, overlong: str) -> None:
    inputs = inputs_for(strategy=strategy, overlong=overlong, align=4)
    trained = [np.zeros(length, int) for length in LENGTHS]
    targets, planned = 0, 0
    for steps in zip(*ranks_of(inputs), strict=True):
        assert len({step.hash for step in steps}) == 1
        planned += steps[0].loss_tokens
        for micro in (micro for step in steps for micro in step.micro_steps):
            assert len(micro.documents) == micro.rows == -(-micro.owned_rows // 4) * 4
            targets += int((micro.label_tokens >= 0).sum())
            for document, token in zip(micro.documents, micro.tokens, strict=True):
                if document >= 0:
                    trained[document][token] += 1
    lost = {
        "split": lambda length: 0,
        "truncate": lambda length: max(0, length - 512),
        "drop": lambda length: length if length > 512 else 0,
    }[overlong]
    for length, counts in zip(LENGTHS, trained, strict=True):
        assert counts[: length - lost(length)].tolist() == [1] * (length - lost(length))
        assert counts[length - lost(length) :].sum() == 0
    assert targets == planned == sum(max(0, length - lost(length) - 1) for length in LENGTHS)


def test_rows_say_what_to_load_where_it_stands_and_what_follows() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(cp=2), window=8, model=TINY, strategy="plain", align=4)
    [step] = eq.StepSampler([3, 5], inputs, replica=0, cp_rank=0, shuffle=False)
    [micro] = step.micro_steps
    # Zigzag of one text of 8 tokens: rank 0 owns 0, 1 and 6, 7.
    assert micro.documents.tolist() == [0, 0, 1, 1]
    assert micro.tokens.tolist() == [0, 1, 3, 4]
    assert micro.positions.tolist() == [0, 1, 3, 4]
    assert micro.label_tokens.tolist() == [1, 2, 4, -1]
    assert micro.items == [(0, 0, 2), (1, 3, 2)]
    assert micro.cu_seqlens.tolist() == [0, 3, 8]
    assert micro.cu_seqlens.dtype == np.int32
    assert (micro.rows, micro.owned_rows) == (4, 4)


def test_positions_count_from_the_segment_and_a_cut_hides_no_label() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=2), window=6, model=TINY, strategy="plain")
    steps = [next(iter(eq.StepSampler([4, 8], inputs, replica=r, shuffle=False))) for r in (0, 1)]
    first, second = (step.micro_steps[0] for step in steps)
    assert first.documents.tolist() == [0, 0, 0, 0, 1, 1]
    assert first.label_tokens.tolist() == [1, 2, 3, -1, 1, 2]
    assert second.tokens.tolist() == [2, 3, 4, 5, 6, 7]
    assert second.positions.tolist() == [0, 1, 2, 3, 0, 1]  # split at the window of 6, so the end is a segment
    assert second.label_tokens.tolist() == [3, 4, 5, 6, 7, -1]


def test_padding_rows_load_nothing_and_have_no_label() -> None:
    inputs = eq.PlanInputs(window=8, model=TINY, align=4)
    [step] = eq.StepSampler([5], inputs)
    micro = step.micro_steps[0]
    assert (micro.rows, micro.owned_rows) == (8, 5)
    assert micro.documents[5:].tolist() == [-1] * 3
    assert micro.tokens[5:].tolist() == micro.positions[5:].tolist() == [0] * 3
    assert micro.label_tokens[5:].tolist() == [-1] * 3


@pytest.mark.parametrize(("cp", "tp", "total"), [(2, 4, 8), (3, 2, 6), (8, 8, 64)])
def test_case_p10_tensor_parallel_ranks_get_rows_that_they_can_share(cp: int, tp: int, total: int) -> None:
    for strategy in ("plain", "allgather", "ulysses", "wlb", "libra", "equipoise"):
        inputs = eq.PlanInputs(mesh=eq.Mesh(cp=cp, tp=tp), window=256, model=TINY, strategy=strategy)
        lengths = [25, 7, 100, 60, 3, 250, 1, 33]
        ranks = [list(eq.StepSampler(lengths, inputs, cp_rank=rank)) for rank in range(cp)]
        for steps in zip(*ranks, strict=True):
            micros = [step.micro_steps[0] for step in steps]
            rows, owned = [micro.rows for micro in micros], sum(micro.owned_rows for micro in micros)
            assert sum(rows) <= inputs.max_tokens
            if strategy == "plain":  # zigzag over the whole sequence
                assert rows == [-(-owned // total) * total // cp] * cp
            else:
                assert all(count % tp == 0 for count in rows)


def test_cases_a6_positions_of_both_zigzags() -> None:
    for strategy, right in (("plain", ([0, 1, 2, 3], [2, 3, 0, 1])), ("allgather", ([0, 3, 0, 3], [1, 2, 1, 2]))):
        inputs = eq.PlanInputs(mesh=eq.Mesh(cp=2), window=8, model=TINY, strategy=strategy)
        for cp_rank in (0, 1):
            [step] = eq.StepSampler([4, 4], inputs, cp_rank=cp_rank)
            assert step.micro_steps[0].positions.tolist() == right[cp_rank]


def test_an_empty_sequence_has_no_rows_and_a_program() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=2), window=8, model=TINY)
    steps = [next(iter(eq.StepSampler([5], inputs, replica=r))) for r in (0, 1)]
    rows = [step.micro_steps[0].rows for step in steps]
    assert sorted(rows) == [0, 5]
    assert all(len(step.micro_steps[0].exchange().program) > 0 for step in steps)


def test_exchanges_and_loads_agree() -> None:
    inputs = inputs_for(strategy="libra", masks=[eq.Mask(layers=2), eq.Mask("sliding_window", 64, 1)])
    by_rank = [next(iter(eq.StepSampler(LENGTHS, inputs, replica=r, cp_rank=c))) for r in (0, 1) for c in (0, 1)]
    for index in range(inputs.micro_steps):
        micros = [step.micro_steps[index] for step in by_rank]
        for mask in (0, 1):
            loads, home = micros[0].loads(mask), micros[0].home_loads(mask)
            assert len(loads) == len(home) == 4
            assert sum(load["pairs"] for load in loads) == sum(load["pairs"] for load in home) > 0
            exchanges = [micro.exchange(mask) for micro in micros]
            assert [e.sent_bytes for e in exchanges] == [load["sent_bytes"] for load in loads]
            assert sum(e.sent_bytes for e in exchanges) == sum(e.received_bytes for e in exchanges)
            assert len({e.rounds for e in exchanges}) == 1
            assert all(e.program.dtype == np.int64 for e in exchanges)
    busiest = max(load["attention_ns"][0] for load in micros[0].loads())
    assert busiest <= max(load["attention_ns"][0] for load in micros[0].home_loads())


def test_a_drawing_holds_the_sequences_and_tiles_of_the_pool() -> None:
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=2), window=16384, model=TINY, strategy="libra")
    [step] = eq.StepSampler([16384, *[256] * 64], inputs, replica=1, shuffle=False)
    drawing = step.micro_steps[0].drawing()
    assert sorted(len(segments) for segments in drawing["sequences"]) == [1, 64]
    assert drawing["tiles"]
    assert all(len(tile) == 9 and tile[0] == 0 for tile in drawing["tiles"])
    json.dumps(drawing)


def test_a_step_says_how_level_it_is_and_what_it_does_not_train() -> None:
    inputs = inputs_for(overlong="truncate")
    steps = list(eq.StepSampler(LENGTHS, inputs, replica=0, cp_rank=0, shuffle=False))
    assert [step.step for step in steps] == list(range(len(steps)))
    assert [301, 5000 - 512] in [row for step in steps for row in step.untrained["truncated"]]
    for step in steps:
        assert set(step.balance) == {"micro_batches", "pools"}
        assert step.balance["pools"]["imbalance_ppm"] >= step.balance["pools"]["lower_bound_ppm"] >= 1_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replica": 4}, "replica 4 is outside of the mesh, field replica: give a value from 0 to 3"),
        ({"cp_rank": -1}, "cp_rank -1 is outside of the mesh, field cp_rank: "),
        ({"seed": "x"}, "seed 'x' is not an integer of 64 bits, field seed: "),
        ({"epoch": -1}, "epoch -1 is out of range, field epoch: "),
        ({"lengths": [3, -5]}, "length -5 is negative, document 1: give lengths of at least 0 tokens"),
        ({"lengths": [2**41]}, "length 2199023255552 is absurd, document 0: "),
        ({"lengths": [1.5]}, "lengths of shape (1,) and type float64, field lengths: "),
        ({"lengths": [[1], [2]]}, "lengths of shape (2, 1) and type int64, field lengths: "),
        ({"lengths": ["a"]}, "field lengths: give whole numbers, one a document"),
        ({"loss_tokens": [1]}, "1 loss_tokens for 302 documents, field loss_tokens: "),
        ({"lengths": [5], "loss_tokens": [6]}, "loss_tokens 6 is not within its length of 5, document 0: "),
    ],
)
def test_wrong_arguments_are_value_errors(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:
        eq.StepSampler(**({"lengths": LENGTHS, "inputs": inputs_for()} | arguments))
    assert message in str(error.value)


@pytest.mark.parametrize("inputs", [5, None, "plain"])
def test_what_is_no_inputs_is_refused(inputs) -> None:
    with pytest.raises(ValueError, match=f"inputs {inputs!r} are no PlanInputs, field inputs: "):
        eq.StepSampler(LENGTHS, inputs)


@pytest.mark.parametrize("state", [5, "x", []])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(ValueError, match="is no state, sampler state: give the state_after of a step, or None"):
        eq.StepSampler(LENGTHS, inputs_for(), state=state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"held": [[1, 2, 3]]},
            "state.held has the row [1, 2, 3], sampler state: give rows of document, first token, ",
        ),
        ({"held": 5}, "state.held 5 is no sequence, field state.held: "),
        ({"held": [5]}, "state.held 5 is no sequence, field state.held: "),
        ({"step": 2**63 - 1}, "step 9223372036854775807 is absurd, sampler state: "),
        ({"step": -1}, "step -1 is absurd, sampler state: "),
        ({"position": "x"}, "state.position 'x' is not an integer of 64 bits, "),
    ],
)
def test_a_broken_state_says_what_is_broken(change: dict, message: str) -> None:
    state = next(iter(eq.StepSampler(LENGTHS, inputs_for()))).state_after
    with pytest.raises(ValueError) as error:
        next(iter(eq.StepSampler(LENGTHS, inputs_for(), state=state | change)))
    assert message in str(error.value)
    with pytest.raises(ValueError, match="it lacks step, sampler state: "):
        eq.StepSampler(LENGTHS, inputs_for(), state={n: v for n, v in state.items() if n != "step"})


def test_an_overlong_document_under_policy_error_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"length 5000 is above the window of 512 tokens, document 301"):
        eq.StepSampler([1] * 301 + [5000], inputs_for(overlong="error"))


def test_no_documents_give_no_steps() -> None:
    assert list(eq.StepSampler([], inputs_for())) == []
    [step] = eq.StepSampler([0, 0], inputs_for())
    assert step.loss_tokens == 0


def test_documents_may_carry_their_own_targets() -> None:
    inputs = inputs_for(strategy="plain")
    [step] = eq.StepSampler([10, 20], inputs, loss_tokens=[3, 7])
    assert step.loss_tokens == 10


def test_an_unknown_mask_is_an_error() -> None:
    step = next(iter(eq.StepSampler(LENGTHS, inputs_for())))
    for micro in (step.micro_steps[0], pickle.loads(pickle.dumps(step)).micro_steps[0]):
        with pytest.raises(IndexError, match="there is no mask 1"):
            micro.exchange(mask=1)
        for mask in (None, "a", 0.5):
            with pytest.raises(ValueError, match=f"mask {mask!r} is not an integer of 64 bits, field mask: "):
                micro.exchange(mask)


def test_a_step_is_the_same_after_pickling() -> None:
    for step in eq.StepSampler(LENGTHS, inputs_for(), replica=1, cp_rank=1):
        copy = pickle.loads(pickle.dumps(step))
        assert as_bytes(copy) == as_bytes(step)
        assert copy.micro_steps[0].drawing() == step.micro_steps[0].drawing()


def test_the_hash_covers_inputs_and_lengths() -> None:
    sampler = eq.StepSampler(LENGTHS, inputs_for())
    assert sampler.hash == eq.StepSampler(LENGTHS, inputs_for(), replica=2).hash
    for other in (
        eq.StepSampler(LENGTHS, inputs_for(), seed=1),
        eq.StepSampler(LENGTHS, inputs_for(), epoch=1),
        eq.StepSampler(LENGTHS, inputs_for(window=513)),
        eq.StepSampler([*LENGTHS[:-1], 4999], inputs_for()),
        eq.StepSampler([*LENGTHS, 1], inputs_for()),
    ):
        assert other.hash != sampler.hash
