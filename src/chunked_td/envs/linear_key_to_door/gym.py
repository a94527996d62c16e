"""Linear key-to-door as a Gymnasium environment."""

from __future__ import annotations

from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.linear_key_to_door.dynamics import linear_key_to_door


class LinearKeyToDoorEnv(DynamicsEnv):
    """A key, many apples with random rewards, and a door: a small reward after large, noisy ones.

    ## Description
    A walk along `length` cells, one per step. The key is in the first cell, the door in the last but one, and most of
    the cells between have an apple on the left or on the right. Without the key the door stays shut.

    ## Action space
    `Discrete(4)`: 0 pick key, 1 left, 2 right, 3 open.

    ## Observation space
    `Discrete(n)`: cell, key and treasure; `env.unwrapped.dynamics.names` lists the states.

    ## Rewards
    0.1 or 0.9 with equal probabilities for an apple picked on its side, 0.2 for the treasure in the last cell, all
    multiplied by 23 / `length`.

    ## Starting state
    The first cell, without the key.

    ## End of an episode
    After `length` steps.

    ## Arguments
    * `length` (23): cells, at least 4.
    * `apples` (0.8): the probability that a cell between key and door has an apple.
    * `seed` (0): of the positions of the apples, the same in all episodes.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    A. Meulemans, S. Schug, S. Kobayashi, N. Daw, G. Wayne: "Would I have gotten that reward? Long-term credit
    assignment by counterfactual contribution analysis", NeurIPS 2023. There the observation is the position as a
    number, the content of the cell, and whether the key was taken; here a state is one number.

    ## Version history
    * v0: first release.
    """

    def __init__(self, length: int = 23, apples: float = 0.8, seed: int = 0, render_mode: str | None = None):
        super().__init__(linear_key_to_door(length, apples, seed), render_mode=render_mode)
