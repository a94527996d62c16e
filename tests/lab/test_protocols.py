"""The experiments are what the paper says, and every one runs at its smoke size."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from chunked_td.lab.catalogue import catalogue, load_protocols
from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.batches import execute, scores_of
from chunked_td.lab.running.plan import SweepOptions, batches_of, make_plan, size_of
from chunked_td.lab.store.manifest import describe
from chunked_td.lab.store.settings import family_of
from chunked_td.learners.schedule import Schedule

PROTOCOLS = {protocol.id: protocol for protocol in load_protocols()}


def test_ids_are_those_of_the_catalogue():
    assert list(PROTOCOLS) == [study.id for study in catalogue().values() if not study.table]


def test_exploration_by_hand():
    def epsilons(exploration, episodes):
        return replace(PROTOCOLS["key-to-door"], exploration=exploration).epsilons(episodes)

    assert epsilons(Schedule(((0, 1.0), (2, 0.1)), hold=True), 4).tolist() == [1.0, 1.0, 0.1, 0.1]
    np.testing.assert_allclose(epsilons(Schedule(((0, 1.0), (2, 0.5))), 4), [1.0, 0.75, 0.5, 0.5])
    np.testing.assert_allclose(epsilons(Schedule(((0, 1.0), (1, 1.0), (3, 0.0))), 4), [1.0, 1.0, 0.5, 0.0])
    assert epsilons(0.1, 2).tolist() == [0.1, 0.1]


def test_best_possible_scores_follow_from_the_exploration_schemes():
    charge, door = PROTOCOLS["accumulated-charge"], PROTOCOLS["key-to-door"]
    epsilon = charge.epsilons(charge.episodes)
    assert np.sum(epsilon / 2) == pytest.approx(charge.best)
    epsilon = door.epsilons(door.episodes)
    assert np.sum(1 - (1 - epsilon / 2) ** 2) == pytest.approx(door.best, abs=0.5)


def test_grids_are_the_papers():
    chain, charge, door = (PROTOCOLS[name] for name in ("chain-and-split", "accumulated-charge", "key-to-door"))
    assert chain.exponents == tuple(range(-2, -14, -1))
    assert charge.exponents == (3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -10, -12)
    assert door.exponents == tuple(range(2, -10, -1))
    assert door.exponents_of(door.arm("c-factored")) == (2, 1, 0, -1, -2, -3)
    counts = [sum(arm.in_paper for arm in protocol.arms) for protocol in (chain, charge, door)]
    assert counts == [3, 13, 7]
    assert [protocol.seeds for protocol in (chain, charge, door)] == [10, 10, 10]
    assert 100_000 in chain.record_at(chain.episodes)
    assert chain.record_at(chain.episodes)[-1] == 1_000_000


def test_published_numbers_belong_to_arms_and_grids():
    for protocol in PROTOCOLS.values():
        for published in protocol.published:
            arm = protocol.arm(published.arm)
            assert published.source.startswith("Table")
            if published.quantity == "exponent":
                assert published.value in protocol.exponents_of(arm)
    numbers = describe(PROTOCOLS["key-to-door"]).published
    (paper,) = (number for number in numbers if (number.arm, number.quantity) == ("c-factored", "score"))
    assert (paper.value, paper.spread) == (669, 17)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    for protocol in PROTOCOLS.values():
        half = protocol.record_at(protocol.episodes // 2)
        assert set(half) <= set(protocol.record_at(protocol.episodes))
        short, long = (protocol.epsilons(n) for n in (50, 100))
        np.testing.assert_array_equal(short, long[:50])


@pytest.mark.parametrize("name", ["label", "note", "group"])
def test_texts_of_arms_that_no_file_can_hold_are_refused(name):
    arm = PROTOCOLS["key-to-door"].arms[0]
    with pytest.raises(ValueError, match=rf"{name} of arm '{arm.id}' must be text that UTF-8 can write, got .*ud800"):
        replace(arm, **{name: "half \ud800"})
    with pytest.raises(UsageError, match="title of protocol 'key-to-door' must be text"):
        replace(PROTOCOLS["key-to-door"], title="\ud800")


def test_settings_and_descriptions_are_plain():
    import json

    for protocol in PROTOCOLS.values():
        assert json.loads(json.dumps(describe(protocol).to_json()))["id"] == protocol.id
        families = [json.dumps(family_of(protocol, arm)) for arm in protocol.arms]
        assert len(set(families)) == len(families)


def test_the_mirrored_control_differs_in_the_mirror_alone():
    plain, mirrored = PROTOCOLS["accumulated-charge"], PROTOCOLS["accumulated-charge-mirrored"]
    assert mirrored.environment.arguments == {**plain.environment.arguments, "mirrored": True}
    assert [arm.id for arm in mirrored.arms] == [arm.id for arm in plain.arms]
    assert mirrored.exponents == plain.exponents


def test_profiles_size_the_arms():
    charge = PROTOCOLS["accumulated-charge"]
    network, fixed = charge.arm("chunked"), charge.arm("sarsa-0.9")
    assert size_of(charge, fixed, SweepOptions("quick")) == size_of(charge, fixed, SweepOptions("paper"))
    quick, paper = (size_of(charge, network, SweepOptions(profile)) for profile in ("quick", "paper"))
    assert quick is not None
    assert paper is not None
    assert quick.episodes < paper.episodes == 10_000
    widened = size_of(charge, fixed, SweepOptions("paper", seeds=100))
    assert widened is not None
    assert widened.seeds == 100
    assert len(batches_of(charge, fixed, widened)) == 10


def test_arms_are_chosen_by_id_pattern_and_group():
    door = [PROTOCOLS["key-to-door"]]

    def arms(*patterns, **more):
        options = SweepOptions("paper", arms=patterns, networks=False, **more)
        return [batch.arm.id for batch in make_plan(door, options).wanted]

    assert arms("expected-sarsa-0.?") == ["expected-sarsa-0.1", "expected-sarsa-0.5", "expected-sarsa-0.9"]
    assert arms("oracle") == ["c-default-oracle", "c-factored-oracle"]
    assert arms("paper") == [f"expected-sarsa-{value}" for value in ("0", "0.1", "0.5", "0.9", "1")]


def test_ids_are_checked(toy):
    with pytest.raises(UsageError, match="must differ"):
        replace(toy, arms=(toy.arms[0], toy.arms[0]))
    with pytest.raises(UsageError, match="letters"):
        replace(toy, id="a/b")


def smoke(protocol, arm):
    size = size_of(protocol, arm, SweepOptions("smoke"))
    (batch,) = batches_of(protocol, arm, size)
    columns = execute(batch, 1)
    assert {len(values) for values in columns.values()} == {batch.rows}
    assert np.isfinite(columns["score"]).all()
    return columns


@pytest.mark.parametrize("name", ["chain-and-split", "accumulated-charge", "key-to-door"])
def test_the_papers_first_arm_at_smoke_size(name):
    smoke(PROTOCOLS[name], PROTOCOLS[name].arms[0])


@pytest.mark.long
@pytest.mark.parametrize("name", list(catalogue()))
def test_every_arm_at_smoke_size(name):
    for arm in PROTOCOLS[name].arms:
        if arm.kind != "network":
            smoke(PROTOCOLS[name], arm)


def test_chain_and_split_scores_the_gap():
    from types import SimpleNamespace

    from chunked_td.lab.studies.chain_and_split.protocol import action_gap

    values = np.zeros((1, 1, 10))
    values[0, 0, :4] = 0.5, 0.25, -1.0, 0.375
    scores = action_gap(SimpleNamespace(probes_at=values), np.array([1]))
    assert scores["score"].tolist() == [[0.125]]
    assert scores["q_first"].tolist() == [[0.5]]


def test_a_run_that_diverged_has_the_worst_score():
    def scoring(runs, record_at):
        return {"score": runs.probes_at[..., 0], "mean_return": runs.returns_at}

    probes = np.array([[[0.5], [np.nan]], [[0.4], [0.4]], [[np.nan], [0.1]]])
    runs = SimpleNamespace(probes_at=probes, returns_at=probes[..., 0], diverged=np.array([150, -1, -1]))
    batch = SimpleNamespace(protocol=SimpleNamespace(scoring=scoring, id="toy"), record_at=(100, 200))
    found = scores_of(batch, runs)
    np.testing.assert_array_equal(found["score"], [[0.5, np.inf], [0.4, 0.4], [np.nan, 0.1]])
    np.testing.assert_array_equal(found["mean_return"], probes[..., 0])
