"""The lab: studies as data, and the machinery that runs, stores and compares them.

    study         what a study is: protocols (environment, arms, step sizes, seeds, scoring), claims, verdicts
    catalogue     studies by id, or from users' folders and files
    identity      names under which stored results know code
    statistics    intervals, tests, cross-fitting: pure functions
    studies/      one folder per study: protocol, claims, choice of plots, text
    store/        run directories: finished batches, manifest, log, import
    running/      from protocols to batches to results: planning, engines, progress, remote hosts
    results/      from stored rows to numbers: step-size selection, tables, claims
    report/       from numbers to figures and the report page
    comparison    learners side by side on any Gymnasium environment

Nothing here imports more than NumPy until it is needed, so that a host without storage and plotting packages can run
batches (`python -m chunked_td.lab.running.remote`).
"""
