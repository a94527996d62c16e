"""Corridors: a first choice that matters, a way that takes time, chance on the way, and a reward at the end.

One generator has all the dials. In each start state one of two actions is right. Its effect, `gain` in expectation, is
paid `delay` steps later. On the way, chance has a say: in rewards, in states that decide the last reward, or in states
that decide nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from chunked_td.envs.table import TransitionTable
from studies.credit.families.family import Family, family

NOWHERE, REWARD, STATE, DISTRACTOR = "nowhere", "reward", "state", "distractor"


def corridor(
    *,
    delay: int = 16,
    noise: str = NOWHERE,
    noisy_steps: int = 0,
    size: float = 1.0,
    skew: float = 0.5,
    bits: int = 1,
    starts: int = 1,
    actions: int = 1,
    end_noise: float = 0.0,
    gain: float = 1.0,
) -> TransitionTable:
    """One choice, a corridor, a reward.

    Args:
      delay: steps between the choice and the last reward.
      noise: where chance has a say: NOWHERE, in a REWARD on the way, in a STATE that decides the last reward, or in a
        DISTRACTOR that decides nothing.
      noisy_steps: on how many of the steps.
      size: standard deviation of the noise of one such step.
      skew: probability of the better of its two outcomes; 0.5 is symmetric. The mean is zero in any case.
      bits: of the distractor, drawn anew on every noisy step.
      starts: start states, all of which lead into the same two corridors.
      actions: number of actions on the way, all with the same effect.
      end_noise: standard deviation of symmetric noise in the last reward.
      gain: difference that the right choice makes.
    """
    spacing = delay / max(noisy_steps, 1)
    noisy = {1 + int(i * spacing) for i in range(noisy_steps)}
    n_actions = max(2, actions)
    up, down = _two_points(size, skew)

    def outcomes(state: tuple[Any, ...], action: int) -> list[tuple[float, Any, float, bool]]:
        if state[0] == "start":
            chosen = int(action == state[1] % 2)
            return [(1.0, (chosen, 1, 0), 0.0, False)] if action < 2 else []
        if action >= actions:
            return []
        chosen, t, luck = state
        base = chosen * gain
        if t == delay:
            last = base + (luck * up + (noisy_steps - luck) * down if noise == STATE else 0.0)
            end = "right" if chosen else "wrong"
            return [(0.5, end, last + end_noise, True), (0.5, end, last - end_noise, True)]
        ahead = chosen, t + 1, luck
        if t not in noisy or noise == NOWHERE:
            return [(1.0, ahead, 0.0, False)]
        if noise == REWARD:
            return [(skew, ahead, up, False), (1 - skew, ahead, down, False)]
        if noise == STATE:
            return [(skew, (chosen, t + 1, luck + 1), 0.0, False), (1 - skew, ahead, 0.0, False)]
        return [(2.0**-bits, (chosen, t + 1, value), 0.0, False) for value in range(2**bits)]

    return TransitionTable.from_outcomes(
        outcomes,
        starts=[("start", k) for k in range(starts)],
        n_actions=n_actions,
        horizon=delay + 1,
        bad_end=["wrong"],
    )


def _two_points(size: float, skew: float) -> tuple[float, float]:
    """Two values with probabilities skew and 1 − skew, mean 0 and standard deviation `size`."""
    return size * ((1 - skew) / skew) ** 0.5, -size * (skew / (1 - skew)) ** 0.5


_family = partial(Family, make=corridor)

delay = _family(
    "delay",
    "Delay",
    "A first choice pays n certain steps later, with noise in that last reward.",
    dial="delay",
    settings=(4, 16, 64),
    fixed={"end_noise": 2.0},
)
noisy_rewards = _family(
    "noisy-rewards",
    "Noise in the rewards",
    "Sixteen certain steps, each of which pays a random reward that has nothing to do with the choice.",
    dial="size",
    settings=(0.3, 0.6, 1.2),
    fixed={"delay": 16, "noise": REWARD, "noisy_steps": 16, "skew": 0.5},
)
noisy_states = _family(
    "noisy-states",
    "Noise in states that matter",
    "Sixteen steps; on some of them chance decides a part of the last reward, and the state shows it.",
    dial="noisy_steps",
    settings=(2, 5, 10),
    fixed={"delay": 16, "noise": STATE, "size": 1.0},
)
distractors = _family(
    "distractors",
    "Noise in states that do not matter",
    "Eight steps; on each of them random bits that decide nothing are part of the state.",
    dial="bits",
    settings=(1, 3, 5),
    fixed={"delay": 8, "noise": DISTRACTOR, "noisy_steps": 8, "end_noise": 2.0},
)
fan_in = _family(
    "fan-in",
    "Many ways in",
    "So many start states lead into the same two corridors, whose end is noisy: what one learns helps the others.",
    dial="starts",
    settings=(2, 8, 32),
    fixed={"delay": 8, "end_noise": 2.0},
    episodes=1_000,
)
skew = _family(
    "skew",
    "Skewed noise",
    "Eight steps, three of them noisy: a rare gain against many small losses.",
    dial="skew",
    settings=(0.5, 0.2, 0.05),
    fixed={"delay": 8, "noise": STATE, "noisy_steps": 3, "size": 1.5},
)
policy = _family(
    "policy",
    "A policy that explores",
    "Sixteen certain steps with n actions each that all do the same: the only noise is the policy's own.",
    dial="actions",
    settings=(2, 4, 8),
    fixed={"delay": 16, "end_noise": 2.0},
    epsilon=0.3,
)


@family(
    "chain-and-split",
    "Chain-and-Split",
    dial="size",
    settings=(1.0, 4.0, 16.0),
    fixed={"length": 20},
)
def chain_and_split(*, length: int, size: float, branches: int = 9) -> TransitionTable:
    """The paper's first problem in small: a certain reward far away, or a noisy one nearby that is worth nothing.

    The far reward is 0.5 (0.01 in the paper), the noise has two outcomes (101), and the task is to choose.

    Args:
      length: of the chain. size: of the noise. branches: how many other actions there are.
    """

    def outcomes(state: Any, action: int) -> list[tuple[float, Any, float, bool]]:
        if state == 0:
            if action == 0:
                return [(1.0, 1, 0.0, False)]
            return [(1.0, "fork", 0.0, False)]
        if action > 0:
            return []
        if state == "fork":
            return [(0.5, "up", 0.0, False), (0.5, "down", 0.0, False)]
        if state in ("up", "down"):
            return [(1.0, "near", size if state == "up" else -size, True)]
        return [(1.0, "far", 0.5, True)] if state == length else [(1.0, state + 1, 0.0, False)]

    return TransitionTable.from_outcomes(
        outcomes, starts=0, n_actions=1 + branches, horizon=length + 3, bad_end=["near"]
    )


@family(
    "charge",
    "Accumulated-Charge",
    dial="steps",
    settings=(10, 20, 40),
)
def charge(*, steps: int, points: int = 4) -> TransitionTable:
    """The paper's second problem in small: charge collected by chance on the way is paid at the end.

    The first choice decides how likely each of the `points` gives charge (0.6 or 0.4).
    """
    every = max(1, steps // points)
    drawn = {t for t in range(1, steps) if t % every == 0 and t // every <= points}

    def outcomes(state: tuple[Any, ...], action: int) -> list[tuple[float, Any, float, bool]]:
        chosen, t, collected = state
        if t == 0:
            return [(1.0, (action, 1, 0), 0.0, False)]
        if action > 0:
            return []
        p = 0.6 if chosen else 0.4
        if t == steps:
            return [(1.0, ("end", chosen), float(collected), True)]
        if t in drawn:
            return [(p, (chosen, t + 1, collected + 1), 0.0, False), (1 - p, (chosen, t + 1, collected), 0.0, False)]
        return [(1.0, (chosen, t + 1, collected), 0.0, False)]

    return TransitionTable.from_outcomes(
        outcomes, starts=[(0, 0, 0)], n_actions=2, horizon=steps + 1, bad_end=[("end", 0)]
    )
