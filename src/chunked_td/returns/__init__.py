"""Forward view: targets and advantages for every step of a trajectory, with a λ per step.

The output type follows the input type: NumPy arrays or lists give float64 NumPy arrays. JAX arrays give JAX arrays,
also under `jit`, `vmap` and `scan`. Torch tensors give Torch tensors on their device, eager or under `torch.compile`.
Python numbers and NumPy arrays may be mixed with either; JAX and Torch may not be mixed. A library is imported only
after the caller has imported it.

**Time.** `time_axis` is the axis of time: 0 (the default) for `[T]` and `[T, B]`, 1 for `[B, T]`. It is never inferred
from lengths. All other axes are batches or reward components.

**Shapes.** The rewards determine the shape. Any other argument may have that shape, omit axes at the end (`[T, B]` for
rewards `[T, B, d]`), have length 1 along an axis, or be one number. An array with a single axis has one entry per
*step*.

**Indices.** Arguments that end in `_t` have one entry for each t in 1..T. Results have one entry for each of the states
s_0..s_{T−1}, as in rlax. The entries at t describe s_t: the reward r_t on entering it, the discount γ_t (0 if s_t is
terminal) and the value v_t. v_t is V(s_t), or Q(s_t, a_t) for SARSA, or Σ_a π(a|s_t) Q(s_t, a) for Expected-SARSA.
`gae` has the arguments of a rollout buffer instead: everything is indexed by the state that a step leaves.

**λ.** The λ of a state is the predictability of the transition *leaving* it: P̂(s_{t+1} | s_t) for state values,
P̂(s_{t+1} | s_t, a_t) π(a_{t+1} | s_{t+1}) for SARSA.

**Ends.** Termination is γ_t = 0. For an episode truncated at s_t in the middle of the arrays, pass λ_t = 0 and the
value of s_t as v_t: the return bootstraps there, and no later reward passes. `gae` handles both cases.

**Masks.** `mask` is true for the steps that exist. Values and λ at masked steps are never read, so they may be NaN; the
results there are 0. A finite reward at a masked step belongs to the last step before it in its segment that is not
masked. With `masked="pass"` a sequence continues after masked steps as if they were absent. With `masked="stop"` it
ends before them, and their rewards are not read. `segment_ids` separate sequences that share a row: no reward passes a
change of the id. `length_mask` makes a mask from lengths.

**Gradients.** The functions of rlax have its defaults. Targets (`lambda_returns`, `discounted_returns`, …) pass every
gradient unless `stop_target_gradients=True`. Functions that return errors (`td_lambda`, `vtrace`, `retrace`) pass only
the gradient of the values at 0..T−1, as a loss requires. Results of the others (`gae`, `token_gae`, `chunked_targets`,
`upgo_returns`) are constants unless `stop_target_gradients=False`.

**Checks.** Shapes are always checked. Values are checked for numbers, NumPy arrays, and Torch and JAX arrays on the
CPU. They are not checked under `jit` or `torch.compile`, nor on other devices, where a check would block.

**Precision.** Results have the precision of the input arrays (float64 for NumPy), computed in float32 or better. A λ or
γ given as a number is not rounded to 16 bits, and 16-bit numbers are added in float32. In float32 the difference from
float64 is within 1e-6 of the largest return for trajectories of up to a few hundred steps.
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
