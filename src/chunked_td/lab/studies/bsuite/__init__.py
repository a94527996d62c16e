"""Four experiments of bsuite (Osband et al. 2020) with bsuite's own scores: memory and credit.

Written before the data.

    experiments  memory_len (23 lengths), memory_size (17 numbers of bits), umbrella_length (23 lengths, 20 coins that
                 distract), discounting_chain (20 mappings); 10,000 episodes each, the last 1,000. Seed k plays setting
                 k: one seed per setting, as in bsuite. discounting_chain is played twice over.
    score        bsuite's, of all episodes, those that explore included. memory_…: the share of settings in which fewer
                 than 37.5 % of the answers are wrong (chance: 50 %). umbrella_length: fewer than 25 %.
                 discounting_chain: one minus the share of episodes in which the best chain was not chosen.

All arms are SARSA without discount; the rule is Expected-SARSA, as it was registered. ε falls from 1 to 0 in the first
tenth of the episodes. Memory problems have the memory of unexpected percepts of the study memory-marks
(`chunked_td.envs.KeptPercepts`, two slots, clock of one step, threshold 0.75); a control has none. In umbrella_length
no observation comes twice, so a table can learn nothing, and counts say nothing: there values are linear in the numbers
observed, with weights for every time step, and λ is fixed or comes from the variance of values.

bsuite has one setting of an agent for all its experiments. Ours has two step sizes: 0.5 in tables, 0.005 with features.
They were chosen on trials with other seeds (settings of 30 and 100 steps of umbrella_length with 0.02 and 0.005).

Added after discounting_chain had been judged (λ = 1: 0.96; the paper's λ: 0.22, the rule: 0.25), and judged by no
claim: an arm whose λ leaves the policy out, λ = P̂(x'|x, a). The paper's has the factor π(a'|x') in SARSA, which is 1/5
while actions are random, whether they matter or not. Trials: 0.96 with seeds 1000 to 1004.
"""
