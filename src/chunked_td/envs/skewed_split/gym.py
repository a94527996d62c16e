"""The skewed split as a Gymnasium environment."""

from __future__ import annotations

from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.skewed_split.dynamics import SkewedSplit


class SkewedSplitEnv(DynamicsEnv):
    """The smallest problem in which a λ that depends on the outcome biases the values.

    ## Description
    A certain lead-in ends in a branch: A, the likely one, pays nothing; B pays. A learner that takes the probability of
    the outcome itself as its λ weighs the errors after A and after B differently, and settles on a wrong value for the
    states of the lead-in even with a perfect model: on 0.28 instead of 1 in the default setting. A λ that depends on
    the state alone does not.

    ## Action space
    `Discrete(1)`: there is nothing to choose.

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
    * `reward` (10): what B pays.
    * `length` (1): certain transitions before the branch, at least 0.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    Our own control; the learners it probes are those of Ramesh, Young, Kirsch, Schmidhuber: "Sequence Compression
    Speeds Up Credit Assignment in Reinforcement Learning", ICML 2024.

    ## Version history
    * v0: first release.
    """

    def __init__(self, probability: float = 0.9, reward: float = 10.0, length: int = 1, render_mode: str | None = None):
        super().__init__(SkewedSplit.make(probability, reward, length), render_mode=render_mode)
