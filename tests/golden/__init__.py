"""Golden runs: what today's code computes, to the last bit, before, during and after the core is exchanged.

| file | what it holds |
|---|---|
| `cases` | named cases over the public face: a function of an `api` each |
| `problems` | the small problems that they share |
| `today` | the `api` of the code as it is |
| `networks` | λs that networks gave, recorded in float32 and replayed |
| `record` | `python -m tests.golden.record`: write `expected.json` anew |
| `mistakes` | `python -m tests.golden.mistakes`: plant mistakes in a copy of the code, and see the cases fail |
"""
