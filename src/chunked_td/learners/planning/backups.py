"""Backups of a row by the expectation of the learned model, written to `planning.target`."""

from chunked_td.bootstraps import STATE
from chunked_td.lambdas.step import bootstrap_value
from chunked_td.models.counts import FOLLOWING, NUMBER, TARGET
from chunked_td.policies import write_policy


def expected_backup(agent, row, epsilon):
    """Write T(row), the expectation under the model, to `planning.target`; requires that the row was visited."""
    world, out = agent.planning.world, agent.planning.target
    counts = world.counts
    for i in range(out.size):
        out[i] = 0.0
    pair = counts.head[row]
    while pair >= 0:
        for i in range(out.size):
            out[i] += world.rewards[pair, i]
        going_on = counts.pairs[pair, NUMBER] - world.ends[pair]
        if going_on > 0:
            add_bootstrap(agent, counts.pairs[pair, TARGET], epsilon, going_on)
        pair = counts.pairs[pair, FOLLOWING]
    for i in range(out.size):
        out[i] /= counts.total[row]


def add_bootstrap(agent, state, epsilon, weight):
    """Add weight · γ · B(state) to `planning.target`."""
    rule, values, out, A = agent.rule, agent.tables.values, agent.planning.target, agent.rule.n_actions
    policy = agent.memory.scratch
    if rule.bootstrap != STATE:
        legal = agent.tables.legal[state]
        acted = False
        for a in range(A):
            acted |= legal[a]
        if not acted:
            return
        q = values[state * A : (state + 1) * A]
        write_policy(agent.tables.exploration, q, state, legal, epsilon, policy)
    for i in range(out.size):
        ahead = bootstrap_value(rule.bootstrap, rule.n_actions, values, state, -1, policy, i)
        out[i] += weight * rule.discount * ahead
