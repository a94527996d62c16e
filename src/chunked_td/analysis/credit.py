"""Where credit goes: λ, chunks, traces and updates of one episode, and λ over training, as data.

A TD error δ_t at step t changes the value of an earlier step k by α δ_t e_{k,t}, with the trace

    e_{k,t} = Π_{j=k+1..t} γ λ_j        (1 for k = t)

so credit reaches back as far as no λ_j in between is small. A small λ_j is where a chunk breaks. The update that step k
receives in an episode is Σ_{t≥k} α δ_t e_{k,t}, and all of them together are the change of the table. Lineage traces
are read off the learner: they belong to the latest visit of their row. With features, step k has its trace for itself,
though observations that share features share what is learned; replacing is not shown.

`explain` plays an episode with a copy of a learner, reads λ_t and δ_t off every update it makes, and divides the update
among the steps. `watch_training` trains a learner and keeps λ by state. Pictures and pages: `explained`.
"""

from __future__ import annotations

import copy
import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._checks import check_seed, check_whole
from chunked_td._files import write_atomically
from chunked_td._loading import require
from chunked_td.analysis.causes import AT, BREAK, StepFacts, certain_lambda
from chunked_td.bootstraps import STATE
from chunked_td.indexing.indexers import place_text
from chunked_td.lambdas.base import LambdaSource, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.learners.learner import Learner
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.loop import History, check_fits, leave_training, reset, step, train
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.traces import Trace

REACH = 0.1
"""Credit is said to reach a step whose trace is at least this."""


@dataclass(frozen=True)
class Credit:
    """What one learner made of the episode; T steps, d reward components.

    Attributes:
      label: the learner, in words.
      states: int64[T], ids. rows: int64[T], the rows of the table that the steps belong to.
      lambdas: float64[T, d], λ_t. factors: what multiplied the traces: λ_t, or with sampled chunks its coin, 0 or 1.
      td_errors: float64[T, d], δ_t as it was used.
      step_size: α. discount: γ. replacing, cutoff: of the traces.
      causes: for every step and reward component why it cuts credit (see `causes`); () where it does not, or where no
        cause is known.
      touched: int64[n], the rows that were visited. change: float64[n, d], by how much the table changed there.
      watched: λ over training, where it was kept.
      kept: for lineage traces, e as it was at every step t, float64[t + 1, d] each.
    """

    label: str
    states: np.ndarray
    rows: np.ndarray
    lambdas: np.ndarray
    factors: np.ndarray
    td_errors: np.ndarray
    step_size: float
    discount: float
    replacing: bool
    cutoff: float
    causes: tuple[tuple[tuple[str, ...], ...], ...]
    touched: np.ndarray
    change: np.ndarray
    watched: LambdaHistory | None = None
    kept: tuple[np.ndarray, ...] = ()

    def traces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(t, e) for every step t: e[k], float64[t + 1, d], is the trace that step k holds when δ_t arrives."""
        if self.kept:
            yield from enumerate(self.kept)
            return
        e = np.zeros(self.factors.shape)
        for t in range(len(e)):
            e[:t] *= self.discount * self.factors[t]
            if self.cutoff > 0.0:
                self._drop(e[:t])
            if self.replacing:
                e[:t][self.rows[:t] == self.rows[t]] = 0.0
            e[t] = 1.0
            yield t, e[: t + 1]

    def _drop(self, e: np.ndarray) -> None:
        """Forget rows whose trace has fallen to the cutoff, as the learner does."""
        for row in np.unique(self.rows[: len(e)]):
            visits = self.rows[: len(e)] == row
            if np.abs(e[visits].sum(axis=0)).max() <= self.cutoff:
                e[visits] = 0.0

    def trace_at(self, t: int) -> np.ndarray:
        """float64[t + 1, d]: the traces of the steps 0..t when δ_t arrives."""
        return next(e for at, e in self.traces() if at == t).copy()

    @cached_property
    def credits(self) -> np.ndarray:
        """float64[T, d]: the update that each step receives in the episode, Σ_t α δ_t e_{k,t}."""
        total = np.zeros(self.factors.shape)
        for t, e in self.traces():
            total[: t + 1] += self.step_size * self.td_errors[t] * e
        return total

    @property
    def chunks(self) -> np.ndarray:
        """int64[T, d]: the number of the chunk that each step belongs to."""
        return np.cumsum(self.breaks, axis=0)

    @property
    def breaks(self) -> np.ndarray:
        """bool[T, d]: the steps that cut credit; not the first, before which nothing comes."""
        found = self.factors < BREAK
        found[:1] = False
        return found

    def cause(self, t: int, i: int) -> str:
        """Why step t cuts the credit of reward component i; "" where it does not."""
        return ("; ".join(self.causes[t][i]) or "none known") if self.breaks[t, i] else ""

    def summary(self, i: int) -> str:
        """Where the credit of reward component i stops in this episode, in a sentence."""
        cut = np.flatnonzero(self.breaks[:, i])
        kinds = Counter(
            " and ".join(AT[text.partition(":")[0]] for text in self.causes[t][i]) or "no known cause" for t in cut
        )
        if not kinds:
            return f"No step of {len(self.factors)} cuts credit."
        if len(kinds) == 1:
            return f"Credit stops at {next(iter(kinds))} ({len(cut)} of {len(self.factors)} steps)."
        listed = ", ".join(f"{number} at {kind}" for kind, number in kinds.most_common())
        return f"Credit stops at {len(cut)} of {len(self.factors)} steps: {listed}."


@dataclass(frozen=True)
class Explanation:
    """One episode, and what one or more learners made of it.

    Attributes:
      env: the environment's name.
      places: the observations as short text, T of them. actions: int64[T]. rewards: float64[T, d], as learned from.
      ended: "terminated", "truncated", or "cut off" where the limit of `explain` was reached.
      learners: one `Credit` per learner; the first one played.
    """

    env: str
    places: tuple[str, ...]
    actions: np.ndarray
    rewards: np.ndarray
    ended: str
    learners: tuple[Credit, ...]

    @property
    def arrivals(self) -> list[tuple[int, int]]:
        """(t, i) of every reward that is not zero, largest first; of the largest TD error where all are zero."""
        found = [(int(t), int(i)) for t, i in zip(*np.nonzero(self.rewards), strict=True)]
        if not found:
            errors = np.abs(self.learners[0].td_errors)
            found = [divmod(int(errors.argmax()), errors.shape[1])]
        return sorted(found, key=lambda at: (-abs(self.rewards[at]), -at[0]))

    def with_training(self, *watched: LambdaHistory | None) -> Explanation:
        """The same with λ over training beside it, one history per learner (None where there is none)."""
        if len(watched) != len(self.learners):
            raise ValueError(f"watched must be one history per learner, {len(self.learners)}, got {len(watched)}")
        pairs = zip(self.learners, watched, strict=True)
        return replace(self, learners=tuple(replace(one, watched=kept) for one, kept in pairs))

    def table(self) -> Any:
        """One row per learner, step and reward component, as a polars DataFrame."""
        T, d = self.rewards.shape
        parts = []
        for one in self.learners:
            columns = {
                "learner": [one.label] * (T * d),
                "step": np.repeat(np.arange(T), d),
                "place": np.repeat(self.places, d),
                "action": np.repeat(self.actions, d),
                "component": np.tile(np.arange(d), T),
                "reward": self.rewards.ravel(),
                "lambda": one.lambdas.ravel(),
                "chunk": one.chunks.ravel(),
                "cause": [one.cause(t, i) for t in range(T) for i in range(d)],
                "td_error": one.td_errors.ravel(),
                "update": one.credits.ravel(),
            }
            parts.append(_polars().DataFrame(columns))
        return _polars().concat(parts)

    def trace_table(self) -> Any:
        """What each earlier step holds when a reward arrives: one row per learner, reward and step, without zeros."""
        rows = []
        for one in self.learners:
            for t, i in sorted(self.arrivals):
                e = one.trace_at(t)[:, i]
                for k in np.flatnonzero(e):
                    update = one.step_size * one.td_errors[t, i] * e[k]
                    rows.append((one.label, t, i, self.rewards[t, i], int(k), float(e[k]), float(update)))
        names = ["learner", "arrival", "component", "reward", "step", "trace", "update"]
        return _polars().DataFrame(rows, schema=names, orient="row")

    def reach(self, one: Credit) -> tuple[int, np.ndarray]:
        """The first step that gets `REACH` of the largest reward, as all after it do, and what every step gets."""
        t, i = self.arrivals[0]
        e, far = one.trace_at(t)[:, i], t
        while far > 0 and e[far - 1] >= REACH:
            far -= 1
        return far, e

    def sentence(self, one: Credit) -> str:
        """How far the largest reward reaches back, and what stops it."""
        (t, i), (far, e) = self.arrivals[0], self.reach(one)
        reward = self.rewards[t, i]
        what = f"The reward {reward:+.3g}" if reward else f"The TD error {one.td_errors[t, i]:+.3g}"
        which = f" (component {i})" if self.rewards.shape[1] > 1 else ""
        text = f"{what} at step {t}{which} reaches back to step {far}".replace("-", "−")
        if far == 0:
            return f"{text}, the first, which gets {_percent(e[0])} of it."
        if one.kept:
            return f"{text}; the step before it gets {_percent(e[far - 1])}."
        kept = one.factors[far, i]
        if kept < BREAK:
            return f"{text} and stops there: the λ of that step is {kept:.2g} ({one.cause(far, i)})."
        faded = f"{text}, which gets {_percent(e[far])} of it"
        worst = far + 1 + int(one.factors[far + 1 : t + 1, i].argmin()) if far < t else far
        if one.factors[worst, i] < BREAK:
            small = f"whose λ is {one.factors[worst, i]:.2g} ({one.cause(worst, i)})"
            return f"{faded}; most is lost at step {worst}, {small}."
        return f"{faded}; no single step stops it."

    def sentences(self) -> list[str]:
        """How far the largest reward reaches back and where credit stops, one text per learner."""
        i = self.arrivals[0][1]
        return [f"{one.label}: {self.sentence(one)} {one.summary(i)}" for one in self.learners]

    def figure(self) -> Any:
        """The picture, a matplotlib Figure."""
        require("explain's picture", "matplotlib")
        from chunked_td.analysis.explained import draw

        return draw(self)

    def page(self) -> str:
        """The page, HTML in one piece."""
        require("explain's page", "matplotlib")
        from chunked_td.analysis.explained import render

        return render(self)

    def save(self, folder: Any) -> list[Path]:
        """Write explain.html, explain.svg, explain.png, explain.csv and traces.csv, and over_training.csv if known."""
        require("explain's picture", "matplotlib")
        from chunked_td._figures import as_png, as_svg

        folder, figure = Path(folder), self.figure()
        files = {
            "explain.html": self.page().encode(),
            "explain.svg": as_svg(figure).encode(),
            "explain.png": as_png(figure),
            "explain.csv": self.table().write_csv().encode(),
            "traces.csv": self.trace_table().write_csv().encode(),
        }
        watched = {one.label: one.watched.table() for one in self.learners if one.watched is not None}
        if watched:
            labelled = [table.with_columns(learner=_polars().lit(label)) for label, table in watched.items()]
            files["over_training.csv"] = _polars().concat(labelled).write_csv().encode()
        for name, content in files.items():
            write_atomically(folder / name, content)
        return [folder / name for name in files]

    def __str__(self) -> str:
        from chunked_td.analysis.explained import text

        return text(self)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _polars() -> Any:
    require("a table", "polars")
    return importlib.import_module("polars")


# ---- playing


def explain(agent: Learner, env: Any, seed: int = 0, *, against: Any = (), max_steps: int = 1_000) -> Explanation:
    """Play one episode with a copy of a learner and divide its updates among the steps; see `Learner.explain`."""
    check_seed(seed)
    check_whole("max_steps", max_steps, 1)
    check_fits(agent, env)
    leave_training(agent, env)
    others = against if isinstance(against, Sequence) and not isinstance(against, str) else (against,)
    players = [_Player(one) for one in (agent, *(_rival(agent, env, other) for other in others))]
    observation, info = reset(env, seed)
    first = players[0].agent
    action: Any = first.start(observation, info)
    for player in players[1:]:
        player.agent.start(observation, info, action=action)
    places, actions, rewards, ended = [], [], [], ""
    while not ended:
        places.append(place_text(first.indexer, first.indexer.find(observation)))
        actions.append(action)
        observation, reward, terminated, truncated, info = step(env, action)
        cut = not (terminated or truncated) and len(actions) >= max_steps
        ended = "terminated" if terminated else "truncated" if truncated else "cut off" if cut else ""
        last = truncated or cut
        action = players[0].step(reward, observation, terminated, last, info)
        rewards.append(first._reward.copy())
        for player in players[1:]:
            player.step(reward, observation, terminated, last, info, next_action=action)
    labels = Counter()
    for player in players:  # numbers behind labels that occur twice
        labels[player.label] += 1
        if labels[player.label] > 1:
            player.label = f"{player.label} #{labels[player.label]}"
    credits = tuple(player.credit() for player in players)
    spec = getattr(env, "spec", None)
    name = spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__
    return Explanation(name, tuple(places), np.array(actions), np.array(rewards), ended, credits)


def _rival(agent: Learner, env: Any, other: Any) -> Learner:
    """Another learner, or a copy of this one with another λ source."""
    if isinstance(other, Learner):
        check_fits(other, env)
        if (other.n_actions, other.n_rewards) != (agent.n_actions, agent.n_rewards):
            raise ValueError(f"against: {other!r} has other actions or rewards than {agent!r}")
        return other
    if not isinstance(other, LambdaSource | Real):
        made = "; a name is not enough, give what it names, such as ctd.ExpectedLambda()"
        hint = made if isinstance(other, str) else ""
        raise ValueError(f"against must be a learner, a λ source, a number or several of those, got {other!r}{hint}")
    return _with_source(agent, as_lambda_source(other, agent.lambda_source))


def _with_source(agent: Learner, source: LambdaSource) -> Learner:
    """A copy of a learner with another λ source: the same values, and the same counts where the source reads any."""
    if isinstance(agent, SuttonSingh):
        raise ValueError(f"against: {type(agent).__name__} takes no λ source, got {source!r}")
    if source.arrays:
        raise _untrained(source, "learns by itself")
    twin = copy.deepcopy(agent)
    twin.lambda_source = source
    twin._check_combination()
    new, model, tables = twin._build(), twin._state.model, twin.tables
    if new.model is None or twin._asks_model():
        model = new.model
    elif type(new.model) is not type(model) or not np.array_equal(new.tables.parts, tables.parts):
        raise _untrained(source, "reads counts that this learner has not kept")
    if new.rule.keeps_legal and not tables.legal.shape[0]:
        tables = tables._replace(legal=_acted_in(twin, source))
    twin._replace(rule=new.rule, source=new.source, model=model, tables=tables, episode=None)
    return twin


def _acted_in(agent: Learner, source: LambdaSource) -> np.ndarray:
    """bool[S, A]: every action, in the states that the learner has acted in; it has kept no masks."""
    if agent._mask_seen or agent.counts is None:
        raise _untrained(source, "reads the legal actions of other states, which this learner has not kept")
    acted = agent.counts.total.reshape(-1, agent.n_actions).sum(axis=1) > 0
    return np.repeat(acted[:, None], agent.n_actions, axis=1)


def _untrained(source: LambdaSource, why: str) -> ValueError:
    return ValueError(f"against: {type(source).__name__} {why}; train a learner with it and pass that")


class _Player:
    """A copy of a learner that plays one episode, and what its updates were made of."""

    def __init__(self, agent: Learner):
        if isinstance(agent, SuttonSingh):
            raise ValueError(
                f"explain goes with learners that have a step size and a λ per step, not with {type(agent).__name__}, "
                f"whose step sizes are 1/n(s)"
            )
        if agent.view not in ("traces", "offline", "sampled") and not isinstance(agent.view, Lineage):
            raise ValueError(
                f"explain goes with the views 'traces', 'lineage', 'offline' and 'sampled', got view {agent.view!r}"
            )
        if agent.planner is not None or not isinstance(agent.reward_source, ExpectedError | None):
            raise ValueError(
                f"explain shows the updates that an episode makes by itself; {type(agent).__name__} also uses "
                f"{agent.planner or agent.reward_source!r}"
            )
        self.agent = copy.deepcopy(agent)
        self.agent._abandon()
        self.label = _label(agent)
        self.states, self.rows, self.lambdas, self.td_errors, self.causes, self.kept = ([] for _ in range(6))
        self.before: dict[int, np.ndarray] = {}
        self.rates = (0.0, 0.0)

    def step(self, *shown: Any, next_action: int | None = None) -> int | None:
        """Learn from a transition and keep what the update was made of."""
        agent, facts = self.agent, StepFacts(self.agent, self.states)
        row = agent.state if agent.bootstrap == STATE else agent.state * agent.n_actions + agent.action
        self.states.append(agent.state)
        self.rows.append(row)
        self.before.setdefault(row, agent.tables.values[row].copy())
        self.rates = tuple(agent._rates)
        live = 0 if not isinstance(agent.view, Lineage) else int(agent.trace.entries.count[0])
        action = agent.step(*shown, next_action=next_action)
        if isinstance(agent.view, Lineage):
            self._keep_trace(agent.trace.entries, live)
        self.lambdas.append(agent.memory.lambda_t.copy())
        self.td_errors.append(agent.memory.delta_t.copy())
        small = self.lambdas[-1] < BREAK
        self.causes.append(tuple(facts.causes(i, action is None) if small[i] else () for i in range(small.size)))
        return action

    def _keep_trace(self, entries: Trace, live: int) -> None:
        """The traces of the step just made; `live` rows had one before it. An end leaves their weights in place."""
        row, e = self.rows[-1], np.zeros((len(self.rows), entries.weight.shape[1]))
        latest = {row: k for k, row in enumerate(self.rows)}
        for place in range(live if row in entries.rows[:live] else live + 1):
            e[latest[int(entries.rows[place])]] = entries.weight[place]
        self.kept.append(e)

    def credit(self) -> Credit:
        """The episode as this learner saw it."""
        agent, touched = self.agent, np.array(list(self.before), np.int64)
        lambdas = np.array(self.lambdas)
        factors = lambdas.copy()
        if agent.rule.sampled:  # the coins stand where the λs were
            factors[1:] = agent.memory.lambda_[1 : len(lambdas)]
            coin = ("coin: λ was its chance to fall heads",)
            self.causes = [tuple(one or coin for one in step) for step in self.causes]
        return Credit(
            label=self.label,
            states=np.array(self.states),
            rows=np.array(self.rows),
            lambdas=lambdas,
            factors=factors,
            td_errors=np.array(self.td_errors),
            step_size=float(self.rates[1]),
            discount=agent.discount,
            replacing=agent.replacing and agent.trace is not None and agent.features is None,
            cutoff=agent.cutoff if agent.trace is not None else 0.0,
            causes=tuple(self.causes),
            touched=touched,
            change=agent.tables.values[touched] - np.array(list(self.before.values())),
            kept=tuple(self.kept),
        )


def _label(agent: Learner) -> str:
    """A learner in words: its class, its λ source, and the settings of that which are not the usual ones."""
    source, name = agent.lambda_source, type(agent).__name__
    if isinstance(agent.view, Lineage):
        name = f"{name}, lineage"
    if agent.reward_source is not None:
        name = f"{name}, {agent.reward_source!r}"
    if isinstance(source, ConstantLambda):
        return f"{name}, λ = {source.value:g}"
    usual = {field.name: field.default for field in fields(source)}
    own = [f"{key}={getattr(source, key)}" for key in usual if getattr(source, key) != usual[key]]
    return f"{name}, {type(source).__name__.removesuffix('Lambda')} λ{' (' + ', '.join(own) + ')' if own else ''}"


# ---- over training


@dataclass(frozen=True)
class LambdaHistory:
    """λ by state over training.

    Attributes:
      episodes: int64[n + 1], the boundaries of n windows of training.
      places: the states as short text, by id.
      steps: by state id, int64[n], how many steps left the state in each window.
      sums: by state id, float64[n, d], the sum of their λ.
      certain: float64[n], the share of steps that count as certain given the policy's ε (`certain_lambda`, for every
        reward component).
      threshold: the λ from which a step counted as certain in the end.
      breaks: float64[n], the share of steps at which a chunk breaks (λ < `BREAK` for every reward component).
      history: returns and lengths of the episodes.
    """

    episodes: np.ndarray
    places: dict[int, str]
    steps: dict[int, np.ndarray]
    sums: dict[int, np.ndarray]
    certain: np.ndarray
    threshold: float
    breaks: np.ndarray
    history: History

    def most_visited(self, count: int) -> list[int]:
        """Ids of the most visited states, in the order of their first window and id."""
        return sorted(sorted(self.steps, key=lambda state: -int(self.steps[state].sum()))[:count])

    def mean(self, state: int) -> np.ndarray:
        """float64[n, d]: mean λ of a state in each window; NaN where it was not visited."""
        steps = self.steps[state][:, None]
        return np.where(steps > 0, self.sums[state] / np.maximum(steps, 1), np.nan)

    def table(self) -> Any:
        """One row per window, state and reward component with a visit, as a polars DataFrame."""
        rows = []
        for state, steps in sorted(self.steps.items()):
            for window in np.flatnonzero(steps):
                often, span = int(steps[window]), (int(self.episodes[window]) + 1, int(self.episodes[window + 1]))
                for i, total in enumerate(self.sums[state][window]):
                    mean = float(total) / often
                    rows.append((*span, state, self.places[state], i, often, mean, mean >= self.threshold))
        names = ["from_episode", "to_episode", "state", "place", "component", "steps", "mean_lambda", "certain"]
        return _polars().DataFrame(rows, schema=names, orient="row")


def watch_training(
    agent: Learner, env: Any, episodes: int, *, windows: int = 20, progress: bool = True
) -> LambdaHistory:
    """Train a learner as `agent.learn(env, episodes)` does, and keep λ by state.

    Args:
      windows: into how many stretches of equal length to divide the training.
    """
    bounds = np.unique(np.linspace(0, episodes, min(windows, max(episodes, 1)) + 1).astype(np.int64))
    n, d, begun = bounds.size - 1, agent.n_rewards, agent.episode
    steps: dict[int, np.ndarray] = {}
    sums: dict[int, np.ndarray] = {}
    places: dict[int, str] = {}
    certain, breaks, total = np.zeros(n), np.zeros(n), np.zeros(n)

    def watch(state: int, episode: int) -> None:
        window = int(np.searchsorted(bounds, episode - begun, side="right")) - 1
        lambda_t = agent.memory.lambda_t
        if state not in steps:
            steps[state], sums[state] = np.zeros(n, np.int64), np.zeros((n, d))
            places[state] = place_text(agent.indexer, state)
        steps[state][window] += 1
        sums[state][window] += lambda_t
        total[window] += 1
        certain[window] += bool((lambda_t >= certain_lambda(agent)).all())
        breaks[window] += bool((lambda_t < BREAK).all())

    history = train(agent, env, episodes, progress=progress, watch=watch)
    safe = np.maximum(total, 1)
    return LambdaHistory(bounds, places, steps, sums, certain / safe, certain_lambda(agent), breaks / safe, history)
