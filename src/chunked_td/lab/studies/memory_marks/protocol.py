"""A protocol is a maze with its length L, with the memory or, as a control, without."""

from __future__ import annotations

from dataclasses import replace

from chunked_td.lab.studies.deep.protocol import step_protocol
from chunked_td.lab.studies.deep.runner import AgentRunner
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study, misses_and_returns
from chunked_td.learners.exploration import CountBonus, EpsilonPerStay
from chunked_td.learners.schedule import Schedule

BUDGETS = {
    "passive": {
        50: 20_000, 100: 20_000, 250: 16_000, 500: 8_000, 750: 8_000, 1_000: 8_000, 1_250: 8_000, 1_500: 6_700,
        2_000: 6_700, 3_000: 6_700,
    },
    "active": {20: 40_000, 50: 40_000, 100: 40_000, 250: 32_000, 500: 16_000},
}  # fmt: skip
"""Episodes, by maze and L; as published up to `LONGEST`, beyond as at its end."""
LONGEST = {"passive": 1_500, "active": 500}
"""The longest corridors that were published."""
BLIND = 50
"""L of the control without a memory."""
LAST = 100
"""Episodes at the end that are scored."""
SEEN, JUDGED = 4, 20
"""Seeds that trials had seen; seeds after them."""
STEP_SIZES = (0.05, 0.02)
NETWORKS = {
    "ppo-kept": "PPO, percepts a GRU missed",
    "ppo-state": "PPO, state of a GRU",
}
"""Networks, by agent and memory: labels."""
NETWORK_LAMBDAS = {"0.95": "λ = 0.95", "recurrent": "λ from the GRU"}
NETWORK_CORRIDORS = (50,)
NETWORK_STEP_SIZE, BLOCKS = 3e-4, 20
"""Of PPO; parts of a run, of which the last is scored."""

_LAMBDAS = {
    "sarsa-0": ("SARSA(0)", 0.0),
    "sarsa-0.9": ("SARSA(0.9)", 0.9),
    "chunked": ("Chunked SARSA", "ForwardLambda"),
}
_STAYS = {
    "chunked-stay": ("Chunked SARSA, ε per stay from 1", 1.0),
    "chunked-quarter": ("Chunked SARSA, ε per stay from ¼", 0.25),
}
"""Arms with ε per stay: label, and ε at the start."""


def _arms() -> tuple[Arm, ...]:
    found, traces = [], {"view": "traces", "replacing": True}
    ways = {"falling": ("ε falling", {}), "bonus": ("count bonus", {"exploration": CountBonus(10.0), "epsilon": 0.0})}
    for way, (text, options) in ways.items():
        for name, (label, source) in _LAMBDAS.items():
            arm = Arm(f"{name}-{way}", f"{label}, {text}", "sarsa", source, in_paper=False, group=text)
            model = "counts" if name == "chunked" else None
            exponent = 0 if way == "bonus" else -1
            found.append(replace(arm, model=model, exponents=(exponent,), options={**traces, **options}))
    strong = replace(found[-1], id="chunked-strong", label="Chunked SARSA, strong bonus", group="strong bonus")
    found.append(replace(strong, options={**strong.options, "exploration": CountBonus(20.0)}))
    for name, (label, _) in _STAYS.items():
        options = {**traces, "exploration": EpsilonPerStay(), "epsilon": None}
        found.append(replace(strong, id=name, label=label, group="ε per stay", options=options))
    return tuple(found)


ARMS = _arms()


def protocol_of(maze: str, corridor: int, memory: bool = True, tiny: bool = False) -> Protocol:
    """The protocol of one maze and length."""
    episodes = 400 if tiny else BUDGETS[maze][corridor]
    horizon = corridor + (3 if maze == "active" else 1)
    falling = {
        name: EpsilonPerStay(Schedule(((0, start), (episodes - LAST, 0.0)))) for name, (_, start) in _STAYS.items()
    }
    arms = [
        replace(arm, options={**arm.options, "exploration": falling[arm.id]}) if arm.id in falling else arm
        for arm in ARMS
    ]
    return Protocol(
        id=f"memory-marks-{maze}-{corridor}{'' if memory else '-blind'}",
        title=f"{maze} T-maze, L = {corridor:,}{'' if memory else ', no memory'}",
        environment=Environment(
            "chunked_td.envs.t_maze.timed:TimedTMaze",
            {"corridor": corridor, "active": maze == "active", "slots": 2 if memory else 0},
        ),
        arms=tuple(arms),
        exponents=(0, -1),
        episodes=episodes,
        scoring=misses_and_returns,
        score_label="episodes that missed the goal",
        smoke=Size(seeds=2, episodes=episodes),
        record=((episodes - LAST, episodes - LAST), (episodes, LAST)),
        exploration=Schedule(
            ((0, 1.0), (episodes // 5, 1 / horizon), (episodes - LAST - 1, 1 / horizon), (episodes - LAST, 0.0))
        ),
        seeds=SEEN + JUDGED,
        seeds_per_batch=SEEN + JUDGED,
        step_sizes=STEP_SIZES,
        steps_per_episode=float(horizon),
        best=1.0,
        best_label="return with the goal known",
    )


NETWORK_ARMS = tuple(
    Arm(f"{name}-{of}", f"{label}, {text}", name.split("-")[0], of, in_paper=False, group="networks")
    for name, label in NETWORKS.items()
    for of, text in NETWORK_LAMBDAS.items()
)
"""Networks, as tables of results name them."""


def network_protocol(name: str, corridor: int, tiny: bool = False) -> Protocol:
    """The protocol of networks in a passive maze; ids of arms are λs."""
    agent, memory = name.split("-")
    steps = 4_096 if tiny else BUDGETS["passive"][corridor] * (corridor + 1)
    seeds, blocks = (2, 2) if tiny else (SEEN + JUDGED, BLOCKS)
    title = f"passive T-maze, L = {corridor:,}: {NETWORKS[name]}"
    maze = Environment("chunked_td.envs.tasks:TimedTMazeTask", {"corridor": corridor})
    arms = [Arm(id, label, agent, id, in_paper=False) for id, label in NETWORK_LAMBDAS.items()]
    runner = AgentRunner((tuple(NETWORK_LAMBDAS),), 0, SEEN, memory)
    id = f"memory-marks-passive-{corridor}-{name}"
    return step_protocol(id, title, maze, arms, (NETWORK_STEP_SIZE,), steps, blocks, seeds, runner)


def protocols(profile: str) -> list[Protocol]:
    """All lengths, the controls, and networks; one short maze each where the profile is not "paper"."""
    if profile != "paper":
        tables = [protocol_of(maze, 5, tiny=True) for maze in BUDGETS]
        return [*tables, *(network_protocol(name, 5, tiny=True) for name in NETWORKS)]
    found = [protocol_of(maze, corridor) for maze, lengths in BUDGETS.items() for corridor in lengths]
    found += [protocol_of(maze, BLIND, memory=False) for maze in BUDGETS]
    return found + [network_protocol(name, corridor) for name in NETWORKS for corridor in NETWORK_CORRIDORS]


STUDY = Study(
    "memory-marks", "Very long memory: published T-mazes", protocols, order=64, table="runs.parquet", by_default=False
)
