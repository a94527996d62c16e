"""The three bootstraps B(x'): what stands for the return after the next state.

| code | B(x') | learners |
|---|---|---|
| `STATE` | V(s') | TD(λ), Chunked-TD |
| `SARSA` | Q(s',a') | SARSA(λ), Chunked SARSA |
| `EXPECTED_SARSA` | Σ_a π(a|s') Q(s',a) | Expected-SARSA(λ), Chunked Expected-SARSA |
"""

STATE, SARSA, EXPECTED_SARSA = range(3)

BOOTSTRAPS = {"td": STATE, "sarsa": SARSA, "expected_sarsa": EXPECTED_SARSA}
"""Learners of the simulation by name; the λ source makes each of them a fixed-λ or a chunked one."""
