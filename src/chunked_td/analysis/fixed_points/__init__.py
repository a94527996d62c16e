"""What a λ method converges to, by linear algebra: its fixed point, bias, variance of the target, contraction rate.

With small steps, a tabular method with traces settles where its expected update over an episode is zero,

    E[Σ_t δ_t e_t] = 0,   e_t = γ λ_t e_{t−1} + 1(row_t),   δ_t = r_{t+1} + γ B(x_{t+1}) − Q(row_t).

Summed by visits this reads Σ_k E[1(row_k) U_k] = 0 with U_k = δ_k + γ λ_{k+1} U_{k+1}, and U = 0 after the end. λ_t may
depend on all of transition t: on x_t, a_t, x_{t+1} and a_{t+1}. Given (x_{k+1}, a_{k+1}), the rest of the episode does
not depend on what was before, so two functions of the pair (x, a) are enough:

    w(x,a) = E[λ_k U_k | x,a] = E[λ (δ + γ w(x',a'))],      h(x,a) = E[U_k | x,a] = E[δ + γ w(x',a')].

Both are linear in the values. The fixed point has h = 0 in every row that is visited: for action values in every pair,
for state values in the mean over a ~ π. If λ depends on (x, a) alone then w = λ h, and h = 0 at Q^π, where
E[δ|x,a] = 0. If it depends on what came of the step then E[λ δ] ≠ 0 there, and Q^π is not the fixed point.

A λ may also depend on the way to x_t within the episode: on x_{t−1} (`BackwardLambda`), or on whether the episode was
in x_t before (`JunctionLambda`). Then w and h are functions of the pair and of that memory (`places`). The true values
stay a fixed point: E[δ_t | all that was before a_{t+1}] = 0 there.

Q-learning bootstraps from the best action, so its update is linear only as long as that action stays the same. The
fixed point is found as in policy iteration: solve with the best actions of now, look which are best, and again.

Truncation cuts U short, so near the limit w and h depend on time; this is taken into account. A state that is met only
where episodes are cut is never updated: the values of others bootstrap from its first value, zero.

| room | what it holds |
|---|---|
| `problem` | a problem under a fixed policy, and its true values |
| `places` | states, with what λ remembers of the way to them; every transition between them |
| `limits` | what models and sources that learn tend to |
| `weights` | λ of every transition, by the source's own kernel |
| `systems` | the linear systems |
| `solve` | `fixed_point`, `FixedPoint` |
"""

from chunked_td.analysis.fixed_points.problem import LEARNERS
from chunked_td.analysis.fixed_points.solve import FixedPoint, fixed_point
from chunked_td.analysis.fixed_points.weights import LambdaFunction

__all__ = ["LEARNERS", "FixedPoint", "LambdaFunction", "fixed_point"]
