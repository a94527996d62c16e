"""T-mazes as Gymnasium environments that hide their state."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from chunked_td._checks import check_flag
from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.t_maze.dynamics import TMaze
from chunked_td.envs.t_maze.timed import TimedTMaze


class TMazeEnv(DynamicsEnv):
    """A T-maze: remember a signal through a corridor of equal cells, and turn in its direction.

    ## Description
    The signal at the start shows which of two arms is rewarded. A corridor without the signal follows, then a junction.
    The percept at the junction is the same in both cases, so a learner without a memory can only guess.
    `chunked_td.envs.KeptPercepts` is such a memory, for tabular learners.

    ## Action space
    `Discrete(3)`: 0 forward, 1 up, 2 down. Forward leads along the corridor, up and down lead from the junction into
    an arm. Every other move is into a wall and changes nothing.

    ## Observation space
    `MultiDiscrete([4, 3, 3, prizes + 1])`, or `[corridor + 3, 3, 3, prizes + 1]` if `numbered`:

    | component | meaning |
    |---|---|
    | 0 | place: 0 start, 1 corridor, 2 junction, 3 arm; the number of the cell if `numbered` |
    | 1 | signal: 0 none, 1 up, 2 down |
    | 2 | outcome: 0 none, 1 the right arm, 2 the wrong one |
    | 3 | prize: 0 none, 1..prizes |

    With `hidden=False` the state itself, `Discrete(n)`; `env.unwrapped.dynamics.names` lists the states.

    ## Rewards
    1 for the right arm and 0 for the other; −0.025 for a move into a wall. With `prizes`, an arm shows one of n prizes
    at random. The reward then follows one step later, plus the prize's own number between −`spread` and `spread`: noise
    that a percept predicts.

    ## Starting state
    The start, with one of the two signals.

    ## End of an episode
    In an arm (with `prizes`, one step later). After 4 · (`corridor` + 4) steps it is truncated.

    ## Arguments
    * `corridor` (10): cells between the start and the junction, at least 1.
    * `numbered` (False): show the number of the cell.
    * `look` (False): the signal is shown only after the action "up" at the start.
    * `prizes` (0), `spread` (0.5): random prizes; 0 for none, or at least 2.
    * `walls` (True): whether only "forward" leads along the corridor; without walls every action does.
    * `hidden` (True): show percepts; False shows the state, which compiled runs require.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    B. Bakker: "Reinforcement Learning with Long Short-Term Memory", NIPS 14, 2002; here without a way back. With `look`
    after the active T-maze of T. Ni, M. Ma, B. Eysenbach, P.-L. Bacon: "When Do Transformers Shine in RL?", 2023.

    ## Version history
    * v0: first release.
    """

    def __init__(
        self,
        corridor: int = 10,
        numbered: bool = False,
        look: bool = False,
        prizes: int = 0,
        spread: float = 0.5,
        walls: bool = True,
        hidden: bool = True,
        render_mode: str | None = None,
    ):
        maze = TMaze(corridor, numbered, look, prizes, spread, walls)
        table = maze.table()
        super().__init__(table, render_mode=render_mode)
        self.hidden = check_flag("hidden", hidden)
        assert table.names is not None
        self._percepts = np.array([maze.percept(np, state) for state in table.names])  # type: ignore[arg-type]
        if hidden:
            self.observation_space = spaces.MultiDiscrete(list(maze.nvec))

    def _observation(self) -> Any:
        return self._percepts[self._state[0]].copy() if self.hidden else super()._observation()


class TimedTMazeEnv(DynamicsEnv):
    """The passive and the active T-maze of Ni et al.: a deadline, and a goal that is shown once.

    ## Description
    A corridor of L steps leads from the start to a junction; the goal is its upper or its lower end. It is shown once,
    on the first visit to the oracle: the start itself, or, if `active`, the cell to the left of the start. An episode
    has exactly the number of steps that the best policy needs.

    ## Action space
    `Discrete(4)`: 0 right, 1 up, 2 left, 3 down. A move into a wall changes nothing.

    ## Observation space
    `Discrete(6)`: the percept. With `slots`, `MultiDiscrete([6] + [7] * slots + [clock + 1])`: also the percepts that
    `chunked_td.envs.KeptPercepts` would keep, and the steps since it kept one.

    | percept | in the paper | meaning |
    |---|---|---|
    | 0 | [0, 0] | start, corridor, or an oracle that was visited before |
    | 1, 2 | [0, −1], [0, 1] | the oracle, first visit: the goal is down, up |
    | 3 | [1, 0] | junction |
    | 4, 5 | [1, −1], [1, 1] | lower end, upper end |

    ## Rewards
    1 at the goal at the last step, 0 at other places. Every earlier step has the reward −1/L if the agent is to the
    left of the best policy's position at that time. The best return is 1; without a memory it is ½ on average.

    ## Starting state
    The start; each goal with probability ½.

    ## End of an episode
    After L + 1 steps, or L + 3 if `active`.

    ## Arguments
    * `corridor` (10): L, at least 1.
    * `active` (False): whether the oracle must be visited first.
    * `slots` (0): percepts in memory, up to 4; `clock` (1), `threshold` (0.75): settings of that memory.
    * `render_mode`: "ansi" or "rgb_array".

    ## References
    T. Ni, M. Ma, B. Eysenbach, P.-L. Bacon: "When Do Transformers Shine in RL? Decoupling Memory from Credit
    Assignment", NeurIPS 2023.

    ## Version history
    * v0: first release.
    """

    def __init__(
        self,
        corridor: int = 10,
        active: bool = False,
        slots: int = 0,
        clock: int = 1,
        threshold: float = 0.75,
        render_mode: str | None = None,
    ):
        maze: Any = TimedTMaze.make(corridor, active, slots, clock, threshold)  # no true model: its state is hidden
        super().__init__(maze, render_mode=render_mode)
