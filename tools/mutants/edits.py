"""The mistakes, one by one: where, what stands there, what is written instead, and the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A planted mistake.

    Args:
      name: unique, in words.
      file: below src/chunked_td.
      old: text that occurs there exactly once. new: what is written instead.
      tests: arguments of pytest.
      compiled: run the tests with compiled kernels; without, they need no minute of compilation.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    compiled: bool = False


DEFINITIONS = "tests/learners/test_against_definitions.py"
TRACES = (DEFINITIONS, "-k", "every_source or traces_on_cyclic or lambda_zero or lambda_one")
OFFLINE = (DEFINITIONS, "-k", "offline or sum_of_online or lambda_one")
SAMPLED = (DEFINITIONS, "-k", "sampled")
SCHEDULES = (DEFINITIONS, "-k", "schedules")
COUNTS = ("tests/models/test_counts.py",)
RETURNS = ("tests/returns/test_returns_numpy.py",)
GAE = ("tests/returns/test_returns_backends.py", "-k", "gae")
SINGH = ("tests/learners/test_sutton_singh.py",)
STORE = ("tests/lab/test_store.py", "-k", "table_is_what or same_bytes or changes_its_key or damaged or fewer_seeds")
SAVING = ("tests/learners/test_saving.py", "-k", "uninterrupted or changes_nothing or do_not_fit or asked_for")
DIVERGENCE = ("tests/test_divergence.py",)
MISUSE = ("tests/learners/test_misuse.py",)
LINEAGE = ("tests/learners/test_lineage.py",)
MATURITY = ("tests/learners/test_maturity.py",)
MASKS = ("tests/returns/test_returns_masks.py", "-k", "might_as_well or segments or scored or serves")
OFF_POLICY = ("tests/returns/test_returns_off_policy.py",)
POLICY = ("tests/returns/test_returns_policy.py",)
RANKING = ("tests/lab/test_comparison.py", "-k", "those_of_the_definition or too_few_seeds_give or zero_width")
STATISTICS = ("tests/test_statistics.py",)
EXPLORATION = ("tests/learners/test_exploration.py", "-k", "follow_the_definition")
HOSTILE = (
    "tests/lab/test_hostile_directories.py",
    "-k",
    "after_its_check or that_of_the_settings or by_their_digest or tables_of_studies",
)
LOGGED = ("tests/learners/test_logged.py", "-k", "bad_episodes or is_missing_inside")
PPO = ("tests/deep/test_deep_hidden.py", "-k", "advantages_of_ppo")
COMPRESSION = ("tests/compression/test_compressor.py", "-k", "gives_the_sequence_back")
CRAFTED = ("tests/compression/test_compressor.py", "-k", "before_the_end or too_much")
FACTS = ("tests/lab/test_comparison.py", "-k", "facts_are or comes_back or sign_of_a_hidden or state_that_observations")
ANSWER = ("tests/lab/test_comparison.py", "-k", "reason or recommended or neither_the_lowest or may_be_far")
T_MAZE = ("tests/envs/test_timed_t_maze.py", "-k", "for_networks")
CODEBOOK = ("tests/features/test_codebook.py", "-k", "definition or moves_nothing")
LOOPS = (*MISUSE, "-k", "no_loop or recorder")

EDITS = (
    # the update
    Edit(
        "td error without discount",
        "learners/update.py",
        "i) + rule.discount * ahead - now",
        "i) + ahead - now",
        TRACES,
    ),
    Edit("td error adds the value", "learners/update.py", "discount * ahead - now", "discount * ahead + now", TRACES),
    Edit(
        "bootstrap on termination", "learners/update.py", "        if not terminated:\n", "        if True:\n", TRACES
    ),
    Edit(
        "truncation does not bootstrap",
        "learners/update.py",
        "write_td_error(agent, step, row, ended == TERMINATED)",
        "write_td_error(agent, step, row, ended != ONGOING)",
        TRACES,
    ),
    Edit(
        "policy of the next state used for this one",
        "learners/update.py",
        "            agent.memory.policy[b] = agent.memory.next_policy[b]\n",
        "            agent.memory.policy[b] = agent.memory.policy[b]\n",
        TRACES,
    ),
    Edit(
        "lambda read before the model learns",
        "learners/update.py",
        "    observe(agent, step, arrival.reward, arrival.ended)\n    write_lambda(agent, step)\n",
        "    write_lambda(agent, step)\n    observe(agent, step, arrival.reward, arrival.ended)\n",
        TRACES,
    ),
    Edit(
        "mark before decay",
        "traces.py",
        "        decay(trace, rule.discount, memory.lambda_t, rule.cutoff)\n        mark(trace, row, rule.replacing)\n",
        "        mark(trace, row, rule.replacing)\n        decay(trace, rule.discount, memory.lambda_t, rule.cutoff)\n",
        TRACES,
    ),
    Edit(
        "previous pair forgotten",
        "learners/update.py",
        "    agent.memory.previous[0] = step.state * A + step.action\n",
        "    agent.memory.previous[0] = step.state * A\n",
        TRACES,
    ),
    Edit(
        "sampled chunks keep where they should drop",
        "learners/update.py",
        "1.0 if u < memory.lambda_[t, i] else 0.0",
        "0.0 if u < memory.lambda_[t, i] else 1.0",
        SAMPLED,
    ),
    Edit(
        "sampled chunks toss for the first state",
        "learners/update.py",
        "for t in range(1, length):\n",
        "for t in range(length):\n",
        SAMPLED,
    ),
    Edit(
        "divergence of traces not noted",
        "learners/update.py",
        "        if not abs(step_size * agent.memory.delta_t[i]) <= LIMIT:  # true of NaN too\n",
        "        if abs(step_size * agent.memory.delta_t[i]) > 1e400:\n",
        (*DIVERGENCE, "-k", "no_view or does_not_end"),
        compiled=True,
    ),
    Edit(
        "NaN for a λ passes",
        "learners/update.py",
        "    return -SLACK <= value <= 1.0 + SLACK\n",
        "    return not (value < -SLACK or value > 1.0 + SLACK)\n",
        (*DIVERGENCE, "-k", "outside_the_unit"),
        compiled=True,
    ),
    # traces
    Edit(
        "decay without lambda",
        "traces.py",
        "trace.weight[k, i] *= discount * lambda_t[i]",
        "trace.weight[k, i] *= discount",
        TRACES,
    ),
    Edit(
        "dropped entry leaves its slot",
        "traces.py",
        "        count -= 1\n        trace.slot[trace.rows[k]] = -1\n",
        "        count -= 1\n",
        TRACES,
    ),
    Edit(
        "moved entry keeps its old weight",
        "traces.py",
        "                trace.weight[k, i] = trace.weight[count, i]\n",
        "                trace.weight[k, i] = trace.weight[k, i]\n",
        TRACES,
    ),
    Edit(
        "cutoff drops one too many",
        "traces.py",
        "        if largest > cutoff:\n",
        "        if largest > 2 * cutoff:\n",
        TRACES,
    ),
    Edit(
        "replacing traces accumulate",
        "traces.py",
        "1.0 if replacing else trace.weight[k, i] + 1.0",
        "trace.weight[k, i] + 1.0",
        TRACES,
    ),
    Edit(
        "sweep one step short",
        "traces.py",
        "            weight = discount * lambda_[t, 0]\n",
        "            weight = discount * lambda_[t - 1, 0]\n",
        OFFLINE,
    ),
    Edit(
        "sweep of components reads this step's lambda",
        "traces.py",
        "delta[t, i] += discount * lambda_[t + 1, i] * delta[t + 1, i]",
        "delta[t, i] += discount * lambda_[t, i] * delta[t + 1, i]",
        OFFLINE,
    ),
    Edit(
        "divergence of a sweep not noted",
        "traces.py",
        "            sound &= abs(u) <= largest  # false of NaN too\n",
        "            sound &= not abs(u) > largest\n",
        (*DIVERGENCE, "-k", "exceeds_the_limit"),
        compiled=True,
    ),
    # policies
    Edit(
        "ties go to the first",
        "policies.py",
        "            elif out[a] == best:\n                ties += 1\n",
        "",
        ("tests/test_policies.py",),
    ),
    Edit(
        "exploration over masked actions",
        "policies.py",
        "        if not legal[a]:\n            values[a] = 0.0\n        elif lost",
        "        if lost",
        ("tests/test_policies.py",),
    ),
    Edit(
        "draw takes a number for one choice",
        "policies.py",
        "    if choices <= 1:\n",
        "    if choices < 1:\n",
        ("tests/test_policies.py",),
    ),
    # counts and λ sources
    Edit(
        "counts forget the total",
        "models/counts.py",
        "    counts.total[origin] += 1\n",
        "    counts.total[origin] += 0 if pair == 0 else 1\n",
        COUNTS,
        compiled=True,
    ),
    Edit(
        "hash compares the target only",
        "models/counts.py",
        "if counts.pairs[pair, ORIGIN] == origin and counts",
        "if counts",
        COUNTS,
        compiled=True,
    ),
    Edit(
        "prior spreads over one outcome too few",
        "models/counts.py",
        "    return counts.prior[1 + origin % (counts.prior.size - 1)]\n",
        "    return counts.prior[1 + origin % (counts.prior.size - 1)] - 1\n",
        COUNTS,
        compiled=True,
    ),
    Edit(
        "grown counts lose the totals",
        "models/counts.py",
        "        larger.total[: self.total.size] = self.total\n",
        "",
        COUNTS,
        compiled=True,
    ),
    Edit(
        "mixture ignores the policy",
        "lambdas/step.py",
        "            total += step.policy[a] * chance(step, a, part)\n",
        "            total += chance(step, a, part)\n",
        TRACES,
    ),
    Edit(
        "actions never tried count",
        "lambdas/step.py",
        "    return total if missing else 1.0\n",
        "    return 1.0\n",
        TRACES,
    ),
    Edit(
        "the last transition has a policy factor",
        "lambdas/step.py",
        "if step.next_action >= 0 else 1.0\n\n\n_knows",
        "if step.next_action >= 0 else 0.5\n\n\n_knows",
        TRACES,
    ),
    Edit(
        "forward lambda of SARSA without the policy",
        "lambdas/forward.py",
        "            return chance(step, step.action, WHOLE) * choice(step)\n",
        "            return chance(step, step.action, WHOLE)\n",
        TRACES,
    ),
    Edit(
        "cross terms of the expected mixture once",
        "lambdas/step.py",
        "total += 2.0 * step.policy[a] * step.policy[b]",
        "total += step.policy[a] * step.policy[b]",
        COUNTS,
        compiled=True,
    ),
    Edit(
        "visits of the action alone",
        "lambdas/visit.py",
        "return 1.0 / max(visits(step), 1)",
        "return 1.0 / (visits(step) + 1)",
        TRACES,
    ),
    Edit(
        "Watkins cuts on ties",
        "lambdas/watkins.py",
        "if step.policy[b] > step.policy[step.action]:",
        "if b != step.action and step.policy[b] >= step.policy[step.action]:",
        TRACES,
    ),
    Edit(
        "backward model looks at this state",
        "models/counts.py",
        "return probability(counts, step.state, step.previous // A)",
        "return probability(counts, step.next_state, step.previous // A)",
        TRACES,
    ),
    # averaging
    Edit(
        "averages without 1/n",
        "learners/sutton_singh.py",
        "    reinforce(values, trace, 1.0 / n, scratch)\n",
        "    reinforce(values, trace, 1.0 / (n + 1), scratch)\n",
        SINGH,
    ),
    Edit(
        "correction counts this visit",
        "learners/sutton_singh.py",
        "(counts.pairs[pair, NUMBER] - 1) * (ahead",
        "counts.pairs[pair, NUMBER] * (ahead",
        SINGH,
    ),
    # schedules and episodes
    Edit(
        "an abandoned episode does not count",
        "learners/learner.py",
        "        if self.state >= 0:\n            self._forget()\n",
        "        if self.state >= 0:\n            self._forget()\n            self.episode -= 1\n",
        SCHEDULES,
    ),
    Edit(
        "schedules run one episode late",
        "learners/learner.py",
        "at_episode(self.exploring_rate, self.episode), at_episode(self.step_size, self.episode)",
        "at_episode(self.exploring_rate, self.episode), at_episode(self.step_size, self.episode - 1)",
        SCHEDULES,
    ),
    Edit(
        "a held schedule moves",
        "learners/schedule.py",
        "        if self.hold or len(at) == 1:\n",
        "        if len(at) == 1:\n",
        ("tests/learners/test_bad_input.py", "-k", "schedule"),
    ),
    Edit(
        "traces live on into the next episode",
        "learners/learner.py",
        "            self.trace.clear()\n",
        "            pass\n",
        (DEFINITIONS, "-k", "schedules or traces_on_cyclic or abandoned"),
    ),
    Edit(
        "an episode starts with the old random numbers",
        "seeding.py",
        "            bits.advance(int(self.stream.position[0]))",
        "            bits.advance(int(self.stream.position[0]) - 1)",
        ("tests/test_seeding.py", "-k", "sync or state_goes"),
    ),
    Edit(
        "policy and model share their random numbers",
        "seeding.py",
        "    return SeedSequences(root, *root.spawn(3))\n",
        "    return SeedSequences(root, *root.spawn(1) * 3)\n",
        ("tests/test_seeding.py", "-k", "streams"),
    ),
    # returns
    Edit(
        "lambda-returns do not discount the bootstrap",
        "returns/_kernels.py",
        "x[i] = r[i] + discount[i] * ((1.0 - lam[i]) * v[i])",
        "x[i] = r[i] + ((1.0 - lam[i]) * v[i])",
        RETURNS,
    ),
    Edit(
        "gae takes truncation for termination",
        "returns/_kernels.py",
        "(0.0 if end[i] else v_next[i])",
        "(0.0 if end[i] or cut[i] else v_next[i])",
        GAE,
    ),
    Edit(
        "gae uses this state's lambda",
        "returns/_kernels.py",
        "lambdas[at(lambdas, o, t + 1)]",
        "lambdas[at(lambdas, o, t)]",
        GAE,
    ),
    Edit(
        "n steps are n − 1",
        "returns/_kernels.py",
        "last = min(start + n, steps) - 1",
        "last = max(min(start + n, steps) - 2, start)",
        RETURNS,
    ),
    # saving and the store
    Edit(
        "a saved agent forgets the step size",
        "learners/saving.py",
        '        "step_size": plain(agent.step_size),\n',
        '        "step_size": 0.1,\n',
        SAVING,
    ),
    Edit(
        "a file written half stays",
        "_files.py",
        "            temporary.unlink()\n",
        "            temporary.exists()\n",
        ("tests/test_files.py",),
    ),
    Edit(
        "a failed write replaces the file",
        "_files.py",
        "        _write(temporary, content)\n        os.replace(temporary, path)\n",
        "        _write(temporary, b'')\n        os.replace(temporary, path)\n        _write(path, content)\n",
        ("tests/test_files.py",),
    ),
    Edit(
        "selection takes the largest loss",
        "lab/results/runs.py",
        "np.argmin(weights @ loss.T, axis=1)",
        "np.argmax(weights @ loss.T, axis=1)",
        ("tests/test_statistics.py",),
    ),
    Edit(
        "a diverged run counts for nothing",
        "lab/running/batches.py",
        "np.where(after, np.inf, scores",
        "np.where(after, np.nan, scores",
        ("tests/lab/test_protocols.py", "-k", "diverge"),
    ),
    # arguments
    Edit(
        "ids are not checked",
        "learners/learner.py",
        "        if type(state) is int and 0 <= state < self._capacity:\n",
        "        if type(state) is int:\n",
        (*MISUSE, "-k", "id_outside"),
    ),
    Edit(
        "a copy shares its arrays",
        "learners/learner.py",
        "        return copy.deepcopy(self)\n",
        "        return copy.copy(super())\n",
        (*MISUSE, "-k", "copy"),
    ),
    Edit(
        "no guard against threads",
        "learners/learner.py",
        "        if self._busy:  # nothing is called between these two lines, so no other thread can come in between\n",
        "        if False:\n",
        (*MISUSE, "-k", "turned_away"),
    ),
    Edit(
        "simulated misses stop with the run",
        "simulation/simulate.py",
        "int(run.totals.misses[0]) + mark - run.episode",
        "int(run.totals.misses[0])",
        (*DIVERGENCE, "-k", "others_go_on"),
        compiled=True,
    ),
    Edit(
        "a hashed observation is always new",
        "indexing/indexers.py",
        "        return self.ids.get(_key(observation), -1)\n",
        "        return -1\n",
        ("tests/test_indexing.py", DEFINITIONS, "-k", "first_sight"),
    ),
    Edit(
        "grid ids run the wrong way",
        "indexing/indexers.py",
        "            state = state * n + x\n",
        "            state = state + n * x\n",
        ("tests/test_indexing.py", "-k", "numbered or ravel"),
    ),
    # traces with lineage, luck and maturity
    Edit(
        "shares count one arrival more",
        "learners/lineage.py",
        "first, not is_return)) / number\n",
        "first, not is_return)) / (number + 1)\n",
        LINEAGE,
    ),
    Edit(
        "returns count as first arrivals",
        "learners/lineage.py",
        "state, row, first, not is_return)",
        "state, row, first, True)",
        LINEAGE,
    ),
    Edit(
        "single steps are counted for any live row",
        "learners/lineage.py",
        "        if trace.visited[entries.rows[k]] == trace.clock[0]:\n",
        "        if True:\n",
        LINEAGE,
    ),
    Edit(
        "lineage does not discount",
        "learners/lineage.py",
        "        trace.faded[row] *= discount\n",
        "        trace.faded[row] *= 1.0\n",
        LINEAGE,
    ),
    Edit(
        "lineage forgets the weakest share",
        "learners/lineage.py",
        "min(discount * entries.weight[k, i], passed)",
        "passed",
        LINEAGE,
    ),
    Edit(
        "lineage never sees a return",
        "learners/lineage.py",
        "    trace.arrivals[state, 1] = trace.clock[0]\n",
        "    trace.arrivals[state, 1] = 0\n",
        LINEAGE,
    ),
    Edit(
        "a value is mature where it is a guess",
        "lambdas/maturity.py",
        "min(max(1.0 - learned, 0.0), 1.0)\n        return",
        "min(max(learned, 0.0), 1.0)\n        return",
        MATURITY,
    ),
    Edit(
        "maturity does not discount",
        "lambdas/maturity.py",
        "            source.surprise[j] -= rule.discount * (1.0 - learned)\n",
        "            source.surprise[j] -= 1.0 - learned\n",
        MATURITY,
    ),
    # returns with masks, and λ from a policy
    Edit(
        "masked steps do not hold what comes after them",
        "returns/_formulas.py",
        "xp.where(masked, xp.ones_like(x), xp.zeros_like(x))",
        "xp.zeros_like(x)",
        MASKS,
    ),
    Edit(
        "masked results are left as they are",
        "returns/_arguments.py",
        "result = self.backend.xp.where(self.mask, result, 0.0)",
        "result = self.backend.xp.where(self.mask, result, result)",
        MASKS,
    ),
    Edit(
        "segments are not cut apart",
        "returns/_arguments.py",
        "found = mask & (following(given, ids, -0.5) != ids)",
        "found = mask & (following(given, ids, -0.5) != following(given, ids, -0.5))",
        MASKS,
    ),
    Edit(
        "off-policy returns keep all of q",
        "returns/_formulas.py",
        "discount_t * (v_t - c_t * q_t)",
        "discount_t * (v_t - q_t)",
        OFF_POLICY,
    ),
    Edit(
        "v-trace weighs by the clipped ratio twice",
        "returns/_formulas.py",
        "rho_tm1 * (r_t + discount_t * v_t - v_tm1), discount_t * c_t",
        "rho_tm1 * (r_t + discount_t * v_t - v_tm1), rho_tm1 * discount_t * c_t",
        OFF_POLICY,
    ),
    Edit(
        "worth takes the value whole",
        "returns/_formulas.py",
        "(1 - lambda_) * values + lambda_ * rewards",
        "values + lambda_ * rewards",
        MASKS,
    ),
    Edit(
        "the expected λ is not normalised",
        "returns/policy.py",
        "(z * z).sum(-1) / total**2",
        "(z * z).sum(-1) / total",
        POLICY,
    ),
    Edit(
        "the entropy has the wrong sign",
        "returns/policy.py",
        "xp.exp(negative_entropy)",
        "xp.exp(-negative_entropy)",
        POLICY,
    ),
    Edit("λ by length ignores its α", "returns/policy.py", "1.0 - 1.0 / (alpha * ", "1.0 - 1.0 / (0.05 * ", POLICY),
    Edit(
        "the value kernel counts the variance once",
        "returns/policy.py",
        '1.0 + 2.0 * arrays["variance"]',
        '1.0 + arrays["variance"]',
        POLICY,
    ),
    # statistics
    Edit(
        "standard errors divide by n",
        "lab/comparison/ranking.py",
        "differences.std(axis=-1, ddof=1)",
        "differences.std(axis=-1, ddof=0)",
        RANKING,
    ),
    Edit(
        "the critical value is that of 92 %",
        "lab/comparison/ranking.py",
        "int(np.ceil((1 - error) * RESAMPLES)) - 1",
        "int(np.ceil(0.92 * RESAMPLES)) - 1",
        RANKING,
    ),
    Edit(
        "intervals go beyond what scores can differ by",
        "lab/comparison/ranking.py",
        "Estimate(mean, max(mean - half, -self.spread), min(mean + half, self.spread))",
        "Estimate(mean, mean - half, mean + half)",
        RANKING,
    ),
    Edit(
        "five seeds are enough",
        "lab/comparison/ranking.py",
        "        if seeds < LEAST or self.spread <= _rounding(self.scores):\n",
        "        if self.spread <= _rounding(self.scores):\n",
        RANKING,
    ),
    Edit("Holm without steps", "statistics.py", "(len(order) - rank) * p[i]", "p[i]", STATISTICS),
    Edit(
        "ties count as wins",
        "statistics.py",
        "(difference > 0) + 0.5 * (difference == 0)",
        "(difference >= 0) + 0.0",
        STATISTICS,
    ),
    Edit(
        "families are not drawn again",
        "statistics.py",
        "for group in rng.integers(len(sizes), size=len(sizes)):",
        "for group in range(len(sizes)):",
        STATISTICS,
    ),
    Edit(
        "the spread of returns is their size",
        "learners/exploration.py",
        "returns[2] += apart * (episode[1] - returns[1])",
        "returns[2] += episode[1] * episode[1]",
        EXPLORATION,
    ),
    Edit(
        "a given policy takes actions that are not legal",
        "learners/exploration.py",
        "known = legal[a] and 0 <= state",
        "known = 0 <= state",
        EXPLORATION,
    ),
    # the store
    Edit(
        "a file may change after its check",
        "lab/store/batch_store.py",
        "            if sha256(content) != self.digest:\n",
        "            if False:\n",
        HOSTILE,
    ),
    Edit(
        "the key is not compared with the settings",
        "lab/store/batch_store.py",
        "if digest_of(values) != key or path.name",
        "if path.name",
        HOSTILE,
    ),
    Edit(
        "numbers that travel are not checked",
        "lab/store/importing.py",
        "    if digest_columns(columns) != digest:\n",
        "    if False:\n",
        HOSTILE,
    ),
    Edit(
        "a table's digest is not compared",
        "lab/store/tables.py",
        "    if recorded and sha256(content) not in recorded:\n",
        "    if False:\n",
        HOSTILE,
    ),
    # recorded episodes and saving
    Edit(
        "a missing row goes unseen",
        "learners/logged.py",
        '        if column["next_observation"][:-1] != column["observation"][1:]:\n',
        "        if False:\n",
        LOGGED,
    ),
    Edit(
        "recorded actions are not checked beforehand",
        "learners/logged.py",
        '        check_action(f"{place}: action"',
        '        (lambda *_: 0)(f"{place}: action"',
        LOGGED,
    ),
    Edit(
        "any flag is True",
        "learners/logged.py",
        'flags = [check_end(f"episodes: {names[0]}", flag) for flag in value]',
        "flags = [bool(flag) for flag in value]",
        LOGGED,
    ),
    Edit(
        "a diverged learner is saved",
        "learners/saving.py",
        "    check_finite(tables)\n",
        "",
        ("tests/learners/test_saving.py", "-k", "diverged"),
    ),
    # other libraries and networks
    Edit(
        "the buffer forgets the last value",
        "integrations/sb3.py",
        "np.concatenate([self.values[1:], last])",
        "np.concatenate([self.values[1:], 0.0 * last])",
        ("tests/integrations/test_sb3.py", "-k", "their_advantages"),
    ),
    Edit(
        "the buffer forgets the last end",
        "integrations/sb3.py",
        "np.concatenate([self.episode_starts[1:] != 0, ended])",
        "np.concatenate([self.episode_starts[1:] != 0, ended & False])",
        ("tests/integrations/test_sb3.py", "-k", "their_advantages"),
    ),
    Edit(
        "PPO takes a cut for going on",
        "deep/agents/ppo.py",
        "r.terminated, r.truncated, settings.discount",
        "r.terminated, r.truncated & False, settings.discount",
        PPO,
    ),
    Edit(
        "PPO bootstraps from terminal states",
        "deep/agents/ppo.py",
        "next_values = jnp.where(r.terminated, 0.0, next_outputs[..., 0])",
        "next_values = next_outputs[..., 0]",
        PPO,
    ),
    Edit(
        "the compressor drops what it failed to predict",
        "compression/criteria.py",
        "return failed | (log_p < criterion.least_log_probability)",
        "return log_p < criterion.least_log_probability",
        COMPRESSION,
    ),
    # what compare says, and problems for networks
    Edit(
        "a try is compared with itself",
        "lab/comparison/facts.py",
        "counts * (counts - 1)).sum() / (len(group) - 1)",
        "counts * counts).sum() / len(group)",
        FACTS,
    ),
    Edit("a step back is not noticed", "lab/comparison/facts.py", "left.add(target)", "left.discard(target)", FACTS),
    Edit(
        "a sign of a hidden state counts one side of chance",
        "lab/comparison/facts.py",
        "return 2.0 * float(min(",
        "return 1.0 * float(min(",
        FACTS,
    ),
    Edit(
        "a mask that is to be ignored is obeyed",
        "lab/comparison/facts.py",
        'if masks and "action_mask" in info',
        'if "action_mask" in info',
        FACTS,
    ),
    Edit(
        "what may be far better or worse counts as good",
        "lab/comparison/answer.py",
        "max(gap.high, -gap.low) <= found.family.close",
        "gap.high <= found.family.close",
        ANSWER,
    ),
    Edit(
        "late rewards speak against λ = 1",
        "lab/comparison/answer.py",
        "(facts.late, facts.random) if facts",
        "(facts.random, facts.late) if facts",
        ANSWER,
    ),
    Edit(
        "rows that are kept do not count as items",
        "compression/compressor.py",
        "dtype=np.int64)) + len(items)) > LONGEST:",
        "dtype=np.int64))) > LONGEST:",
        CRAFTED,
    ),
    Edit(
        "a sequence may end before its end",
        "compression/compressor.py",
        "if np.any(items[:-1, 0] >= len(alphabet)):",
        "if False:",
        CRAFTED,
    ),
    Edit(
        "the oracle speaks twice",
        "envs/t_maze/jax.py",
        "first = (state.x == 0) & (state.shown == 0)",
        "first = state.x == 0",
        T_MAZE,
    ),
    Edit("the way to the oracle costs", "envs/t_maze/jax.py", "x < time - oracle", "x < time", T_MAZE),
    Edit(
        "a bonus from returns that are not discounted",
        "learners/exploration.py",
        "episode[0] *= discount",
        "episode[0] *= 1.0",
        EXPLORATION,
    ),
    Edit(
        "a centre moves by the smaller share",
        "indexing/codebook.py",
        "share = max(1.0 / visits[best], rate)",
        "share = min(1.0 / visits[best], rate)",
        CODEBOOK,
    ),
    Edit(
        "looking a code up moves its centre",
        "indexing/codebook.py",
        "self._reach, self.rate, False))",
        "self._reach, self.rate, True))",
        CODEBOOK,
    ),
    # what environments say
    Edit(
        "text is an end",
        "learners/loop.py",
        'terminated, truncated = check_end("terminated", terminated), check_end("truncated", truncated)',
        "terminated, truncated = bool(terminated), bool(truncated)",
        LOOPS,
    ),
    Edit(
        "networks read an observation beyond its space",
        "deep/gym.py",
        'space.check("env: observations", array)',
        "pass",
        ("tests/deep/test_deep_gym.py", "-k", "networks_learn_from_nothing"),
    ),
    Edit(
        "the action −1 is the last one",
        "returns/_numpy.py",
        "wrong = (indices < 0) | (indices >= size)",
        "wrong = indices >= size",
        POLICY,
    ),
)
"""All of them."""
