"""Network arms end to end: the fleet with true probabilities planted is the oracle; arms together are arms alone."""

import dataclasses
import os
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link.link import _PROGRAMS
from chunked_td.envs.dynamics import KeyToDoor
from chunked_td.envs.face import DynamicsEnv
from chunked_td.lambdas.on_device import Reading
from chunked_td.lambdas.step import WHOLE, expected_mixture, mixture
from chunked_td.models.neural import world as world_module
from chunked_td.models.neural.diagnostics import Diagnostics
from chunked_td.simulation import networks as neural
from chunked_td.simulation import simulate
from helpers.compilation import COMPILED, uncompiled
from helpers.small_worlds import CHARGE, CHARGE_DYNAMICS, DOOR, DOOR_DYNAMICS, LENGTH
from studies.accumulated_charge.network import network_config as charge_network

EPISODES = 25
STARTS = ((0, 0), (0, 1))  # both actions in the start state, whose id is 0


# ---- the truth planted in place of a network


def true_chances(fleet, dynamics):
    """float64[B, T, A, c]: P(x'ⁱ|x, a) of what happened, from the dynamics of each run."""
    B, T = fleet.actions.shape
    chances = np.zeros((B, T, dynamics.n_actions, len(dynamics.nvec)))
    for b in range(B):
        env = type(dynamics)(*(part[b] if isinstance(part, np.ndarray) else part for part in fleet.envs))
        states = fleet.states[b].astype(np.int64)
        for t in range(T):
            for a in range(dynamics.n_actions):
                env.probability(env, states[t], a, states[t + 1], chances[b, t, a])
    return chances


def planted(monkeypatch, dynamics, learner, source, epsilon, *, shift=0):
    """The fleet after a run in which the true dynamics answer in place of the networks."""
    fleets = []

    class Truth:
        broken_at = np.zeros(2)

        def __init__(self, config, seeds, length, **settings):
            self.noisy = np.zeros((len(seeds), length), bool)

        def compile(self):
            return 0.0

        def mark_noisy(self, noisy):
            assert noisy.shape == self.noisy.shape

        def episode(self, states, actions, policy):
            chances = true_chances(fleets[-1], dynamics)
            if learner == "sarsa":
                lambdas = np.take_along_axis(chances.prod(3), actions[..., None].astype(int), 2)[..., 0]
            elif isinstance(source, ctd.FactoredLambda):
                lambdas = (policy[..., None] * chances).sum(2)
            else:
                lambdas = (policy * chances.prod(3)).sum(2)
            return jnp.asarray(np.roll(lambdas, shift, axis=1), jnp.float32)

        def diagnostics(self):
            nothing = np.zeros((2, 10))
            return Diagnostics(np.zeros(2), nothing, nothing, nothing, nothing, nothing)

    def fleet(*arguments):
        fleets.append(make_fleet(*arguments))
        return fleets[-1]

    make_fleet = neural._lockstep
    with monkeypatch.context() as patch:
        patch.setattr(world_module, "World", Truth)
        patch.setattr(neural, "_lockstep", fleet)
        neural.run_together(
            dynamics,
            [neural.ArmRuns(source, np.array([4, 5]), np.array([0.5, 0.25]))],
            config=CHARGE if learner == "sarsa" else DOOR,
            learner=learner,
            epsilon=epsilon,
            discount=1.0,
            episodes=EPISODES,
            record_at=[7, EPISODES],
        )
    return fleets[-1]


def oracle(dynamics, learner, source, epsilon):
    return simulate(
        dynamics,
        learner=learner,
        lambda_source=source,
        model="oracle",
        step_sizes=[0.5, 0.25],
        seeds=[4, 5],
        epsilon=epsilon,
        discount=1.0,
        episodes=EPISODES,
        keep_values=True,
        threads=1,
    )


@pytest.mark.parametrize(
    "source",
    [ctd.ForwardLambda(), uncompiled(ctd.FactoredLambda())],
    ids=["c-default", "c-factored"],
)
def test_planted_truth_is_the_oracle_bit_for_bit(source, monkeypatch):
    """Coins and ε = ½ make every λ a binary fraction, which no rounding touches."""
    runs = oracle(DOOR_DYNAMICS, "expected_sarsa", source, 0.5)
    fleet = planted(monkeypatch, DOOR_DYNAMICS, "expected_sarsa", source, 0.5)
    np.testing.assert_array_equal(fleet.values, runs.values)
    np.testing.assert_array_equal(fleet.totals.misses[:, 0], runs.misses)
    late = planted(monkeypatch, DOOR_DYNAMICS, "expected_sarsa", source, 0.5, shift=1)
    assert np.abs(late.values - runs.values).max() > 1e-5


@pytest.mark.uncompiled
def test_planted_truth_is_the_oracle_for_sarsa(monkeypatch):
    """Binomial probabilities are rounded to float32 on the way; decisions are the same."""
    runs = oracle(CHARGE_DYNAMICS, "sarsa", ctd.ForwardLambda(), 0.1)
    fleet = planted(monkeypatch, CHARGE_DYNAMICS, "sarsa", ctd.ForwardLambda(), 0.1)
    np.testing.assert_allclose(fleet.values, runs.values, atol=1e-6)
    np.testing.assert_array_equal(fleet.totals.misses[:, 0], runs.misses)
    late = planted(monkeypatch, CHARGE_DYNAMICS, "sarsa", ctd.ForwardLambda(), 0.1, shift=1)
    assert np.abs(late.values - runs.values).max() > 1e-3


# ---- arms with networks


def charge_runs(seeds, episodes=EPISODES, **settings):
    runs = neural.run_together(
        CHARGE_DYNAMICS,
        [neural.ArmRuns(ctd.ForwardLambda(), np.array(seeds), np.full(len(seeds), 0.5))],
        config=CHARGE,
        learner="sarsa",
        epsilon=0.1,
        discount=1.0,
        episodes=episodes,
        record_at=[5],
        probes=STARTS,
        **settings,
    )
    return runs[0]


DOOR_SETTINGS = {
    "config": DOOR,
    "learner": "expected_sarsa",
    "epsilon": 0.3,
    "discount": 1.0,
    "episodes": EPISODES,
    "record_at": [5],
    "probes": STARTS,
}


def crew(source, seed):
    return neural.ArmRuns(source, np.array([seed]), np.array([0.5]))


def same_runs(a, b):
    """Two results that differ in float32 rounding at most, decisions not at all."""
    np.testing.assert_array_equal(a.misses_at, b.misses_at)
    np.testing.assert_array_equal(a.steps, b.steps)
    np.testing.assert_allclose(a.returns_at, b.returns_at, atol=1e-12)
    np.testing.assert_allclose(a.probes_at, b.probes_at, atol=1e-6)
    assert a.diagnostics.keys() == b.diagnostics.keys()
    for name in a.diagnostics:
        np.testing.assert_allclose(a.diagnostics[name], b.diagnostics[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_batch_of_runs_makes_the_decisions_of_single_runs():
    together = charge_runs([3, 4])
    for i, seed in enumerate((3, 4)):
        alone = charge_runs([seed])
        np.testing.assert_array_equal(together.misses_at[i], alone.misses_at[0])
        np.testing.assert_allclose(together.probes_at[i], alone.probes_at[0], atol=1e-5)
    assert together.misses_at.shape == (2, 2)


@pytest.mark.parametrize("factored_first", [True, False])
@pytest.mark.parametrize("components", [None, ((0, 3), 1, (2, 4), 3, 4)])
def test_two_arms_in_one_program_are_the_arms_alone(factored_first, components):
    sources = [ctd.FactoredLambda(components), ctd.ForwardLambda()]
    crews = [crew(source, seed) for source, seed in zip(sources, (3, 4), strict=True)]
    if not factored_first:
        crews.reverse()
    together = neural.run_together(DOOR_DYNAMICS, crews, **DOOR_SETTINGS)
    for each, found in zip(crews, together, strict=True):
        same_runs(found, neural.run_together(DOOR_DYNAMICS, [each], **DOOR_SETTINGS)[0])


def test_arms_that_cannot_share_a_program_are_refused():
    crews = [crew(ctd.ForwardLambda(), 3), crew(ctd.ExpectedLambda(), 4)]
    with pytest.raises(ValueError, match="need different predictions"):
        neural.run_together(DOOR_DYNAMICS, crews, **DOOR_SETTINGS)
    crews = [crew(ctd.FactoredLambda(), 3), crew(ctd.FactoredLambda(((0, 3), 1, 2, 3, 4)), 4)]
    with pytest.raises(ValueError, match="different components"):
        neural.run_together(DOOR_DYNAMICS, crews, **DOOR_SETTINGS)


def test_which_arms_can_share_a_program():
    forward, factored, expected = ctd.ForwardLambda(), ctd.FactoredLambda(), ctd.ExpectedLambda()
    for sources in ([forward], [expected, expected], [forward, factored], [factored, forward, forward]):
        assert neural.can_share(sources, "expected_sarsa", DOOR_DYNAMICS), sources
    other = ctd.FactoredLambda(((0, 3), 1, 2, 3, 4))
    for sources in ([forward, expected], [factored, expected], [factored, other], [forward, factored, other]):
        assert not neural.can_share(sources, "expected_sarsa", DOOR_DYNAMICS), sources


def test_one_learner_with_a_model_object_is_a_run_of_the_arm():
    """Same seed, same environment, same network, same batches: the same run to float32 rounding."""
    runs = charge_runs([3, 4])
    env = DynamicsEnv(CHARGE_DYNAMICS)
    agent = ctd.ChunkedSarsa(
        env,
        model=ctd.NeuralModel(env, CHARGE, seed=3),
        step_size=0.5,
        discount=1.0,
        epsilon=0.1,
        seed=3,
        view="offline",
    )
    history = agent.learn(env, EPISODES, progress=False)
    assert history.returns[5:].sum() == pytest.approx(runs.returns_at[0, 1], abs=1e-9)
    np.testing.assert_allclose(agent.q_values(np.zeros(3, int)), runs.probes_at[0, -1], atol=1e-5)
    assert np.abs(agent.q_values(np.zeros(3, int)) - runs.probes_at[1, -1]).max() > 1e-3


@pytest.mark.parametrize("source", [ctd.FactoredLambda(), ctd.FactoredLambda(((0, 3), 1, (2, 4), 3, 4))])
def test_one_factored_learner_with_a_model_object_is_a_run_of_the_arm(source):
    runs = neural.run_together(DOOR_DYNAMICS, [crew(source, 3)], **DOOR_SETTINGS)[0]
    env = DynamicsEnv(DOOR_DYNAMICS)
    agent = ctd.FactoredChunkedExpectedSarsa(
        env,
        model=ctd.NeuralModel(env, DOOR, seed=3),
        lambda_source=source,
        step_size=0.5,
        discount=1.0,
        epsilon=0.3,
        seed=3,
        view="offline",
    )
    history = agent.learn(env, EPISODES, progress=False)
    assert history.returns[5:].sum() == pytest.approx(runs.returns_at[0, 1], abs=1e-9)
    np.testing.assert_allclose(agent.q_values(np.zeros(5, int)), runs.probes_at[0, -1], atol=1e-6)


def test_a_broken_network_is_recorded_and_spares_the_others(monkeypatch):
    healthy = charge_runs([3, 4])

    class Poisoned(world_module.World):
        """The second run's network starts with a NaN."""

        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            bias = self.state.networks.layers[0].bias
            networks = eqx.tree_at(lambda m: m.layers[0].bias, self.state.networks, bias.at[1].set(jnp.nan))
            self.state = self.state._replace(networks=networks)

    monkeypatch.setattr(world_module, "World", Poisoned)
    runs = charge_runs([3, 4])
    assert runs.diagnostics["broken"][0].tolist() == [0.0, 0.0]
    at = runs.diagnostics["broken"][1]
    assert at[0] == at[1] > CHARGE.batch_size  # the transition of the first training step
    assert healthy.diagnostics["broken"].max() == 0.0
    np.testing.assert_array_equal(runs.misses_at[0], healthy.misses_at[0])
    np.testing.assert_array_equal(runs.probes_at[0], healthy.probes_at[0])
    assert np.isfinite(runs.probes_at).all()  # λ = 0: the broken run goes on as TD(0)


def turns():
    """The programs for a turn of many runs that this process has compiled so far."""
    return {program.__name__ for program in _PROGRAMS.values() if program.__name__.startswith("turn_many_")}


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_warming_up_compiles_what_the_runs_will_call():
    charge_runs([3, 4], episodes=5)
    known = turns()
    assert known
    settings = neural.check_settings(CHARGE_DYNAMICS, "sarsa", ctd.ForwardLambda(), "counts", "offline", 1.0, 0.1, 2)
    question = neural.question_of([ctd.ForwardLambda()], "sarsa", CHARGE_DYNAMICS)
    neural.warm_up(CHARGE_DYNAMICS, [crew(ctd.ForwardLambda(), 0)], CHARGE, question, settings)
    assert turns() == known


def test_what_cannot_be_done_elsewhere_is_not_done(monkeypatch):
    inside = []
    for work in (lambda dynamics: None, os.chdir):  # cannot be sent; fails there
        monkeypatch.setattr(neural, "_WARM", set())
        with neural._elsewhere(work, CHARGE_DYNAMICS):
            inside.append(work)
    assert len(inside) == 2


# ---- memory


def device(monkeypatch, gibibytes, platform="gpu"):
    limit = None if gibibytes is None else {"bytes_limit": int(gibibytes * 2**30)}
    fake = SimpleNamespace(memory_stats=lambda: limit, device_kind="A small card", platform=platform)
    monkeypatch.setattr(jax, "devices", lambda *_: [fake])


def test_a_program_that_cannot_fit_is_refused_before_it_begins(monkeypatch):
    device(monkeypatch, 1)
    with pytest.raises(neural.NoRoom, match=r"^2000 networks need about .* GiB, A small card has 1\.0 GiB") as refusal:
        neural.check_memory(charge_network(), 200, 2000)
    neural.check_memory(charge_network(), 200, refusal.value.fit)
    with pytest.raises(neural.NoRoom):
        neural.check_memory(charge_network(), 200, refusal.value.fit + 1)
    neural.check_memory(charge_network(), 200, 20)
    device(monkeypatch, 100)
    neural.check_memory(charge_network(), 200, 2000)


def test_what_does_not_fit_runs_in_portions(monkeypatch, capsys):
    whole = charge_runs([3, 4, 5])

    def small(config, horizon, runs):
        if runs > 2:
            raise neural.NoRoom(f"{runs} networks need too much", 2)

    monkeypatch.setattr(neural, "check_memory", small)
    runs = charge_runs([3, 4, 5])
    assert "3 networks need too much; running 2 at a time" in capsys.readouterr().err
    np.testing.assert_array_equal(runs.misses_at, whole.misses_at)
    np.testing.assert_allclose(runs.probes_at, whole.probes_at, atol=1e-6)
    assert runs.diagnostics["loss"].shape == whole.diagnostics["loss"].shape

    def nothing(config, horizon, runs):
        raise neural.NoRoom(f"{runs} networks need too much", 0)

    monkeypatch.setattr(neural, "check_memory", nothing)
    with pytest.raises(neural.NoRoom, match="3 networks need too much"):
        charge_runs([3, 4, 5])


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 100])
def test_portions_hold_every_run_once(most):
    cut = neural.portions([3, 0, 4], most)
    for i, size in enumerate([3, 0, 4]):
        assert [k for part in cut if i in part for k in range(part[i].start, part[i].stop)] == list(range(size))
    assert max(sum(part.stop - part.start for part in program.values()) for program in cut) <= most


def test_the_estimate_of_memory_covers_what_a_world_holds(monkeypatch):
    """Least: the arrays that stay between episodes."""
    held = sum(
        leaf.nbytes for leaf in jax.tree.leaves(world_module.World(CHARGE, [0, 1], LENGTH, reading=Reading()).state)
    )
    device(monkeypatch, held / 2**30)
    with pytest.raises(neural.NoRoom):
        neural.check_memory(CHARGE, LENGTH, 2)


def test_many_networks_on_a_cpu_get_a_word_of_advice(monkeypatch, capsys):
    device(monkeypatch, None, "cpu")
    neural.check_memory(CHARGE, LENGTH, 64)
    assert capsys.readouterr().err == ""
    neural.check_memory(CHARGE, LENGTH, 65)
    assert "65 networks on a CPU are slow" in capsys.readouterr().err


# ---- λ sources that the device does not know


@dataclasses.dataclass(frozen=True)
class OwnForward(ctd.LambdaSource):
    """The paper's λ for Expected-SARSA, from the probabilities that networks hand out."""

    def asks(self, bootstrap):
        return ("mixture",)

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return mixture(step, WHOLE)


@dataclasses.dataclass(frozen=True)
class OwnExpected(ctd.LambdaSource):
    """Σ_{x'} P̂^π(x'|x)², from all outcomes that networks give a probability."""

    def asks(self, bootstrap):
        return ("expected_mixture",)

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return expected_mixture(step, WHOLE)


@pytest.mark.parametrize(
    ("own", "ours"),
    [
        (OwnForward(), ctd.ForwardLambda()),
        pytest.param(OwnExpected(), ctd.ExpectedLambda(), marks=pytest.mark.long),
    ],
    ids=["one", "all"],
)
def test_a_source_of_the_users_own_runs_with_networks(own, ours):
    """Computed on the host from what the networks hand out, it is what the device computes for ours."""
    pair = [neural.run_together(DOOR_DYNAMICS, [crew(source, 3)], **DOOR_SETTINGS)[0] for source in (own, ours)]
    np.testing.assert_array_equal(pair[0].misses_at, pair[1].misses_at)
    np.testing.assert_allclose(pair[0].probes_at, pair[1].probes_at, atol=1e-5)
    assert np.abs(pair[0].probes_at).max() > 1e-3


@pytest.mark.long
def test_expected_lambda_for_sarsa_where_every_state_offers_a_choice():
    """Lists the networks' outcomes on the host; one learner with a model object gives the same values."""
    dynamics = KeyToDoor.make(horizon=LENGTH, distractors=1, scalar_reward=True)
    settings = {**DOOR_SETTINGS, "learner": "sarsa"}
    runs = neural.run_together(dynamics, [crew(ctd.ExpectedLambda(), 3)], **settings)[0]
    env = DynamicsEnv(dynamics)
    agent = ctd.ChunkedSarsa(
        env,
        model=ctd.NeuralModel(env, DOOR, seed=3),
        lambda_source=ctd.ExpectedLambda(),
        step_size=0.5,
        discount=1.0,
        epsilon=0.3,
        seed=3,
        view="offline",
    )
    agent.learn(env, EPISODES, progress=False)
    np.testing.assert_allclose(agent.q_values(np.zeros(5, int)), runs.probes_at[0, -1], atol=1e-5)
    assert np.abs(runs.probes_at).max() > 1e-3


def test_expected_lambda_without_policy_noise():
    """The device squares the probabilities of the action taken, as one learner with a model object does."""
    source = ctd.ExpectedLambda(policy_noise=False)
    dynamics = KeyToDoor.make(horizon=LENGTH, distractors=1, scalar_reward=True)
    runs = neural.run_together(dynamics, [crew(source, 3)], **DOOR_SETTINGS)[0]
    env = DynamicsEnv(dynamics)
    common = {"step_size": 0.5, "discount": 1.0, "epsilon": 0.3, "seed": 3, "view": "offline"}
    agent = ctd.ChunkedExpectedSarsa(env, model=ctd.NeuralModel(env, DOOR, seed=3), lambda_source=source, **common)
    agent.learn(env, EPISODES, progress=False)
    np.testing.assert_allclose(agent.q_values(np.zeros(5, int)), runs.probes_at[0, -1], atol=1e-5)
    assert np.abs(runs.probes_at).max() > 1e-3


def test_what_networks_in_lockstep_answer_without_policy_noise():
    """Arms that differ in it alone do not share a program: runs of one program have one formula."""
    for source, learner, name in (
        (ctd.ForwardLambda(policy_noise=False), "expected_sarsa", "sarsa"),
        (ctd.ForwardLambda(policy_noise=False), "sarsa", "sarsa"),
        (ctd.ExpectedLambda(policy_noise=False), "td", "mean"),
        (ctd.FactoredLambda(policy_noise=False), "expected_sarsa", "chances"),
    ):
        assert neural.question_of([source], learner, DOOR_DYNAMICS).name == name
        assert not neural.can_share([source, type(source)()], learner, DOOR_DYNAMICS)


def test_sources_that_learn_are_told_what_they_take():
    with pytest.raises(ValueError, match=r"use counts or the true model, or a NeuralModel in agent.learn"):
        neural.run_together(DOOR_DYNAMICS, [crew(ctd.ValueLambda(), 3)], **DOOR_SETTINGS)


def test_sources_that_count_are_refused_with_networks():
    with pytest.raises(ValueError, match="use counts"):
        neural.run_together(DOOR_DYNAMICS, [crew(ctd.VisitLambda(), 3)], **DOOR_SETTINGS)
