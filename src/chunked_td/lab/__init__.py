"""The lab: studies as data, and the machinery that runs, stores and compares them.

`study` says what a study is and `catalogue` finds them in `studies/`. `running` plans and runs batches, `store` keeps
them, `results` makes numbers of stored rows, `report` figures and pages; `comparison` is a study made on the fly.

Nothing here imports more than NumPy until it is needed, so that a host without storage and plotting packages can run
batches (`python -m chunked_td.lab.running.remote`).
"""
