"""Attacks on saved agents and on run directories: damaged bytes, crafted contents, things that are not files."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from attack.registry import Case, Found, Outcome, attack

# ---- saved agents


@functools.cache
def agents() -> dict[str, bytes]:
    """Saved agents of several kinds, in the middle of an episode, as bytes."""
    import tempfile

    import gymnasium as gym

    import chunked_td as ctd

    made = {
        "sarsa": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, epsilon=ctd.linear(1.0, 0.1, 30)),
        "backward": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, lambda_source=ctd.BackwardLambda()),
        "sampled": ctd.NStepChunkedTD(gym.make("FrozenLake-v1"), seed=1, percept="reward-state"),
        "tdc": ctd.CorrectedTD(gym.make("FrozenLake-v1"), seed=1),
        "hashed": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, indexer=ctd.make_indexer(None)),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, agent in made.items():
            walk(agent, 200)
            path = Path(folder) / name
            agent.save(path)
            found[name] = path.read_bytes()
            walk(ctd.load(path), 5)  # compiles what the cases will run
    return found


def walk(agent: object, steps: int) -> None:
    """Play on among the states that FrozenLake has."""
    rng = np.random.default_rng(0)
    fresh = agent.state < 0  # type: ignore[attr-defined]
    for _ in range(steps):
        state = int(rng.integers(16))
        if fresh:
            fresh = agent.start(state) is None  # type: ignore[attr-defined]
        else:
            fresh = agent.step(float(rng.random()), state, bool(rng.random() < 0.05)) is None  # type: ignore[attr-defined]


def try_agent(case: Case, content: bytes, original: bytes) -> Outcome:
    """Load bytes that were damaged: refused by name, or the same agent."""
    import chunked_td as ctd

    path = case.folder / "agent.ctd"
    path.write_bytes(content)
    try:
        agent = ctd.load(path)
    except ValueError as error:
        if "agent.ctd" not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error does not name the file: {error}") from error
        return Outcome.REFUSED
    agent.save(case.folder / "again.ctd")
    if (case.folder / "again.ctd").read_bytes() != original:
        raise Found(Outcome.SILENT, "loaded with other content")
    return Outcome.SAME


def pick(case: Case) -> tuple[str, bytes]:
    """One of the saved agents."""
    name = list(agents())[int(case.rng.integers(len(agents())))]
    case.say(name)
    return name, agents()[name]


@attack("saved agent: flipped bits", prepare=agents)
def flipped_bits(case: Case) -> Outcome:
    _, original = pick(case)
    damaged = bytearray(original)
    for _ in range(int(case.rng.choice([1, 1, 1, 2, 8]))):
        place, bit = int(case.rng.integers(len(damaged))), int(case.rng.integers(8))
        case.say(f"byte {place} bit {bit}")
        damaged[place] ^= 1 << bit
    return try_agent(case, bytes(damaged), original)


@attack("saved agent: cut short", prepare=agents)
def cut_agent(case: Case) -> Outcome | None:
    original = agents()["sarsa"]
    if case.number >= len(original):
        return None
    case.say(f"{case.number} bytes")
    return try_agent(case, original[: case.number], original)


@attack("saved agent: bytes added or moved", prepare=agents)
def spliced_agent(case: Case) -> Outcome:
    _, original = pick(case)
    place, length = int(case.rng.integers(len(original) + 1)), int(case.rng.integers(1, 100))
    kind = int(case.rng.integers(4))
    case.say(f"{('added', 'in front', 'inside', 'repeated')[kind]}: {length} at {place}")
    noise = case.rng.bytes(length)
    damaged = {
        0: original + noise,
        1: noise + original,
        2: original[:place] + noise + original[place:],
        3: original[:place] + original[max(place - length, 0) :],
    }[kind]
    return try_agent(case, damaged, original) if damaged != original else Outcome.SAME
