"""Streaming learners: the linear case is the tabular algorithm; a run does not depend on its neighbours."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td.deep.agents import streaming
from chunked_td.deep.agents.streaming import StreamingSettings, learn_step, make_learned, step_bound
from chunked_td.deep.envs import TASKS, ChargeTask
from chunked_td.deep.lambdas import SOURCES, DeepConstant
from chunked_td.deep.networks import apply_mlp
from chunked_td.deep.training import DeepAgent, DeepTraining, make_settings, start_fleet, train_fleet
from chunked_td.traces import Traces

STATES, ACTIONS, GAMMA, ALPHA = 5, 3, 0.9, 0.05


def episode(rng, steps=60):
    """Random transitions with an end now and then, and a λ per step."""
    return [
        (
            int(rng.integers(STATES)),
            int(rng.integers(ACTIONS)),
            float(rng.normal()),
            int(rng.integers(STATES)),
            int(rng.integers(ACTIONS)),
            bool(rng.random() < 0.1),
            float(rng.random()),
        )
        for _ in range(steps)
    ]
