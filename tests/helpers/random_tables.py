"""Random transition tables with everything that a table may have: cycles, masks, noise, several starts, truncation."""

from __future__ import annotations

import numpy as np

from chunked_td.envs.dynamics import TransitionTable


def random_outcomes(rng, states, actions, branching=3, stop=0.15, masks=True, rewards=1):
    """P[s][a] of a problem with cycles; every third outcome or so comes with a second reward."""
    P = {}
    for s in range(states):
        offered = np.flatnonzero(rng.random(actions) < 0.7) if masks else np.arange(actions)
        offered = offered if offered.size else rng.integers(actions, size=1)
        P[s] = {}
        for a in offered.tolist():
            rows = []
            for target in rng.integers(states, size=rng.integers(1, branching + 1)).tolist():
                for _ in range(1 + (rng.random() < 0.3)):
                    reward = rng.normal(size=rewards).round(2).tolist()
                    rows.append((target, reward[0] if rewards == 1 else reward, bool(rng.random() < stop)))
            chances = rng.dirichlet(np.ones(len(rows)))
            P[s][a] = [(float(p), *row) for p, row in zip(chances, rows, strict=True)]
    return P


def random_table(seed, states=6, actions=3, horizon=9, nvec=None, starts=2, **settings):
    rng = np.random.default_rng(seed)
    P = random_outcomes(rng, states, actions, **settings)
    begin = dict(zip(range(starts), rng.dirichlet(np.ones(starts)).tolist(), strict=True))
    return TransitionTable.from_outcomes(
        P, starts=begin, horizon=horizon, n_actions=actions, nvec=nvec, bad_first=[actions - 1], bad_end=[states - 1]
    )
