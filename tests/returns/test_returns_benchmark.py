"""The rivals in tools/benchmarks/returns.py compute what we compute. No test here looks at a time."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np

from helpers import return_definitions as definitions

FILE = Path(__file__).parents[2] / "tools" / "benchmarks" / "returns.py"


def load(file=FILE):
    spec = importlib.util.spec_from_file_location(f"{file.stem}_benchmark", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rivals_compute_the_same():
    benchmark = load()
    data = benchmark.rollout(20, 3)
    ordered = [data[name] for name in ("rewards", "values", "next_values", "terminated", "truncated")]
    discount = np.full((20, 3), benchmark.GAMMA)
    reference = definitions.each_trajectory(definitions.gae, [*ordered, discount, data["lambda_"]], (20, 3), 0)
    names = set()
    for title, programs in benchmark.backends(data, argparse.Namespace(only=None, compile=False, no_cpu=False)):
        for name, program in programs:
            result = benchmark.as_numpy(program())
            np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-5, err_msg=f"{title}: {name}")
            names.add(name)
    assert {"ours", "associative scan", "rlax, vmap"} <= names


def test_rivals_that_score_all_tokens_compute_the_same(monkeypatch):
    monkeypatch.syspath_prepend(FILE.parent)
    monkeypatch.delitem(sys.modules, "returns", raising=False)
    benchmark = load(FILE.with_name("returns_tokens.py"))
    data, names = benchmark.batch(4, 24), set()
    reference, *_ = (program()[0] for _, _, program in benchmark.numpy_programs(*data))
    for title, programs in benchmark.tables(data, no_cpu=False):
        for name, kind, program in programs:
            if kind == "all":
                result = load().as_numpy(program()[0])
                np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-5, err_msg=f"{title}: {name}")
                names.add(name)
    assert "ours" in names
