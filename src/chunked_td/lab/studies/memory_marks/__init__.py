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

Added after a part of the arms had been judged (SARSA(0.9) solved 1,500 passive in 65 % and 500 active in 75 % of the
seeds), and before any of the new was run on judged seeds: one arm more, Chunked SARSA with a bonus of 20/√n(s, a), and
passive corridors of 2,000 and 3,000 steps with the budget of 1,500. Trials on the seeds 0 to 3 said why seeds fail. In
the passive maze λ = 0.9 carries the end of a corridor ten steps far, and to the others by bootstrapping on the corridor
itself, so one wrong step looks as good as a right one; λ from counts is near 1 there (4 of 4 trials at 750 and at
1,500). In the active maze the agent settles on never looking (return ½): looking pays only once the turns after it are
learned, and ε = 1/T leaves few looks. The bonus brings it back; with 10/√n it stops too early (7 of 8 trials), with
20/√n all 8 trials of 250 and 500 steps earned 0.95 to 1.00.

Added after that arm had been judged, too (active, 500 steps: 55 % of the seeds), and before it was run on judged seeds:
Chunked SARSA with ε per stay (`EpsilonPerStay`), from 1 to 0 in a straight line up to the last 100 episodes, step size
0.05. A corridor is one state and one stay, so a stay in it sees as many wrong steps as the one at the start, whatever L
is. Trials: all 4 seeds at 50, 100, 250 and 500 (active) and at 1,500 (passive); with ε from 0.5 the same.

Four seeds had said too little: that arm solved 500 (active) in 60 % of the judged seeds. Added then, as the last, and
before it was run on judged seeds: the same with ε from ¼. Trials of the seeds 0 to 3 at 400, 440, … 600 steps: 24 of 24
with ε from ¼ and from ½, 17 of 24 with ε from 1, where all that fail never look: what they earn while they explore that
much is worth less after a look, which leads through more states. So in the active maze this is the third arm that was
added and judged on the same seeds.

Added on 18 November, before it was run on judged seeds: networks in the passive maze of 50 steps, the shortest that was
published. PPO reads a memory (`chunked_td.deep.memory`) made by a GRU that learns to predict percepts from the same
stream: its state, or the last four percepts that it did not predict; λ is 0.95 or comes from the GRU. Settings are the
defaults, step size 0.0003. A run is scored by the mean return of the last twentieth of its budget, in which PPO
still draws its actions. Trials of the seeds 0 to 2: 3 of 12 runs earned 0.95 at their
end, all of them with the state; with step size 0.001 and γ = 0.9999 none of 6 did.

What the memory gets for nothing: percepts are six symbols, so counting them is an exact model of the corridor; and all
its cells are one state, so that the length of the corridor is no distance for credit. What is left to learn is which
percepts to keep, the schedule (one wrong step of L loses the goal), the turn, and in the active maze to look first.
"""
