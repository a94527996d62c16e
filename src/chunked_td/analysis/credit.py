"""Credit in one episode, as data: λ, chunks, traces and updates of every step.

A TD error δ_t at step t changes the value of an earlier step k by α δ_t e_{k,t}, with the trace

    e_{k,t} = Π_{j=k+1..t} γ λ_j        (1 for k = t)

so credit reaches back until a λ_j is small: there a chunk breaks. The update of step k in an episode is
Σ_{t≥k} α δ_t e_{k,t}; together these updates are the change of the table. Lineage traces are read from the learner:
they belong to the latest visit of their row. With features, step k has its own trace, though observations that share
features share what is learned; replacing is not shown.

`explain` plays an episode with a copy of a learner, reads λ_t and δ_t from every update, and divides the update among
the steps. Pictures and pages: `explained`. λ over training: `training`.
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
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td._checks import check_seed, check_whole
from chunked_td._figures import as_png, as_svg
from chunked_td._files import write_atomically
from chunked_td._loading import require
from chunked_td.analysis.causes import AT, BREAK, StepFacts
from chunked_td.bootstraps import STATE
from chunked_td.lambdas.base import LambdaSource, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.learners.learner import Learner
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.loop import check_fits, leave_training, reset, step
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.observations.indexers import place_text
from chunked_td.traces import Trace

if TYPE_CHECKING:
    from chunked_td.analysis.training import LambdaHistory

REACH = 0.1
"""Credit reaches a step if its trace is at least this."""


@dataclass(frozen=True)
class Credit:
    """Credit of one learner in the episode; T steps, d reward components.

    Attributes:
      label: the learner, in words.
      states: int64[T], ids. rows: int64[T], the table rows of the steps.
      lambdas: float64[T, d], λ_t. factors: of the traces: λ_t, or with sampled chunks its coin, 0 or 1.
      td_errors: float64[T, d], δ_t as used.
      step_size: α. discount: γ. replacing, cutoff: of the traces.
      causes: per step and reward component, the causes of a cut (see `causes`); () without a cut or a known cause.
      touched: int64[n], the visited rows. change: float64[n, d], the change of the table there.
      watched: λ over training, if recorded.
      kept: of lineage traces, e at every step t, float64[t + 1, d] each.
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
        """Yield (t, e) for every step t: e, float64[t + 1, d], are the traces of the steps 0..t when δ_t arrives."""
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
        """Set the traces of rows at or below the cutoff to 0, as the learner does."""
        for row in np.unique(self.rows[: len(e)]):
            visits = self.rows[: len(e)] == row
            if np.abs(e[visits].sum(axis=0)).max() <= self.cutoff:
                e[visits] = 0.0

    def trace_at(self, t: int) -> np.ndarray:
        """float64[t + 1, d]: the traces of the steps 0..t when δ_t arrives."""
        return next(e for at, e in self.traces() if at == t).copy()

    @cached_property
    def credits(self) -> np.ndarray:
        """float64[T, d]: the update of each step in the episode, Σ_t α δ_t e_{k,t}."""
        total = np.zeros(self.factors.shape)
        for t, e in self.traces():
            total[: t + 1] += self.step_size * self.td_errors[t] * e
        return total

    @property
    def chunks(self) -> np.ndarray:
        """int64[T, d]: the number of each step's chunk."""
        return np.cumsum(self.breaks, axis=0)

    @property
    def breaks(self) -> np.ndarray:
        """bool[T, d]: the steps that cut credit; never the first."""
        found = self.factors < BREAK
        found[:1] = False
        return found

    def cause(self, t: int, i: int) -> str:
        """Cause of a cut of reward component i's credit at step t; "" without a cut."""
        return ("; ".join(self.causes[t][i]) or "none known") if self.breaks[t, i] else ""

    def summary(self, i: int) -> str:
        """The cuts of reward component i's credit in this episode, in a sentence."""
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
    """One episode, and the credit of one or more learners in it.

    Attributes:
      env: the environment's name.
      places: T observations as short text. actions: int64[T]. rewards: float64[T, d], as learned from.
      ended: "terminated", "truncated", or "cut off" at the limit of `explain`.
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
        """(t, i) of every reward that is not zero, largest first; of the largest TD error if all are zero."""
        found = [(int(t), int(i)) for t, i in zip(*np.nonzero(self.rewards), strict=True)]
        if not found:
            errors = np.abs(self.learners[0].td_errors)
            found = [divmod(int(errors.argmax()), errors.shape[1])]
        return sorted(found, key=lambda at: (-abs(self.rewards[at]), -at[0]))

    def with_training(self, *watched: LambdaHistory | None) -> Explanation:
        """Add λ over training: one history per learner, or None."""
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
        """Traces when each reward arrives: one row per learner, reward and step, without zeros."""
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
        """The first step from which all get `REACH` of the largest reward, and the share of every step."""
        t, i = self.arrivals[0]
        e, far = one.trace_at(t)[:, i], t
        while far > 0 and e[far - 1] >= REACH:
            far -= 1
        return far, e

    def sentence(self, one: Credit) -> str:
        """The reach of the largest reward, and the cause of its end, in a sentence."""
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
        """The reach of the largest reward and the cuts of credit: one text per learner."""
        i = self.arrivals[0][1]
        return [f"{one.label}: {self.sentence(one)} {one.summary(i)}" for one in self.learners]

    def figure(self) -> Any:
        """The picture, a matplotlib Figure."""
        from chunked_td.analysis.explained import draw

        return draw(self)

    def save(self, folder: Any) -> list[Path]:
        """Write explain.html, explain.svg, explain.png, explain.csv and traces.csv, and over_training.csv if known."""
        from chunked_td.analysis.explained import render

        picture = as_svg(figure := self.figure())
        files = {
            "explain.html": render(self, picture).encode(),
            "explain.svg": picture.encode(),
            "explain.png": as_png(figure),
            "explain.csv": self.table().write_csv().encode(),
            "traces.csv": self.trace_table().write_csv().encode(),
        }
        watched = [
            one.watched.table().with_columns(learner=_polars().lit(one.label)) for one in self.learners if one.watched
        ]
        if watched:
            files["over_training.csv"] = _polars().concat(watched).write_csv().encode()
        for name, content in files.items():
            write_atomically(Path(folder) / name, content)
        return [Path(folder) / name for name in files]

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
    players = [_Player(one) for one in (agent, *(_other(agent, env, other) for other in others))]
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


def _other(agent: Learner, env: Any, other: Any) -> Learner:
    """The learner of `against`: a learner, or a copy of this one with another λ source."""
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
    """A copy of a learner with another λ source: the same values, and the same counts if the source reads any."""
    if isinstance(agent, SuttonSingh):
        raise ValueError(f"against: {type(agent).__name__} takes no λ source, got {source!r}")
    if source.arrays:
        raise _untrained(source, "learns arrays of its own")
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
    """bool[S, A]: every action in the states that the learner has acted in, because it has kept no masks."""
    if agent._mask_seen or agent.counts is None:
        raise _untrained(source, "reads the legal actions of other states, which this learner has not kept")
    acted = agent.counts.total.reshape(-1, agent.n_actions).sum(axis=1) > 0
    return np.repeat(acted[:, None], agent.n_actions, axis=1)


def _untrained(source: LambdaSource, why: str) -> ValueError:
    return ValueError(f"against: {type(source).__name__} {why}; train a learner with it and pass that")


class _Player:
    """A copy of a learner that plays one episode, and the parts of its updates."""

    def __init__(self, agent: Learner):
        if isinstance(agent, SuttonSingh):
            raise ValueError(
                f"explain requires a learner with a step size and a λ per step, got {type(agent).__name__}, whose step "
                f"sizes are 1/n(s)"
            )
        if agent.view not in ("traces", "offline", "sampled") and not isinstance(agent.view, Lineage):
            raise ValueError(
                f"explain requires one of the views 'traces', 'lineage', 'offline' and 'sampled', got {agent.view!r}"
            )
        if agent.planner is not None or not isinstance(agent.reward_source, ExpectedError | None):
            raise ValueError(
                f"explain requires a learner that updates from the episode's traces only, got {type(agent).__name__} "
                f"with {agent.planner or agent.reward_source!r}"
            )
        self.agent = copy.deepcopy(agent)
        self.agent._abandon()
        self.label = _label(agent)
        self.states, self.rows, self.lambdas, self.td_errors, self.causes, self.kept = ([] for _ in range(6))
        self.before: dict[int, np.ndarray] = {}
        self.rates = (0.0, 0.0)

    def step(self, *shown: Any, next_action: int | None = None) -> int | None:
        """Learn from a transition and keep the parts of the update."""
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
        """Keep the traces of the last step; `live` rows had one before it. An end leaves their weights in place."""
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
        if agent.rule.sampled:  # the coins have replaced the λs
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
    """A learner in words: its class, and its λ source with the settings that differ from their defaults."""
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
