"""The token study: tasks by hand, the transformer with and without its cache, verdicts on made-up scores."""

from __future__ import annotations

import inspect

import numpy as np
import polars as pl
import pytest

from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN
from studies.tokens import study
from studies.tokens.arms import CONFIRMED, FIXED, SINGLE, SOURCES
from studies.tokens.judging import Judged, loaded

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("name", ["forced", "random", "two-lengths", "parity"])
def test_rewards_by_hand(name):
    from studies.tokens import tasks

    task = tasks.TASKS[name]
    layout = tasks.make_layout(task, seed=1)
    prompts = tasks.draw_prompts(layout, jax.random.key(2), 5)
    tokens = np.asarray(tasks.demonstrate(task, layout, prompts, jax.random.key(3)))
    found = np.asarray(tasks.rewards_of(task, layout, prompts, tokens))
    for b in range(5):
        code = int(prompts.codes[b])
        places = [t for t in range(tokens.shape[1]) if layout.kinds[code, t] == tasks.DECISION]
        assert len(places) == tasks.DECISIONS
        assert max(places) < task.lengths[code]
        right = sum(tokens[b, t] == layout.right[prompts.symbols[b, k]] for k, t in enumerate(places))
        assert found[b] == (float(right % 2 == 0) if task.parity else right / tasks.DECISIONS)
        forced = [t for t in range(tokens.shape[1]) if layout.kinds[code, t] == tasks.FORCED]
        assert all(tokens[b, t] == layout.forced[t] for t in forced)


def test_token_by_token_is_the_same_as_whole_sequences():

    from studies.tokens.learning import (
        TransformerShape,
        apply,
        empty_cache,
        make_transformer,
        read_token,
    )

    shape = TransformerShape(vocabulary=7, length=6, outputs=3, layers=2, width=8, heads=2)
    weights = make_transformer(shape, jax.random.key(0))
    weights["head"] = jax.random.normal(jax.random.key(1), weights["head"].shape)
    tokens = jax.random.randint(jax.random.key(2), (2, 6), 0, 7)
    whole, cache = apply(shape, weights, tokens), empty_cache(shape, 2)
    for place in range(6):
        cache, out = read_token(shape, weights, cache, tokens[:, place], place)
        np.testing.assert_allclose(out, whole[:, place], atol=1e-5)
    later = apply(shape, weights, tokens.at[:, 4].set(0))
    np.testing.assert_array_equal(later[:, :4], whole[:, :4])  # no look ahead


@pytest.mark.parametrize("name", ["two-lengths", "skilled-parity"])
def test_an_informed_critic_by_hand(name):
    """Values behind every prefix, against all ways to go on with a policy that is right in 0.7 of all decisions."""
    import itertools

    import jax.numpy as jnp

    from studies.tokens import tasks
    from studies.tokens.gate import Written
    from studies.tokens.training import informed_critic

    task, skill = tasks.TASKS[name], 0.7
    layout = tasks.make_layout(task, seed=1)
    prompts = tasks.draw_prompts(layout, jax.random.key(2), 4)
    tokens = tasks.demonstrate(task, layout, prompts, jax.random.key(3))
    right = tasks.right_answers(layout, prompts)
    is_right = jnp.arange(tasks.VOCABULARY) == right[..., None]
    logits = jnp.log(jnp.where(is_right, skill, (1 - skill) / (tasks.VOCABULARY - 1)))
    rewards = tasks.rewards_of(task, layout, prompts, tokens)
    said = informed_critic(task, layout, Written(prompts, tokens, tasks.mask_of(layout, prompts), rewards, logits))
    for b in range(4):
        code = int(prompts.codes[b])
        places = np.flatnonzero(np.asarray(layout.kinds[code]) == tasks.DECISION)
        made = np.asarray(tokens[b] == right[b])[places]
        for t in (0, *places, *(places + 1)):
            so_far = made[places < t]
            wanted = 0.0
            for rest in itertools.product((0, 1), repeat=tasks.DECISIONS - len(so_far)):
                number = so_far.sum() + sum(rest)
                reward = float(number % 2 == 0) if task.parity else number / tasks.DECISIONS
                wanted += reward * skill ** sum(rest) * (1 - skill) ** (len(rest) - sum(rest))
            value = said.values[b, t] if t < tokens.shape[1] else rewards[b]
            np.testing.assert_allclose(value, wanted, atol=1e-5)
        behind = said.token_values[b, places, tokens[b, places]]
        np.testing.assert_allclose(behind[:-1], said.values[b, places[:-1] + 1], atol=1e-6)
        np.testing.assert_allclose(behind[-1], rewards[b], atol=1e-6)


def test_permuted_lambdas_are_the_same_numbers_within_the_mask():
    import jax.numpy as jnp

    from studies.tokens.gate import permuted

    lambdas = jnp.arange(12.0).reshape(2, 6)
    mask = jnp.array([[True] * 6, [True] * 4 + [False] * 2])
    found = np.asarray(permuted(lambdas, mask, jax.random.key(0)))
    assert sorted(found[0]) == list(range(6))
    assert sorted(found[1, :4]) == [6.0, 7.0, 8.0, 9.0]


def test_verdicts():
    rng = np.random.default_rng(0)

    def gate(gain: float, order: float) -> Judged:
        scores = {arm: 0.1 + 0.001 * rng.normal(size=(1, 8)) for arm in (*FIXED, *SOURCES)}
        scores["expected"] = scores["expected"] + gain
        return Judged({"forced": scores}, {"forced": {**scores, "expected": scores["expected"] - order}})

    assert gate(0.1, 0.1).judge("forced", "expected") == HOLDS
    assert gate(0.1, -0.1).judge("forced", "expected") == IN_PART
    assert gate(-0.1, 0.1).judge("forced", "expected") == FAILS
    assert gate(0.0, 0.0).judge("forced", "expected") in (NOT_SHOWN, IN_PART)


def test_without_a_control_an_arm_holds_in_part_at_most():
    scores = {arm: np.full((3, 8), 0.1) for arm in (*FIXED, "vapo", "expected")}
    scores["vapo"] = scores["expected"] = np.linspace(0.2, 0.3, 8) + np.array([[0.0], [0.1], [0.0]])
    judged = Judged({"t": scores}, {"t": {"expected": np.full((3, 8), 0.1)}})
    assert judged.judge("t", "expected") == HOLDS
    assert judged.order("t", "vapo") is None
    assert judged.judge("t", "vapo") == IN_PART
    np.testing.assert_allclose(judged.mean("t", "vapo").value, 0.35)  # the step size that is best on the other half


def test_the_best_fixed_lambda_is_chosen_on_the_other_half():
    scores = {arm: np.zeros((1, 4)) for arm in (*FIXED, *SOURCES)}
    scores["0.5"] = np.array([[1.0, 0.0, 1.0, 0.0]])  # best on the even seeds only
    scores["0.9"] = np.array([[0.0, 1.0, 0.0, 1.0]])
    np.testing.assert_array_equal(Judged({"t": scores}, {}).best_fixed("t"), 0.0)


def test_what_was_confirmed_was_chosen_on_the_seeds_of_training():
    found = loaded(pl.read_parquet(study.HERE / "runs.parquet"))
    means = {
        name: {arm: x.mean(axis=1) for arm, x in found[critic].scores[task].items()}
        for name in CONFIRMED
        for critic, _, task in [name.partition("-")]
    }
    for name, tuned in CONFIRMED.items():
        size = {arm: int(x.argmax()) - 2 for arm, x in means[name].items()}  # exponents −2, −1, 0
        best = max(FIXED, key=lambda arm: means[name][arm].max())
        assert tuned == (size["explained"], (best, size[best]), size[SINGLE]), name
    assert max(FIXED, key=lambda arm: np.mean([x[arm].max() for x in means.values()])) == SINGLE


def test_one_lambda_for_all_critics_by_hand():
    claim = inspect.unwrap(study.unexplained_share)  # on scores in place of runs

    def verdict(gain: float, behind: float = 0.0) -> str:
        noise = np.random.default_rng(0).normal(size=(1, 20)) * 0.005
        scores = {
            name: {SINGLE: np.full((1, 20), 0.5), tuned.best[0]: np.full((1, 20), 0.5), "explained": 0.5 + gain + noise}
            for name, tuned in CONFIRMED.items()
        }
        scores["learned-forced"]["explained"] = scores["learned-forced"]["explained"] - behind
        return claim({"confirmed": Judged(scores, {})}).status

    assert verdict(0.01) == HOLDS
    assert verdict(0.0) == IN_PART  # as good as each, better than none
    assert verdict(0.02, behind=0.06) == IN_PART  # ahead on average, too far behind once
    assert verdict(-0.03) == FAILS
    assert claim({"confirmed": Judged({}, {})}).status == NOT_RUN


def test_it_runs_at_its_smallest_size():
    """The gate for two λs, and two policies that learn; arms begin alike: the same policy writes the same text."""
    gate = [study.gate(3e-4, 0, task="forced", arm=arm, size="smoke") for arm in ("0.95", "expected")]
    assert [len(found["score"]) for found in gate] == [2, 2]
    texts = [
        study.train(4e-3, 0, task="forced", critic="learned", arm=arm, size="smoke", updates=2)["score"]
        for arm in ("0.95", "expected-permuted")
    ]
    assert texts[0][0] == texts[1][0]
    assert study.trained_arms("learned").keys() > {"0.95", "expected-permuted", "mature-expected"}


@pytest.mark.long
def test_all_of_it_runs_at_its_smallest_size(tmp_path):
    table = study.runs(tmp_path, quick=True, quiet=True, jobs=1)
    stored = pl.read_parquet(study.HERE / "runs.parquet")
    assert set(table.columns) == set(stored.columns)
    assert {claim(table).status for claim in study.CLAIMS} == {"not run"}
    assert set(study.tables(table)) == {"learned", "informed", "gate"}


def test_the_example_of_the_page_runs():
    page = (study.HERE / "README.md").read_text(encoding="utf-8")
    found = {}
    exec(page.split("```python\n")[1].split("```")[0], found)
    assert found["advantages"].shape == (4, 20)
    assert 0.0 <= float(found["lambda_policy"]) <= 1.0
