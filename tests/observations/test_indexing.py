"""State ids: arithmetic against NumPy's own, ids on first sight, bins, and what may not be indexed."""

from __future__ import annotations

import dataclasses
import enum
import json
import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from chunked_td.observations import Discretise, HashedIndexer, indexer_from_state, make_indexer
from chunked_td.observations.canonical import encode

FINITE = {
    "discrete": (spaces.Discrete(5), (5,)),
    "discrete with start": (spaces.Discrete(4, start=-3), (4,)),
    "multi-discrete": (spaces.MultiDiscrete([2, 3, 4]), (2, 3, 4)),
    "multi-discrete with start": (spaces.MultiDiscrete([2, 3], start=[5, -1]), (2, 3)),
    "matrix multi-discrete": (spaces.MultiDiscrete([[2, 3], [1, 2]]), (2, 3, 1, 2)),
    "multi-binary": (spaces.MultiBinary(4), (2, 2, 2, 2)),
    "matrix multi-binary": (spaces.MultiBinary([2, 2]), (2, 2, 2, 2)),
    "integer box": (spaces.Box(-1, 2, (2,), dtype=np.int32), (4, 4)),
    "uneven integer box": (spaces.Box(np.array([0, -2]), np.array([1, 2]), dtype=np.int64), (2, 5)),
    "tuple": (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2, start=1), spaces.Discrete(2)]), (3, 2, 2)),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(2)])}),
        None,
    ),
}


def same(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b)


@pytest.mark.parametrize("name", FINITE)
def test_finite_spaces_are_numbered_without_gaps(name):
    space, nvec = FINITE[name]
    indexer = make_indexer(space)
    assert indexer.fixed
    assert nvec is None or indexer.nvec == nvec
    assert indexer.size == math.prod(indexer.nvec)
    for state in range(indexer.size):
        observation = indexer.decode(state)
        assert space.contains(observation), observation
        assert indexer(observation) == state
        assert type(indexer(observation)) is int
        assert indexer.components(state) == tuple(int(i) for i in np.unravel_index(state, indexer.nvec))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.data())
def test_multi_discrete_is_ravel_multi_index(nvec, data):
    observation = [data.draw(st.integers(0, n - 1)) for n in nvec]
    indexer = make_indexer(spaces.MultiDiscrete(nvec))
    expected = np.ravel_multi_index(observation, nvec)
    assert indexer(np.array(observation)) == expected
    assert indexer(np.array(observation, dtype=np.int8)) == expected
    assert indexer(tuple(observation)) == expected


@pytest.mark.parametrize("name", FINITE)
def test_a_finite_indexer_survives_json(name):
    indexer = make_indexer(FINITE[name][0])
    again = indexer_from_state(json.loads(json.dumps(indexer.state())))
    assert (again.size, again.nvec) == (indexer.size, indexer.nvec)
    for state in range(indexer.size):
        assert same(again.decode(state), indexer.decode(state))
        assert again(indexer.decode(state)) == state


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (spaces.Discrete(5), 5),
        (spaces.Discrete(5), -1),
        (spaces.Discrete(5), 1.0),
        (spaces.Discrete(5, start=2), 1),
        (spaces.MultiDiscrete([2, 3]), np.array([0, 3])),
        (spaces.MultiDiscrete([2, 3]), np.array([-1, 0])),
        (spaces.MultiDiscrete([2, 3]), np.array([0.5, 1.0])),
        (spaces.MultiDiscrete([2, 3]), np.array([0, 1, 1])),
        (spaces.MultiDiscrete([[2, 3]]), np.array([[0], [1]])),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (1,)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (1, 2)),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}),
    ],
)
def test_an_observation_outside_the_space_is_refused(space, observation):
    with pytest.raises(ValueError, match="observation: got"):
        make_indexer(space)(observation)


def test_a_space_too_large_to_count_gets_ids_on_first_sight():
    space = spaces.MultiDiscrete([1000] * 3)
    indexer = make_indexer(space)
    assert not indexer.fixed
    assert indexer.nvec is None
    ids = [indexer(np.array(o)) for o in ([5, 5, 5], [0, 0, 0], [5, 5, 5], [0, 0, 1])]
    assert ids == [0, 1, 0, 2]
    assert indexer.size == 3
    assert make_indexer(space, limit=10**9).fixed


def minigrid_observations(count):
    import minigrid  # noqa: F401 - registers its environments

    env = gym.make("MiniGrid-Empty-5x5-v0")
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    observations = [observation]
    for _ in range(count):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()
        observations.append(observation)
    return env, observations


def test_minigrid_observations_are_told_apart():
    env, observations = minigrid_observations(300)
    indexer = make_indexer(env.observation_space)
    assert not indexer.fixed
    ids = [indexer(observation) for observation in observations]
    as_text = [(o["image"].tolist(), int(o["direction"]), o["mission"]) for o in observations]
    for i in range(0, len(ids), 7):
        for j in range(i, len(ids), 5):
            assert (ids[i] == ids[j]) == (as_text[i] == as_text[j])
    again = indexer_from_state(indexer.state())
    assert [again.find(observation) for observation in observations] == ids
    assert again.size == indexer.size
    assert again.find({"something": "else"}) == -1
    assert again.size == indexer.size


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Card:
    suit: str
    rank: int


class Opaque:
    """Hashable, but nothing that could be written down."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return isinstance(other, Opaque) and self.number == other.number


DISTINCT = [
    None,
    True,
    1,
    1.0,
    "1",
    b"1",
    10**30,
    -1,
    1j,
    (1,),
    (1, 1),
    ((1,), 1),
    (1, (1,)),
    ("ab", "c"),
    ("a", "bc"),
    ("a", "b"),
    ("aub",),  # the bytes of ("a", "b") if pieces did not say how long they are
    (),
    {},
    frozenset(),
    frozenset({1, 2}),
    {"a": 1},
    {"a": {"a": 1}},
    np.array([1]),
    np.array([1.0]),
    np.array([[1]]),
    np.zeros((2, 3)),
    np.zeros((3, 2)),
    np.array(["a", "b"]),
    Colour.RED,
    Colour.BLUE,
    Card("spades", 1),
    Card("spades", 2),
]


def test_different_observations_have_different_bytes():
    assert len({encode(observation) for observation in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, np.int64(1)),
        (1.5, np.float32(1.5)),
        (True, np.bool_(True)),
        (0.0, -0.0),
        (np.array([0.0]), np.array([-0.0])),
        ([1, 2], (1, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({3, 1, 2}, frozenset({2, 3, 1})),
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (np.arange(3, dtype=">i4"), np.arange(3, dtype="<i4")),
        (np.array(3), 3),
        (Card("spades", 1), Card("spades", 1)),
    ],
)
def test_equal_observations_have_equal_bytes(a, b):
    assert encode(a) == encode(b)


def test_a_jax_array_is_the_array_it_holds():
    import jax.numpy as jnp

    assert encode(jnp.arange(3, dtype=jnp.int32)) == encode(np.arange(3, dtype=np.int32))


@given(st.lists(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.tuples), max_size=20))
def test_first_sight_ids_survive_saving(observations):
    indexer = HashedIndexer()
    ids = [indexer(observation) for observation in observations]
    assert sorted(set(ids)) == list(range(indexer.size))
    again = indexer_from_state(indexer.state())
    assert [again(observation) for observation in observations] == ids
    assert again.size == indexer.size


def test_an_opaque_object_has_an_id_but_cannot_be_saved():
    indexer = make_indexer(None)
    assert [indexer(Opaque(i)) for i in (3, 4, 3)] == [0, 1, 0]
    with pytest.raises(TypeError, match="Opaque has no canonical form"):
        indexer.state()


def test_what_is_neither_hashable_nor_an_array_is_refused():
    class Unhashable:
        __hash__ = None

    with pytest.raises(TypeError, match="no canonical form"):
        make_indexer(None)(Unhashable())
    with pytest.raises(TypeError, match="no canonical form"):
        encode(np.array([object()]))


@pytest.mark.parametrize("damage", ["cut", "swapped", "repeated", "kind", "missing"])
def test_a_damaged_state_is_refused(damage):
    indexer = HashedIndexer()
    for observation in ("aa", "bb", "cc"):
        indexer(observation)
    state = indexer.state()
    if damage == "cut":
        state["bytes"] = state["bytes"][:-1]
    if damage == "swapped":
        state["ends"] = state["ends"][[1, 0, 2]]
    if damage == "repeated":
        state["bytes"] = np.tile(state["bytes"][: state["ends"][0]], 3)
    if damage == "kind":
        state["kind"] = "no such"
    if damage == "missing":
        del state["ends"]
    with pytest.raises(ValueError, match="state:"):
        indexer_from_state(state)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, 1.0, (2,)),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2,))]),
        spaces.Dict({"speed": spaces.Box(-1.0, 1.0, (2,))}),
    ],
)
def test_a_continuous_box_says_how_to_cut_it(space):
    with pytest.raises(ValueError, match=r"Box of real numbers(.|\n)*Discretise\("):
        make_indexer(space)


def cartpole_bins(**changes):
    settings = {"bins": [3, 4, 8, 6], "low": [None, -2, None, -2.5], "high": [None, 2, None, 2.5]} | changes
    return Discretise(gym.make("CartPole-v1"), **settings)


def test_cartpole_falls_into_bins():
    indexer = cartpole_bins()
    assert indexer.fixed
    assert indexer.size == 3 * 4 * 8 * 6
    assert indexer.nvec == (3, 4, 8, 6)
    # position in [−4.8, 4.8] in thirds, speed in [−2, 2] in quarters, …
    assert indexer.transform(np.array([0.0, 0.5, -9.0, 9.0], dtype=np.float32)).tolist() == [1, 2, 0, 5]
    assert indexer(np.array([0.0, 0.5, -9.0, 9.0])) == np.ravel_multi_index((1, 2, 0, 5), (3, 4, 8, 6))
    for state in range(indexer.size):
        assert indexer(indexer.decode(state)) == state


@given(st.lists(st.floats(allow_nan=False), min_size=4, max_size=4))
def test_every_number_has_a_bin(observation):
    indexer = cartpole_bins()
    assert 0 <= indexer(observation) < indexer.size


@given(st.integers(1, 50), st.floats(-5, 5), st.floats(0.01, 10), st.floats(-20, 20))
def test_bins_are_histogram_bins(n, low, width, x):
    edges = np.linspace(low, low + width, n + 1)
    indexer = Discretise(bins=n, low=low, high=low + width)
    state = indexer([x])
    slack = 1e-9 * (1 + abs(x))
    assert state == 0 or x >= edges[state] - slack
    assert state == n - 1 or x <= edges[state + 1] + slack


def test_a_wrapped_environment_shows_bin_numbers():
    indexer = cartpole_bins()
    env = indexer.wrap(gym.make("CartPole-v1"))
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert make_indexer(env.observation_space)(observation) < indexer.size


def test_bins_survive_json():
    indexer = Discretise(spaces.Box(-1, 1, (2, 2)), bins=3)
    again = indexer_from_state(json.loads(json.dumps(indexer.state())))
    rng = np.random.default_rng(0)
    for observation in rng.uniform(-2, 2, (50, 2, 2)):
        assert again(observation) == indexer(observation)
        assert again.transform(observation).shape == (2, 2)


def test_too_many_bins_get_ids_on_first_sight():
    indexer = cartpole_bins(bins=1000)
    assert not indexer.fixed
    assert indexer.find(np.zeros(4)) == -1
    assert [indexer(np.full(4, x)) for x in (0.0, 1.0, 0.0)] == [0, 1, 0]
    again = indexer_from_state(indexer.state())
    assert again.find(np.full(4, 1.0)) == 1
    assert again.size == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": None}, "low: dimension 1 of 4 has no finite bound"),
        ({"high": [1, 1, 1, math.inf]}, "high: dimension 3"),
        ({"high": [1, 1]}, "high: got 2 numbers"),
        ({"low": 10}, "low must be less than high"),
        ({"bins": 0}, "bins: got 0"),
        ({"bins": 2.5}, "bins: got 2.5"),
        ({"bins": [1, 2]}, "bins: got"),
        ({"bins": [[1], [1, 2]]}, "bins: got"),
        ({"low": "-1"}, "low: got '-1' in dimension 0, takes numbers"),
        ({"high": [1, 1, 1, True]}, "high: got True in dimension 3, takes numbers"),
        ({"low": [1e-320, 0, 0, 0], "high": [2e-320, 1, 1, 1]}, "low must be less than high"),
    ],
)
def test_impossible_bins_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        cartpole_bins(**changes)


def test_bad_observations_have_no_bin():
    with pytest.raises(ValueError, match="not NaN"):
        cartpole_bins()([0, math.nan, 0, 0])
    with pytest.raises(ValueError, match="shape"):
        cartpole_bins()([0, 0])
    for strange in (["a"] * 4, [1j] * 4, [[0], [0, 0], 0, 0]):
        with pytest.raises(ValueError, match="observation: got"):
            cartpole_bins()(strange)
    with pytest.raises(ValueError, match="takes a Box"):
        Discretise(spaces.Discrete(3))
    with pytest.raises(ValueError, match="bins: got"):
        Discretise(bins=[], low=[], high=[])


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()


@given(st.recursive(PLAIN, lambda part: st.tuples(part, part) | st.dictionaries(st.text(), part), max_leaves=8))
def test_ids_given_on_first_sight_can_be_decoded(observation):
    indexer = make_indexer(None)
    indexer("something else")
    assert indexer.decode(indexer(observation)) == observation


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", ">f8", "bool", "complex64", "<U3"])
def test_arrays_are_decoded_with_shape_and_dtype(dtype):
    indexer = make_indexer(None)
    for shape in ((0,), (3,), (2, 3), (1, 2, 1)):
        array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        shown = indexer.decode(indexer(array))
        assert shown.shape == shape
        assert shown.dtype == np.dtype(dtype).newbyteorder("<")
        assert (shown == array).all()


def test_classes_and_damage_cannot_be_decoded():
    from chunked_td.observations.canonical import decode, encode

    @dataclasses.dataclass(frozen=True)
    class Place:
        x: int

    indexer = make_indexer(None)
    with pytest.raises(ValueError, match=r"Place.*cannot be rebuilt"):
        indexer.decode(indexer(Place(1)))
    for damaged in (encode((1, "a"))[:-1], encode(3) + b"x", b"", b"?0000", b"q\0\0\0\0"):
        with pytest.raises(ValueError, match="not canonical bytes"):
            decode(damaged)


def test_an_unknown_id_cannot_be_decoded():
    with pytest.raises(ValueError, match=r"known ids are 0\.\.4"):
        make_indexer(spaces.Discrete(5)).decode(5)
    with pytest.raises(ValueError, match="got id 0, known ids"):
        make_indexer(None).decode(0)
    with pytest.raises(ValueError, match="no components"):
        make_indexer(None).components(0)
