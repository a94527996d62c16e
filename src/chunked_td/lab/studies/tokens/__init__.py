"""λ per token: is the policy's own predictability a good λ for text? Judged first by a gate, before any policy is
trained.

**How the gate is judged.** Written before its data.

*Score.* For a policy after its warm start and a critic trained towards λ = 1 returns: Pearson's correlation of an
arm's advantages with the true advantages, over all generated tokens of 16 sequences; the mean over three ages of the
critic (10, 40 and 160 updates). 8 seeds; a seed draws layout, policy, critic and sequences, and all arms share
them.

*Arms.* Fixed λ (0, 0.5, 0.8, 0.9, 0.95, 0.99, 1); λ from the sequence's length (VAPO, 1 − 1/(0.05 l)); from the
policy: the realised probability (the paper's form), the expected probability Σπ², the same with its cuts scaled to a
mean of 0.05, exp(−entropy), Σπ² with the maturity of the critic; from the critic: the value kernel of width 0.3.

*The rule*, on every task, for each arm that is not a fixed λ:

    it HOLDS where the arm lies above the best fixed λ and above its own λs permuted within the sequence;
    it HOLDS IN PART where it lies above one of the two;
    it DOES NOT HOLD where it lies below the best fixed λ;
    it is NOT SHOWN otherwise, with the half-width of the interval as the effect that could have been seen.

"Above" and "below": the 95 % bootstrap interval of the paired difference over seeds excludes 0. The best fixed λ is
chosen on the other half of the seeds (two folds), so that a maximum over seven arms is not read as skill.

*The gate* is passed if the expected probability holds on one task. If it is closed, no policy is trained and this is
the result. Looked at beforehand: that the warm start reproduces its demonstrations (mean reward), and that
everything runs.
"""
