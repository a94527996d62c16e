"""The paper's claim put to the test: two-level Chunker-RNNs "easily solve" what a single network finds challenging.

Sec. 2.2 of the paper states it for two sequences that differ in their first symbol and, N steps later, in their
last; it reports no experiment. Here the compressor of two levels competes with single networks that have at least as
many parameters as both its levels together, on the tasks of `tasks`, for N from 5 to 1,000.

Arms. Each exists with plain (tanh) and with gated (GRU) networks.

    compressor   two levels; gradients within windows of 10 items
    truncated    one network; gradients within windows of 10 symbols
    full         one network; gradients through the whole sequence

Every network of every arm is updated once per batch of sequences, by Adam on its mean gradient. So no arm has more
updates than another; the compressor's online form, which has many per sequence, is measured in `costs` and used
nowhere else.

How it is judged. This was written before the first run of the study.

    solved       A check looks at test sequences of both kinds. It is passed if q ≥ 0.9 on each of them (q: see
                 `experiment`). A run has solved its task with the first of three passed checks in a row.
    sequences    How many training sequences a run had seen by then.

    The claim "easily solves" HOLDS if, on the task "known", one of the two compressors with one step size for all N
      (1) solves it in at least 95 % of the seeds at every N of the grid, and
      (2) needs at the largest N at most twice the median number of sequences that it needs at the smallest.
    It holds IN PART if (1) is true for every N up to 100 only, or (1) is true and (2) is not. Otherwise it FAILS.
    The claim that a standard RNN "finds it challenging" HOLDS if, on the same task, the plain network with full
    back-propagation solves it in fewer than half of the seeds for every N ≥ 100, at the best step size of each N.

    python -m chunked_td.compression.study --size quick --out DIR
"""

from __future__ import annotations

SHARE = 0.9
IN_A_ROW = 3
EASY_RATE = 0.95
EASY_GROWTH = 2.0
HARD_RATE = 0.5
HARD_FROM = 100
