"""Named golden cases: functions of an `api` that return arrays by name. Every number that they return is a promise.

study/…   short runs of every tabular arm of every kept study, at three step sizes, with every checkpoint and column
part/…    one run of every kept part in `simulate`
agent/…   the same parts in `agent.step` and `agent.learn`
network/… λs that networks gave, replayed
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from . import problems

CASES = {}
FIELDS = ("misses", "misses_at", "probes_at", "returns_at", "discounted_at", "steps", "values", "diverged", "lambda_at")
NETWORKS = Path(__file__).parent / "networks.npz"


def add(name, case, /, **settings):
    assert name not in CASES, name
    CASES[name] = partial(case, **settings) if settings else case


def columns(runs):
    """Every column of a result of `simulate`."""
    return {name: getattr(runs, name) for name in FIELDS if getattr(runs, name) is not None}


def simulated(api, dynamics, *, step_sizes, seeds=(0, 1), marks=10, episodes, **settings):
    """`simulate` at some step sizes and seeds, with equally spaced checkpoints."""
    sizes, seeds_ = (part.ravel() for part in np.meshgrid(step_sizes, seeds))
    record = np.linspace(episodes / marks, episodes, marks).astype(int).tolist()
    settings = {"record_at": record, "episodes": episodes, "threads": 1, "keep_values": True, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", api.DivergenceWarning)
        return columns(api.simulate(dynamics, step_sizes=sizes, seeds=seeds_, **settings))


def settled(settings, api):
    """Settings of a case, whose values may be functions of the api."""
    return {name: value(api) if callable(value) else value for name, value in settings.items()}


def part(name, *arguments, **keywords):
    """A part of the package by name, made when a case runs."""
    return lambda api: getattr(api, name)(*arguments, **settled(keywords, api))


def paper_sizes(*exponents):
    return [0.1 * 2.0**j for j in exponents]


# ---- the paper's problems, and the skewed split


def study(api, *, problem, make, epsilon=None, division=None, **settings):
    dynamics = getattr(api, problem).make(**make)
    settings = settled(settings, api)
    if epsilon is not None:
        points, hold = epsilon
        number = settings["episodes"]
        settings["epsilon"] = np.broadcast_to(api.Schedule(points, hold=hold).over(np.arange(number)), number).copy()
    return simulated(api, dynamics, **settings)


FORWARD, EXPECTED, FACTORED = part("ForwardLambda"), part("ExpectedLambda"), part("FactoredLambda")
COUNTS, ORACLE = {"model": "counts"}, {"model": "oracle"}


def add_studies():
    chain = {"problem": "ChainAndSplit", "make": {"horizon": 20, "actions": 10, "width": 101}, "learner": "sarsa"}
    chain |= {"epsilon": (((0, 1.0),), False), "episodes": 20_000, "probes": [(0, a) for a in range(10)]}
    chain |= {"step_sizes": paper_sizes(-4, -8, -11)}
    for arm, source, more in (
        ("sarsa-0", 0.0, {}),
        ("sarsa-1", 1.0, {}),
        ("chunked", FORWARD, COUNTS),
        ("expected", EXPECTED, COUNTS),
        ("chunked-oracle", FORWARD, ORACLE),
    ):
        add(f"study/chain-and-split/{arm}", study, lambda_source=source, **chain, **more)

    sizes = {"horizon": 200, "points": 10, "success": 0.5, "bonus": 0.1}
    charge = {"problem": "AccumulatedCharge", "learner": "sarsa", "episodes": 3_000}
    charge |= {"epsilon": (((0, 1.0), (1_000, 0.1)), True), "step_sizes": paper_sizes(0, -4, -10), "marks": 30}
    for sign, made in (("", sizes), ("-mirrored", {**sizes, "mirrored": True})):
        for value in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0):
            add(f"study/accumulated-charge{sign}/sarsa-{value:g}", study, lambda_source=value, make=made, **charge)
        for arm, source, more in (
            ("chunked-counts", FORWARD, COUNTS),
            ("expected-counts", EXPECTED, COUNTS),
            ("chunked-oracle", FORWARD, ORACLE),
        ):
            add(f"study/accumulated-charge{sign}/{arm}", study, lambda_source=source, make=made, **charge, **more)
    signs = charge | {"episodes": 2_000, "step_sizes": paper_sizes(-1, -4, -7)}
    for arm, source, view in (
        ("tilted", part("TiltedLambda"), "offline"),
        ("expected", part("TiltedLambda", expected=True), "offline"),
        ("averaged", part("TiltedLambda"), part("Averaged")),
        ("first", part("TiltedLambda", trial=1), part("Averaged")),
        ("five", part("TiltedLambda", trial=5), part("Averaged")),
        ("five-constant", part("TiltedLambda", trial=5), "offline"),
        ("n-over-n", part("BackwardLambda"), part("Averaged")),
        ("tdc", part("BackwardLambda"), part("Corrected")),
    ):
        add(f"study/charge-signs/{arm}", study, lambda_source=source, view=view, make=sizes, **signs)

    door = {"problem": "KeyToDoor", "learner": "expected_sarsa", "episodes": 1_500}
    door |= {"epsilon": (((0, 1.0), (500, 0.1)), False), "marks": 30}
    sizes = {"horizon": 100, "distractors": 4}
    for value in (0.0, 0.1, 0.5, 0.9, 1.0):
        fixed = {"lambda_source": value, "make": sizes, "step_sizes": paper_sizes(1, -3, -7)}
        add(f"study/key-to-door/expected-sarsa-{value:g}", study, **fixed, **door)
    for arm, source in (("c-default", FORWARD), ("c-factored", FACTORED)):
        oracle = {"lambda_source": source, "make": sizes, "step_sizes": paper_sizes(1, -1, -3), **ORACLE}
        add(f"study/key-to-door/{arm}-oracle", study, **oracle, **door)
    scalar, shifted = {**sizes, "scalar_reward": True}, (*((i + 4) % 8 for i in range(8)), tuple(range(8)))
    learned = part("LearnedComponents", 0.01)
    for arm, source, more in (
        ("expected-sarsa-1", 1.0, {}),
        ("c-default", FORWARD, COUNTS),
        ("c-factored", FACTORED, COUNTS | {"make": sizes}),
        ("c-learned", FACTORED, COUNTS | {"reward_source": learned}),
        ("c-shifted", part("FactoredLambda", components=shifted), COUNTS | {"reward_source": learned}),
    ):
        settings = {"make": scalar, "step_sizes": paper_sizes(0, -1, -2), "lambda_source": source, "episodes": 800}
        add(f"study/key-to-door-scalar/{arm}", study, **(door | settings | more))

    skewed = {"problem": "SkewedSplit", "make": {"probability": 0.9, "reward": 10.0, "length": 1}, "learner": "td"}
    skewed |= {"episodes": 5_000, "probes": [(0, 0)], "step_sizes": paper_sizes(-3, -5, -7)}
    for arm, source, more in (
        ("td-0", 0.0, {}),
        ("td-0.9", 0.9, {}),
        ("td-1", 1.0, {}),
        ("chunked", FORWARD, COUNTS),
        ("chunked-oracle", FORWARD, ORACLE),
        ("expected", EXPECTED, COUNTS),
    ):
        add(f"study/skewed-split/{arm}", study, lambda_source=source, **skewed, **more)


# ---- studies on tables: credit, linear key-to-door, memory, wrong models


def credit(api, *, problem, behaviour, **settings):
    table = problem(api)
    settings = {"learner": "expected_sarsa", "view": "traces", "discount": 0.95} | settled(settings, api)
    if behaviour == "given":
        policy = problems.normed(problems.behaviour(table.n_states, table.n_actions))
        acting = {"exploration": api.GivenPolicy(policy)}
    else:
        acting = {"epsilon": 0.1, "exploration": api.ReturnBonus() if behaviour == "bonus" else None}
    probes = [(s, a) for s in range(table.n_states) for a in range(table.n_actions)]
    return simulated(api, table, step_sizes=[1.0, 0.25, 0.0625], episodes=300, probes=probes, **acting, **settings)


def linear(api, *, length, sure=False, **settings):
    table = api.linear_key_to_door(length, seed=2022, worth=(0.5,) if sure else (0.1, 0.9))
    ways = {"learner": "expected_sarsa", "episodes": 1_000}
    ways["epsilon"] = api.Schedule(((0, 1.0), (800, 0.0))).over(np.arange(1_000))
    return simulated(api, table, step_sizes=[0.5, 0.125, 2.0**-6], **(ways | settled(settings, api)))


def memory(api, *, active, episodes, **settings):
    dynamics = api.TimedTMaze.make(corridor=20, active=active, slots=2)
    horizon = 20 + (3 if active else 1)
    falling = ((0, 1.0), (episodes // 5, 1 / horizon), (episodes - 101, 1 / horizon), (episodes - 100, 0.0))
    epsilon = {"epsilon": api.Schedule(falling).over(np.arange(episodes))}
    settings = {"learner": "sarsa", "view": "traces", "replacing": True} | epsilon | settled(settings, api)
    return simulated(api, dynamics, step_sizes=[0.05, 0.02, 0.2], episodes=episodes, **settings)


def wrong(api, *, error, **settings):
    model = settled({"model": error}, api)
    settings = settled(settings, api) | model
    return simulated(
        api, problems.table(api), learner="expected_sarsa", step_sizes=[0.5, 0.1, 0.02], episodes=150, **settings
    )


def lineage(**keywords):
    return part("Lineage", **keywords)


def half(weight=0.5):
    return part("ExpectedError", weight)


CREDIT = {
    **{f"accumulating-{v:g}": {"lambda_source": v} for v in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)},
    **{f"replacing-{v:g}": {"lambda_source": v, "replacing": True} for v in (0.4, 0.8, 0.9, 0.95, 1.0)},
    "lineage-expected": {"lambda_source": 1.0, "view": lineage(prior=1.0), "reward_source": half()},
    "lineage": {"lambda_source": 1.0, "view": lineage(prior=0.0)},
    "lineage-prior": {"lambda_source": 1.0, "view": lineage(prior=1.0)},
    "lineage-zero": {"lambda_source": 1.0, "view": lineage(prior=0.0, returns="zero")},
    "lineage-all-expected": {"lambda_source": 1.0, "view": lineage(prior=1.0), "reward_source": half(1.0)},
    "lineage-steps-expected": {
        "lambda_source": 1.0,
        "view": lineage(prior=1.0, counts="steps"),
        "reward_source": half(),
    },
    "replacing-0.9-expected": {"lambda_source": 0.9, "replacing": True, "reward_source": half()},
    "falling": {"lambda_source": part("FallingLambda")},
    "monte-carlo-averaged": {"lambda_source": 1.0, "view": part("Averaged")},
    "forward": {"lambda_source": FORWARD},
    "expected": {"lambda_source": EXPECTED},
}
ONCE = ("forward", "expected", "falling", "monte-carlo-averaged")
"""Methods that are played under one behaviour here: each behaviour of each of them is a program more."""


def add_table_studies():
    for name, settings in CREDIT.items():
        for behaviour in ("given", "bonus", "greedy"):
            if behaviour == "greedy" or name not in ONCE:
                add(f"study/credit/{name}/{behaviour}", credit, problem=problems.table, behaviour=behaviour, **settings)
    rule = CREDIT["lineage-expected"]
    add("study/credit/lake/greedy", credit, problem=problems.lake, behaviour="greedy", **rule)
    for arm, settings in (
        *((f"fixed-{v:g}", {"lambda_source": v}) for v in (0.0, 0.5, 0.9, 1.0)),
        ("chunked", {"lambda_source": FORWARD}),
        ("expected", {"lambda_source": EXPECTED}),
        ("lineage", {"lambda_source": 1.0, "view": lineage(prior=1.0)}),
        ("rule", rule),
        ("chunked-always", {"lambda_source": FORWARD, "epsilon": 0.1}),
        ("rule-always", rule | {"epsilon": 0.1}),
    ):
        add(f"study/linear-key-to-door/{arm}", linear, length=23, **settings)
    add("study/linear-key-to-door/sure", linear, length=23, sure=True, **rule)
    for active in (False, True):
        maze, way = "active" if active else "passive", {"active": active, "episodes": 2_000}
        add(f"study/memory/{maze}/sarsa-0.9-falling", memory, lambda_source=0.9, **way)
        add(f"study/memory/{maze}/chunked-falling", memory, lambda_source=FORWARD, **way)
        for name, scale in (("bonus", 10.0), ("strong", 20.0)):
            bonus = {"exploration": part("CountBonus", scale), "epsilon": 0.0}
            add(f"study/memory/{maze}/chunked-{name}", memory, lambda_source=FORWARD, **bonus, **way)
        for name, start in (("stay", 1.0), ("quarter", 0.25)):
            stay = {"exploration": lambda api, start=start: _per_stay(api, start), "epsilon": None}
            add(f"study/memory/{maze}/chunked-{name}", memory, lambda_source=FORWARD, **stay, **way)
    errors = {
        "corrupted": part("CorruptedModel", 0.3),
        "permuted": part("PermutedModel", 0.3),
        "stale": part("StaleModel", until=10),
    }
    for name, error in errors.items():
        add(f"study/wrong-models/forward-{name}", wrong, error=error, lambda_source=FORWARD)
        add(f"study/wrong-models/expected-{name}", wrong, error=error, lambda_source=EXPECTED)
    dyna, solved = part("Dyna", steps=5), part("CertaintyEquivalence", sweeps=50, tolerance=1e-6)
    for (name, error), (base, planner) in (
        *((item, ("dyna", dyna)) for item in errors.items()),
        *((item, ("solved", solved)) for item in errors.items()),
    ):
        add(f"study/wrong-models/{base}-{name}", wrong, error=error, lambda_source=0.0, planner=planner)


def _per_stay(api, start):
    return api.EpsilonPerStay(api.Schedule(((0, start), (1_900, 0.0))))


# ---- parts in `simulate`

LEARNERS = ("td", "sarsa", "expected_sarsa", "q_learning")
SOURCES = {
    "constant": part("ConstantLambda", 0.8),
    "forward": FORWARD,
    "forward-literal": part("ForwardLambda", literal=True),
    "forward-free": part("ForwardLambda", policy_noise=False),
    "expected": EXPECTED,
    "expected-literal": part("ExpectedLambda", literal=True),
    "expected-free": part("ExpectedLambda", policy_noise=False),
    "backward": part("BackwardLambda"),
    "factored": FACTORED,
    "factored-parts": part("FactoredLambda", components=((0, 2), 1, 2)),
    "factored-free": part("FactoredLambda", policy_noise=False),
    "value": part("ValueLambda"),
    "value-free": part("ValueLambda", policy_noise=False),
    "visit": part("VisitLambda"),
    "watkins": part("WatkinsLambda", 0.9),
    "greedy": part("GreedyLambda"),
    "adaptive": part("AdaptiveLambda", least_weight=0.05),
    "meta-gradient": part("MetaGradientLambda"),
    "meta-gradient-states": part("MetaGradientLambda", per_state=True, reference=0.5),
}


def simulated_part(api, *, problem=problems.parts_table, episodes=80, **settings):
    settings = {"step_sizes": [0.1], "view": "traces", "epsilon": 0.2, "discount": 0.97, **settled(settings, api)}
    return simulated(api, problem(api), episodes=episodes, keep_lambda=True, **settings)


def goes(source, learner, view="traces"):
    """Whether a source goes with a learner."""
    if source.startswith("factored") and learner == "sarsa":
        return False
    return not (view == "sampled" and learner in ("expected_sarsa", "q_learning"))


def add_parts():
    for source, made in SOURCES.items():
        for learner in LEARNERS:
            if goes(source, learner):
                add(f"part/source/{source}/{learner}", simulated_part, lambda_source=made, learner=learner)
    for view in ("offline", "sampled", "true_online", "lineage"):
        for source in ("constant", "forward", "factored"):
            for learner in LEARNERS:
                if goes(source, learner, view) and (source != "factored" or view in ("offline", "true_online")):
                    settings = {"lambda_source": SOURCES[source], "learner": learner, "view": view}
                    add(f"part/view/{view}/{source}/{learner}", simulated_part, **settings)
    for source in ("forward", "expected", "factored", "value"):
        for learner in LEARNERS:
            if goes(source, learner):
                oracle = {"lambda_source": SOURCES[source], "learner": learner, "model": "oracle"}
                add(f"part/oracle/{source}/{learner}", simulated_part, **oracle)
    planners = {
        "dyna": part("Dyna", steps=3),
        "dyna-expected": part("Dyna", steps=3, expected=True, direct=False),
        "dyna-greedy": part("Dyna", steps=3, greedy=True),
        "sweeping": part("PrioritisedSweeping", steps=4),
        "sweeping-direct": part("PrioritisedSweeping", steps=4, direct=True),
        "solved": part("CertaintyEquivalence", sweeps=20),
        "solved-steps": part("CertaintyEquivalence", sweeps=3, every_step=True, direct=True),
    }
    for name, planner in planners.items():
        for learner in LEARNERS:
            if not (name == "dyna-greedy" and learner == "td"):
                settings = {"lambda_source": 0.5, "learner": learner, "planner": planner}
                add(f"part/planner/{name}/{learner}", simulated_part, **settings)
    for name, source in (("half", half()), ("guarded", part("ExpectedError", 1.0, guard=2.0))):
        for learner in LEARNERS:
            settings = {"lambda_source": SOURCES["forward"], "learner": learner, "reward_source": source}
            add(f"part/expected-error/{name}/{learner}", simulated_part, **settings)
    both = {"reward_source": half(), "planner": part("Dyna", steps=2)}
    add("part/planner/dyna-and-expected-error", simulated_part, lambda_source=0.5, learner="sarsa", **both)
    one = {"problem": problems.table}
    for learner in ("sarsa", "expected_sarsa", "q_learning"):
        bonus = {"exploration": part("CountBonus", 0.5), "lambda_source": SOURCES["forward"], "learner": learner}
        add(f"part/exploration/bonus/{learner}", simulated_part, **one, **bonus)
    add("part/replacing/sarsa", simulated_part, **one, lambda_source=0.9, learner="sarsa", replacing=True)
    add("part/initial-value/td", simulated_part, **one, lambda_source=0.9, learner="td", initial_value=1.5)
    add("part/initial-value/q_learning", simulated_part, **one, lambda_source=0.9, learner="q_learning",
        initial_value=1.5)  # fmt: skip
    add("part/diverges/sarsa", simulated_part, **one, lambda_source=1.0, learner="sarsa", step_sizes=[0.1, 30.0])
    learned = {"reward_source": part("LearnedComponents"), "lambda_source": FACTORED}
    for view in ("traces", "offline"):
        divided = partial(problems.table, seed=8, nvec=(2, 3, 2))
        settings = {"problem": divided, "learner": "expected_sarsa", "view": view}
        add(f"part/learned-components/{view}", simulated_part, **settings, **learned)
    plain = {"lambda_source": part("PlainLambda"), "learner": "expected_sarsa", "episodes": 30}
    add("part/plain-source", simulated_part, **one, **plain)


# ---- parts in `agent.step`


def run_steps(api, agent, env, episodes, lambdas=None, seed=3):
    """Episodes by `start` and `step`; writes actions and λs."""
    actions = []
    for k in range(episodes):
        observation, info = env.reset(seed=seed if k == 0 else None)
        action, ended = agent.start(observation, info), False
        while not ended:
            actions.append(action)
            observation, reward, terminated, truncated, info = env.step(action)
            action = agent.step(reward, observation, bool(terminated), bool(truncated), info)
            ended = terminated or truncated
            if lambdas is not None:
                lambdas.append(api.lambda_t(agent).copy())
    return np.array(actions)


def agent_case(api, *, learner, problem=problems.table, episodes=60, steps=True, values="table", **settings):
    env = problem(api)
    env = env.env() if hasattr(env, "env") and not isinstance(env, gym.Env) else env
    settings = {"step_size": 0.1, "seed": 5, **settled(settings, api)}
    agent, lambdas = getattr(api, learner)(env, **settings), []
    found = {"actions": run_steps(api, agent, env, episodes, lambdas)}
    if steps:
        found["lambda"] = np.array(lambdas[1:])
    history = agent.learn(env, episodes, progress=False)
    found |= {"returns": np.array(history.returns), "lengths": np.array(history.lengths)}
    return found | {"values": getattr(api, values)(agent)}


def wrapped(api, name, **settings):
    return getattr(problems, name)()


def kept(api):
    return api.envs.KeptPercepts(problems.Walk(), slots=2, clock=1)


def tiles(api, **settings):
    return api.TileCoding(problems.Slope(), tilings=4, **settings)


def own(api, **settings):
    def function(x):
        return np.array([1.0, x[0], x[1], x[0] * x[1], max(x[0], 0.0)])

    return api.OwnFeatures(function, 5, **settings)


def vector_case(api, *, learner, mode, **settings):
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    copies = SyncVectorEnv([problems.Walk] * 3, autoreset_mode=AutoresetMode[mode])
    agent = getattr(api, learner)(copies, step_size=0.3, discount=0.95, seed=5, **settled(settings, api))
    first = agent.learn(copies, 40, progress=False)
    second = agent.learn(copies, steps=200, progress=False)
    found = {"returns": np.concatenate([first.returns, second.returns]), "values": api.table(agent)}
    return found | {"lengths": np.concatenate([first.lengths, second.lengths])}


def recorded(seed=2, episodes=25):
    """Episodes of a random policy on the walk."""
    rng, env, found = np.random.default_rng(seed), problems.Walk(), []
    for k in range(episodes):
        observation, info = env.reset(seed=seed if k == 0 else None)
        episode = {name: [] for name in ("observations", "actions", "rewards", "terminations", "truncations")}
        episode |= {"action_masks": [info["action_mask"]], "probabilities": []}
        episode["observations"].append(observation)
        ended = False
        while not ended:
            legal = np.flatnonzero(info["action_mask"])
            action = int(rng.choice(legal)) + 1
            observation, reward, terminated, truncated, info = env.step(action)
            for name, value in (("observations", observation), ("actions", action), ("rewards", reward)):
                episode[name].append(value)
            episode["terminations"].append(terminated)
            episode["truncations"].append(truncated)
            episode["action_masks"].append(info["action_mask"])
            episode["probabilities"].append(1.0 / legal.size)
            ended = terminated or truncated
        found.append(episode)
    return found


def logged_case(api, *, learner, behaviour, **settings):
    agent = getattr(api, learner)(problems.Walk(), step_size=0.2, discount=0.9, seed=1, **settled(settings, api))
    history = agent.learn_from(recorded(), behaviour=behaviour)
    return {"returns": np.array(history.returns), "values": api.table(agent)}


def saved_case(api, *, learner, problem=problems.table, values="table", **settings):
    """A learner that is saved and loaded in the middle of an episode goes on as if it had not been."""
    import copy
    import tempfile

    env = problem(api)
    env = env.env() if hasattr(env, "env") and not isinstance(env, gym.Env) else env
    agent = getattr(api, learner)(env, step_size=0.1, seed=5, **settled(settings, api))
    agent.learn(env, 20, progress=False)
    observation, info = env.reset(seed=9)
    action = agent.start(observation, info)
    for _ in range(3):
        observation, reward, terminated, truncated, info = env.step(action)
        action = agent.step(reward, observation, bool(terminated), bool(truncated), info)
        if action is None:
            observation, info = env.reset()
            action = agent.start(observation, info)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.ctd"
        agent.save(path)
        other = api.load(path)
    found = []
    for one, world in ((agent, env), (other, copy.deepcopy(env))):
        now, taken = action, []
        while now is not None:
            observation, reward, terminated, truncated, info = world.step(now)
            now = one.step(reward, observation, bool(terminated), bool(truncated), info)
            taken.append(-1 if now is None else now)
        found.append({"taken": np.array(taken), "values": getattr(api, values)(one)})
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])
    return found[0]


def policy_of(observation):
    return np.array([0.2, 0.3, 0.5])


def sutton_singh_case(api, *, learner):
    env = problems.table(api, masks=False).env()
    agent = getattr(api, learner)(env, discount=0.9, seed=2)
    history = agent.learn(env, 60, progress=False)
    return {"returns": np.array(history.returns), "values": api.table(agent)}


def add_agents():
    two = {"problem": problems.parts_table}
    for learner in ("ChunkedTD", "ChunkedSarsa", "ChunkedExpectedSarsa", "FactoredChunkedExpectedSarsa"):
        add(f"agent/{learner}", agent_case, learner=learner, **two)
    for learner in ("TDLambda", "SarsaLambda", "ExpectedSarsaLambda", "QLambda"):
        add(f"agent/{learner}", agent_case, learner=learner)
    add("agent/LineageExpectedSarsa", agent_case, learner="LineageExpectedSarsa", reward_source=half())
    for learner in ("DynaQ", "PrioritisedSweepingQ", "CertaintyEquivalentQ"):
        add(f"agent/{learner}", agent_case, learner=learner)
    for learner in ("NStepChunkedTD", "NStepChunkedSarsa"):
        add(f"agent/{learner}", agent_case, learner=learner)
    for learner in ("NaiveTD0", "TDOneOverN", "TDNOverN", "CorrectedTD"):
        add(f"agent/{learner}", sutton_singh_case, learner=learner)
    for source in ("expected", "backward", "value", "greedy", "meta-gradient"):
        add(f"agent/source/{source}", agent_case, learner="ChunkedExpectedSarsa", lambda_source=SOURCES[source])
    add("agent/view/offline", agent_case, learner="ChunkedSarsa", view="offline")
    add("agent/view/true-online", agent_case, learner="ChunkedSarsa", view="true_online")
    add("agent/percept", agent_case, learner="ChunkedExpectedSarsa", percept="reward-state")
    add("agent/prior", agent_case, learner="ChunkedSarsa", prior=0.5)
    add("agent/prior-expected", agent_case, learner="ChunkedSarsa", prior=0.5, lambda_source=SOURCES["expected"])
    add("agent/cutoff", agent_case, learner="ChunkedSarsa", cutoff=0.05)
    add("agent/replacing", agent_case, learner="SarsaLambda", replacing=True)
    add("agent/reward-weights", agent_case, learner="ChunkedExpectedSarsa", reward_weights=[0.5, -2.0, 1.0], **two)
    add("agent/initial-value", agent_case, learner="ChunkedExpectedSarsa", initial_value=2.0)
    add("agent/policy", agent_case, learner="ChunkedTD", policy=lambda api: policy_of)
    add("agent/schedules", agent_case, learner="ChunkedSarsa", step_size=part("linear", 0.5, 0.05, 80),
        epsilon=part("Schedule", ((0, 1.0), (50, 0.0))))  # fmt: skip
    add("agent/exploration/bonus", agent_case, learner="ChunkedSarsa", exploration=part("CountBonus", 1.0))
    add("agent/learned-components", agent_case, learner="FactoredChunkedExpectedSarsa",
        problem=partial(problems.table, seed=8, nvec=(2, 3, 2)), reward_source=part("LearnedComponents"))  # fmt: skip
    add("agent/expected-error", agent_case, learner="ChunkedSarsa", reward_source=half())
    add("agent/wrong-model", agent_case, learner="ChunkedSarsa", model=part("PermutedModel", 0.3))
    add("agent/plain-source", agent_case, learner="ChunkedExpectedSarsa", lambda_source=part("PlainLambda"))
    add("agent/plain-source/sarsa", agent_case, learner="ChunkedSarsa", lambda_source=part("PlainLambda"))
    add("agent/model-object", agent_case, learner="ChunkedExpectedSarsa", model=part("PlainModel", 3))
    add("agent/model-object/expected", agent_case, learner="ChunkedSarsa", model=part("PlainModel", 3),
        lambda_source=SOURCES["expected"])  # fmt: skip
    add("agent/first-sight", agent_case, learner="ChunkedSarsa", problem=partial(wrapped, name="Words"), episodes=12)
    add("agent/first-sight/lineage", agent_case, learner="LineageExpectedSarsa", reward_source=half(),
        problem=partial(wrapped, name="Words"), episodes=6)  # fmt: skip
    add("agent/first-sight/dyna", agent_case, learner="DynaQ", problem=partial(wrapped, name="Words"), episodes=6)
    add("agent/mask", agent_case, learner="ChunkedSarsa", problem=partial(wrapped, name="Walk"))
    add("agent/kept-percepts", agent_case, learner="ChunkedSarsa", problem=kept)
    slope = {"problem": partial(wrapped, name="Slope"), "episodes": 15}
    add("agent/discretise", agent_case, learner="ChunkedSarsa", **slope,
        indexer=lambda api: api.Discretise(problems.Slope(), bins=6))  # fmt: skip
    add("agent/codebook", agent_case, learner="ChunkedSarsa", **slope,
        indexer=lambda api: api.Codebook(problems.Slope(), codes=40))  # fmt: skip
    for learner in ("SarsaLambda", "ChunkedSarsa", "ChunkedExpectedSarsa", "ChunkedTD", "QLambda"):
        add(f"agent/tiles/{learner}", agent_case, learner=learner, **slope, indexer=tiles, values="weights")
    add("agent/tiles/offline", agent_case, learner="ChunkedSarsa", **slope, indexer=tiles, values="weights",
        view="true_online")  # fmt: skip
    add("agent/own-features", agent_case, learner="SarsaLambda", **slope, indexer=own, values="weights")
    for mode in ("NEXT_STEP", "SAME_STEP"):
        for learner in ("ChunkedSarsa", "NStepChunkedSarsa", "DynaQ"):
            add(f"agent/vector/{mode}/{learner}", vector_case, learner=learner, mode=mode)
    add("agent/logged/own", logged_case, learner="ChunkedSarsa", behaviour=None)
    add("agent/logged/uniform", logged_case, learner="ChunkedExpectedSarsa", behaviour="uniform")
    add("agent/logged/recorded", logged_case, learner="ExpectedSarsaLambda", behaviour="recorded")
    for learner in ("ChunkedSarsa", "NStepChunkedSarsa", "DynaQ"):
        add(f"agent/saved/{learner}", saved_case, learner=learner)
    add("agent/saved/LineageExpectedSarsa", saved_case, learner="LineageExpectedSarsa", reward_source=half())
    add("agent/saved/tiles", saved_case, learner="ChunkedSarsa", problem=partial(wrapped, name="Slope"), indexer=tiles,
        values="weights")  # fmt: skip
    add("agent/saved/first-sight", saved_case, learner="ChunkedExpectedSarsa", problem=partial(wrapped, name="Words"))


# ---- λs of networks


def network_case(api, *, name):
    with np.load(NETWORKS) as data:
        answers = data[name].astype(np.float32)
    episodes = len(answers)
    if name == "charge":
        dynamics, learner, source = api.AccumulatedCharge.make(horizon=8, points=2), "sarsa", api.ForwardLambda()
        columns, epsilon = [0, 0, 0], 0.1
    else:
        dynamics, learner = api.KeyToDoor.make(horizon=8, distractors=1), "expected_sarsa"
        source, columns, epsilon = api.FactoredLambda(), [-1, -1, -1], 0.2
    return api.replay(
        dynamics, learner=learner, source=source, discount=1.0, epsilons=np.full(episodes, epsilon), seeds=[4, 5, 6],
        step_sizes=[0.5, 0.25, 0.05], columns=columns, answers=answers,
    )  # fmt: skip


def add_networks():
    for name in ("charge", "door"):
        add(f"network/{name}", network_case, name=name)


add_studies()
add_table_studies()
add_parts()
add_agents()
add_networks()
