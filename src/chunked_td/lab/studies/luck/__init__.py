"""Maturity and luck in networks: values that are still guesses, and TD errors without the draw of chance.

**How it is judged.** Written before its data. Score, tuning, seeds, grids, intervals, "better" and "worse" are those of
`chunked_td.lab.studies.deep.criteria`: the area under the learning curve, the step size chosen on 10 seeds, 20 other
seeds judged, interquartile means with 95 % bootstrap intervals, a difference where intervals are disjoint.

*Tasks.* The five of the study of deep learners in which a step from one state with one action can end differently, and
which need no other package: *umbrella*, *umbrella-distractors*, *catch-wind*, *charge*, *charge-mirrored*. Elsewhere
luck changes nothing, because all draws are the same.

*Arms*, all in one program with every fixed λ. **Luck**: λ = 0.95, λ = 1 and the value kernel, each with TD errors that
are means over M draws from the same state and action, the one that came among them (M = 4 and 16; the kernel 16).
**Maturity**: λ = 0.5, λ = 0.8, the value kernel and the expected probability, each raised to 1 − (1 − λ)(1 − I).
**Both**: the value kernel with maturity and M = 16. Settings are those of the study of deep learners; nothing was
tuned.

*A pair* is an arm and the same λ without luck or maturity. For an agent it

    HOLDS          if its mean over tasks lies above that of the other, intervals disjoint (tasks weigh equally, seeds
                   are resampled within tasks), and it is worse on no task;
    HOLDS IN PART  if it is better on a task and worse on none, but the mean does not lie above;
    DOES NOT HOLD  if its mean lies below;
    is NOT SHOWN   otherwise, with half the widths of both intervals as the effect that could have been seen.

*Claims*, per agent. **luck**: the pair of λ = 0.95 with M = 16. **maturity**: all four pairs; it holds if all hold,
does not hold if one does not and none holds even in part, is not shown if all four are not, and holds in part
otherwise. **fixed λ**: the moonshot of the study of deep learners for the arms with luck, maturity or both, over these
tasks: one has a mean above that of every fixed λ without luck, intervals disjoint, and is within 5 % of the best of
them on every task.

*Cost* stands beside every gain: draws of the simulator per transition, and measured time. Luck needs a simulator that
can be stepped again, so a gain of M = 16 says what a perfect model would bring: where luck gains nothing, no learned
model will.

Looked at beforehand: that every arm runs (one task, 2,000 steps).
"""
