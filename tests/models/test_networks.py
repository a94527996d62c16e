"""The categorical networks against their definitions, and one training step against PyTorch."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from chunked_td.lambdas.on_device import Reading
from chunked_td.models.neural import networks
from chunked_td.models.neural.networks import (
    CategoricalNetwork,
    Head,
    NetworkConfig,
    boolean,
    categorical,
    difference,
)
from chunked_td.models.neural.world import WorldProgram, training_step
from studies.accumulated_charge.network import network_config as charge_network
from studies.key_to_door.network import network_config as door_network

ACCUMULATED_CHARGE, KEY_TO_DOOR = charge_network(), door_network()
BOTH = pytest.mark.parametrize("config", [ACCUMULATED_CHARGE, KEY_TO_DOOR], ids=["accumulated-charge", "key-to-door"])
MIXED = NetworkConfig(
    (2, 2, 4, 5), 3, (boolean(), boolean(), categorical(4), difference(-1, 2)), hidden=(6,), embedding=2
)


@functools.partial(jax.jit, static_argnums=0)
def new_network(config, seed):
    return CategoricalNetwork(config, key=jax.random.key(seed))


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def distributions(config, logits):
    """Each component's probabilities as a plain array, by the definition of its head."""
    result, start = [], 0
    for head in config.heads:
        part = np.asarray(logits[start : start + head.logits], np.float64)
        start += head.logits
        result.append(softmax(np.array([0.0, part[0]]) if head.kind == "boolean" else part))
    return result


def random_batch(config, rng, rows):
    """Transitions that every head can express."""
    state = np.stack([rng.integers(0, n, rows) for n in config.nvec], 1)
    following = []
    for i, head in enumerate(config.heads):
        outcome = rng.integers(head.low, head.low + head.outcomes, rows)
        following.append(state[:, i] + outcome if head.kind == "difference" else outcome)
    return state, rng.integers(0, config.actions, rows), np.stack(following, 1)


def test_sizes_are_those_of_the_paper():
    assert ACCUMULATED_CHARGE.parameters == 6 * 256 + 2 * 257 * 256 + 257 * 63
    assert KEY_TO_DOOR.parameters == 13 * 128 + 129 * 128 + 129 * 108 + 8
    for config in (ACCUMULATED_CHARGE, KEY_TO_DOOR, MIXED):
        shapes = jax.eval_shape(lambda config=config: eqx.filter(new_network(config, 0), eqx.is_array))
        assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == config.parameters


def test_likelihood_is_that_of_each_head():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(MIXED.outputs,)).astype(np.float32) * 3
    tables = distributions(MIXED, logits)
    state = np.array([1, 0, 3, 2])
    for following in itertools.product(range(2), range(2), range(4), range(1, 5)):
        outcome = networks.outcomes(MIXED, jnp.asarray(state), jnp.asarray(following))
        index = [*following[:3], following[3] - state[3] + 1]
        expected = [np.log(p[i]) for p, i in zip(tables, index, strict=True)]
        np.testing.assert_allclose(networks.log_likelihood(MIXED, logits, outcome), expected, rtol=1e-5)
    top = [np.log(p.max()) for p in tables]
    np.testing.assert_allclose(networks.log_confidence(MIXED, logits), top, rtol=1e-5)


def test_an_outcome_without_a_place_is_impossible():
    logits = jnp.zeros(MIXED.outputs)
    outcome = networks.outcomes(MIXED, jnp.array([0, 0, 0, 0]), jnp.array([0, 0, 0, 4]))
    assert np.isneginf(networks.log_likelihood(MIXED, logits, outcome)[3])


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("reading", ["sarsa", "expected_sarsa", "factored", "both", "chances", "outcomes"])
def test_readings_by_enumeration_of_all_percepts(reading, expected):
    """λ against sums over every next percept of a small problem."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, MIXED.outputs)).astype(np.float32)
    policy = np.array([0.2, 0.5, 0.3])
    tables = [distributions(MIXED, row) for row in logits]
    outcome = np.array([1, 0, 2, 3])
    place = list(itertools.product(*(range(head.outcomes) for head in MIXED.heads)))
    per_action = {a: np.array([[tables[a][i][v] for i, v in enumerate(x)] for x in place]) for a in range(3)}
    if reading in ("chances", "outcomes"):
        each = [[t[v] for t, v in zip(table, outcome, strict=True)] for table in tables]
        truth = np.concatenate(each if reading == "chances" else [np.concatenate(table) for table in tables])
        result = Reading(reading)(MIXED, jnp.asarray(logits), jnp.asarray(outcome), jnp.asarray(policy))
        np.testing.assert_allclose(result, truth, rtol=2e-5)
        assert result.size == Reading(reading).width(MIXED)
        return
    if reading == "sarsa":
        whole = per_action[1].prod(1)
        logits = logits[1:2]
    else:
        whole = sum(policy[a] * per_action[a].prod(1) for a in range(3))
    mixture = [sum(policy[a] * tables[a][i] for a in range(3)) for i in range(4)]
    parts = [p @ p for p in mixture] if expected else [p[v] for p, v in zip(mixture, outcome, strict=True)]
    product = whole @ whole if expected else whole[place.index(tuple(outcome))]
    truth = {"factored": parts, "both": [*parts, product]}.get(reading, product)
    result = Reading(reading, expected)(MIXED, jnp.asarray(logits), jnp.asarray(outcome), jnp.asarray(policy))
    np.testing.assert_allclose(result, truth, rtol=2e-5)


def test_the_mean_over_actions_by_enumeration_of_all_percepts():
    """Σ_a π(a) Σ_{x'} P(x'|x,a)²; there is none of what came."""
    logits = np.random.default_rng(1).normal(size=(3, MIXED.outputs)).astype(np.float32)
    policy = np.array([0.2, 0.5, 0.3])
    truth = sum(
        p * np.prod([table @ table for table in distributions(MIXED, row)])
        for p, row in zip(policy, logits, strict=True)
    )
    result = Reading("mean", True)(MIXED, jnp.asarray(logits), jnp.zeros(4, jnp.int32), jnp.asarray(policy))
    np.testing.assert_allclose(result, truth, rtol=2e-5)
    with pytest.raises(ValueError, match=r"expected must be True for the question 'mean', got False"):
        Reading("mean")


def test_many_components_do_not_underflow_before_the_sum():
    config = NetworkConfig((2,) * 60, 1, (boolean(),) * 60, hidden=(4,))
    logits = jnp.full((1, 60), -20.0)
    log_p = networks.log_likelihood(config, logits, jnp.ones((1, 60), jnp.int32)).sum()
    np.testing.assert_allclose(log_p, -1200.0, rtol=1e-5)


@BOTH
def test_initial_weights_are_distributed_as_pytorch_s(config):
    """Kolmogorov-Smirnov against the uniform law on ±1/√inputs; 0.1 % false alarms per array, seed fixed."""
    network = new_network(config, 0)
    for layer in network.layers:
        bound = 1 / np.sqrt(layer.weight.shape[1])
        for values in (layer.weight, layer.bias):
            values = np.asarray(values).ravel()
            assert np.abs(values).max() <= bound
            assert stats.kstest(values, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


def test_initial_embeddings_are_standard_normal():
    many = NetworkConfig((2,), 500, (boolean(),), hidden=(4,), embedding=8)
    network = CategoricalNetwork(many, key=jax.random.key(1))
    assert stats.kstest(np.asarray(network.embedding).ravel(), "norm").pvalue > 1e-3


class TorchModel:
    """The network written again, in PyTorch and component by component, from App. A.2 and A.3."""

    def __init__(self, config, network):
        self.torch = pytest.importorskip("torch", reason="PyTorch is the independent implementation here")
        torch, self.config = self.torch, config
        self.linears = []
        for layer in network.layers:
            linear = torch.nn.Linear(layer.weight.shape[1], layer.weight.shape[0])
            linear.weight.data = torch.tensor(np.asarray(layer.weight))
            linear.bias.data = torch.tensor(np.asarray(layer.bias))
            self.linears.append(linear)
        parameters = [p for linear in self.linears for p in (linear.weight, linear.bias)]
        self.table = None
        if network.embedding is not None:
            self.table = torch.nn.Embedding(*network.embedding.shape)
            self.table.weight.data = torch.tensor(np.asarray(network.embedding))
            parameters.append(self.table.weight)
        self.parameters = parameters
        self.adam = torch.optim.Adam(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)

    def loss(self, state, action, following):
        torch, F = self.torch, self.torch.nn.functional
        top = torch.tensor(np.array(self.config.nvec) - 1, dtype=torch.float32)
        state, action, following = torch.tensor(state), torch.tensor(action), torch.tensor(following)
        code = self.table(action) if self.table else F.one_hot(action, self.config.actions).float()
        h = torch.cat([state / top, code], 1)
        for linear in self.linears[:-1]:
            h = torch.tanh(linear(h))
        out, losses, start = self.linears[-1](h), [], 0
        for i, head in enumerate(self.config.heads):
            part = out[:, start : start + head.logits]
            start += head.logits
            if head.kind == "boolean":
                losses.append(F.binary_cross_entropy_with_logits(part[:, 0], following[:, i].float()))
            else:
                target = following[:, i] - state[:, i] if head.kind == "difference" else following[:, i]
                losses.append(F.cross_entropy(part, target))
        return sum(losses) / len(losses)

    def step(self, batch):
        self.adam.zero_grad()
        loss = self.loss(*batch)
        loss.backward()
        gradient = [p.grad.numpy().copy() for p in self.parameters]
        self.adam.step()
        return loss.item(), gradient


def leaves_like_torch(network):
    result = [np.asarray(v) for layer in network.layers for v in (layer.weight, layer.bias)]
    return result if network.embedding is None else [*result, np.asarray(network.embedding)]


@functools.partial(jax.jit, static_argnums=0)
def loss_and_gradient(config, network, x, outcome):
    def loss_of(network):
        return networks.mean_cross_entropy(config, network(x, precision="highest"), outcome)

    return jax.value_and_grad(loss_of)(network)


@pytest.mark.parametrize(
    ("config", "staged"),
    [(ACCUMULATED_CHARGE, True), (ACCUMULATED_CHARGE, False), (KEY_TO_DOOR, False)],
    ids=["accumulated-charge-staged", "accumulated-charge", "key-to-door"],
)
def test_training_equals_pytorch(config, staged):
    """Same weights, same batches: loss, gradients and three Adam steps agree to 1e-5, alone and beside another run."""
    rng = np.random.default_rng(2)
    pair = [new_network(config, seed) for seed in (0, 1)]
    references = [TorchModel(config, network) for network in pair]
    stacked = jax.tree.map(lambda *leaf: jnp.stack(leaf), *pair)
    program = WorldProgram(config, config.train_every, Reading(), "float32", staged)
    moments = networks.optimiser(config).init(eqx.filter(stacked, eqx.is_array))
    carry = (stacked, moments, jnp.zeros(2, jnp.int32), jnp.zeros(2), jnp.zeros(2, jnp.int32))
    reads = jnp.zeros((2, 1, len(config.nvec) + config.actions))
    step = eqx.filter_jit(training_step)
    for count in range(1, 4):
        batches = [random_batch(config, rng, config.batch_size) for _ in pair]
        s, a, f = (jnp.asarray(np.stack(parts)) for parts in zip(*batches, strict=True))
        x, outcome = networks.features(config, s, a), networks.outcomes(config, s, f)
        expected = [model.step(batch) for model, batch in zip(references, batches, strict=True)]
        for i, (loss, gradient) in enumerate(expected):
            alone = jax.tree.map(lambda leaf, i=i: leaf[i], carry[0])
            our_loss, ours = loss_and_gradient(config, alone, x[i], outcome[i])
            for g, h in zip(leaves_like_torch(ours), gradient, strict=True):
                np.testing.assert_allclose(g, h, atol=1e-5 * np.abs(h).max(), rtol=1e-5)
            np.testing.assert_allclose(our_loss, loss, rtol=1e-5)
        carry, _ = step(program, carry, (jnp.int32(1000), x, outcome, reads))
        for i, model in enumerate(references):
            network = jax.tree.map(lambda leaf, i=i: leaf[i], carry[0])
            for p, q in zip(leaves_like_torch(network), model.parameters, strict=True):
                np.testing.assert_allclose(p, q.detach().numpy(), atol=1e-5 * count * 0.1, rtol=1e-5)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"kind must be one of .*, got 'real'"):
        Head("real", 2)
    with pytest.raises(ValueError, match=r"heads must have one entry per component \(2\), got 1"):
        NetworkConfig((2, 2), 2, (boolean(),))
    with pytest.raises(ValueError, match=r"activation must be one of .*, got 'sin'"):
        NetworkConfig((2,), 2, (boolean(),), activation="sin")
    for bad in (
        {"hidden": 64},
        {"hidden": (-3,)},
        {"hidden": (0,)},
        {"hidden": (1.5,)},
        {"train_every": 2.0},
        {"batch_size": 0},
        {"embedding": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"weight_decay": -1.0},
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{next(iter(bad))} must be .*, got"):
            NetworkConfig((2,), 2, (boolean(),), **bad)
    with pytest.raises(ValueError, match=r"heads\[1\] must have at least 4 outcomes, the values of component 1, got 3"):
        NetworkConfig((2, 4), 2, (boolean(), categorical(3)))
    assert NetworkConfig((2,), 2, (boolean(),), hidden=[8, 8]).hidden == (8, 8)
