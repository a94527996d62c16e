"""A standing attack on the package: damaged and crafted files, misuse, divergence.

    python -m tools.attack --minutes 2 --seed 1          # or `make attack` (one hour)

Every module of this package that defines attacks is found by itself (see `registry`). An attack is a function that
makes one hostile case, tries it and says what came of it:

    @attack("saved agent: flipped bits")
    def flipped_bits(case):
        ...
        return Outcome.REFUSED

Cases run in child processes with a limit on time and memory (see `harness`), so that a crash is seen and belongs to a
case. The same seed gives the same cases. A case that came out badly is tried again by its number:

    python -m tools.attack --seed 1 --only "saved agent: flipped bits" --case 17
"""
