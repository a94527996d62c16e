"""Forward view: targets and advantages for every step of a trajectory, with a λ per step.

NumPy arrays (or lists) in, float64 NumPy arrays out; JAX arrays in, JAX arrays out, also under `jit`, `vmap` and
`scan`; Torch tensors in, Torch tensors out, on their device, eager or under `torch.compile`. Python numbers and NumPy
arrays may be mixed with either; JAX with Torch may not. Neither library is imported before one of its arrays comes in.

**Time.** `time_axis` says which axis is time: 0 (the default) for `[T]` and `[T, B]`, 1 for `[B, T]`. It is never
guessed from lengths. Axes other than time are batches or reward components and are treated alike.

**Shapes.** The rewards fix the shape. Any other argument may have that shape; leave out axes at the end, so that
`[T, B]` serves rewards `[T, B, d]`; be of length 1 along an axis; or be one number. An array with a single axis has one
entry per *step*, whatever the lengths of the other axes.

**Indices.** Arguments that end in `_t` have one entry for each t in 1..T and results have one for each of the states
s_0..s_{T−1}, as in rlax. The entries at t say how s_t was entered and what it is worth: the reward r_t on the way in,
the discount γ_t (0 if s_t is terminal), the value v_t = V(s_t), or Q(s_t, a_t) for SARSA, or Σ_a π(a|s_t) Q(s_t, a)
for Expected-SARSA. `gae` has the arguments of a rollout buffer instead: everything is indexed by the state that a step
leaves.

**Which λ.** The λ of a state is how predictable the transition *leaving* it is: P̂(s_{t+1} | s_t) for state values,
P̂(s_{t+1} | s_t, a_t) π(a_{t+1} | s_{t+1}) for SARSA.

**Ends.** Termination is γ_t = 0. An episode that was cut at s_t in the middle of the arrays has λ_t = 0 and the value
of the state it was cut in as v_t: it bootstraps there and nothing passes the cut. `gae` does both by itself.

**Masks.** `mask` says which steps there are. Values and λ at the others are never read, so NaN there does no harm. A
finite reward at a masked step belongs to the last step of its segment before it that is not masked. Results are 0
there. With `masked="pass"` a sequence goes on behind masked steps as if they were not there; with `masked="stop"` it
ends before them, and their rewards are not read. `segment_ids` keep sequences apart that share a row: nothing passes
where the id changes. `length_mask` makes a mask from lengths.

**Gradients.** The functions of rlax have its defaults: targets (`lambda_returns`, `discounted_returns`, …) let every
gradient through unless `stop_target_gradients=True`; functions that return errors (`td_lambda`, `vtrace`, `retrace`)
let only the gradient of the values at 0..T−1 through, so that an error is ready for a loss. Results of the others
(`gae`, `token_gae`, `chunked_targets`, `upgo_returns`) are constants unless `stop_target_gradients=False`.

**Checks.** Shapes are always checked. Values are checked for NumPy arrays and numbers, for Torch tensors on the CPU and
for JAX arrays on the CPU, but not under `jit` or `torch.compile` and not on other devices, where looking would stall.

**Precision.** Results have the precision of the arrays that come in (float64 for NumPy), computed in float32 or better:
a λ or γ given as a number is not rounded to 16 bits. In float32 the difference from
float64 is within 1e-6 of the largest return for trajectories of up to a few hundred steps; 16-bit numbers are added up
in float32.
"""

from chunked_td.returns.advantages import (
    TokenAdvantages,
    TurnCoefficients,
    gae,
    length_mask,
    masked_whiten,
    token_gae,
    truncated_generalized_advantage_estimation,
    turn_lambda,
)
from chunked_td.returns.chunks import chunked_targets, sample_keep
from chunked_td.returns.multistep import (
    discounted_returns,
    lambda_returns,
    n_step_bootstrapped_returns,
    td_lambda,
    upgo_returns,
)
from chunked_td.returns.off_policy import (
    VTraceOutput,
    importance_corrected_td_errors,
    leaky_vtrace,
    retrace,
    retrace_continuous,
    vtrace,
    vtrace_td_error_and_advantage,
)
from chunked_td.returns.policy import length_lambda, log_probs_and_lambda, unexplained_lambda, value_kernel_lambda

__all__ = [
    "TokenAdvantages",
    "TurnCoefficients",
    "VTraceOutput",
    "chunked_targets",
    "discounted_returns",
    "gae",
    "importance_corrected_td_errors",
    "lambda_returns",
    "leaky_vtrace",
    "length_lambda",
    "length_mask",
    "log_probs_and_lambda",
    "masked_whiten",
    "n_step_bootstrapped_returns",
    "retrace",
    "retrace_continuous",
    "sample_keep",
    "td_lambda",
    "token_gae",
    "truncated_generalized_advantage_estimation",
    "turn_lambda",
    "unexplained_lambda",
    "upgo_returns",
    "value_kernel_lambda",
    "vtrace",
    "vtrace_td_error_and_advantage",
]
