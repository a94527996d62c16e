"""Planners and model errors written down plainly: the raw transitions in lists, nothing counted."""

from __future__ import annotations

import numpy as np

from helpers.naive import Naive, V


class Planned(Naive):
    """`Naive` with a planner.

    Args:
      planner: ("dyna", steps, expected, greedy), ("sweeping", steps, threshold), ("certain",) or None.
      direct: whether the real step's own update is made.
      misread: a function (visit number of (s, a), s, a, s2, episode) -> the state that models see, or None.
    """

    def __init__(self, *args, planner=None, direct=True, misread=None, **settings):
        super().__init__(*args, **settings)
        self.planner, self.direct, self.misread = planner, direct, misread
        self.story, self.tried, self.queue, self.visits, self.episode = {}, [], {}, {}, 0
        self.plan_draws = np.random.default_rng(np.random.SeedSequence(settings["seed"]).spawn(3)[2])

    def start(self, s, legal):
        self.episode += 1
        return super().start(s, legal)

    def count(self, s, a, reward, s2, a2):
        n = self.visits[s, a] = self.visits.get((s, a), 0) + 1
        self.seen = s2 if self.misread is None else self.misread(n, s, a, s2, self.episode)
        if self.seen is not None:
            super().count(s, a, reward, self.seen, a2)

    def mixture_weights(self, s, part=()):
        if not any(self.counts[(s, b, *part)] for b in range(self.world.actions)):
            return np.zeros(self.world.actions)  # the model was never shown this state: λ = 0
        return super().mixture_weights(s, part)

    def learn(self, lambda_t, reward, bootstrap, ended):
        here = self.place
        if self.seen is not None:
            if here not in self.story:
                self.tried.append(here)
            self.story.setdefault(here, []).append((self.seen, np.array(reward), ended == 1))
        if self.direct:
            super().learn(lambda_t, reward, bootstrap, ended)
        if self.planner is not None:
            getattr(self, self.planner[0])(*self.planner[1:], here=here, ended=ended)

    # ---- backups

    def beyond(self, s2, epsilon):
        total = np.zeros(self.world.rewards)
        self.add_beyond(total, s2, epsilon, 1.0)
        return total

    def add_beyond(self, total, s2, epsilon, scale):
        """total += scale · B(s2)."""
        if self.bootstrap == V:
            total += scale * self.values[s2]
        elif s2 in self.acted_in:
            kept, self.epsilon = self.epsilon, epsilon
            policy = self.greedy_policy(s2, self.acted_in[s2])
            self.epsilon = kept
            total += scale * sum(policy[a] * self.values[s2, a] for a in np.flatnonzero(policy))

    def backup(self, here, only=None, epsilon=None):
        """The mean target of the transitions seen from `here`, or of those to the state `only`.

        The whole mean is added up by next states, the newest first: priorities that are equal must be so to the bit.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        if only is None:
            total = np.zeros(self.world.rewards)
            for state in self.newest_first(here):
                group = [(reward, ended) for s2, reward, ended in self.story[here] if s2 == state]
                total += sum((reward for reward, _ in group), np.zeros(self.world.rewards))
                self.add_beyond(total, state, epsilon, self.gamma * sum(not ended for _, ended in group))
            return total / len(self.story[here])
        targets = [
            reward + (0.0 if ended else self.gamma * self.beyond(s2, epsilon))
            for s2, reward, ended in self.story[here]
            if s2 == only
        ]
        return np.mean(targets, axis=0)

    def newest_first(self, here):
        """The next states seen from `here`."""
        targets = [s2 for s2, *_ in self.story[here]]
        return sorted(set(targets), key=targets.index, reverse=True)

    # ---- planners

    def dyna(self, steps, expected, greedy, here, ended):
        for _ in range(steps if self.tried else 0):
            row = self.tried[int(self.plan_draws.random() * len(self.tried))]
            only = None
            if not expected:
                targets = [s2 for s2, *_ in self.story[row]]
                line = [s2 for s2 in self.newest_first(row) for _ in range(targets.count(s2))]
                only = line[int(self.plan_draws.random() * len(line))]
            target = self.backup(row, only, 0.0 if greedy else None)
            self.values[row] += self.alpha * (target - self.values[row])

    def sweeping(self, steps, threshold, here, ended):
        def enter(row):
            if row in self.story:
                error = np.abs(self.backup(row) - self.values[row]).max()
                if error > threshold or row in self.queue:
                    self.queue[row] = error

        enter(here)
        for _ in range(steps):
            if not self.queue:
                return
            row = min(self.queue, key=lambda row: (-self.queue[row], row))
            del self.queue[row]
            self.values[row] = self.backup(row)
            state = row if self.bootstrap == V else row[0]
            for origin, outcomes in self.story.items():
                if any(s2 == state and not over for s2, _, over in outcomes):
                    enter(origin)

    def certain(self, here, ended):
        change = 1.0 if ended else 0.0
        while change > 1e-13:
            new = {row: self.backup(row) for row in self.story}
            change = max((np.abs(new[row] - self.values[row]).max() for row in new), default=0.0)
            for row, target in new.items():
                self.values[row] = target
