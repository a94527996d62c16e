"""Misuse of a learner: it works, or there is an error that says what to do; never a crash."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from dataclasses import dataclass
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from test_bad_input import everything, mid_episode

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.comparison.facts import _played
from chunked_td.lambdas.step import WHOLE, chance, visits
from chunked_td.observations import Indexer, make_indexer

LAKE = gym.make("FrozenLake-v1")


# ---- threads and copies


class Slow:
    """A model that waits in the middle of a step until it is told to go on."""

    def __init__(self):
        self.inside, self.go = threading.Event(), threading.Event()

    def observe(self, *_):
        self.inside.set()
        self.go.wait(300)

    def probabilities(self, *_):
        return np.full(4, 0.5)


def test_a_second_thread_is_turned_away():
    model = Slow()
    agent = ctd.ChunkedSarsa(LAKE, model=model)
    agent.start(0)
    other = threading.Thread(target=agent.step, args=(1.0, 1, False))
    other.start()
    assert model.inside.wait(300)  # the first step compiles
    for call in (lambda: agent.step(1.0, 2, False), lambda: agent.start(0), lambda: copy.copy(agent)):
        with pytest.raises(RuntimeError, match="is in use"):
            call()
    model.go.set()
    other.join()
    assert agent.state == 1
    agent.step(1.0, 2, False)


def test_two_threads_never_crash():
    class Words:
        observation_space, action_space = gym.spaces.Text(9), gym.spaces.Discrete(3)

    agent, said = ctd.ChunkedSarsa(Words()), []

    def work(name):
        try:
            for episode in range(20):
                agent.start(f"{name}{episode}")
                for k in range(50):
                    agent.step(1.0, f"{name}{episode}.{k}", False)
        except RuntimeError as error:
            said.append(str(error))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("is in use" in text for text in said)


def test_learn_within_learn_is_refused():
    agent = ctd.ChunkedSarsa(LAKE)
    with pytest.raises(RuntimeError, match="is in use"):
        agent.learn(LAKE, 2, callback=lambda *_: agent.learn(LAKE, 1))
    agent.learn(LAKE, 1)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
@pytest.mark.parametrize("cls", [ctd.ChunkedExpectedSarsa, ctd.CorrectedTD])
def test_a_copy_goes_on_by_itself(how, cls):
    agent, paid = mid_episode(cls=cls)
    twin, _ = mid_episode(cls=cls)
    made = how(agent)
    assert everything(made) == everything(agent)
    for state in (2, 3, 4):
        made.step(paid, state, False)
    assert everything(agent) == everything(twin) != everything(made)
    for state in (2, 3, 4):
        agent.step(paid, state, False)
    assert everything(agent) == everything(made)


# ---- indexers and models


class Ids(Indexer):
    """Ids as told."""

    fixed = False
    size = 3
    given: object = 0

    def __call__(self, observation):
        return self.given

    def decode(self, state):
        raise NotImplementedError

    def state(self):
        return {}


@pytest.mark.parametrize("given", [10**9, 10**30, -1, -(10**9), 64, 1.5, 2.0, math.nan, "1", None, True, [0], 1j])
def test_an_id_outside_the_table_is_refused(given):
    indexer = Ids()
    agent = ctd.ChunkedSarsa(LAKE, indexer=indexer)
    agent.start(0)
    before = everything(agent)
    indexer.given = given
    for call in (lambda: agent.step(1.0, 0, False), lambda: agent.start(0)):
        with pytest.raises(ValueError, match=r"indexer Ids must give integers in 0\.\.2"):
            call()
    assert everything(agent) == before
    indexer.given = np.int32(2)
    agent.step(1.0, 0, False)
    assert agent.state == 2


@pytest.mark.parametrize("indexer", [object(), len, "hashed", 5])
def test_what_is_no_indexer_is_refused(indexer):
    with pytest.raises(ValueError, match="indexer must be"):
        ctd.ChunkedSarsa(LAKE, indexer=indexer)


class Nonsense:
    answer: object = 0.25

    def observe(self, *_):
        pass

    def probabilities(self, *_):
        return self.answer

    def distribution(self, *_):
        return self.answer


@pytest.mark.parametrize("answer", ["0.5", ["0.5"] * 4, [0.5], [[0.5] * 4], None, [1j] * 4, [9.0] * 4, [10**400] * 4])
def test_probabilities_that_are_none_are_refused(answer):
    model = Nonsense()
    model.answer = np.full(4, 0.25)
    agent = ctd.ChunkedSarsa(LAKE, model=model)
    agent.start(0)
    model.answer = answer
    with pytest.raises(ValueError, match=r"model\.probabilities\(\) must"):
        agent.step(1.0, 1, False)


@pytest.mark.parametrize(
    "answer",
    [
        *({-1: 1.0}, {-(10**9): 1.0}, {1: 0.9, 2: 0.9}, {1: "1"}, {"a": 1.0}, {1.5: 1.0}, 7, [(1,)], {10**30: 1.0}),
        *({1: [[0.5], [0.5, 0.5]]}, {1: [0.5, 0.5]}, [([0, 1], 0.5)], [([0], 0.5), ([0, 1], 0.5)]),
    ],
)
def test_distributions_that_are_none_are_refused(answer):
    model = Nonsense()
    model.answer = {1: 0.5, 2: 0.5}
    agent = ctd.ChunkedSarsa(LAKE, model=model, lambda_source=ctd.ExpectedLambda())
    agent.start(0)
    model.answer = answer
    with pytest.raises(ValueError, match=r"model\.distribution\(\) must"):
        agent.step(1.0, 1, False)


@dataclass(frozen=True)
class Asks(ctd.LambdaSource):
    """Asks what it does not name."""

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return chance(step, step.action, WHOLE)


@dataclass(frozen=True)
class Visits(Asks):
    def asks(self, bootstrap):
        return ("came_from",)

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return visits(step)


@pytest.mark.parametrize(("source", "question"), [(Asks(), "chance"), (Visits(), "visits")])
def test_a_source_that_asks_what_it_does_not_name_is_told(source, question):
    agent = ctd.SarsaLambda(LAKE, lambda_source=source)
    with pytest.raises(ValueError, match=rf"calls {question}\(\): its asks\(\) must return '{question}'"):
        agent.start(0)  # compiles the whole step


# ---- arguments

STRANGE = ["1", "0.5", b"1", None, 1j, [], {}, object(), math.nan, math.inf, -math.inf, 10**400, -(10**400)]
STRANGE = [*STRANGE, np.array("1")]
SETTINGS = ["step_size", "epsilon", "discount", "cutoff", "prior", "seed", "lambda_source", "replacing"]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: str(value)[:12])
def test_strange_rewards_are_refused(value):
    agent, _ = mid_episode()
    before = everything(agent)
    with pytest.raises(ValueError, match="reward must"):
        agent.step(value, 2, False)
    vector, _ = mid_episode(2)
    with pytest.raises(ValueError, match="reward must"):
        vector.step([1.0, value], 2, False)
    assert everything(agent) == before


@pytest.mark.parametrize("value", [1, True, np.float32(1.0), np.int8(1), np.array(1.0), np.array([1.0]), Fraction(1)])
def test_numbers_of_all_kinds_are_rewards(value):
    agent, _ = mid_episode()
    twin, paid = mid_episode()
    agent.step(value, 2, False)
    twin.step(paid, 2, False)
    assert everything(agent) == everything(twin)


@pytest.mark.parametrize(
    "value", [*STRANGE, 2, -1, 0.0, 1.0, "False", [True], np.array([True])], ids=lambda x: str(x)[:12]
)
def test_strange_ends_are_refused(value):
    agent, paid = mid_episode()
    before = everything(agent)
    with pytest.raises(ValueError, match="terminated must be True or False"):
        agent.step(paid, 2, value)
    with pytest.raises(ValueError, match="truncated must be True or False"):
        agent.step(paid, 2, False, value)
    assert everything(agent) == before


class Told(gym.Env):
    """Three steps, of which one thing is told wrongly."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def __init__(self, **wrong):
        self.wrong = wrong

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return 0, {"action_mask": self.wrong.get("mask", [1, 1])}

    def step(self, action):
        self.time += 1
        told = {"reward": 1.0, "terminated": self.time == 3, "truncated": False} | self.wrong
        return self.time, told["reward"], told["terminated"], told["truncated"], {}


def vector_of(env):
    """Two copies that hand on what the environment says, as a vector environment of somebody's own may."""

    class Two(gym.vector.SyncVectorEnv):
        def step(self, actions):
            shown = [one.step(a) for one, a in zip(self.envs, actions, strict=True)]
            observations, rewards, terminated, truncated, _ = zip(*shown, strict=True)
            return np.array(observations), rewards, terminated, truncated, {}

    return Two([lambda: env, lambda: copy.deepcopy(env)])


LOOPS = {
    "learn": lambda env: ctd.SarsaLambda(env).learn(env, 2, progress=False),
    "learn in copies": lambda env: ctd.SarsaLambda(env).learn(vector_of(env), 2, progress=False),
    "record": lambda env: ctd.SarsaLambda(env).learn(ctd.Recorder(env), 2, progress=False),
    "evaluate": lambda env: ctd.SarsaLambda(env).evaluate(env, 2),
    "explain": lambda env: ctd.SarsaLambda(env).explain(env),
    "facts": lambda env: _played(env, make_indexer(env.observation_space), masks=True),
}
TOLD = [
    *({"reward": value} for value in ("1", math.nan, 1j, None, [[1], [1, 1]])),
    *({name: value} for name in ("terminated", "truncated") for value in ("False", math.nan, 5, None)),
    *({"mask": value} for value in (["0", "1"], [2, 0], [0.5, 0.7], [math.nan, 1], [[1], [1, 1]])),
]


@pytest.mark.parametrize("wrong", TOLD, ids=str)
@pytest.mark.parametrize("loop", LOOPS)
def test_no_loop_takes_what_no_environment_should_say(loop, wrong):
    """bool("False") is True, and float("1") a number: in each of these loops that gave wrong numbers without a word."""
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name}.* must (be|have)"):
        LOOPS[loop](Told(**wrong))


@pytest.mark.parametrize("wrong", [told for told in TOLD if "terminated" in told], ids=str)
def test_a_recorder_writes_no_end_down_that_is_none(wrong):
    recorder = ctd.Recorder(Told(**wrong))
    recorder.reset()
    with pytest.raises(ValueError, match="terminated must be"):
        recorder.step(0)
    assert recorder.episodes[-1].actions == []


@pytest.mark.parametrize("value", [0, np.False_, np.array(False), np.int64(0)])
def test_ends_of_all_kinds(value):
    agent, paid = mid_episode()
    assert agent.step(paid, 2, value, value) is not None


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: str(value)[:12])
def test_strange_settings_are_refused(name, value):
    if value is None and name in ("lambda_source", "epsilon", "replacing"):  # their defaults
        return
    if name == "seed" and value == 10**400:
        return
    with pytest.raises((ValueError, TypeError), match=f"{name} must"):
        ctd.ChunkedSarsa(LAKE, **{name: value})


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: str(value)[:12])
def test_strange_schedules_and_episodes_are_refused(value):
    for points in (((0, value),), ((value, 0.1),), value):
        with pytest.raises(ValueError, match="points must be"):
            ctd.Schedule(points)
    with pytest.raises(ValueError, match="episodes must be a whole number"):
        ctd.linear(1.0, 0.1, value)
    accepted = "takes episodes or steps" if value is None else "episodes must be a whole number"
    with pytest.raises(ValueError, match=accepted):
        ctd.ChunkedSarsa(LAKE).learn(LAKE, value)


@pytest.mark.parametrize("cls", [ctd.ForwardLambda, ctd.ExpectedLambda, ctd.FactoredLambda])
def test_literal_is_true_or_false(cls):
    with pytest.raises(TypeError, match="literal must be True or False"):
        cls(literal="x")


@pytest.mark.parametrize("cls", [ctd.ForwardLambda, ctd.ExpectedLambda, ctd.FactoredLambda, ctd.ValueLambda])
def test_policy_noise_is_true_or_false(cls):
    with pytest.raises(TypeError, match="policy_noise must be True or False"):
        cls(policy_noise=0)


@dataclass(frozen=True)
class Sometimes(ctd.LambdaSource):
    """Its second setting need not be a number."""

    value: float = 0.5
    other: float | None = None

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return source.value


def test_agents_are_pickled_whatever_other_settings_their_source_had_elsewhere():
    agents = [ctd.ChunkedSarsa(LAKE, lambda_source=Sometimes(0.5, other)) for other in (None, 1.0)]
    for agent in agents:
        assert pickle.loads(pickle.dumps(agent)).lambda_source == agent.lambda_source
