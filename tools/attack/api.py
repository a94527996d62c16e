"""Attacks on the API: strange arguments everywhere, calls in any order, threads, indexers and models that misbehave.

A case is well if it ends in ValueError or TypeError that names the argument, or if the call was accepted and everything
that follows works. Nothing else may come out, least of all a crash.
"""

from __future__ import annotations

import copy
import functools
import math
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tools.attack.registry import Case, Found, Outcome, attack

PLAIN = (None, True, False, 0, 1, -1, 2, 0.0, 0.5, -0.5, 1.5, 1e-320, 1e300, math.nan, math.inf, -math.inf)
LARGE = (10**18, 10**400, -(10**400), 2**63, -(2**63), 2**64)
TEXTS = ("", "0.5", "1", "nan", "uniform", "traces", "counts", b"1", "x" * 1000, "\0")
BOXES: tuple[Any, ...] = (
    [],
    {},
    (),
    [0.5],
    [[0.5], [0.5, 0.5]],
    {"a": 1},
    set(),
    1j,
    object,
    object(),
    len,
    lambda *_: 7,
)


def strange(rng: np.random.Generator) -> Any:
    """A value that most arguments do not take."""
    kind = int(rng.integers(6))
    if kind == 0:
        dtype = str(rng.choice(["float64", "float32", "int8", "bool", "complex128", "object", "U3", "datetime64[s]"]))
        shape = tuple(rng.integers(0, 4, int(rng.integers(0, 4))).tolist())
        return np.zeros(shape, dtype)
    if kind == 1:
        return np.float32(rng.normal()) if rng.random() < 0.5 else np.int16(rng.integers(-3, 3))
    values: tuple[Any, ...] = (PLAIN, LARGE, TEXTS, BOXES)[kind - 2]
    return values[int(rng.integers(len(values)))]


def text_of(value: Any) -> str:
    """For the report."""
    return f"{type(value).__name__} {str(value)[:40]!r}"


def attempt(case: Case, names: list[str], call: Callable[[], Any]) -> Outcome:
    """Make a call with bad arguments: refused by name, or accepted."""
    from chunked_td import Diverged

    try:
        call()
    except Diverged:
        return Outcome.HARMLESS  # the values were numbers, and learning broke down under them, as it says
    except (ValueError, TypeError, RuntimeError) as error:
        said = str(error)
        if not any(name in said for name in names):
            raise Found(
                Outcome.TRACEBACK, f"the error names none of {names}: {type(error).__name__}: {said}"
            ) from error
        return Outcome.REFUSED
    except MemoryError:
        return Outcome.REFUSED
    return Outcome.HARMLESS


# ---- learners


@functools.cache
def lake() -> Any:
    """A small environment."""
    import gymnasium as gym

    return gym.make("FrozenLake-v1", max_episode_steps=20)


SETTINGS = ("step_size", "discount", "epsilon", "seed", "lambda_source", "model", "policy", "view", "percept", "prior")
SETTINGS = (*SETTINGS, "replacing", "cutoff", "indexer")
LEARNERS = ("ChunkedSarsa", "ChunkedTD", "SarsaLambda", "ChunkedExpectedSarsa", "NStepChunkedSarsa")


def compile_learners() -> None:
    """So that no case has to wait for it."""
    import chunked_td as ctd

    for name in LEARNERS:
        getattr(ctd, name)(lake()).learn(lake(), 2, progress=False)


def as_policy(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a user's own function raises reaches the user as it is; here it is told from the learner's errors."""

    def policy(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise ValueError(f"raised by the policy itself: {error}") from error

    return policy


@attack("api: settings of a learner", prepare=compile_learners, seconds=60.0)
def settings_of_a_learner(case: Case) -> Outcome:
    """One or two strange settings, and some episodes if they are taken."""
    import chunked_td as ctd

    cls = getattr(ctd, str(case.rng.choice(LEARNERS)))
    names = [str(name) for name in case.rng.choice(SETTINGS, int(case.rng.integers(1, 3)), replace=False)]
    given = {name: strange(case.rng) for name in names}
    if callable(given.get("policy")):
        given["policy"] = as_policy(given["policy"])
    case.say(f"{cls.__name__}({', '.join(f'{name}={text_of(value)}' for name, value in given.items())})")

    def call() -> None:
        agent = cls(lake(), **given)
        agent.learn(lake(), 2, progress=False)
        agent.act(0), agent.values(0), repr(agent)

    return attempt(case, [*names, "lambda"], call)


@attack("api: steps", prepare=compile_learners, seconds=60.0)
def steps(case: Case) -> Outcome:
    """Strange rewards, observations, ends and masks; afterwards the learner goes on."""
    import chunked_td as ctd

    agent = getattr(ctd, str(case.rng.choice(LEARNERS)))(lake())
    outcomes = []
    agent.start(0)
    for _ in range(20):
        call: dict[str, Any] = {"reward": 0.5, "observation": 1, "terminated": False, "truncated": False, "info": None}
        name = str(case.rng.choice([*call, "action_mask", "start"]))
        value = strange(case.rng)
        case.said[:] = [f"{name}={text_of(value)}"]
        if name == "start":
            outcomes.append(attempt(case, ["observation", "step() before"], lambda value=value: agent.start(value)))
            continue
        if name == "info" and not isinstance(value, dict):
            continue
        call |= {"info": {"action_mask": value}} if name == "action_mask" else {name: value}
        if agent.state < 0:
            agent.start(0)
        outcomes.append(attempt(case, [name], lambda call=call: agent.step(**call)))
        if agent._state.watch[0]:  # a reward so large that learning has diverged
            return Outcome.HARMLESS
    if agent.state < 0:
        agent.start(0)
    attempt(case, [], lambda: agent.step(0.0, 3, True))  # learners without traces learn here, or say that they diverged
    return Outcome.REFUSED if Outcome.REFUSED in outcomes else Outcome.HARMLESS


@attack("api: calls in any order", prepare=compile_learners, seconds=60.0)
def calls_in_any_order(case: Case) -> Outcome:
    """Good calls in an order that makes no sense."""
    import chunked_td as ctd

    agent = getattr(ctd, str(case.rng.choice(LEARNERS)))(
        lake(), indexer=case.rng.choice([None, ctd.make_indexer(None)])
    )
    calls: dict[str, Callable[[], Any]] = {
        "start": lambda: agent.start(int(case.rng.integers(16))),
        "step": lambda: agent.step(float(case.rng.normal()), int(case.rng.integers(16)), bool(case.rng.random() < 0.2)),
        "learn": lambda: agent.learn(lake(), 1, progress=False),
        "act": lambda: agent.act(3, explore=True),
        "values": lambda: agent.values(5),
        "save": lambda: agent.save("a.ctd"),
    }
    for _ in range(60):
        name = str(case.rng.choice([*calls, "load", "copy", "pickle"]))
        case.say(name)
        if name == "load":
            agent.save("b.ctd")
            agent = ctd.load("b.ctd")
        elif name == "copy":
            agent = copy.copy(agent) if case.rng.random() < 0.5 else copy.deepcopy(agent)
        elif name == "pickle":
            agent = pickle.loads(pickle.dumps(agent))
        else:
            attempt(case, ["step() before start()"], calls[name])
    return Outcome.HARMLESS


def compile_hashed() -> None:
    """The learner of `threads`."""
    words().step(1.0, "b", False)


def words() -> Any:
    """A learner whose states get ids on first sight, in an episode."""
    import gymnasium as gym

    import chunked_td as ctd

    agent = ctd.ChunkedSarsa(lake(), indexer=ctd.make_indexer(gym.spaces.Text(20)))
    agent.start("a")
    return agent


@attack("api: one learner in several threads", prepare=compile_hashed, seconds=60.0)
def threads(case: Case) -> Outcome:
    """Every thread plays; an error that says "in use" is what they get, or they do not meet."""
    agent, said = words(), []

    def work(name: int) -> None:
        try:
            for k in range(400):
                if agent.state < 0:
                    agent.start(f"{name} {k}")
                else:
                    agent.step(1.0, f"{name} {k}", k % 50 == 49)
        except BaseException as error:
            said.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(int(case.rng.integers(2, 5)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for error in said:
        if not isinstance(error, RuntimeError):
            raise Found(Outcome.TRACEBACK, repr(error)) from error
    return Outcome.REFUSED if said else Outcome.HARMLESS


@attack("api: indexers that misbehave", prepare=compile_learners, seconds=60.0)
def indexers(case: Case) -> Outcome:
    """Ids far away, negative, or no numbers."""
    import chunked_td as ctd
    from chunked_td.indexing import Indexer

    class Ids(Indexer):
        fixed, size, given = False, int(case.rng.integers(0, 200)), 0  # type: ignore[assignment]

        def __call__(self, observation: Any) -> Any:
            return self.given

        def decode(self, state: int) -> Any:
            return state

        def state(self) -> dict[str, Any]:
            return {}

    indexer = Ids()
    agent = ctd.ChunkedSarsa(lake(), indexer=indexer)
    outcomes = []
    for _ in range(30):
        near = int(case.rng.integers(-5, 2 * indexer.size + 5))
        indexer.given = near if case.rng.random() < 0.7 else strange(case.rng)
        case.said[:] = [f"size {indexer.size}, id {text_of(indexer.given)}"]
        call = (lambda: agent.start(0)) if agent.state < 0 else (lambda: agent.step(1.0, 0, False))
        outcomes.append(attempt(case, ["indexer"], call))
    return Outcome.REFUSED if Outcome.REFUSED in outcomes else Outcome.HARMLESS


def compile_asked() -> None:
    """The learners of `models`, at the time at which no case waits for it."""
    for number in range(4):
        models(Case(number, np.random.default_rng(number), Path()))


@attack("api: models that misbehave", prepare=compile_asked, seconds=60.0)
def models(case: Case) -> Outcome:
    """Predictions of any shape and kind."""
    import chunked_td as ctd

    class Model:
        answer: Any = np.full(4, 0.25)

        def observe(self, *_: Any) -> None:
            pass

        def probabilities(self, *_: Any) -> Any:
            return self.answer

        def distribution(self, *_: Any) -> Any:
            return self.answer

    model, expected = Model(), bool(case.rng.random() < 0.5)
    source = ctd.ExpectedLambda() if expected else ctd.ForwardLambda()
    agent = ctd.ChunkedSarsa(lake(), model=model, lambda_source=source)
    agent.start(0)
    outcomes = []
    for _ in range(20):
        answer = strange(case.rng)
        if expected and case.rng.random() < 0.7:
            answer = {strange_id(case.rng): strange(case.rng)}
        elif case.rng.random() < 0.5:
            answer = case.rng.normal(0.5, 0.5, int(case.rng.integers(1, 6)))
        model.answer = answer
        case.said[:] = [f"{source!r}, answer {text_of(answer)}"]
        outcomes.append(attempt(case, ["model."], lambda: agent.step(1.0, 1, False)))
    return Outcome.REFUSED if Outcome.REFUSED in outcomes else Outcome.HARMLESS


def strange_id(rng: np.random.Generator) -> Any:
    """A key for a dict of next states."""
    return (1, -1, 10**9, 10**30, 1.5, "a", (), True)[int(rng.integers(8))]


# ---- functions

RUNS = {"learner": "sarsa", "lambda_source": 0.5, "model": "counts", "step_sizes": 0.1, "seeds": 0, "epsilon": 0.1}
RUNS = {**RUNS, "discount": 1.0, "episodes": 3, "record_at": (1,), "probes": ((0, 0),), "view": "offline", "threads": 1}
RUNS = {**RUNS, "keep_values": True}


def compile_runs() -> None:
    """The loop of `arguments_of_simulate`."""
    from chunked_td.simulation import simulate

    simulate(small(), **RUNS)  # type: ignore[arg-type]


@functools.cache
def small() -> Any:
    """Dynamics."""
    from chunked_td.envs.dynamics import AccumulatedCharge

    return AccumulatedCharge.make(horizon=4, points=2)


@attack("api: arguments of simulate", prepare=compile_runs, seconds=120.0)
def arguments_of_simulate(case: Case) -> Outcome:
    """One strange argument."""
    from chunked_td.simulation import simulate

    name, value = str(case.rng.choice([*RUNS, "dynamics"])), strange(case.rng)
    if name == "episodes" and isinstance(value, int) and 10**6 < value <= 10**9:
        value = -value
    case.say(f"{name}={text_of(value)}")
    given: dict[str, Any] = {"dynamics": small(), **RUNS, name: value}
    return attempt(case, [name, "lambda", "seeds"], lambda: simulate(given.pop("dynamics"), **given))


T = 5
ARRAYS: dict[str, dict[str, Any]] = {
    "lambda_returns": {"r_t": (T,), "discount_t": (T,), "v_t": (T,), "lambda_": (T,)},
    "discounted_returns": {"r_t": (T,), "discount_t": (T,), "v_t": (T,)},
    "td_lambda": {"v_tm1": (T,), "r_t": (T,), "discount_t": (T,), "v_t": (T,), "lambda_": (T,)},
    "vtrace": {"v_tm1": (T,), "v_t": (T,), "r_t": (T,), "discount_t": (T,), "rho_tm1": (T,)},
    "gae": {
        "rewards": (T,),
        "values": (T,),
        "next_values": (T,),
        "terminated": (T,),
        "truncated": (T,),
        "discount": (T,),
    }
    | {"lambda_": (T,)},
}


@attack("api: returns", seconds=60.0)
def returns(case: Case) -> Outcome:
    """Strange arrays and axes."""
    import chunked_td as ctd

    function = str(case.rng.choice([*ARRAYS]))
    given: dict[str, Any] = {name: case.rng.random(shape) for name, shape in ARRAYS[function].items()}
    for name in ("terminated", "truncated"):
        if name in given:
            given[name] = given[name] < 0.2
    name, value = str(case.rng.choice([*given, "time_axis"])), strange(case.rng)
    case.say(f"{function}({name}={text_of(value)})")
    first = next(iter(given))
    return attempt(case, [name, first, "shape"], lambda: getattr(ctd, function)(**{**given, name: value}))


def import_histories() -> None:
    """JAX takes seconds to import."""
    import chunked_td as ctd

    ctd.HistoryCompressor(1)


@attack("api: schedules, sources and histories", prepare=import_histories, seconds=60.0)
def small_objects(case: Case) -> Outcome:
    """Constructors with strange arguments."""
    import chunked_td as ctd

    one, two = strange(case.rng), strange(case.rng)
    calls: dict[str, tuple[list[str], Callable[[], Any]]] = {
        "Schedule": (["points", "hold"], lambda: ctd.Schedule(one, two)(3)),
        "points": (["points"], lambda: ctd.Schedule(((0, one), (two, 0.1)))(3)),
        "linear": (["points", "episodes"], lambda: ctd.linear(0.1, one, two)(3)),
        "ConstantLambda": (["lambda"], lambda: ctd.ConstantLambda(one)),
        "Discretise": (
            ["bins", "low", "high", "space", "observation"],
            lambda: ctd.Discretise(None, bins=one, low=two, high=1.0)(0.5),
        ),
        "HistoryCompressor": (["levels", "threshold"], lambda: ctd.HistoryCompressor(one, threshold=two)),
    }
    name = str(case.rng.choice([*calls]))
    case.say(f"{name}: {text_of(one)}, {text_of(two)}")
    return attempt(case, *calls[name])
