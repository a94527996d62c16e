"""Maturity: bootstrap from a value to the degree that it has been learned."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td._link import kernel, slot
from chunked_td._settings import new_array
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.features.linear import NEXT, NOW, column, dot, linear_bootstrap
from chunked_td.lambdas.base import LambdaSource, Needs, Settled, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.names import OTHER, color_of
from chunked_td.lambdas.step import bootstrap_from
from chunked_td.models.counts import FOLLOWING, NUMBER, TARGET
from chunked_td.policies import write_policy

_inner_lambda = dispatch("inner_lambda_t")


@dataclass(frozen=True, repr=False)
class Mature(LambdaSource):
    """Any λ source, raised towards 1 where values are guesses (ours; not in the paper).

        λ'_t = 1 − (1 − λ_t)(1 − I(x_t))
        I ← I + α e_t (γ I(x_{t+1}) − I(row_t)),   1 at first, 0 in terminal states, kept within [0, 1]

    I(row) is the weight that the initial values have in Q(row). It is learned beside Q with the same traces, step sizes
    and bootstrap. So updates are those of Monte Carlo while values are guesses, and those of the source once they are
    not: Kearns and Singh's (2000) falling λ, online and per state. I → 0, so the fixed point is that of the source.

    With `ExpectedError` I is moved by its expectation, too. It goes with the views "traces" and "lineage"; lineage has
    λ_k C/n in place of λ_t. What is stored is the maturity 1 − I.

    Args:
      source: the λ source, a compiled one, or a number.
    """

    id, label, group, color = "mature", "Mature", OTHER, "#8C3B4B"
    by_default = False

    source: LambdaSource

    def __post_init__(self) -> None:
        inner = as_lambda_source(self.source, self.source)
        if not inner.is_compiled or isinstance(inner, Mature) or inner.features_only:
            why = "needs no features" if inner.features_only else "is not Mature"
            raise ValueError(f"source must be a number or a compiled λ source that {why}, got {self.source!r}")
        taken = {name: getattr(inner, name, None) for name in ("components", "per_component", "follows_episode")}
        for name, value in {"source": inner, **taken}.items():
            object.__setattr__(self, name, value)
        fixed = isinstance(inner, ConstantLambda)
        name, label = (f"{inner.value:g}", f"λ = {inner.value:g}") if fixed else (inner.id, inner.label)
        self.take_names(Mature, id=f"{name}+mature", label=f"{label}, mature", color=color_of(f"{name}+mature"))

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """What the source needs, and the policy."""
        return self.source.needs | Needs.POLICY

    def needs_with(self, bootstrap: int) -> Needs:
        """Where the bootstrap depends on the policy, so does I(x)."""
        needs = self.source.needs_with(bootstrap)
        return needs if bootstrap in (STATE, SARSA) else needs | Needs.POLICY

    @property
    def arrays(self) -> Mapping[str, str]:  # type: ignore[override]
        """Those of the source; 1 − I, its TD error, and I(x_t): one column, or one per reward component."""
        c = "d" if self.per_component else "1"
        own = {"maturity": f"float64[rows, {c}]", "surprise": f"float64[{c}]", "guess": f"float64[{c}]"}
        return {**self.source.arrays, **own}

    @property
    def learns_from_episodes(self) -> bool:
        """As the source."""
        return self.source.learns_from_episodes

    def _lessons(self) -> list[Any]:
        return [*self.source._lessons(), Mature.mature]

    def settings(self) -> dict[str, Any]:
        """The source by the name of its class, and its settings."""
        return {"source": {"name": type(self.source).__name__, **self.source.settings()}}

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """What was there at first is forgotten."""
        return {**self.source.settled(known), "maturity": 1.0}

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As the source does."""
        self.source.check_saved({name: arrays[name] for name in self.source.arrays})

    def compiled(self, sizes: Mapping[str, int]) -> Any:
        """The source's own form with more arrays, so that its kernels read theirs by name as before."""
        inner = self.source.compiled(sizes)._asdict()
        fields = inner | {name: new_array(layout, sizes) for name, layout in self.arrays.items() if name not in inner}
        return form(_kernels(type(self), type(self.source)), tuple(fields))(*fields.values())

    @kernel
    def lambda_t(source, step, i):
        """1 − (1 − λ)(1 − I(x_t))."""
        j = min(i, source.guess.size - 1)
        learned = bootstrap_from(
            source.maturity, step.bootstrap, step.n_actions, step.tables.values, step.state, step.action, step.policy, j
        )
        source.guess[j] = min(max(1.0 - learned, 0.0), 1.0)
        return source.guess[j] + (1.0 - source.guess[j]) * _inner_lambda(source, step, i)

    @kernel
    def guess_at(source, i):
        """I(x_t), once λ_t has been read."""
        return source.guess[min(i, source.guess.size - 1)]

    @kernel
    def write_surprise(source, agent, step, row, terminated):
        """The TD error of 1 − I: 1 − γ I(x_{t+1}) − (1 − I(row))."""
        rule = agent.rule
        for j in range(source.surprise.size):
            source.surprise[j] = 1.0 - source.maturity[row, j]
            if not terminated:
                learned = bootstrap_from(
                    source.maturity, rule.bootstrap, rule.n_actions, agent.tables.values, step.next_state,
                    step.next_action, step.next_policy, j,
                )  # fmt: skip
                source.surprise[j] -= rule.discount * (1.0 - learned)

    @kernel
    def expect_surprise(source, agent, row, epsilon, weight):
        """The same in expectation under the planner's model, mixed in with a weight; the row was tried."""
        rule, world, values, A = agent.rule, agent.planning.world, agent.tables.values, agent.rule.n_actions
        counts, policy = world.counts, agent.memory.scratch
        for j in range(source.surprise.size):
            ahead = 0.0
            pair = counts.head[row]
            while pair >= 0:
                s, going_on = counts.pairs[pair, TARGET], counts.pairs[pair, NUMBER] - world.ends[pair]
                known = rule.bootstrap == STATE or agent.tables.legal[s].any()
                if going_on > 0 and known:
                    if rule.bootstrap != STATE:
                        q, legal = values[s * A : (s + 1) * A], agent.tables.legal[s]
                        write_policy(agent.tables.exploration, q, s, legal, epsilon, policy)
                    learned = bootstrap_from(source.maturity, rule.bootstrap, rule.n_actions, values, s, -1, policy, j)
                    ahead += going_on * (1.0 - learned)
                pair = counts.pairs[pair, FOLLOWING]
            expected = 1.0 - source.maturity[row, j] - rule.discount * ahead / counts.total[row]
            source.surprise[j] += weight * (expected - source.surprise[j])

    @kernel
    def mature(source, entries, step_size):
        """1 − I moves with the traces as Q does."""
        for k in range(entries.count[0]):
            row = entries.rows[k]
            for j in range(source.surprise.size):
                moved = source.maturity[row, j] + step_size * source.surprise[j] * entries.weight[k, j]
                source.maturity[row, j] = min(max(moved, 0.0), 1.0)


@dataclass(frozen=True, repr=False)
class LinearMature(Mature):
    """`Mature` where values are linear in features: 1 − I is linear in the same features.

        λ'_t = 1 − (1 − λ_t)(1 − I(x_t)),   1 − I(x, a) = Σ_f m(f, a) φ_f(x)
        m ← m + α r e_t ((1 − γ I(x_{t+1})) − (1 − I(x_t, a_t))),   I read within [0, 1]

    A learner with features takes it in place of `Mature`.
    """

    like, by_default, features_only = Mature, False, True

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """And features."""
        return super().needs | Needs.FEATURES

    def needs_with(self, bootstrap: int) -> Needs:
        """And features."""
        return super().needs_with(bootstrap) | Needs.FEATURES

    @property
    def arrays(self) -> Mapping[str, str]:  # type: ignore[override]
        """As many numbers as there are weights."""
        return {**super().arrays, "maturity": f"float64[weights, {'d' if self.per_component else '1'}]"}

    @kernel
    def lambda_t(source, step, i):
        """1 − (1 − λ)(1 − I(x_t))."""
        guess = source.guess[min(i, source.guess.size - 1)]
        return guess + (1.0 - guess) * _inner_lambda(source, step, i)

    @kernel
    def write_surprise(source, agent, step, row, terminated):
        """I(x_t), and the TD error of 1 − I."""
        a = column(agent.trace, step.action)
        for j in range(source.surprise.size):
            learned = linear_bootstrap(source.maturity, agent, NOW, step.action, step.policy, j)
            source.guess[j] = min(max(1.0 - learned, 0.0), 1.0)
            source.surprise[j] = 1.0 - dot(source.maturity, agent.trace, NOW, a, j)
            if not terminated:
                ahead = linear_bootstrap(source.maturity, agent, NEXT, step.next_action, step.next_policy, j)
                source.surprise[j] -= agent.rule.discount * min(max(1.0 - ahead, 0.0), 1.0)

    @kernel
    def mature(source, entries, step_size):
        """1 − I moves with the traces as Q does; `entries` is a `LinearTrace`."""
        live = entries.entries
        for k in range(live.count[0]):
            row = live.rows[k]
            for j in range(source.surprise.size):
                rate = step_size * entries.rates[row]
                source.maturity[row, j] += rate * source.surprise[j] * live.weight[k, j]


@functools.cache
def _kernels(own: type, inner: type) -> type:
    """The kernels of `Mature` and those by which the source learns, as one class.

    It counts as the source's own: for a source of the user's, the cache on disk goes by the file that defines it.
    """
    names = ("lambda_t", "guess_at", "write_surprise", "expect_surprise", "mature")
    found = {name: getattr(own, name) for name in names} | {"inner_lambda_t": inner.lambda_t}  # type: ignore[attr-defined]
    found |= {name: getattr(inner, name) for name in ("after_step", "after_episode", "recall") if hasattr(inner, name)}
    made = type(f"{own.__name__}{inner.__name__}", (), {name: staticmethod(one) for name, one in found.items()})
    made.__module__ = inner.__module__
    return made
