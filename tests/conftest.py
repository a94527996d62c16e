"""Settings shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from helpers.compilation import COMPILED

# The first call of a kernel compiles it, so a deadline per example would fail at random. The examples are the same
# in every run: a red test stays red until the code changes. How long they take to make says how busy the machine is.
settings.register_profile("chunked-td", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chunked-td")

# A shell without job control ignores SIGINT in what it starts in the background, and so do all children: those that a
# test interrupts would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)


TOY_NETWORKS = ("models", "networks", "history_compression")
"""Folders whose networks take longer to compile than to train."""


QUICK_TO_COMPILE = {"xla_cpu_use_fusion_emitters": False}
"""An older code generator of XLA: half the time for programs this small."""


@contextlib.contextmanager
def optimised_by_jax(on):
    import jax
    from jax._src import compiler  # options of single programs: there is no public way from outside

    before, options = jax.config.read("jax_disable_most_optimizations"), compiler.get_compile_options
    as_used = getattr(options, "as_used", options)

    def quick(*arguments, **settings):
        return as_used(*arguments, **{**settings, "env_options_overrides": QUICK_TO_COMPILE})

    quick.as_used = as_used
    jax.config.update("jax_disable_most_optimizations", not on)
    compiler.get_compile_options = as_used if on else quick
    jax.clear_caches()  # what was compiled the other way
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    compiler.get_compile_options = options
    jax.clear_caches()


@pytest.fixture(autouse=True, scope="module")
def compile_quickly(request):
    """Leave out the dearest passes of JAX's compiler; the guide's pages and the studies' tests run what is used."""
    with optimised_by_jax(False) if request.path.parent.name in TOY_NETWORKS else contextlib.nullcontext():
        yield


@pytest.fixture
def compiled_as_used():
    """For what is said of the very programs that are used, such as which bits agree."""
    with optimised_by_jax(True):
        yield


def pytest_collection_finish():
    """The compiler leaves many small objects that live on; looking through them as often as usual is a tenth of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(wrapper=True)  # around -m, which chooses
def pytest_collection_modifyitems(config, items):
    """Compiled, what is marked `uncompiled` is long; `test_uncompiled.py` runs it as plain Python.

    The files of this folder come first: workers are handed files in this order, and the last ones should be short.
    """
    if COMPILED:
        for item in items:
            if item.get_closest_marker("uncompiled"):
                item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    yield
    _tell_once(config, items)


def _tell_once(config, items):
    """Of tests that are skipped for one reason the first is shown, with their number; the others are left out."""
    skipped: dict[str, list[pytest.Item]] = {}
    for item in items:
        marks = [mark for mark in item.iter_markers() if mark.name in ("skip", "skipif") and all(mark.args[:1])]
        reason = next((mark.kwargs["reason"] for mark in marks), None)
        if reason is not None:
            skipped.setdefault(reason, []).append(item)
    for reason, (first, *others) in skipped.items():
        if others:
            first.add_marker(pytest.mark.skipif(True, reason=f"{reason} ({1 + len(others)} tests)"), append=False)
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]
