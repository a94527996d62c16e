"""Chain-and-Split as a Gymnasium environment."""

from __future__ import annotations

from chunked_td.envs.chain_and_split.dynamics import ChainAndSplit
from chunked_td.envs.face import DynamicsEnv


class ChainAndSplitEnv(DynamicsEnv):
    """A certain distant reward, or a noisy near one with mean 0.

    ## Description
    The first action decides the return. `a₁` (action 0) enters a chain whose last transition has a small, certain
    reward. Every other action leads to the state s_L and from there to one of `width` leaves at random, each with a
    different reward; their mean is zero. A learner needs a large λ along the chain and a small one at the split
    (Section 4.1 of the paper).

    ## Action space
    `Discrete(actions)`. All actions are legal in the start state, only action 0 elsewhere. `info["action_mask"]` has
    the legal actions; others raise `gymnasium.error.InvalidAction`.

    ## Observation space
    `Discrete(horizon + 2 + width)`:

    | state | meaning |
    |---|---|
    | 0 | start |
    | 1..horizon − 1 | along the chain |
    | horizon | end of the chain (terminal) |
    | horizon + 1 | s_L, before the split |
    | horizon + 2.. | the leaves (terminal) |

    ## Rewards
    `chain_reward` on the last transition of the chain. On entering leaf j of w, −1 + 2j/(w − 1). Zero otherwise.

    ## Starting state
    Always 0.

    ## End of an episode
    After `horizon` transitions along the chain, or after two transitions through s_L.

    ## Arguments
    * `horizon` (20): transitions along the chain, at least 2.
    * `actions` (10): actions in the start state, at least 2.
    * `width` (101): leaves, at least 2.
    * `chain_reward` (0.01): reward at the end of the chain.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    Ramesh, Young, Kirsch, Schmidhuber: "Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning",
    ICML 2024, Section 4.1 and App. A.1.

    ## Version history
    * v0: first release.
    """

    def __init__(
        self,
        horizon: int = 20,
        actions: int = 10,
        width: int = 101,
        chain_reward: float = 0.01,
        render_mode: str | None = None,
    ):
        super().__init__(ChainAndSplit.make(horizon, actions, width, chain_reward), render_mode=render_mode)
