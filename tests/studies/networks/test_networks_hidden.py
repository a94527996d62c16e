"""Hidden state: the recurrent percept model, the memory of agents, the T-maze, and λ from the history."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td.returns import gae
from studies.networks.agents import ppo
from studies.networks.agents.ppo import PpoAgent, PpoSettings
from studies.networks.agents.streaming import StreamingAgent, StreamingSettings
from studies.networks.lambdas import SOURCES
from studies.networks.lambdas.base import DeepConstant, SourceSizes
from studies.networks.lambdas.percepts import percept_logs
from studies.networks.memory import PerceptWindow, Recall, RecurrentMemory, RecurrentPercepts
from studies.networks.networks import apply_mlp
from studies.networks.program import make_agent, start_fleet, train_curve
from studies.networks.spaces import Categories
from studies.networks.tasks import TMazeTask
from studies.networks.tasks.base import CodedPercepts

SMALL = RecurrentPercepts(hidden=5, units=6)


def window_of(rng, steps=7, inputs=4, actions=2):
    codes = rng.integers(inputs, size=steps + 1)
    action = rng.integers(actions, size=steps)
    start = np.zeros(steps, bool)
    start[[0, 4]] = True
    before = np.where(start[:, None], 0.0, np.eye(actions)[np.roll(action, 1)])
    arrays = (np.eye(inputs)[codes[:-1]], before, start, action, codes[1:, None])
    kinds = (np.float32, np.float32, bool, np.int32, np.int32)
    return PerceptWindow(*(jnp.asarray(x.astype(kind)) for x, kind in zip(arrays, kinds, strict=True)))


def with_random_head(model, rng):
    """First weights of the head are zero, so that it says nothing of the history."""
    numbers = tuple(jnp.asarray(rng.normal(size=w.shape), jnp.float32) for w in model.weights.head.weights)
    return model._replace(weights=model.weights._replace(head=model.weights.head._replace(weights=numbers)))


def naive_loss(weights, begin, window):
    """The model in plain NumPy, one step after the other: GRU, head, softmax, cross-entropy."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    read, recurrent, bias = (np.asarray(x, np.float64) for x in (weights.read, weights.recurrent, weights.bias))
    w1, w2 = (np.asarray(w, np.float64) for w in weights.head.weights)
    b1, b2 = (np.asarray(b, np.float64) for b in weights.head.biases)
    h, n, total, states = np.asarray(begin, np.float64), len(begin), 0.0, []
    for t in range(len(window.action)):
        if window.start[t]:
            h = np.zeros(n)
        d, u = np.concatenate([window.inputs[t], window.before[t]]) @ read + bias, h @ recurrent
        r, z = sigmoid(d[:n] + u[:n]), sigmoid(d[n : 2 * n] + u[n : 2 * n])
        h = z * h + (1 - z) * np.tanh(d[2 * n :] + r * u[2 * n :])
        asked = np.concatenate([window.inputs[t], h, np.eye(window.before.shape[-1])[window.action[t]]])
        logits = w2 @ np.tanh(w1 @ asked + b1) + b2
        total -= logits[window.next_codes[t, 0]] - np.log(np.exp(logits).sum())
        states.append(h)
    return total / len(window.action), np.array(states)


def test_one_update_of_the_model_against_plain_numpy():
    """States to 1e-6; Adam's first step is the learning rate against the sign of the gradient (finite differences)."""
    rng = np.random.default_rng(0)
    window = window_of(rng)
    model = SMALL.init(jax.random.key(0), SourceSizes(4, 0, (4,), 2))
    model = with_random_head(model, rng)
    begin = jnp.asarray(rng.normal(size=5), jnp.float32)
    states = SMALL.unroll(model.weights, begin, window)
    np.testing.assert_allclose(states, naive_loss(model.weights, begin, window)[1], atol=1e-6)
    moved = jax.jit(SMALL.learn)(model, begin, window).weights
    window = jax.tree.map(np.asarray, window)
    leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, model.weights))
    for k, (old, new) in enumerate(zip(leaves, map(np.asarray, jax.tree.leaves(moved)), strict=True)):
        for place in list(np.ndindex(old.shape))[:: max(1, old.size // 5)]:
            ends = []
            for sign in (1, -1):
                other = np.asarray(old, np.float64).copy()
                other[place] += sign * 1e-4
                ends.append(naive_loss(tree.unflatten([*leaves[:k], other, *leaves[k + 1 :]]), begin, window)[0])
            slope = (ends[0] - ends[1]) / 2e-4
            if abs(slope) > 1e-4:
                assert float(new[place] - old[place]) == pytest.approx(-SMALL.learning_rate * np.sign(slope), rel=0.05)


def test_kept_percepts_are_those_below_the_threshold():
    memory = RecurrentMemory("kept", SMALL, slots=2, threshold=0.6)
    model = SMALL.init(jax.random.key(0), SourceSizes(3, 0, (3,), 2))
    biases = (model.weights.head.biases[0], jnp.log(jnp.asarray([0.7, 0.2, 0.1])))
    model = model._replace(weights=model.weights._replace(head=model.weights.head._replace(biases=biases)))
    x = jnp.eye(3)
    recall = memory.begin(model, x[2], 2)
    for code, kept in ((0, (2, None)), (1, (1, 2)), (0, (1, 2)), (2, (2, 1))):
        recall = memory.arrive(model, recall, jnp.asarray(1), x[code], jnp.asarray([code]))
        for slot, which in enumerate(kept):
            np.testing.assert_array_equal(recall.kept[slot], np.zeros(3) if which is None else x[which])
    assert recall.before.tolist() == [0.0, 1.0]
    assert memory.read(recall).shape == (memory.n_inputs(3),) == (9,)
    state = RecurrentMemory("state", SMALL)
    assert state.read(recall).tolist() == [*recall.inputs.tolist(), *recall.hidden.tolist()]
    assert isinstance(recall, Recall)


def test_a_block_is_the_loop_of_steps_with_an_update_after_every_window():
    memory = RecurrentMemory("state", SMALL, window=5, slots=2)
    settings = StreamingSettings(hidden=(8,), explore=20, memory=memory)
    task, source = TMazeTask(1), SOURCES["recurrent"]
    agent = StreamingAgent(task, source, settings)
    state = agent.start(3)
    step = jax.jit(lambda s: (agent.step(0.3, s)[0], task.step(*_move(s), s.action).observation))
    learn = jax.jit(SMALL.learn)
    looped, rows = state, []
    for t in range(20):
        if t % 5 == 0:
            begin, rows = looped.recall.earlier, []
        after, codes = step(looped)
        rows.append((looped.recall.inputs, looped.recall.before, looped.start, looped.action, codes))
        looped = after
        if t % 5 == 4:
            window = PerceptWindow(*(np.stack(column) for column in zip(*rows, strict=True)))
            looped = looped._replace(model=learn(looped.model, begin, window))
    block, tally = jax.jit(lambda s: agent.block(0.3, s, 20))(state)
    for got, want in zip(jax.tree.leaves(block.learned), jax.tree.leaves(looped.learned), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(block.model.weights.read, looped.model.weights.read, atol=1e-5)
    assert float(tally.steps) == 20


def test_the_advantages_of_ppo_end_where_episodes_end_and_are_cut(monkeypatch):
    """Against a loop over steps: a cut bootstraps from its own state, a termination from nothing, and none goes on."""
    settings = PpoSettings(hidden=(8,), environments=3, steps=12, minibatches=1, epochs=1)
    task, source, seen, rng = TMazeTask(2), DeepConstant(0.7), [], np.random.default_rng(0)
    agent = PpoAgent(task, source, settings)
    state, rollout = agent.collect(agent.start(5))
    ends = rng.random((2, 12, 3)) < 0.25
    rollout = rollout._replace(terminated=jnp.asarray(ends[0] & ~ends[1]), truncated=jnp.asarray(ends[1]))
    monkeypatch.setattr(ppo, "gae", lambda *arguments: seen.append(gae(*arguments)) or seen[-1])
    random = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape), w.dtype), state.networks)
    state = state._replace(networks=random)  # the first critic says 0 everywhere
    _, _, errors = agent.update(1e-3, state, rollout)
    value, ahead = (apply_mlp(state.networks.critic, x)[0][..., 0] for x in (rollout.inputs, rollout.next_inputs))
    expected, after = np.zeros((12, 3)), np.zeros(3)
    for t in reversed(range(12)):
        error = rollout.reward[t] + settings.discount * np.where(rollout.terminated[t], 0.0, ahead[t]) - value[t]
        np.testing.assert_allclose(errors[t], error, atol=1e-5)
        after = error + np.where(ends[0, t] | ends[1, t], 0.0, settings.discount * 0.7 * after)
        expected[t] = after
    np.testing.assert_allclose(seen[0], expected, atol=1e-5)


@pytest.mark.parametrize("reads", ["kept", "state"])
def test_ppo_reads_the_memory_of_every_environment_alone(reads):
    """What the networks read, λ and the model after a rollout, against loops over environments and windows."""
    memory = RecurrentMemory(reads, SMALL, window=4, slots=2, threshold=0.3)
    settings = PpoSettings(hidden=(8,), environments=3, steps=10, minibatches=1, epochs=1, memory=memory)
    task, source, rng = TMazeTask(1), SOURCES["recurrent"], np.random.default_rng(0)
    agent = PpoAgent(task, source, settings)
    before = agent.start(5)
    before = before._replace(model=with_random_head(before.model, rng))
    after, rollout = jax.jit(agent.collect)(before)
    learned, lambdas, _ = jax.jit(agent.update)(1e-3, after, rollout)
    n, expected = task.space.n_inputs, jax.jit(_expected)
    begin, arrive = jax.jit(lambda model, percept: memory.begin(model, percept, 3)), jax.jit(memory.arrive)
    rollout = jax.tree.map(np.asarray, rollout)
    assert np.asarray(rollout.start)[1:].any()
    hidden = np.zeros((10, 3, SMALL.hidden), np.float32)
    for b in range(3):
        percepts, recall = np.asarray(rollout.inputs)[:, b, :n], None
        for t in range(10):
            if rollout.start[t, b]:
                recall = begin(before.model, percepts[t])
            np.testing.assert_allclose(rollout.inputs[t, b], memory.read(recall), atol=1e-6)
            hidden[t, b] = recall.earlier
            chances = [expected(before.model, recall.hidden, percepts[t], a) for a in range(3)]
            policy = np.exp(rollout.logits[t, b]) / np.exp(rollout.logits[t, b]).sum()
            assert float(lambdas[t, b]) == pytest.approx(float(policy @ np.asarray(chances)), abs=1e-5)
            following, codes = rollout.next_inputs[t, b, :n], rollout.next_codes[t, b]
            recall = arrive(before.model, recall, rollout.action[t, b], following, codes)
            np.testing.assert_allclose(rollout.next_inputs[t, b], memory.read(recall), atol=1e-6)
    model, learn = before.model, jax.jit(SMALL.learn)
    for part in (slice(0, 4), slice(4, 8), slice(8, 10)):
        acted = jnp.eye(3)[jnp.roll(rollout.action, 1, 0)]
        came = jnp.where(rollout.start[..., None], 0.0, acted)
        window = (rollout.inputs[..., :n], came, rollout.start, rollout.action, rollout.next_codes)
        model = learn(model, hidden[part.start], PerceptWindow(*(x[part] for x in window)))
    for got, want in zip(jax.tree.leaves(learned.model.weights), jax.tree.leaves(model.weights), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


def _expected(model, hidden, percept, action):
    """Π_i Σ_k P̂_i(k | history, a)², for one action."""
    read = jnp.concatenate([percept, hidden, jnp.eye(3)[action]])
    logs = percept_logs(model.weights.head, model.percepts.exists, read)
    return jnp.prod(jnp.sum(jnp.exp(2 * logs), -1))


def _move(state):
    """Key and task state of the next transition, as the agent draws them."""
    return jax.random.split(jax.random.fold_in(state.key, 4 + state.clock), 4)[3], state.task


def test_the_t_maze_pays_for_the_arm_that_the_signal_named():
    task = TMazeTask(2, numbered=True, look=True, prizes=3, spread=0.5)
    step = jax.jit(task.step)
    for seed in range(4):
        state, seen = task.reset(jax.random.key(seed))
        assert seen.tolist() == [0, 0, 0, 0]
        look = step(jax.random.key(0), state, 1)
        arm = int(look.observation[1])  # 1 up, 2 down
        places, now = [], look
        for action in (0, 0, 2, 0):  # the third runs into a wall
            now = step(jax.random.key(0), now.state, action)
            places.append(int(now.observation[0]))
            assert int(now.observation[1]) == 0
            assert float(now.reward) == pytest.approx(-0.025 if action else 0.0)
        assert places == [1, 2, 2, 3]
        for choice in (1, 2):
            entered = step(jax.random.key(seed), now.state, choice)
            assert int(entered.observation[2]) == (1 if choice == arm else 2)
            assert not entered.terminated
            paid = step(jax.random.key(0), entered.state, 0)
            prize = [-0.5, 0.0, 0.5][int(entered.observation[3]) - 1]
            assert (bool(paid.terminated), float(paid.score)) == (True, float(choice == arm))
            assert float(paid.reward) == pytest.approx((choice == arm) + prize)
    plain = TMazeTask(3)
    step = jax.jit(plain.step)
    state, seen = plain.reset(jax.random.key(1))
    signal, places = int(seen[1]), [int(seen[0])]
    for action in (0, 0, 0, 0, signal):
        done = step(jax.random.key(0), state, action)
        state, _ = done.state, places.append(int(done.observation[0]))
    assert places == [0, 1, 1, 1, 2, 3]
    assert (float(done.reward), bool(done.terminated), float(done.score)) == (1.0, True, 1.0)
    state, _ = plain.reset(jax.random.key(1))
    for _ in range(plain.limit):
        done = step(jax.random.key(0), state, 1)
        state = done.state
    assert (bool(done.truncated), bool(done.terminated), float(done.score)) == (True, False, 0.0)


@pytest.mark.long
def test_a_memory_solves_a_t_maze():
    """Without a memory nobody does better than 0.5. Error rate below 1e-3."""
    memory = RecurrentMemory("kept", RecurrentPercepts(hidden=8, units=16), slots=2)
    agent = make_agent("sarsa", TMazeTask(4), SOURCES["recurrent"], hidden=(16,), explore=2_000, memory=memory)
    _, tally = train_curve(agent, jnp.full(4, 1.0), start_fleet(agent, jnp.arange(4)), 3_000, 4)
    assert tally.score[-1].sum() / tally.episodes[-1].sum() > 0.85
    assert tally.lambda_[-1].sum() / tally.steps[-1].sum() > 0.8


@pytest.mark.long
def test_ppo_with_a_memory_solves_a_t_maze():
    """As above, on the way to it."""
    memory = RecurrentMemory("kept", RecurrentPercepts(hidden=8, units=16), slots=2)
    agent = make_agent("ppo", TMazeTask(4), SOURCES["recurrent"], hidden=(16,), memory=memory)
    _, tally = train_curve(agent, jnp.full(4, 3e-3), start_fleet(agent, jnp.arange(4)), 8_192, 6)
    assert tally.score[-1].sum() / tally.episodes[-1].sum() > 0.65


def test_coded_percepts_are_categories():
    from studies.networks.tasks import CartPoleTask

    task = CodedPercepts(CartPoleTask())
    state, seen = task.reset(jax.random.key(0))
    assert task.space == Categories(CartPoleTask().space.nvec)
    done = task.step(jax.random.key(0), state, jnp.asarray(1))
    for codes in (seen, done.observation):
        assert jnp.issubdtype(codes.dtype, jnp.integer)
        assert np.all((np.asarray(codes) >= 0) & (np.asarray(codes) < np.asarray(task.space.nvec)))
    assert task.n_actions == 2
