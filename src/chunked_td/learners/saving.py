"""Saving and loading of learners: one file without code; a loaded run resumes with the same bits.

A `.ctd` file is an uncompressed NumPy archive, as `np.savez` writes it: the entry `learner` is JSON with the settings,
the others are arrays. Writing is atomic. Reading executes nothing and takes at most a small multiple of the file's size
in memory. It checks the archive, then the settings, and then every array by its declaration (`learners.schema`), all
before compiled code reads an array.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import chunked_td
from chunked_td._checks import check_choice, check_not_negative, check_unit, check_whole
from chunked_td._files import plain, read_regular, write_atomically
from chunked_td._settings import KernelSettings
from chunked_td.bootstraps import STATE
from chunked_td.lambdas import CLASSES, LambdaSource
from chunked_td.learners.exploration import EXPLORATIONS, Exploration
from chunked_td.learners.inputs import settings_of
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.learner import Learner, LearnerSettings
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning import PLANNERS, Planner
from chunked_td.learners.planning.base import REWARD_SOURCES
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.schema import LARGEST, arrays_of, known_states, take_arrays
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.observations import indexer_from_state
from chunked_td.observations.features import Features, OwnFeatures
from chunked_td.seeding import check_random_state

FORMAT = 2
_DRAWS = ("policy_draws", "chunk_draws", "plan_draws")
_OURS: dict[str, Mapping[str, type]] = {
    "lambda_source": CLASSES,
    "view": {"Lineage": Lineage},
    "exploration": EXPLORATIONS,
    "planner": PLANNERS,
    "reward_source": REWARD_SOURCES,
}
"""Parts of this package with settings, by argument and name; users pass their own parts to `load`."""


class _Space:
    """Replacement for an environment when a learner is rebuilt."""

    def __init__(self, actions: int, start: int, rewards: int):
        self.n, self.start, self.shape = actions, start, (rewards,)
        self.action_space = self.reward_space = self.unwrapped = self
        self.observation_space = None


class _Unfit(ValueError):
    """Error for a valid file that cannot be loaded with these arguments or this version."""


def save(agent: Learner, path: Any) -> None:
    """Write a learner to a file. See `Learner.save`."""
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that exists, got {str(path)!r}")
    arrays = arrays_of(agent)
    if isinstance(agent, SuttonSingh):
        arrays["stale"] = agent.stale[: arrays["averages_pairs"].shape[0]]
        arrays["visited"] = np.array(agent.visited, np.int64).reshape(-1, 2)
    values = {name: getattr(agent, name) for name in _settings_of(type(agent))}
    if agent.exploration is not None and not agent.exploration.uses_epsilon:
        values["epsilon"] = None
    header = {
        "format": FORMAT,
        "version": chunked_td.__version__,
        "learner": type(agent).__name__,
        "space": [agent.n_actions, agent.action_start, agent.n_paid],
        "settings": {name: _written(name, value, arrays) for name, value in values.items()},
        "progress": [agent.episode, agent.state, agent.action, float(agent._rates[0]), float(agent._rates[1])],
        "draws": [getattr(agent, name).state() for name in _DRAWS],
        "env_state": plain(agent.env_state),
        "percepts": [list(key) for key in agent.percepts],
    }
    arrays["learner"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_atomically(path, _packed(arrays))


def load(
    path: Any,
    *,
    lambda_source: LambdaSource | None = None,
    model: Any = None,
    policy: Any = None,
    planner: Planner | None = None,
    exploration: Exploration | None = None,
    view: Any = None,
    features: Any = None,
) -> Learner:
    """Read a learner that `save` wrote; it continues with the same bits as the saved learner.

    Untrusted files are safe: the whole file is checked, and nothing in it is executed or unpickled.

    Args:
      path: the file.
      lambda_source: the λ source, if the learner was built with one of your own.
      model: the model object, if the learner was built with one of your own. A `NeuralModel` is restored from the file.
      policy: the policy, if the learner was built with a function.
      planner: the planner, if the learner was built with one of your own.
      exploration: the exploration, if the learner was built with one of your own.
      view: the view, if the learner was built with one of your own.
      features: the function, if the learner was built with `OwnFeatures`.

    Raises:
      ValueError: if the file is not a saved learner of this format, is truncated or corrupt, or has values that no
        learner can have.
    """
    content = read_regular(path)
    given = {"lambda_source": lambda_source, "model": model, "policy": policy, "planner": planner}
    try:
        return _learner(_unpacked(content), {**given, "exploration": exploration, "view": view}, features)
    except _Unfit as problem:
        raise ValueError(f"{path}: {problem}") from None
    except Exception as problem:  # every error of a file names the file
        text = f"no {problem}" if isinstance(problem, KeyError) else str(problem) or repr(problem)
        raise ValueError(f"{path}: not a saved learner, or cut short or changed: {text}") from problem


# ---- the archive


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as an archive."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufU":
            raise ValueError(f"{name} must be numbers or text to be saved, got {array.dtype}")
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(array, order="C") for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpacked(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an uncompressed archive. `zipfile` compares the checksums."""
    found: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if any(member.filename == "header.npy" for member in members):
            raise _Unfit(f"a learner saved by version 0.1 of chunked_td; this one reads files of format {FORMAT}")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError(f"an archive that would unpack to more than its own {len(content):,} bytes")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{name} must be a single, uncompressed entry, got a duplicate or compressed one")
            found[name] = _array(name, archive.read(member))
    return found


def _array(name: str, content: bytes) -> np.ndarray:
    """Return an array from the bytes of an .npy file: numbers, text or bools, without trailing bytes."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"{name} must be an array of version 1.0 of NumPy's format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biufU" or not dtype.isnative:
        raise ValueError(f"{name} must be little-endian numbers or text, got {dtype}; objects are never unpickled")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell() or fortran or not dtype.itemsize:
        raise ValueError(f"{name}: {dtype}{list(shape)} does not match its {len(content) - file.tell():,} bytes")
    array = np.frombuffer(content, dtype if dtype.kind != "b" else np.uint8, offset=file.tell()).reshape(shape)
    return array.astype(dtype)


# ---- the learner


def _learner(arrays: dict[str, np.ndarray], given: Mapping[str, Any], features: Any) -> Learner:
    """Return the learner in an archive; `given`: the arguments of `load`, by name."""
    header = json.loads(str(arrays.pop("learner").data, "utf-8"))
    if header["format"] != FORMAT:
        version = f"written by version {header.get('version')} of chunked_td in format {header['format']}"
        raise _Unfit(f"{version}; this one, version {chunked_td.__version__}, reads format {FORMAT}")
    agent = _rebuilt(header, arrays, given)
    for name, state in zip(_DRAWS, header["draws"], strict=True):
        getattr(agent, name).set_state(state)
    state = header["env_state"]  # of an environment, or of each copy in a vector, or None
    each = [one and check_random_state("env_state", one) for one in (state if isinstance(state, list) else [state])]
    agent.env_state = each if isinstance(state, list) else each[0]
    agent.percepts = _percepts(agent, header["percepts"])
    _set_progress(agent, *header["progress"])
    take_arrays(agent, arrays)
    if isinstance(agent, SuttonSingh):
        _take_averages(agent, arrays.pop("stale"), arrays.pop("visited"))
    if arrays:
        raise ValueError(f"{', '.join(map(repr, arrays))}: no array of this learner has that name")
    if isinstance(agent.indexer, OwnFeatures):
        if features is None:
            raise _Unfit("features: the saved learner uses a function, which a file cannot hold; pass features=")
        agent.indexer.function = features
    return agent


def _rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray], given: Mapping[str, Any]) -> Learner:
    """Return a new learner with the settings of a file."""
    cls = getattr(chunked_td, check_choice("learner", header["learner"], chunked_td.LEARNERS))
    actions, start, paid = header["space"]
    check_whole("actions", actions, 1, LARGEST)
    check_whole("action_start", start, -LARGEST, LARGEST)
    check_whole("rewards", paid, 1, LARGEST)
    if header["settings"].keys() != set(_settings_of(cls)):
        raise ValueError(f"settings must be {', '.join(_settings_of(cls))}, got {', '.join(header['settings'])}")
    settings: Any = {name: _read(name, value, arrays, given) for name, value in header["settings"].items()}
    _check_room(cls, settings, arrays, actions, paid)
    return cls(_Space(actions, start, paid), **settings)


def _check_room(cls: type[Learner], settings: Any, arrays: Mapping[str, np.ndarray], actions: int, paid: int) -> None:
    """Raise a ValueError for settings that would allocate more memory than the arrays of the file."""
    indexer, width = settings["indexer"], 1 if cls.bootstrap == STATE else actions
    rows, nvec, wanted = known_states(indexer) * width, indexer.nvec or (), {}
    if isinstance(settings.get("reward_source"), LearnedComponents):
        paid, wanted["division_inverse"] = len(nvec) + 1, sum(nvec) ** 2
    if isinstance(indexer, Features):
        wanted["trace_weights"] = indexer.count * width * paid
    wanted["values"] = rows * paid
    for name, size in wanted.items():
        if arrays[name].size != size:
            raise ValueError(f"{name} must have {size} numbers for these settings, got {arrays[name].size}")


def _set_progress(agent: Learner, episode: Any, state: Any, action: Any, rate: Any, step_size: Any) -> None:
    """Check and set episode, state, action, ε and step size."""
    agent.episode = check_whole("episode", episode, 0, LARGEST)
    agent.state = check_whole("state", state, -1, agent.indexer.size - 1)
    none = state < 0
    agent.action = check_whole("action", action, -1 if none else 0, -1 if none else agent.n_actions - 1)
    agent._rates[0] = (check_unit if agent.exploration is None else check_not_negative)("epsilon", rate)
    agent._rates[1] = check_not_negative("step_size", step_size)


def _percepts(agent: Learner, percepts: Any) -> dict[tuple[Any, ...], int]:
    """Check and return the ids of the pairs of reward and state."""
    found: dict[tuple[Any, ...], int] = {}
    for given in percepts:
        *rewards, state = given
        if len(rewards) != agent.n_paid or not all(type(r) in (int, float) and np.isfinite(r) for r in rewards):
            raise ValueError(f"percepts must be {agent.n_paid} rewards and a state each, got {given!r}")
        check_whole("state of a percept", state, 0, agent.indexer.size - 1)
        found[(*rewards, state)] = len(found)
    if len(found) != len(percepts):
        raise ValueError("percepts must differ from each other")
    return found


def _take_averages(agent: SuttonSingh, stale: np.ndarray, visited: np.ndarray) -> None:
    """Check and set the additional arrays of `SuttonSingh` learners."""
    size = int(agent.counts.size[0])
    if stale.dtype != np.float64 or stale.shape != (size,) or not np.isfinite(stale).all():
        raise ValueError(f"stale must be {size} finite numbers, got {stale.dtype}{list(stale.shape)}")
    if visited.dtype != np.int64 or visited.shape[1:] != (2,) or (visited < 0).any():
        raise ValueError(f"visited must be pairs of whole numbers from 0, got {visited.dtype}{list(visited.shape)}")
    if (visited >= (size, known_states(agent.indexer))).any():
        raise ValueError(f"visited must be counted pairs (below {size}) and known states, got a larger number")
    agent.stale = np.zeros(agent.counts.pairs.shape[0])
    agent.stale[:size] = stale
    agent.visited = [(pair, state) for pair, state in visited.tolist()]


# ---- settings


def _settings_of(cls: type[Learner]) -> list[str]:
    """Return the arguments that rebuild a learner of this class; each is also an attribute."""
    return [name for name in LearnerSettings.__annotations__ if name in settings_of(cls)]


def _written(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a setting as JSON. Its arrays are moved to `arrays`; JSON has their names."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, KernelSettings):
        cls, ours = type(value), _OURS.get(name, {})
        known = cls.__name__ if ours.get(cls.__name__) is cls else f"{cls.__module__}.{cls.__qualname__}"
        return {"name": known, **plain(value.settings())}
    if name == "indexer":
        return _written("indexer_state", value.state(), arrays)
    if name == "model" and value is not None:
        kept = value.state_arrays() if hasattr(value, "state_arrays") else {}
        arrays.update({f"model_{key}": np.asarray(array) for key, array in kept.items()})
        return {"object": type(value).__name__, "saved": bool(kept)}
    if isinstance(value, dict):
        return {key: _written(f"{name}_{key}", item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written(f"{name}_{k}", item, arrays) for k, item in enumerate(value)]
    return {"function": True} if callable(value) and not isinstance(value, Schedule) else plain(value)


def _read(name: str, value: Any, arrays: dict[str, np.ndarray], given: Mapping[str, Any]) -> Any:
    """Return a setting from JSON, or the argument of `load` in its place, which must be equal."""
    if isinstance(value, dict) and "object" in value:
        return _model(value, arrays, given["model"])
    if isinstance(value, dict) and "function" in value:
        if given[name] is None:
            raise _Unfit(f"{name}: the saved learner evaluates a function, which a file cannot hold; pass {name}=")
        return given[name]
    if given.get(name) is not None:
        mine = json.loads(json.dumps(_written(name, given[name], {})))
        if mine != value:
            raise _Unfit(f"{name}: the saved learner uses {value}, got {mine}")
        return given[name]
    found = _value(value, arrays)
    if name == "indexer":
        return indexer_from_state(found)
    if isinstance(found, dict):
        part = found.pop("name")
        if part not in _OURS.get(name, {}):
            missing = f"{part}, which is not part of chunked_td; build it and pass it as load(…, {name}=…)"
            raise _Unfit(f"{name}: the saved learner uses {missing}")
        return _OURS[name][part](**found)
    return found


def _value(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value from JSON, with arrays for their names, schedules, and tuples for lists."""
    if isinstance(value, list):
        return tuple(_value(item, arrays) for item in value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array"}:
        return arrays.pop(value["array"])
    found = {key: _value(item, arrays) for key, item in value.items()}
    return Schedule(**found) if found.keys() == {"points", "hold"} else found


def _model(value: dict[str, Any], arrays: dict[str, np.ndarray], given: Any) -> Any:
    """Return the model object given, or a new `NeuralModel`, with its saved arrays if any."""
    saved = {name.removeprefix("model_"): arrays.pop(name) for name in list(arrays) if name.startswith("model_")}
    if given is None and value["object"] == "NeuralModel" and saved:
        from chunked_td.models.neural.online import NeuralModel

        return NeuralModel.from_arrays(saved)
    if given is None:
        raise _Unfit(f"model: the saved learner uses a {value['object']}; build one and pass it as model=")
    if value["saved"]:
        given.load_arrays(saved)
    return given
