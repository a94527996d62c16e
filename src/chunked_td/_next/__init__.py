"""The next core, built beside the present one and used by nothing yet.

| file | what it holds |
|---|---|
| `link` | kernels with open names become one compiled program |
| `cache` | where compiled programs are kept on disk, and what the screen says meanwhile |
| `arrays` | a tree of arrays by one address |
| `pcg` | NumPy's PCG64 inside a kernel |
| `core` | the one update, and the entries that Python calls |
| `learner` | learners on these entries |
| `simulate` | whole runs |
| `lockstep` | many runs an episode at a time, for λs that networks compute |
"""
