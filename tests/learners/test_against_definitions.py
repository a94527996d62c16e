"""Learners against the paper's algorithms written down plainly (`naive`), over random worlds, sources and settings.

Random problems would have a hundred kernels compiled, so they are played without compilation. Compiled, every bootstrap
and every source is played.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.learners.core import Work, finish
from chunked_td.observations import HashedIndexer
from helpers.compilation import COMPILED
from helpers.naive import EXPECTED_SARSA, SARSA, ForwardView, Naive, TrueModel, V
from helpers.streams import Given
from helpers.worlds import World, assert_same_values, side_by_side

CLASSES = {V: ctd.ChunkedTD, SARSA: ctd.ChunkedSarsa, EXPECTED_SARSA: ctd.ChunkedExpectedSarsa}
SOURCES = {
    "constant": ctd.ConstantLambda,
    "watkins": ctd.WatkinsLambda,
    "forward": ctd.ForwardLambda,
    "expected": ctd.ExpectedLambda,
    "backward": ctd.BackwardLambda,
    "visit": ctd.VisitLambda,
    "factored": ctd.FactoredLambda,
}
ALSO_COMPILED = {
    V: ("watkins", "visit", "factored"),
    SARSA: ("forward", "expected", "backward"),
    EXPECTED_SARSA: ("constant", "forward", "expected"),
}
unit = st.floats(0, 1)
source_names = st.sampled_from(list(SOURCES))


@st.composite
def problems(draw, acyclic, bootstraps=(V, SARSA, EXPECTED_SARSA), few=False):
    """A world, a bootstrap, a λ source and the settings of a learner; with `few`, fewer kinds of them to compile."""
    few = few and COMPILED
    names = st.sampled_from(["constant", "forward", "factored"]) if few else source_names
    bootstrap, name = draw(st.sampled_from(bootstraps)), draw(names)
    if name == "factored" and bootstrap == SARSA:
        bootstrap = bootstraps[-1] if bootstraps[-1] != SARSA else V
    nvec = draw(st.sampled_from([(3,), (6,), (2, 3), (2, 2, 2)]))
    rewards, actions = (2, 2) if few else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    arguments = {"acyclic": acyclic, "masked": draw(st.booleans()), "sudden": 0.1}
    world = World(draw(st.integers(0, 10**6)), nvec, actions, rewards, **arguments)
    source = (name,)
    if name in ("constant", "watkins"):
        source = (name, draw(unit))
    if name == "factored":
        member = st.lists(st.integers(0, len(nvec) - 1), min_size=1, unique=True).map(lambda m: tuple(sorted(m)))
        source = (name, tuple(draw(member) for _ in range(rewards)))
    common = {"epsilon": draw(unit), "seed": draw(st.integers(0, 100))}
    if name in ("forward", "expected", "factored"):
        common |= {"literal": draw(st.booleans()), "policy_noise": draw(st.booleans())}
    if name in ("forward", "visit") or (name == "expected" and not (bootstrap == SARSA and common["policy_noise"])):
        common["percept"] = draw(st.sampled_from(["state", "reward-state"]))
    if common.get("percept") != "reward-state":
        common["prior"] = draw(st.sampled_from([0.0, 0.0, 0.5]))
    if bootstrap == V and not few and draw(st.booleans()):
        table = np.random.default_rng(common["seed"]).dirichlet(np.ones(world.actions), size=world.states)
        common["policy"] = table
    gamma, alpha = draw(unit), draw(st.floats(0.01, 1))
    return world, bootstrap, source, gamma, alpha, common


def both(problem, reference=Naive, *, view="traces", own=(), **extra):
    world, bootstrap, source, gamma, alpha, common = problem
    options = {key: common[key] for key in ("literal", "policy_noise") if key in common}
    agent = CLASSES[bootstrap](
        world,
        lambda_source=SOURCES[source[0]](*source[1:], **options),
        discount=gamma,
        step_size=alpha,
        view=view,
        **{key: value for key, value in common.items() if key not in options},
        **extra,
    )
    return agent, reference(world, bootstrap, source, gamma=gamma, alpha=alpha, **common, **extra, **dict(own)), world


@pytest.mark.parametrize(
    ("bootstrap", "name"),
    [
        pytest.param(bootstrap, name, marks=() if name in ALSO_COMPILED[bootstrap] else pytest.mark.uncompiled)
        for bootstrap, name in itertools.product(CLASSES, SOURCES)
        if (bootstrap, name) != (SARSA, "factored")
    ],
)
def test_traces_of_every_source_with_every_bootstrap(bootstrap, name):
    """Random problems reach some of them with one action or none to explore alone."""
    source = {"constant": (name, 0.7), "watkins": (name, 0.7), "factored": (name, ((0, 1),))}.get(name, (name,))
    common = {"epsilon": 0.4, "seed": 3} | ({"literal": False} if name in ("forward", "expected", "factored") else {})
    problem = World(11, (2, 3), 2, masked=False), bootstrap, source, 0.9, 0.3, common
    side_by_side(*both(problem, replacing=False, cutoff=0.0), episodes=12, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=250)
@given(problems(acyclic=False), st.booleans(), st.sampled_from([0.0, 0.0, 0.05]))
def test_traces_on_cyclic_problems(problem, replacing, cutoff):
    side_by_side(*both(problem, replacing=replacing, cutoff=cutoff), episodes=6, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(problems(acyclic=False, few=True), st.sampled_from(["forward", "expected"]), st.booleans())
def test_models_that_are_objects(problem, name, policy_noise):
    """λ from an oracle; ExpectedLambda must not look at the outcome, for SARSA neither."""
    world, bootstrap, _, gamma, alpha, common = problem
    common = {k: v for k, v in common.items() if k in ("epsilon", "seed", "policy")}
    table = {
        s: {a: [(p, t, 0.0, False) for p, t, _ in world.table[s, a]] for a in range(world.actions)}
        for s in range(world.states)
    }
    reference = TrueModel(world, bootstrap, (name,), gamma=gamma, alpha=alpha, policy_noise=policy_noise, **common)
    agent = CLASSES[bootstrap](
        world,
        lambda_source=SOURCES[name](policy_noise=policy_noise),
        model=ctd.TableModel(table, world.actions),
        discount=gamma,
        step_size=alpha,
        **common,
    )
    side_by_side(agent, reference, world, episodes=4, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=150)
@given(problems(acyclic=True))
def test_sum_of_online_updates_is_the_lambda_return_update(problem):
    """Prop. 1, for every bootstrap and λ source: on acyclic episodes traces equal the forward view."""
    side_by_side(*both(problem, ForwardView), episodes=6)


@pytest.mark.uncompiled
@settings(max_examples=100)
@given(problems(acyclic=False, few=True))
def test_offline_view_is_the_lambda_return_update_on_any_problem(problem):
    side_by_side(*both(problem, ForwardView, view="offline"), episodes=6)


@pytest.mark.uncompiled
@settings(max_examples=100)
@given(problems(acyclic=False, bootstraps=(V, SARSA), few=True))
def test_sampled_view_uses_targets_of_the_chunks_drawn(problem):
    """§3.1 and App. B.1: same coins, same kept states, every state gets a target. With factored λ, per component."""
    side_by_side(*both(problem, ForwardView, view="sampled", own={"chunks": True}), episodes=6)


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(problems(acyclic=True, bootstraps=(V, SARSA), few=True))
def test_expected_chunked_target_is_the_lambda_return(problem):
    """Enumerates every keep/drop pattern of an episode by the coins that give it."""
    agent, reference, world = both(problem, ForwardView, view="sampled", own={"chunks": True})
    side_by_side(agent, reference, world, episodes=2)
    captured = {}

    def capture():
        captured["memory"] = type(agent.memory)(*(field.copy() for field in agent.memory))
        captured["values"] = agent.tables.values.copy()
        type(agent)._finish(agent)

    agent._finish, reference.chunks = capture, False
    side_by_side_one_episode(agent, reference, world)
    memory, before = captured["memory"], captured["values"]
    T, d = int(memory.length[0]), world.rewards
    total = np.zeros_like(before)
    for pattern in itertools.product((False, True), repeat=T - 1):
        values, scratch = before.copy(), type(memory)(*(field.copy() for field in memory))
        chance = np.ones(d)
        for t, drop in enumerate(pattern, start=1):
            chance *= memory.lambda_[t] if drop else 1 - memory.lambda_[t]
        if d > 1 and not np.allclose(memory.lambda_[1:T], memory.lambda_[1:T, :1]):
            return  # components with λs of their own share a coin: covered by the marginals above
        # a coin just below 1 keeps any state with λ < 1; one of −1 drops any state (uniforms are never negative)
        coins = Given(*(-1.0 if drop else 2.0 for drop in pattern))
        state = agent._state._replace(tables=agent.tables._replace(values=values), memory=scratch)
        coins.in_python(finish)(Work.of(state, None, None, agent._reward, agent._rates, agent._legal_now))
        assert coins.taken == T - 1
        expected = reference.targets(np.array([*(not drop for drop in pattern), True])[:, None].repeat(d, axis=1))
        for t, (place, *_) in enumerate(reference.story):
            row = np.ravel_multi_index(place, (world.states, world.actions)) if isinstance(place, tuple) else place
            moved = agent._rates[1] * (expected[t] - before[row])
            np.testing.assert_allclose(values[row], before[row] + moved, rtol=1e-9, atol=1e-11)
        total += chance[0] * values
    learned = reference.values.reshape(reference.rows, d)
    np.testing.assert_allclose(total[: reference.rows], learned, rtol=1e-9, atol=1e-11)


def side_by_side_one_episode(agent, reference, world):
    world.limit = 7
    s = world.reset()
    action = agent.start(world.observe(s), world.info(s))
    assert action == reference.start(s, world.legal[s])
    ended = 0
    while not ended:
        reward, s, ended = world.step(action)
        paid = reward if world.rewards > 1 else float(reward[0])
        action = agent.step(paid, world.observe(s), ended == 1, ended == 2, world.info(s))
        assert action == reference.step(reward, s, ended, world.legal[s])


@pytest.mark.uncompiled
@settings(max_examples=30)
@given(problems(acyclic=False), st.sampled_from(["traces", "offline"]))
def test_lambda_zero_is_td0(problem, view):
    """One-step updates only, written out; on revisits within an episode the two views differ as they must."""
    world, bootstrap, _, gamma, alpha, common = problem
    common = {k: v for k, v in common.items() if k in ("epsilon", "seed", "policy")}
    agent, reference, world = both((world, bootstrap, ("constant", 0.0), gamma, alpha, common), OneStep, view=view)
    reference.offline = view == "offline"
    side_by_side(agent, reference, world, episodes=5)


class OneStep(Naive):
    """TD(0): V(s) ← V(s) + α[r + γB − V(s)]."""

    offline = False

    def start(self, s, legal):
        self.pending = []
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        change = self.alpha * (reward + self.gamma * bootstrap - self.values[self.place])
        if not self.offline:
            self.values[self.place] += change
            return
        self.pending.append((self.place, change))
        if ended:
            for place, moved in self.pending:
                self.values[place] += moved


@pytest.mark.uncompiled
@settings(max_examples=30)
@given(problems(acyclic=True, bootstraps=(V, SARSA)))
def test_lambda_one_is_monte_carlo(problem):
    """α = 1 and λ = 1 put the discounted return itself into the table (with the bootstrap of a truncated end)."""
    world, bootstrap, _, gamma, _, common = problem
    common = {k: v for k, v in common.items() if k in ("epsilon", "seed", "policy")}
    side_by_side(*both((world, bootstrap, ("constant", 1.0), gamma, 1.0, common), MonteCarlo), episodes=5)


class MonteCarlo(Naive):
    """Replaces values by discounted sums of what came after."""

    def start(self, s, legal):
        self.story = []
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.story.append((self.place, reward))
        if ended:
            G = bootstrap
            for place, paid in reversed(self.story):
                G = paid + self.gamma * G
                self.values[place] = G


@pytest.mark.parametrize("view", ["traces", "offline"])
def test_with_one_component_alg_4_is_alg_3(view):
    for seed in range(5):
        settings_ = {"discount": 0.9, "epsilon": 0.2, "seed": seed, "view": view}
        agents = [
            ctd.ChunkedExpectedSarsa(World(seed, (2, 3)), **settings_),
            ctd.FactoredChunkedExpectedSarsa(
                World(seed, (2, 3)), lambda_source=ctd.FactoredLambda(components=((0, 1),)), **settings_
            ),
        ]
        for agent in agents:
            world = World(seed, (2, 3))
            for _ in range(10):
                s = world.reset()
                action, ended = agent.start(world.observe(s), world.info(s)), 0
                while not ended:
                    reward, s, ended = world.step(action)
                    action = agent.step(float(reward[0]), world.observe(s), ended == 1, ended == 2, world.info(s))
        np.testing.assert_array_equal(agents[0].tables.values, agents[1].tables.values)
        assert agents[0].tables.values.any()


def test_schedules_are_read_at_every_episode():
    world = World(2, (6,), actions=2)
    alphas, epsilons = ctd.linear(0.9, 0.1, 8), ctd.linear(1.0, 0.0, 5)
    agent = ctd.SarsaLambda(world, lambda_=0.7, discount=0.9, step_size=alphas, epsilon=epsilons, seed=4)
    reference = Naive(world, SARSA, ("constant", 0.7), gamma=0.9, alpha=0, epsilon=0, seed=4)
    for episode in range(12):
        reference.alpha, reference.epsilon = alphas(episode), epsilons(episode)
        side_by_side(agent, reference, world, episodes=1)


@pytest.mark.parametrize("view", ["traces", "offline"])
def test_an_abandoned_episode_counts_for_the_schedules_and_leaves_nothing(view):
    world = World(2, (6,), actions=2, masked=False)
    alphas = ctd.Schedule(((0, 0.5), (1, 0.25)), hold=True)
    agent = ctd.SarsaLambda(world, lambda_=0.9, discount=1.0, step_size=alphas, epsilon=0.0, view=view)
    agent.start(0)
    agent.step(0.0, 1, False)
    assert agent.episode == 0
    action = agent.start(2)
    assert agent.episode == 1
    agent.step(1.0, 3, True)
    assert agent.episode == 2
    wanted = np.zeros((6, 2))
    wanted[2, action] = 0.25  # the second step size, and no credit for what the abandoned episode visited
    assert [agent.q_values(s).tolist() for s in range(6)] == wanted.tolist()


@pytest.mark.parametrize("source", [ctd.ExpectedLambda(), ctd.BackwardLambda(), ctd.ForwardLambda()], ids=repr)
def test_ids_on_first_sight_give_the_same_values(source):
    """Tables that grow past their first size in mid-episode, against tables of the right size from the start."""
    tables = []
    for indexer in (None, HashedIndexer()):
        world = World(7, (400,), actions=2, sudden=0.02)
        world.limit = 40
        agent = ctd.ChunkedSarsa(world, lambda_source=source, indexer=indexer, epsilon=0.5, seed=3)
        for _ in range(60):
            s = world.reset()
            action, ended = agent.start(s, world.info(s)), 0
            while not ended:
                reward, s, ended = world.step(action)
                action = agent.step(float(reward[0]), s, ended == 1, ended == 2, world.info(s))
        assert agent.indexer.size > 200
        tables.append([agent.q_values(s).tolist() for s in range(400)])
    assert tables[0] == tables[1]


def test_the_reference_can_fail():
    """A wrong λ is seen: the comparison has teeth."""
    world = World(3, (6,), acyclic=True)
    agent = ctd.ChunkedTD(world, lambda_source=0.5, discount=1.0, seed=1)
    with pytest.raises(AssertionError):
        side_by_side(agent, Naive(world, V, ("constant", 0.6), gamma=1.0, alpha=0.1, epsilon=0.1, seed=1), world, 5)
    assert_same_values(agent, agent_values(agent, world))


def agent_values(agent, world):
    class Same:
        rows, values = world.states, agent.tables.values[: world.states]

    return Same


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("cls", "options", "after"),
    [
        (ctd.ExpectedSarsaLambda, {}, True),
        (ctd.ExpectedSarsaLambda, {"view": "lineage"}, True),
        (ctd.QLambda, {}, True),
        (ctd.DynaQ, {}, True),
        (ctd.SarsaLambda, {}, False),
        (ctd.ExpectedSarsaLambda, {"view": "true_online"}, False),
    ],
)
def test_who_needs_the_next_action_chooses_it_before_the_update(cls, options, after):
    """A state that returns at once, two actions that cost 1: after the first step greed picks the other one."""
    others = 0
    for seed in range(20):
        agent = cls(World(1, (2,), 2, masked=False), step_size=0.5, epsilon=0.0, seed=seed, **options)
        first = agent.start(0)
        others += agent.step(-1.0, 0, False) != first
    assert others == 20 if after else 4 <= others <= 16
