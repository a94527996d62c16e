"""Key-to-Door as a Gymnasium environment."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.key_to_door.dynamics import KeyToDoor


class KeyToDoorEnv(DynamicsEnv):
    """A key at the start for a door at the end, with distracting rewards in between.

    ## Description
    Two choices matter: "pick key" in the first state, and "unlock" in the last but one, which gives the treasure if the
    agent has the key. In between, distractors switch on and off at random, with rewards that do not depend on the
    actions. Because of their noise no transition is predictable as a whole, but the components that matter are
    predictable. Rewards are a vector, one number per state component (Section 4.3 of the paper).

    ## Action space
    `Discrete(2)`: 0 picks up the key, 1 unlocks the door. Both are legal in every state and have no effect in most.

    ## Observation space
    `MultiDiscrete([2] * (distractors + 3) + [horizon + 1])`:

    | component | meaning |
    |---|---|
    | 0 | key: "pick key" was the first action |
    | 1 | door: on at time horizon − 1 only |
    | 2.. | distractors: fair coins, off at times 0, horizon − 1 and horizon |
    | last but one | treasure |
    | last | time |

    ## Rewards
    A vector, in `reward_space`: the next state times (0, 0, w, …, w, `treasure_reward`, 0), with
    w = `distractor_reward` / `distractors`. With `scalar_reward` the sum of that vector.

    ## Starting state
    Everything off.

    ## End of an episode
    After `horizon` transitions.

    ## Arguments
    * `horizon` (100): transitions of an episode, at least 2.
    * `distractors` (4): from 0 to 32.
    * `treasure_reward` (0.01): for the treasure.
    * `distractor_reward` (0.01): for all distractors together.
    * `scalar_reward` (False): return the reward as a float.
    * `render_mode`: "ansi" or "rgb_array".

    Vector rewards follow mo-gymnasium: wrap the environment in `mo_gymnasium.wrappers.LinearReward` or
    `MOSyncVectorEnv` if a library requires it. Gymnasium's own vector environments and its passive checker accept only
    scalar rewards.

    ## References
    Ramesh, Young, Kirsch, Schmidhuber: "Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning",
    ICML 2024, Section 4.3 and App. A.3. The paper does not define the distractors of a final state without treasure;
    here they are off.

    ## Version history
    * v0: first release.
    """

    rewards_by_component = True  # reward i belongs to state component i

    def __init__(
        self,
        horizon: int = 100,
        distractors: int = 4,
        treasure_reward: float = 0.01,
        distractor_reward: float = 0.01,
        scalar_reward: bool = False,
        render_mode: str | None = None,
    ):
        dynamics = KeyToDoor.make(horizon, distractors, treasure_reward, distractor_reward, scalar_reward)
        super().__init__(dynamics, render_mode=render_mode)
        if not scalar_reward:
            low, high = np.minimum(dynamics.weights, 0.0), np.maximum(dynamics.weights, 0.0)
            self.reward_space = spaces.Box(low, high, dtype=np.float64)
