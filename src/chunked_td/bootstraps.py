"""The four bootstraps B(x'): what stands for the return after the next state.

| code | B(x') | learners |
|---|---|---|
| `STATE` | V(s') | TD(λ), Chunked-TD |
| `SARSA` | Q(s',a') | SARSA(λ), Chunked SARSA |
| `EXPECTED_SARSA` | Σ_a π(a|s') Q(s',a) | Expected-SARSA(λ), Chunked Expected-SARSA |
| `Q_LEARNING` | max_a Q(s',a) | Q-learning, Watkins' Q(λ) |
"""

STATE, SARSA, EXPECTED_SARSA, Q_LEARNING = range(4)

BOOTSTRAPS = {"td": STATE, "sarsa": SARSA, "expected_sarsa": EXPECTED_SARSA, "q_learning": Q_LEARNING}
"""Learners of the simulation by name; the λ source makes each of them a fixed-λ or a chunked one."""
