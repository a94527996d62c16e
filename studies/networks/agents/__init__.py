"""Agents: whole training runs as pure functions, for `jit` and `vmap` over runs.

streaming   SARSA(λ), Q(λ) and actor-critic(λ): one transition at a time, eligibility traces, no replay
ppo         PPO on rollouts of several environments
"""
