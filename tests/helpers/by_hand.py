"""One level written out in NumPy, item by item, with gradients derived by hand. Shares no code with the package.

The parameters come as a plain dict of float64 arrays with the shapes that `Predictor` documents.
"""

from __future__ import annotations

import numpy as np

NAMES = ("symbol_in", "time_in", "recurrent", "bias", "out", "out_bias")


def parameters_of(predictor):
    return {name: np.asarray(getattr(predictor, name), np.float64) for name in NAMES}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def encode(item, alphabet, bits):
    x = np.zeros(alphabet + 2)
    x[item[0]] = 1
    return np.concatenate([x, *([float(d) for d in reversed(f"{time:0{bits}b}")] for time in item[1:])])


def cell_forward(p, cell, x, h):
    w = np.concatenate([p["symbol_in"], p["time_in"]])
    a, u = x @ w + p["bias"], h @ p["recurrent"]
    if cell == "tanh":
        return np.tanh(a + u), None
    n = len(h)
    r, z = sigmoid(a[:n] + u[:n]), sigmoid(a[n : 2 * n] + u[n : 2 * n])
    c = np.tanh(a[2 * n :] + r * u[2 * n :])
    return z * h + (1 - z) * c, (r, z, c, u[2 * n :])


def cell_backward(p, cell, x, h, new, memory, d):
    """Gradients of W, U, b and of the state before, from the gradient d of the state after."""
    if cell == "tanh":
        da = du = d * (1 - new**2)
        direct = 0.0
    else:
        r, z, c, u_n = memory
        dc = d * (1 - z) * (1 - c**2)
        dz = d * (h - c) * z * (1 - z)
        dr = dc * u_n * r * (1 - r)
        da, du, direct = np.concatenate([dr, dz, dc]), np.concatenate([dr, dz, dc * r]), d * z
    return np.outer(x, da), np.outer(h, du), da, p["recurrent"] @ du + direct


def output_side(p, state, item, alphabet, bits):
    """−ln P of an item's symbol and times, and its gradient by the logits."""
    logits = state @ p["out"] + p["out_bias"]
    symbols, digits = logits[: alphabet + 1], logits[alphabet + 1 :]
    shares = np.exp(symbols - symbols.max())
    shares /= shares.sum()
    want = encode([0, *item[1:]], alphabet, bits)[alphabet + 2 :]
    on = sigmoid(digits)
    nats = -np.log(shares[item[0]]), -np.sum(np.log(np.where(want == 1, on, 1 - on)))
    shares[item[0]] -= 1
    return nats, np.concatenate([shares, on - want]), logits


def window(p, cell, alphabet, bits, state, previous, items):
    """Loss, −ln P, gradients and last state of one window of one sequence.

    Args:
      items: list of tuples (symbol, times…), only those that exist.
    """
    trail, loss, nats = [], 0.0, 0.0
    grads = {name: np.zeros_like(value) for name, value in p.items()}
    for item in items:
        x = encode(previous, alphabet, bits)
        new, memory = cell_forward(p, cell, x, state)
        cost, dlogits, _ = output_side(p, new, item, alphabet, bits)
        nats += sum(cost)
        loss += sum(cost)
        grads["out"] += np.outer(new, dlogits)
        grads["out_bias"] += dlogits
        dstate = p["out"] @ dlogits
        trail.append((x, state, new, memory, dstate))
        state, previous = new, item
    d = np.zeros_like(state)
    for x, before, new, memory, dstate in reversed(trail):
        dw, du, db, d = cell_backward(p, cell, x, before, new, memory, d + dstate)
        grads["symbol_in"] += dw[: alphabet + 2]
        grads["time_in"] += dw[alphabet + 2 :]
        grads["recurrent"] += du
        grads["bias"] += db
    return loss, nats, grads, state, previous


class Adam:
    """Adam on gradients that were scaled to a norm of at most 1."""

    def __init__(self, rate):
        self.rate, self.count, self.first, self.second = rate, 0, {}, {}

    def step(self, p, grads):
        norm = np.sqrt(sum(np.sum(g**2) for g in grads.values()))
        self.count += 1
        for name, g in grads.items():
            g = g / max(norm, 1.0)
            self.first[name] = 0.9 * self.first.get(name, 0) + 0.1 * g
            self.second[name] = 0.999 * self.second.get(name, 0) + 0.001 * g**2
            mean = self.first[name] / (1 - 0.9**self.count)
            square = self.second[name] / (1 - 0.999**self.count)
            p[name] = p[name] - self.rate * mean / (np.sqrt(square) + 1e-8)


def online(p, cell, alphabet, bits, sequence, size, rate):
    """A whole sequence, online: an update per window. Returns the sum of −ln P."""
    adam, state, previous = Adam(rate), np.zeros(len(p["recurrent"])), first_item(alphabet, sequence)
    total = 0.0
    for at in range(0, len(sequence), size):
        items = sequence[at : at + size]
        _, nats, grads, state, previous = window(p, cell, alphabet, bits, state, previous, items)
        adam.step(p, {name: g / len(items) for name, g in grads.items()})
        total += nats
    return total


def batch(p, cell, alphabet, bits, sequences, size, rate):
    """A batch of sequences: gradients cut at windows, one update by their mean."""
    total, n = {name: np.zeros_like(value) for name, value in p.items()}, 0
    for sequence in sequences:
        state, previous = np.zeros(len(p["recurrent"])), first_item(alphabet, sequence)
        for at in range(0, len(sequence), size):
            items = sequence[at : at + size]
            _, _, grads, state, previous = window(p, cell, alphabet, bits, state, previous, items)
            total = {name: total[name] + g for name, g in grads.items()}
            n += len(items)
    Adam(rate).step(p, {name: g / n for name, g in total.items()})


def first_item(alphabet, sequence):
    return (alphabet + 1, *(0,) * (len(sequence[0]) - 1))


def code_lengths(p, cell, alphabet, bits, sequence):
    """Bits for the symbols and for the times of a sequence of items, and the most probable items."""
    state, previous = np.zeros(len(p["recurrent"])), first_item(alphabet, sequence)
    symbol_bits = time_bits = 0.0
    guesses = []
    for item in sequence:
        state, _ = cell_forward(p, cell, encode(previous, alphabet, bits), state)
        (symbol, times), _, logits = output_side(p, state, item, alphabet, bits)
        symbol_bits, time_bits = symbol_bits + symbol / np.log(2), time_bits + times / np.log(2)
        digits = (logits[alphabet + 1 :] > 0).reshape(len(item) - 1, bits)
        guesses.append((int(np.argmax(logits[: alphabet + 1])), *(int(row @ 2 ** np.arange(bits)) for row in digits)))
        previous = item
    return symbol_bits, time_bits, guesses
