"""Very long memory: tables with a memory of unexpected percepts in the T-mazes of Ni et al. (NeurIPS 2023).

Written before the data.

    budget    Episodes as published, per maze and corridor length L.
    solved    In the last 100 episodes of its budget a run earns 0.95 on average or more (the best return is 1; without
              a memory it is ½). In these episodes ε is 0; learning goes on.
    seeds     4 to 23; trials had seen 0 to 3.
    reach     The greatest L up to which at least 90 % of the judged seeds solve the maze at every length tried.

All arms are SARSA with replacing traces and without discount, on the same memory: two slots, a clock of one step,
threshold 0.75 (`chunked_td.envs.KeptPercepts`). They differ in λ (0, 0.9, or the paper's from counts) and in how they
explore: ε from 1 to 1/T in the first fifth of the budget, for episodes of T steps, with step size 0.02; or a bonus of
10/√n(s, a) and ε = 0, with step size 0.05. All this was chosen on trials with the seeds 0 to 3, at L = 50, 250 and
1,500 (passive) and 50, 250 and 500 (active).

What the memory gets for nothing: percepts are six symbols, so counting them is an exact model of the corridor; and all
its cells are one state, so that the length of the corridor is no distance for credit. What is left to learn is which
percepts to keep, the schedule (one wrong step of L loses the goal), the turn, and in the active maze to look first.
"""
