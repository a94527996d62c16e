"""The skewed split as a Gymnasium environment."""

from __future__ import annotations

from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.skewed_split.dynamics import SkewedSplit


class SkewedSplitEnv(DynamicsEnv):
    """Smallest problem in which an outcome-dependent λ biases the values.

    ## Description
    A certain lead-in ends in a branch: A, the likely outcome, has reward 0; B has a reward. If λ is the probability of
    the sampled outcome, errors after A and after B have different weights. So the values of the lead-in converge to
    wrong numbers even with a perfect model: 0.28 instead of 1 in the default setting. A λ that depends only on the
    state has no such bias.

    ## Action space
    `Discrete(1)`: one action.

    ## Observation space
    `Discrete(length + 3)`: 0..length along the lead-in, length + 1 is A, length + 2 is B (both terminal).

    ## Rewards
    `reward` on entering B, zero otherwise.

    ## Starting state
    Always 0.

    ## End of an episode
    After `length` + 1 transitions.

    ## Arguments
    * `probability` (0.9): of A.
    * `reward` (10): of B.
    * `length` (1): certain transitions before the branch, at least 0.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    A control problem of this package for the learners of Ramesh, Young, Kirsch, Schmidhuber: "Sequence Compression
    Speeds Up Credit Assignment in Reinforcement Learning", ICML 2024.

    ## Version history
    * v0: first release.
    """

    def __init__(self, probability: float = 0.9, reward: float = 10.0, length: int = 1, render_mode: str | None = None):
        super().__init__(SkewedSplit.make(probability, reward, length), render_mode=render_mode)
