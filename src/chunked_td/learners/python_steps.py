"""Steps in which Python has a part: λ from a model object or from a plain Python source, and actions given in advance.

The rest of the step is the compiled code of `update`, in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lambdas.base import COUNTED, LambdaSource, Needs
from chunked_td.lambdas.plain import PlainStep, checked_lambda
from chunked_td.learners.update import EMPTY, ONGOING, TERMINATED
from chunked_td.models.predictions import Predictions, ask_chances, ask_outcomes, ask_overlaps, overlaps_of
from chunked_td.policies import count_action


def check_model(model: Any, source: LambdaSource, bootstrap: int, n_actions: int) -> None:
    """Refuse a model object that cannot answer what this λ source asks."""
    known = getattr(model, "n_actions", n_actions)
    if known != n_actions:
        raise ValueError(f"model: it has n_actions={known}, the environment has {n_actions} actions")
    needs = source.needs_with(bootstrap)
    if needs & COUNTED:
        raise ValueError(f"lambda_source {source!r} is read off counts; it takes no model, got {model!r}")
    asked: list[tuple[str, ...]] = [("observe",)]
    if Needs.OUTCOME in needs:
        asked.append(("probabilities", "component_probabilities"))
    if Needs.PARTS in needs:
        asked.append(("component_probabilities",))
    if Needs.OUTCOMES in needs:
        asked.append(("overlaps", "distribution") if source.needs_overlaps_only(bootstrap) else ("distribution",))
    for names in asked:
        if not any(callable(getattr(model, name, None)) for name in names):
            raise ValueError(f"model must have a method {'() or '.join(names)}() for {source!r}, got {model!r}")


def advance_in_python(
    agent: Any, state: int, percept: int, legal: np.ndarray, ended: int, given: int | None = None
) -> int:
    """One transition, part by part; returns the next action, which is `given` where that is not None, or −1.

    An error in the user's code leaves the learner as it was, apart from what models have observed and an exploration
    has counted.
    """
    rng, memory, action = agent.policy_draws.reserve(1), agent.memory, -1
    late = bool(agent.rule.chooses_late.value) and ended == ONGOING
    position, policy = int(rng.position[0]), memory.next_policy.copy()
    addresses, entries = agent._entries()
    try:
        count_action(agent.tables.exploration, agent.state, agent.action, agent.n_actions)
        if ended != TERMINATED:
            action = int(entries.select(addresses, state, legal, ended == ONGOING and given is None and not late))
            assert action != EMPTY
            action = action if given is None else given
        here = agent.state, agent.action, state, percept, action
        if type(agent._state.model) is Predictions:
            _ask(agent, state, ended)
            addresses, entries = agent._entries()  # the outcomes may have needed more room
        entries.observe(addresses, *here, ended)
        if agent._state.source is None:
            step = _plain_step(agent, state, percept, action, ended)
            lambda_t = agent.lambda_source.lambda_t(step)
            memory.lambda_t[:] = checked_lambda(agent.lambda_source, lambda_t, agent.n_rewards)
        memory.lambda_t[:] *= agent._cut
    except BaseException:
        rng.position[0] = position
        memory.next_policy[:] = policy
        raise
    entries.use_lambda(addresses, *here, ended)
    if late:
        chosen = int(entries.select(addresses, state, legal, given is None))
        action = chosen if given is None else given
        if agent.rule.keeps_policy.value:
            memory.policy[:] = memory.next_policy
    return action


def _ask(agent: Any, state: int, ended: int) -> None:
    """Train the model object on the transition, and write down its answers for the compiled formula."""
    model, answers, A = agent.model, agent._state.model, agent.n_actions
    reward = float(agent._reward[0]) if agent.n_paid == 1 else agent._reward.copy()
    model.observe(agent.state, agent.action, reward, state, ended == TERMINATED)
    source, bootstrap = agent.lambda_source, agent.bootstrap
    needs = source.needs_with(bootstrap)
    if needs & (Needs.OUTCOME | Needs.PARTS):
        parts = answers.chances.shape[1] if Needs.PARTS in needs else 0
        chances = ask_chances(model, agent.state, state, reward, A, parts)
        if chances.shape != answers.chances.shape:
            answers = answers._replace(chances=np.zeros(chances.shape))
            agent._replace(model=answers)
        answers.chances[:] = chances
    if Needs.OUTCOMES in needs:
        if source.needs_overlaps_only(bootstrap):
            answers.overlaps[:] = ask_overlaps(model, agent.state, A)
        else:
            _list_outcomes(agent, range(A) if Needs.POLICY in needs else [agent.action])


def _list_outcomes(agent: Any, actions: Any) -> None:
    """Write the outcomes of some actions into the answers; enlarge them where they do not fit."""
    answers, empty = agent._state.model, (np.zeros(0, np.int64), np.zeros(0))
    each = [ask_outcomes(agent.model, agent.state, a) if a in actions else empty for a in range(agent.n_actions)]
    total = sum(targets.size for targets, _ in each)
    if total > answers.targets.size:
        answers = answers._replace(targets=np.zeros(2 * total, np.int64), weights=np.zeros(2 * total))
        agent._replace(model=answers)
    answers.start[1:] = np.cumsum([targets.size for targets, _ in each])
    answers.targets[:total] = np.concatenate([targets for targets, _ in each])
    answers.weights[:total] = np.concatenate([weights for _, weights in each])
    listed = [dict(zip(targets.tolist(), weights.tolist(), strict=True)) for targets, weights in each]
    answers.overlaps[:] = overlaps_of(listed)


def _plain_step(agent: Any, state: int, percept: int, action: int, ended: int) -> PlainStep:
    """The transition for a λ source that is plain Python."""
    memory = agent.memory
    return PlainStep(
        state=agent.state,
        action=agent.action,
        next_state=state,
        next_action=action if action >= 0 else None,
        reward=agent._reward.copy(),
        td_error=memory.delta_t.copy(),
        terminated=ended == TERMINATED,
        policy=memory.policy.copy(),
        next_policy=memory.next_policy.copy(),
        bootstrap=agent.bootstrap,
        _percept=percept,
        _source=agent.lambda_source,
        _model=agent._state.model,
        _table=agent.tables.values,
    )
