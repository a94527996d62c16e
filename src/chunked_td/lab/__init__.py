"""The lab: experiments as data, and the machinery that runs, stores and compares them.

    protocols    what an experiment is; `experiments/` holds the paper's three and our controls
    batches      the unit of work: settings in, plain arrays out
    store        finished batches on disk, one Parquet file each
    engines      where batches execute: this machine's threads, or Ray
    sweep        plan, run, keep
    statistics   intervals, comparisons, step-size selection
    commands     what the command line calls

Nothing here imports more than NumPy until it is needed, so that a bare GPU host can run batches too
(`python -m chunked_td.lab.remote`).
"""
