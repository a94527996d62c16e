"""Engines: the same numbers wherever they are computed; errors and deaths stay where they happen."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from chunked_td.lab.errors import UsageError
from chunked_td.lab.running import engines
from chunked_td.lab.running import reproduce as reproduce_module
from chunked_td.lab.running.engines import LocalEngine, RayEngine, _check_address, make_engine
from chunked_td.lab.running.plan import SweepOptions, make_plan
from helpers.lab_helpers import TOY, contents

ray = pytest.importorskip("ray")

# Ray's own threads and sockets outlive it a little, and warn about that.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def batches(toy, **options):
    return make_plan([toy], SweepOptions(networks=False, **options)).batches


def test_a_local_engine_stops_when_nobody_listens(toy, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "0.05")
    results = LocalEngine().run(batches(toy))
    first = next(results)
    assert first.columns is not None
    results.close()


def test_what_is_compiled_ahead_is_the_smallest_batch_of_a_kind(toy, monkeypatch):
    tried = []
    monkeypatch.setattr(engines, "execute", lambda batch, threads: tried.append((batch, threads)))
    whole = batches(toy)[0]
    engines._compile([b"", engines._letter(whole)])
    ((batch, threads),) = tried
    assert (len(batch.pairs), batch.episodes, threads) == (1, 1, 1)
    assert batch.arm.compiles_as == whole.arm.compiles_as


def test_an_unknown_engine():
    with pytest.raises(UsageError, match="local or ray"):
        make_engine("dask")


def _begin_cluster():
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        worker = cluster.add_node(**small, wait=False)
        cluster.wait_for_nodes(timeout=300)
        ray.init(address=cluster.address, log_to_driver=False)
    except Exception:
        cluster.shutdown()
        raise
    return cluster, worker


@pytest.fixture(scope="module")
def two_nodes():
    """Two Ray nodes on this machine; the second can be killed. A busy machine starts none in the 30 s Ray allows."""
    for tries_left in (2, 1, 0):
        try:
            cluster, worker = _begin_cluster()
            break
        except Exception:
            ray.shutdown()
            if not tries_left:
                raise
    yield cluster, worker
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999"])
def test_an_address_where_nobody_answers_is_named_at_once(address):
    with pytest.raises(UsageError, match=f"--address {address}: no Ray cluster answers there"):
        _check_address(address)
    _check_address("auto")
    _check_address(None)


@pytest.fixture
def straight(reproduce, tmp_path):
    assert reproduce(out=tmp_path / "straight", quiet=True) == 0
    return contents(tmp_path / "straight")


def on_ray(out, **options):
    return reproduce_module.reproduce([TOY], out=out, engine="ray", networks=False, quiet=True, **options)


def test_ray_gives_the_same_bytes(two_nodes, straight, tmp_path):
    """The protocol's file is not importable on the nodes: its code travels with the batches."""
    assert on_ray(tmp_path / "run") == 0
    assert contents(tmp_path / "run") == straight


def test_an_error_on_ray_does_not_stop_the_others(two_nodes, toy):
    def run_or_fail(dynamics, **arguments):
        if arguments["lambda_source"] == 0.5:
            raise ValueError("asked to fail at λ = 0.5")
        return toy.runner(dynamics, **arguments)

    broken = replace(toy, runner=run_or_fail)
    results = list(RayEngine().run(batches(broken)))
    failed = [result for result in results if result.columns is None]
    assert len(results) == 6
    assert {result.batch.arm.id for result in failed} == {"sarsa-0.5"}
    assert all("ValueError: asked to fail at λ = 0.5" in str(result.error) for result in failed)


def test_a_killed_worker_is_replaced(two_nodes, straight, toy, tmp_path):
    fuse = tmp_path / "fuse"
    fuse.touch()
    inner = toy.runner

    def run_and_die_once(dynamics, **arguments):
        try:
            fuse.unlink()
        except FileNotFoundError:
            return inner(dynamics, **arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    dying = replace(toy, runner=run_and_die_once)
    results = {result.batch.settings.key: result for result in RayEngine().run(batches(dying))}
    assert not fuse.exists()
    assert all(result.error is None for result in results.values())
    for mine, theirs in zip(batches(dying), LocalEngine().run(batches(toy)), strict=True):
        found = results[mine.settings.key].columns
        assert found is not None
        assert theirs.columns is not None
        assert all(np.array_equal(found[name], theirs.columns[name]) for name in theirs.columns)


def test_a_killed_node_is_survived(two_nodes, straight, toy, tmp_path):
    """Last of the Ray tests: it takes the second node away while that works."""
    cluster, worker = two_nodes
    inner, doomed = toy.runner, worker.node_id

    def run_slowly_there(dynamics, **arguments):
        if ray.get_runtime_context().get_node_id() == doomed:
            (tmp_path / "begun").touch()
            time.sleep(600)
        while not (tmp_path / "begun").exists():  # or a quick node would take all batches
            time.sleep(0.05)
        return inner(dynamics, **arguments)

    slow = replace(toy, runner=run_slowly_there)
    results = []
    for result in RayEngine().run(batches(slow)):
        if not results:
            cluster.remove_node(worker, allow_graceful=False)
        results.append(result)
    assert len(results) == 6
    assert all(result.error is None for result in results), [result.error for result in results]
    keys = {result.batch.settings.key: result.columns for result in results}
    for mine, theirs in zip(batches(slow), LocalEngine().run(batches(toy)), strict=True):
        assert theirs.columns is not None
        assert np.array_equal(keys[mine.settings.key]["score"], theirs.columns["score"])
