"""The linear key-to-door of Meulemans et al. (NeurIPS 2023, "COCOA"): value learners and policy gradients.

Written before the data.

    problem   L cells, L = 23, 43, 63, 83 and 103; apples where that paper's seed, 2022, puts them. 10,000 episodes.
    score     Share of all episodes that find the treasure; that of the last 1,000 beside it.
    seeds     0 to 19. Step sizes, and the best fixed λ, are chosen on seeds 0 to 5, per arm and length; scores are
              those of seeds 6 to 19. Every arm has eight step sizes.
    exploring Value learners act ε-greedily: with ε = 0.1 always, or with ε falling from 1 to 0 in a straight line over
              the first 2,000 episodes. The best possible shares are 0.86 and 0.89. Policy gradients have no ε.

Criteria, for value learners with falling ε (the rule is lineage traces with half expected TD errors, as registered in
docs/experiments/credit-registered.md):

    1. The rule finds the treasure in at least 0.8 of the episodes, at every length.
    2. The rule lies above the best fixed λ at every length. In part: at some.
    3. COCOA's reward form lies above REINFORCE and above the state form at L = 103. In part: above one of them.
    4. Exploration is the obstacle, not noise: with ε = 0.1 no value learner finds the treasure in half of the episodes
       at L = 23, with apples of random worth, and with apples that always pay 0.5.

"Above": the 95 % bootstrap interval of the difference, paired over seeds, lies above 0.

Policy gradients have no baseline. The policy's entropy is rewarded as in that paper's code, 0.03 at L = 23 and 0.01 at
L = 103 per step; they learn from single episodes with a constant step size, not from eight at a time with Adam.

Run so far: L = 23 with all arms; the rule and the fixed λs with falling ε at every length; at L = 103 also the λs from
counts and the policy gradients.

Seen before: trials with up to ten of the seeds 0 to 9 at L = 23 and 0 to 3 at L = 103, few step sizes, other places of
the apples; policy gradients once with seeds 100 to 119. With falling ε the rule had 0.89 at both lengths, fixed λs up
to 0.7; with ε = 0.1 all had less than 0.4; policy gradients had 0.4 at most (an earlier trial of two seeds had shown
0.96). So 4 was seen, 1 and 2 in part; of 3 only that no form stood out.
"""
