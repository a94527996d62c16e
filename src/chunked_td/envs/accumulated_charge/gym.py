"""Accumulated-Charge as a Gymnasium environment."""

from __future__ import annotations

from chunked_td.envs.accumulated_charge.dynamics import AccumulatedCharge
from chunked_td.envs.face import DynamicsEnv


class AccumulatedChargeEnv(DynamicsEnv):
    """A small bonus for the first action, given at the end together with accumulated noise.

    ## Description
    Only the first action matters: the expected return of `a₁` (action 0) is larger by `bonus` than that of `a₂`
    (action 1). The reward follows after `horizon` transitions. It includes a charge that grows at `points` time steps,
    by Binomial(horizon / points, success) each. These time steps are sampled once per seed: `reset(seed=...)` samples
    them, `reset()` keeps them. Nearly all transitions are certain, so trajectories compress well (Section 4.2 of the
    paper; a variant of RUDDER's "choice").

    ## Action space
    `Discrete(2)`. Both actions are legal at time 0, only action 0 afterwards. `info["action_mask"]` has the legal
    actions; others raise `gymnasium.error.InvalidAction`.

    ## Observation space
    `MultiDiscrete([2, horizon + 1, horizon + 1])`:

    | component | meaning |
    |---|---|
    | 0 | 1 if the first action was a₁, otherwise (and at time 0) 0 |
    | 1 | charge so far |
    | 2 | time |

    A transition out of a charging time step, in 1..horizon − 1, adds to the charge.

    ## Rewards
    Zero until the last transition, then `bonus`·[a₁] + c₀·charge − c₀·`success`·`horizon`, with c₀ = ½ after a₁ and −½
    after a₂. Expected return: `bonus` for a₁, 0 for a₂.

    ## Starting state
    Always (0, 0, 0).

    ## End of an episode
    After `horizon` transitions.

    ## Arguments
    * `horizon` (200): transitions of an episode, at least 2.
    * `points` (10): charging time steps; fewer than `horizon`, and a divisor of it.
    * `success` (0.5): probability of the binomial charge.
    * `bonus` (0.1): expected return of a₁.
    * `mirrored` (False): c₀ changes sign. No expected return changes, so this has no effect on an unbiased learner. It
      changes the results of a learner whose estimates are biased towards predictable outcomes.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    Ramesh, Young, Kirsch, Schmidhuber: "Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning",
    ICML 2024, Section 4.2 and App. A.2.
    Arjona-Medina et al.: "RUDDER: Return Decomposition for Delayed Rewards", NeurIPS 2019.

    ## Version history
    * v0: first release.
    """

    def __init__(
        self,
        horizon: int = 200,
        points: int = 10,
        success: float = 0.5,
        bonus: float = 0.1,
        mirrored: bool = False,
        render_mode: str | None = None,
    ):
        super().__init__(AccumulatedCharge.make(horizon, points, success, bonus, mirrored), render_mode=render_mode)
