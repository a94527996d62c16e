"""The answer, from made-up scores: what is recommended, in which words, with which signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.comparison.answer import (
    bootstrap_texts,
    groups_texts,
    headline,
    hidden_texts,
    points,
    same_texts,
    verdict,
    why,
)
from chunked_td.comparison.arms import ERRORS, FIXED, LEARNED, PLANS, RANDOM, Candidate
from chunked_td.comparison.facts import Facts
from chunked_td.comparison.page import cells, render, text
from chunked_td.comparison.picture import TOP, apart, ranked, ranking_figure
from chunked_td.comparison.ranking import LEAST
from chunked_td.comparison.results import Comparison, Outcome, merged
from chunked_td.comparison.settings import Settings
from chunked_td.statistics import Estimate

FACTS = Facts(length=20.0, paid=0.05, last=1.0, chance=0.3, back=0.0, legal=1.5, n_actions=2, hidden="")
RULES = ("0", "0.9", "forward", "value", "0.9+expected-error", "dyna")
LEVELS = {"0": 2.0, "0.9": 4.0, "forward": 5.0, "value": 1.0, "0.9+expected-error": 3.0, "dyna": 9.0}


def made_up(arm: Candidate, scores: np.ndarray, sizes: Sequence[float] = (0.2,), lambdas: float = 0.5) -> Outcome:
    """An arm with these scores, by step size and seed; −∞ if a run diverged."""
    scores = np.atleast_2d(scores)
    lost = np.isneginf(scores)
    returns = np.where(lost, np.nan, scores)[..., None]
    return Outcome(arm, np.array(sizes), np.array([1]), returns, np.full_like(returns, lambdas), lost)


def compared(scores: Sequence[tuple[Candidate, np.ndarray]], random: float = -100.0, **more) -> Comparison:
    """Made-up scores, one checkpoint per run."""
    outcomes = [made_up(arm, row) for arm, row in scores]
    seeds = outcomes[0].scores.size
    bootstraps = tuple(dict.fromkeys(arm.bootstrap for arm, _ in scores))
    settings = Settings("FrozenLake-v1", episodes=1, seeds=seeds, bootstraps=bootstraps)
    lost = made_up(Candidate("sarsa", RANDOM), random + 0.01 * np.arange(seeds))
    return Comparison(settings, merged(outcomes), lost, **{"looks": 1, "facts": FACTS, "how": "made up", **more})


def arms(*rules: str, bootstrap: str = "expected_sarsa") -> list[Candidate]:
    return [Candidate(bootstrap, rule) for rule in rules]


def leveled(levels: dict[str, float], noise: float = 0.2, seeds: int = 20, **more) -> Comparison:
    rng = np.random.default_rng(3)
    scores = [(arm, levels[arm.rule] + noise * rng.normal(size=seeds)) for arm in arms(*levels)]
    return compared(scores, **more)


def by_rule(found: Comparison, rule: str):
    return next(row for row in (*found.rows, *found.planning) if row.arm.rule == rule)


def test_kinds_of_arms():
    assert [arm.kind for arm in arms(*RULES)] == [FIXED, FIXED, LEARNED, LEARNED, ERRORS, PLANS]
    assert [Candidate("q_learning", "0.9").made[0], Candidate("sarsa", "lineage").made[1]["view"]] == [
        ctd.WatkinsLambda(0.9),
        ctd.Lineage(),
    ]
    assert "model" in by_rule(leveled(LEVELS), "0.9+expected-error").arm.note
    assert "plans" in by_rule(leveled(LEVELS), "dyna").arm.note


def test_a_learned_lambda_that_is_better_is_recommended_with_its_lead_and_planning():
    found = leveled(LEVELS)
    used, fixed, planned = by_rule(found, "forward"), by_rule(found, "0.9"), by_rule(found, "dyna")
    assert found.recommended is used
    said = headline(found)
    assert said.startswith(f"Use {used.arm.label} (")
    assert f"better than the best fixed λ, λ = 0.9, by {found.lead(used, fixed).span()}" in said
    assert f"planning (Dyna) is better by {found.lead(planned, used).span()}" in said
    assert found.lead(used, fixed).low > 0
    assert {verdict(found, row) for row in found.rows} == {"use this", "worse"}
    assert verdict(found, planned) == "better"
    assert found.planning == [planned]


@pytest.mark.parametrize("lead", [0.0, -5.0])
def test_nothing_better_means_the_simplest(lead):
    """The best fixed λ, though a learned one may have a higher mean: then it is named, with an interval around 0."""
    rng = np.random.default_rng(0)
    found = compared([(arm, lead * (arm.kind == LEARNED) + rng.normal(size=10)) for arm in arms("0", "0.9", "forward")])
    used, said = found.recommended, headline(found)
    assert used is found.best_fixed
    assert said.startswith("No λ is clearly better")
    best = found.rows[0]
    if best is not used:
        assert f"Take the simplest, {used.arm.label}" in said
        assert f"{best.arm.label} may be better by {found.lead(best, used).span()}" in said
        assert found.lead(best, used).value > 0 > found.lead(best, used).low
    else:
        behind = found.lead(used, found.rows[1])
        assert f"is behind by {behind.span()}" in said
        assert behind.value > 0


def test_the_words_of_the_issue():
    """No λ is clearly better; the simplest; what may be better; what is."""
    rng = np.random.default_rng(1)
    levels = {"0.5": 0.22, "greedy": 0.25, "dyna": 0.4}
    found = compared([(arm, levels[arm.rule] + 0.08 * rng.normal(size=40)) for arm in arms(*levels)])
    said = headline(found)
    assert said.startswith("No λ is clearly better (40 seeds). Take the simplest, λ = 0.5 (0.2")
    assert "; λ-greedy may be better by 0.0" in said
    assert "; planning (Dyna) is better by 0." in said


def test_a_fixed_lambda_that_beats_all_others_is_said_to():
    found = leveled({"0": 1.0, "0.9": 5.0, "forward": 3.0, "dyna": 2.0})
    assert headline(found).startswith("Use λ = 0.9 (")
    assert f"the next by {found.lead(by_rule(found, '0.9'), by_rule(found, 'forward')).span()}" in headline(found)
    assert "planning" not in headline(found)


def test_the_simpler_of_two_that_are_better_is_recommended_unless_the_other_is_better_still():
    levels = {"0": 1.0, "forward": 3.0, "0.9+expected-error": 3.02}
    found = leveled(levels)
    assert found.recommended is by_rule(found, "forward")
    better = leveled({**levels, "0.9+expected-error": 6.0})
    assert better.recommended is by_rule(better, "0.9+expected-error")


def test_a_learned_lambda_is_recommended_only_if_it_is_shown_to_be_better():
    """Not shown to be worse is not equivalent: what has the higher mean is inconclusive, and said to be."""
    rng = np.random.default_rng(0)
    levels = {"0": (9.7, 1.0), "0.9": (9.7, 1.0), "forward": (10.0, 0.01), "value": (0.0, 0.01)}
    rows = [(arm, levels[arm.rule]) for arm in arms(*levels)]
    found = compared([(arm, mean + spread * rng.permutation(np.linspace(-1, 1, 20))) for arm, (mean, spread) in rows])
    assert found.recommended is not None
    assert (found.recommended.arm.kind, found.rows[0].arm.rule) == (FIXED, "forward")
    assert verdict(found, found.rows[0]) == "inconclusive"


def test_equivalent_arms_are_called_that():
    rng = np.random.default_rng(0)
    levels = {"0": 9.97, "forward": 10.0, "value": 0.0}
    found = compared([(arm, levels[arm.rule] + 0.1 * rng.normal(size=20)) for arm in arms(*levels)])
    assert found.recommended is by_rule(found, "0")
    assert [verdict(found, row) for row in found.rows] == ["equivalent", "use this", "worse"]


@pytest.mark.parametrize(
    ("levels", "reasons"), [((1.0, 2.0, 2.0), "late"), ((2.0, 2.0, 1.0), "random"), ((1.0, 3.0, 1.0), "both")]
)
def test_the_reason_names_what_fits_the_fixed_lambda_that_loses(levels, reasons):
    rng = np.random.default_rng(0)
    scores = [
        (arm, level + 0.05 * rng.normal(size=20)) for arm, level in zip(arms("0", "0.5", "1"), levels, strict=True)
    ]
    said = " ".join(why(compared(scores, random=0.0)))
    assert (FACTS.late in said) == (reasons in ("late", "both"))
    assert (FACTS.random in said) == (reasons in ("random", "both"))


def test_if_a_learned_lambda_wins_only_the_worse_end_of_the_fixed_ones_has_a_cause():
    rng = np.random.default_rng(0)
    scores = [(arm, k + 0.05 * rng.normal(size=20)) for k, arm in enumerate(arms("0", "1", "forward"))]
    said = " ".join(why(compared(scores, random=-1.0)))
    assert FACTS.late in said
    assert FACTS.random not in said


def test_one_fixed_lambda_is_neither_the_lowest_nor_the_highest():
    """Late rewards are a reason against λ = 0, not against the only fixed λ there is, which is 1 here."""
    rng = np.random.default_rng(0)
    scores = [
        (arm, level + 0.05 * rng.normal(size=20)) for arm, level in zip(arms("1", "forward"), (1, 2), strict=True)
    ]
    said = " ".join(why(compared(scores, random=0.0)))
    assert said == ""  # by how much it is worse stands in the headline


def test_if_nothing_beats_acting_at_random_nothing_is_recommended():
    rng = np.random.default_rng(0)
    scores = [(arm, rng.normal(size=10)) for arm in arms(*RULES)]
    for random in (0.0, 5.0):
        nothing = compared(scores, random=random)
        assert nothing.recommended is None
        assert headline(nothing).startswith("Nothing to recommend: no learner is shown to beat acting at random")
        assert {verdict(nothing, row) for row in nothing.rows} == {""}
        assert nothing.python is nothing.command is None
        assert "Train it" not in text(nothing)
    assert compared(scores, random=-50.0).recommended is not None


def test_what_does_not_beat_random_is_not_recommended_though_others_do():
    """The fixed λs have learned nothing; one learned λ has, and only it may be named."""
    found = leveled({"0": 0.1, "0.9": 0.1, "forward": 5.0}, random=0.0)
    assert found.recommended is by_rule(found, "forward")
    rng = np.random.default_rng(0)
    scores = [(arm, (arm.kind == LEARNED) + (5.0 if arm.kind == FIXED else 0.1) * rng.normal(size=10))
              for arm in arms("0", "0.9", "forward")]  # fmt: skip
    shy = compared(scores, random=0.0)
    assert not shy.beats_random(by_rule(shy, "0"))
    assert shy.recommended is by_rule(shy, "forward")
    assert "no fixed λ is shown to beat acting at random; this does" in headline(shy)
    plans = leveled({"0": 0.0, "forward": 0.0, "dyna": 9.0}, random=0.0)
    assert plans.recommended is by_rule(plans, "dyna")
    assert "only planning beats acting at random" in headline(plans)


def test_the_same_return_everywhere_is_no_answer():
    same = compared([(arm, np.ones(10)) for arm in arms("0", "0.9")], random=1.0)
    assert "same return" in headline(replace(same, random=made_up(Candidate("sarsa", RANDOM), np.ones(10))))


def test_too_few_seeds_are_said_and_give_no_interval_anywhere():
    found = leveled(LEVELS, seeds=LEAST - 1)
    assert headline(found).startswith(f"No verdict: {LEAST - 1} seeds are too few; {LEAST} is the minimum")
    assert found.recommended is None
    assert all(cell not in " ".join(cells(found, row)) for row in found.rows for cell in ("nan", "inf", " to "))
    ranking_figure(found)
    assert "nan" not in text(found)


def test_arms_with_the_same_runs_are_one_row_with_the_reason():
    rng = np.random.default_rng(0)
    ones, other = rng.normal(size=10), rng.normal(size=10) - 9.0
    sure_world = replace(FACTS, chance=0.0)
    outcomes = [made_up(arm, ones, lambdas=1.0) for arm in arms("1", "forward", "expected")]
    outcomes += [made_up(arm, other, lambdas=0.9) for arm in arms("0.9", "0.9+expected-error")]
    outcomes.append(made_up(Candidate("expected_sarsa", "dyna"), ones + 1.0))
    found = replace(compared([(Candidate("sarsa", "0"), ones)]), outcomes=merged(outcomes), facts=sure_world)
    assert [row.arm.rule for row in found.rows] == ["1", "0.9"]
    assert found.family.ranked == 3  # fewer pairs, narrower intervals
    first, second = same_texts(found)
    assert "your world is deterministic: every learned λ is 1" in first
    assert "expected TD error is the TD error" in second
    assert "Chunked (the paper)" in cells(found, found.rows[0])[-1]
    noisy = replace(found, facts=FACTS)
    assert not any("deterministic" in line for line in same_texts(noisy))


def test_the_same_total_is_not_the_same_runs():
    scores = np.arange(12.0).reshape(1, 6, 2)
    one, other = (
        Outcome(arm, np.array([0.2]), np.array([1, 2]), returns, np.zeros_like(returns), np.zeros((1, 6), bool))
        for arm, returns in zip(arms("0", "0.9"), (scores, scores[..., ::-1]), strict=True)
    )
    assert np.array_equal(one.all_scores, other.all_scores)
    assert len(merged([one, other])) == 2
    assert len(merged([one, replace(other, mean_return=scores)])) == 1


def test_runs_that_diverged_in_both_may_do_so_in_different_numbers():
    """Rounding grows without bound there: on a cliff λ = 0.9 with and without expected TD errors were two rows."""
    scores = np.arange(24.0).reshape(2, 6, 2)
    lost = np.array([[False] * 6, [True] * 6])
    one, other = (Outcome(arm, np.array([0.2, 0.8]), np.array([1, 2]), scores.copy(), scores, lost)
                  for arm in arms("0.9", "0.9+expected-error"))  # fmt: skip
    other.mean_return[1] *= 1.5
    assert len(merged([one, other])) == 1
    assert len(merged([one, replace(other, lost=~lost)])) == 2
    other.mean_return[0, 3] += 1.0
    assert len(merged([one, other])) == 2


def test_a_reason_does_not_repeat_the_headline():
    """The headline has the lead over the best fixed λ; without a cause there is nothing to add."""
    rng = np.random.default_rng(0)
    levels = {"0": 2.0, "1": 1.0, "forward": 5.0}
    found = compared([(arm, levels[arm.rule] + 0.1 * rng.normal(size=20)) for arm in arms(*levels)])
    assert [line.partition(" earns")[0] for line in why(found)] == ["λ = 1"]


def test_planning_that_may_be_better_by_next_to_nothing_is_not_mentioned():
    rng = np.random.default_rng(0)
    levels = {"0": 0.0, "0.9": 10.0, "dyna": 10.01}
    noise = [rng.permutation(np.linspace(-1, 1, 40)) for _ in levels]
    found = compared([(arm, levels[arm.rule] + shape) for arm, shape in zip(arms(*levels), noise, strict=True)])
    lead = found.lead(by_rule(found, "dyna"), by_rule(found, "0.9"))
    assert 0 < lead.value < found.family.close
    assert not lead.shown
    assert "planning" not in headline(found)


def test_a_long_name_hides_no_difference(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    found = leveled({**LEVELS, "lineage+expected-error": 8.0})
    assert found.recommended is by_rule(found, "lineage+expected-error")
    assert "minus the first" in text(found)
    assert cells(found, found.rows[-1])[3] in text(found)
    assert "minus the first</th>" in render(found, "", "")


def test_a_hidden_state_is_named_with_a_command_that_keeps_the_options():
    import shlex

    import tyro

    from chunked_td.cli.compare import Compare

    settings = Settings(
        "ChunkedTD/TMaze-v0", episodes=200, seeds=8, lambdas=(0.0, 0.9), sources=("forward", "0.9+expected-error"),
        bootstraps=("sarsa", "q_learning"), step_sizes=(0.1, 0.3), extend=1, discount=0.9, max_steps=70, bonus=0.5,
        epsilon=ctd.linear(1.0, 0.1, 50), initial_value=1.5, env_settings={"corridor": 4, "hidden": True},
        wrappers=("gymnasium.wrappers:RecordEpisodeStatistics",), action_mask=False, indexer="hash", compiled=False,
        step_size_schedule=ctd.linear(1.0, 0.5, 30), reward_weights=(2.0,),
    )  # fmt: skip
    found = replace(leveled(LEVELS), settings=settings, facts=replace(FACTS, hidden="the same looks different"))
    first, second = hidden_texts(found)
    assert "Observations hide the state" in first
    assert "the same looks different" in first
    words = shlex.split(second.partition(": ")[2])
    parsed = tyro.cli(Compare, args=words[2:])
    again = Settings(parsed.env, **parsed.settings())
    assert again == replace(settings, wrappers=(*settings.wrappers, "chunked_td.envs:KeptPercepts"))
    (still,) = hidden_texts(replace(found, settings=again))  # it has the memory already
    assert still.startswith("With the percept memory, observations still hide a part of the state: the same looks")
    assert text(found).startswith("Observations hide the state")
    assert hidden_texts(leveled(LEVELS)) == []


def test_bootstraps_are_named_and_compared_if_there_are_two():
    rng = np.random.default_rng(0)
    scores = [
        (Candidate(bootstrap, rule), 3.0 * (bootstrap == "sarsa") + rng.normal(size=20))
        for bootstrap in ("sarsa", "expected_sarsa") for rule in ("0", "0.9")
    ]  # fmt: skip
    found = compared(scores)
    assert found.recommended is not None
    assert found.recommended.arm.bootstrap == "sarsa"
    assert "λ = 0 (SARSA)" in {found.name(row.arm) for row in found.rows}
    (said,) = bootstrap_texts(found)
    assert said.startswith("SARSA is better than Expected-SARSA by")
    assert said in points(found)


def test_runs_that_fall_into_two_groups_are_said():
    split, noise = np.where(np.arange(10) < 3, 0.0, 1.0), 0.001 * np.arange(10)
    two, one = (
        compared([(arm, k + shape + noise) for k, arm in enumerate(arms("0", "0.9"))]) for shape in (split, 0.0)
    )
    assert "3 of 10 near 1.0, 7 of 10 near 2.0" in groups_texts(two)[0]
    assert groups_texts(one) == []


def test_diverged_arms_are_listed_and_not_ranked():
    rng = np.random.default_rng(0)
    found = compared([(arms("0")[0], rng.normal(size=8)), (arms("1")[0], np.full(8, -np.inf))])
    assert [row.arm.rule for row in found.rows] == ["0"]
    assert any(line.startswith("Not ranked, diverged: λ = 1 at α = 0.2 (8 of 8 runs)") for line in points(found))
    none = compared([(arm, np.full(8, -np.inf)) for arm in arms("0", "1")])
    assert headline(none).startswith("No answer: every learner diverged")
    assert "diverged" in text(none)


def outcome(means: dict[float, float], diverged: tuple[float, ...] = ()) -> Outcome:
    scores = np.repeat([[-np.inf if size in diverged else mean] for size, mean in means.items()], 4, axis=1)
    return made_up(Candidate("sarsa", "0.5"), scores, tuple(means))


def test_a_grid_extends_itself_at_the_edge_that_is_best():
    assert outcome({0.1: 1, 0.2: 2, 0.4: 1}).at_edge == (False, False)
    assert outcome({0.1: 1, 0.2: 2, 0.4: 3}).at_edge == (False, True)
    assert outcome({0.1: 3, 0.2: 2, 0.4: 1}).at_edge == (True, False)
    assert outcome({0.5: 1, 1.0: 3}).at_edge == (False, False)  # no further than 1
    assert outcome({0.1: 2, 0.2: 2, 0.4: 2}).at_edge == (False, False)  # ties are no reason
    assert outcome({0.1: 0, 0.2: 0}, diverged=(0.1, 0.2)).at_edge == (True, False)
    sizes, grid = Settings("x", step_sizes=(0.1, 0.2, 0.8), extend=2).ladder
    assert sizes == pytest.approx((0.025, 0.05, 0.1, 0.2, 0.8, 1.0))
    assert [sizes[place] for place in grid] == [0.1, 0.2, 0.8]
    assert Settings("x", step_sizes=(0.5,), extend=1).ladder == ((0.25, 0.5, 1.0), (1,))


def test_signs_are_those_that_a_reader_expects():
    """In the table, what is better than the recommended learner has a plus, what is worse a minus."""
    found = leveled(LEVELS)
    at = {row.arm.rule: cells(found, row)[3] for row in (*found.rows, *found.planning)}
    assert at["dyna"].startswith("+4.")
    assert at["value"].startswith("−4.")
    assert at["forward"] == ""


def test_a_difference_that_is_shown_does_not_end_at_a_rounded_zero():
    """Else a reader sees "worse" beside an interval that seems to touch 0."""
    worse = Estimate(-0.058, -0.112, -0.004)
    assert worse.span("+") == "−0.058 (−0.112 to −0.004)"
    assert (-worse).span() == "0.058 (0.004 to 0.112)"
    assert Estimate(0.3, 0.2, 0.4).span("+") == "+0.30 (+0.20 to +0.40)"
    assert Estimate(-0.004, -0.05, 0.06).span("+") == "−0.004 (−0.050 to +0.060)"
    assert Estimate(0.0, -0.05, 0.06).span() == "0.00 (−0.05 to 0.06)"


def test_a_mask_that_leaves_every_action_is_not_mentioned():
    assert not replace(FACTS, legal=2.0).masked
    assert FACTS.masked.startswith("1.5 of 2 actions")


def test_the_table_and_the_picture_have_ten_rows_and_the_rest_is_folded():
    rng = np.random.default_rng(0)
    values = [f"{k / 20:g}" for k in range(1, 18)]
    found = compared([(arm, float(arm.rule) + 0.01 * rng.normal(size=8)) for arm in arms(*values)])
    page = render(found, "<svg ></svg>", "")
    first, rest = page.index("<table"), page.index("The other 7 learners")
    assert page[first:rest].count("<tr ") == TOP + len(apart(found))
    assert page[rest:].partition("</details>")[0].count("<tr ") == len(values) - TOP
    assert len(ranking_figure(found).axes[0].get_yticks()) == TOP + len(apart(found))
    assert ranked(found)[0] is found.recommended
    assert "7 more in compare.html" in text(found)


def test_the_picture_shows_the_intervals_that_verdicts_are_made_by():
    found = leveled(LEVELS)
    axes = ranking_figure(found).axes[0]
    spans = {tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2}
    for row in found.rows:
        if row is not found.recommended:
            lead = found.lead(row, found.recommended)
            assert (lead.low, lead.high) in spans


def test_acting_at_random_far_away_does_not_squeeze_the_picture():
    near, far = (leveled(LEVELS, random=where) for where in (-1.0, -1e3))
    assert far.family.close == near.family.close
    low = [ranking_figure(found).axes[0].get_xlim()[0] for found in (near, far)]
    assert low[0] < -6.0
    assert low[1] > -10.0


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_narrow_terminal_breaks_no_number(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    found = leveled(LEVELS)
    shown = text(found).partition("Train it")[0]
    assert max(map(len, shown.splitlines())) <= width
    for row in found.rows:
        assert cells(found, row)[2] in shown.split()
    assert width < 64 or len(shown.splitlines()) <= 38
