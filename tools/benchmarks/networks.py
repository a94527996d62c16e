"""Time per training step of many networks at once, beside the floor set by memory traffic and by matrix work.

    PYTHONPATH=src python tools/benchmarks/networks.py --out results-folder            # every variant, both problems
    PYTHONPATH=src python tools/benchmarks/networks.py --out F --only tf32 --episodes 20 --toy

Variants that differ in compiler flags run in a process of their own; one that fails is recorded and skipped. Needs
numpy, jax, equinox and optax only. The last lines printed are the table; `networks.json` has everything, and
`kernels.txt` says where the time of each variant went, kernel by kernel.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRAPHS = "--xla_gpu_enable_command_buffer="
EVERYTHING = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
FLAGS = {
    "default": "",
    "no-graphs": GRAPHS,
    "graph-loops": f"{GRAPHS}{EVERYTHING} --xla_gpu_graph_min_graph_size=1",
    "cublas-only": "--xla_gpu_enable_triton_gemm=false",
    "in-turn": "",
}
VARIANTS = [  # in order of interest: (compiler flags, precision, settings of the world)
    ("default", "tf32", {}),
    ("in-turn", "tf32", {}),
    ("default", "tf32", {"staged": True}),
    ("default", "float32", {}),
    ("no-graphs", "tf32", {}),
    ("cublas-only", "tf32", {}),
    ("graph-loops", "tf32", {}),
    ("default", "tf32x3", {}),
]
PROTOCOL = {"accumulated-charge": (120, 200, 10_000), "key-to-door": (180, 100, 5_000)}  # runs, length, episodes


def problem(name: str, toy: bool):
    """(config, reading, runs, episode length, episodes of the full protocol)."""
    from studies.accumulated_charge.network import network_config as charge_network
    from studies.key_to_door.network import network_config as door_network

    runs, length, episodes = PROTOCOL[name]
    config = charge_network() if name == "accumulated-charge" else door_network()
    reading = "sarsa" if name == "accumulated-charge" else "factored"
    if toy:
        config = dataclasses.replace(config, hidden=(16,) * len(config.hidden), capacity=1000)
        runs = 3
    return config, reading, runs, length, episodes


def synthetic(name: str, config, runs: int, length: int, rng):
    """An episode of every run that looks like the problem's: (states, actions, policy)."""
    import numpy as np

    states = np.zeros((runs, length + 1, len(config.nvec)), np.int64)
    states[..., -1] = np.arange(length + 1)
    if name == "accumulated-charge":
        states[:, 1:, 0] = rng.integers(0, 2, (runs, 1))
        charge = np.zeros((runs, length), np.int64)
        charge[:, 7::20] = rng.binomial(20, 0.5, charge[:, 7::20].shape)
        states[:, 1:, 1] = np.minimum(np.cumsum(charge, 1), 200)
    else:
        states[:, 1:-2, 2:-2] = rng.integers(0, 2, states[:, 1:-2, 2:-2].shape)
    actions = rng.integers(0, config.actions, (runs, length))
    policy = np.full((runs, length, config.actions), 1 / config.actions, np.float32)
    return states, actions, policy


def training_flops(config) -> int:
    """Floating-point operations of one training step: forward, and the two products of the backward pass."""
    sizes = [len(config.nvec) + config.actions, *config.hidden, config.outputs]
    products = [a * b for a, b in itertools.pairwise(sizes)]
    return 2 * config.batch_size * (3 * sum(products) - products[0])


def floor(config, runs: int, bandwidth: float, rate: float) -> dict[str, float]:
    """Least µs per training step by memory traffic and by arithmetic.

    Each parameter is read by the forward and the backward pass; its gradient is written; Adam reads parameter,
    gradient and two moments and writes all but the gradient: ten transfers of four bytes.
    """
    return {
        "floor_memory_us": 1e6 * 40 * runs * config.parameters / bandwidth,
        "floor_matmul_us": 1e6 * runs * training_flops(config) / rate,
    }


def ceilings(precision: str) -> tuple[float, float]:
    """Measured bytes/s of an elementwise pass, and floating-point operations/s of a large matrix product."""
    import jax
    import jax.numpy as jnp

    from chunked_td.models.neural.world import matmul_precision

    size, side = (1 << 28, 8192) if jax.default_backend() == "gpu" else (1 << 22, 512)
    data = jax.random.normal(jax.random.key(0), (size,))
    matrix = jax.random.normal(jax.random.key(1), (side, side))
    add = jax.jit(lambda x: x + 1)
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=matmul_precision(precision)))

    def best(function, x):
        function(x).block_until_ready()
        times = []
        for _ in range(25):
            start = time.perf_counter()
            function(x).block_until_ready()
            times.append(time.perf_counter() - start)
        return min(times)

    return 8 * size / best(add, data), 2 * side**3 / best(product, matrix)


def loop_kernels(hlo: str) -> tuple[int, list[str]]:
    """Of the busiest loop body of a compiled program's text: kernels and library calls, and the arrays it copies."""
    bodies = set(re.findall(r"body=%?([\w.\-]+)", hlo))
    best: tuple[int, list[str]] = (0, [])
    for match in re.finditer(r"^%?([\w.\-]+) \(.*?\{\n(.*?)^\}", hlo, re.M | re.S):
        if match.group(1) in bodies:
            calls = re.findall(r" (?:fusion|custom-call|call|copy|copy-start|dot|reduce|sort)\(", match.group(2))
            copied = re.findall(r"= (\S+?)(?:\{\S*)? copy(?:-start)?\(", match.group(2))
            best = max(best, (len(calls), copied))
    return best


def kernel_times(world, episode, path: Path, label: str, steps: int) -> None:
    """Trace one episode and add the time per kernel and training step to a file."""
    import jax
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            np.asarray(world.episode(*episode))
        files = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        with gzip.open(files[0]) as file:
            events = json.load(file)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    total: dict[str, list[float]] = {}
    for e in events:
        if e.get("ph") == "X" and "GPU" in names.get(e["pid"], ""):
            total.setdefault(e["name"], []).append(e["dur"])
    lines = [label, f"{'µs/step':>9} {'calls/step':>10} {'µs/call':>8}  kernel"]
    for name, durations in sorted(total.items(), key=lambda item: -sum(item[1]))[:80]:
        each = sum(durations) / len(durations)
        lines.append(f"{sum(durations) / steps:9.2f} {len(durations) / steps:10.2f} {each:8.2f}  {name[:120]}")
    with path.open("a") as file:
        file.write("\n".join(lines) + "\n\n")


def written(settings: dict) -> str:
    """Settings of a world in one word."""
    return ",".join(f"{k}={v}" for k, v in settings.items()) or "plain"


def measure(name: str, precision: str, settings: dict, options) -> dict:
    """Compile and time one variant in this process."""
    import jax
    import numpy as np

    from chunked_td.lambdas.on_device import Reading
    from chunked_td.models.neural.world import World

    config, reading, runs, length, episodes = problem(name, options.toy)
    begin = time.perf_counter()
    world = World(config, range(runs), length, reading=Reading(reading), precision=precision, **settings)
    jax.block_until_ready(world.state)
    started = time.perf_counter() - begin
    compile_s = world.compile()
    rng = np.random.default_rng(0)
    made = [synthetic(name, config, runs, length, rng) for _ in range(4)]
    for episode in made[:3]:
        np.asarray(world.episode(*episode))
    times = []
    for i in range(options.episodes):
        start = time.perf_counter()
        result = np.asarray(world.episode(*made[i % 4]))
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    for i in range(20):
        world.episode(*made[i % 4])
    jax.block_until_ready(world.state)
    queued = (time.perf_counter() - start) / 20
    steps = length // config.train_every
    bandwidth, rate = ceilings(precision)
    median = float(np.median(times))
    record = {
        "start_s": started,
        "compile_s": compile_s,
        "us_per_step": 1e6 * median / steps,
        "us_per_step_queued": 1e6 * queued / steps,
        **floor(config, runs, bandwidth, rate),
        "bandwidth": bandwidth,
        "matmul_rate": rate,
        "protocol_s": started + compile_s + episodes * median,
        "mean_lambda": float(result.mean()),
        "loss": float(np.mean(world.diagnostics().loss)),
        "broken": int((world.broken_at > 0).sum()),
        "memory": {k: v for k, v in (jax.devices()[0].memory_stats() or {}).items() if "bytes" in k},
    }
    record["loop_kernels"], record["loop_copies"] = loop_kernels(world.program_text())
    label = f"{name}-{precision}-{written(settings)}-{options.flags}".replace("=", "").replace(",", "-")
    if options.profile and options.out:
        try:
            kernel_times(world, made[0], Path(options.out) / "kernels.txt", label, steps)
        except Exception as error:
            record["profile_error"] = repr(error)
    if options.hlo and options.out and re.search(options.hlo, label):
        with gzip.open(Path(options.out) / f"hlo-{label}.txt.gz", "wt") as file:
            file.write(world.program_text())
    return record


def agreement() -> dict:
    """Greatest difference of λ, after some training, between this device in each precision and the CPU."""
    import jax
    import numpy as np

    from chunked_td.lambdas.on_device import Reading
    from chunked_td.models.neural.world import PRECISIONS, World

    name, result = "accumulated-charge", {}
    config, reading, _, length, _ = problem(name, False)
    config = dataclasses.replace(config, capacity=1000)
    rng = np.random.default_rng(1)
    made = [synthetic(name, config, 2, length, rng) for _ in range(8)]

    def lambdas(precision):
        world = World(config, (0, 1), length, reading=Reading(reading), precision=precision)
        return np.stack([np.asarray(world.episode(*episode)) for episode in made])

    with jax.default_device(jax.devices("cpu")[0]):
        reference = lambdas("float32")
    for precision in PRECISIONS:
        try:
            result[precision] = float(np.abs(lambdas(precision) - reference).max())
        except Exception as error:
            result[precision] = repr(error)[:300]
    return result


def worker(options) -> None:
    """Run the variants of one process; a line of JSON for each."""
    import jax

    from chunked_td.models.neural import world

    if options.flags == "in-turn":
        world.GPU_OPTIONS.clear()
    print(json.dumps({"device": str(jax.devices()[0]), "jax": jax.__version__}), flush=True)
    for name, precision, settings in json.loads(options.worker):
        if name == "agreement":
            print(json.dumps({"agreement": agreement()}), flush=True)
            continue
        key = {"problem": name, "flags": options.flags, "precision": precision, "settings": written(settings)}
        try:
            record = measure(name, precision, settings, options)
        except Exception as error:
            record = {"error": repr(error)[:500]}
        print(json.dumps(key | record), flush=True)


def table(records: list[dict]) -> str:
    """The numbers that matter, one line per variant."""
    head = "problem             flags        precision settings       start compile  µs/step queued  memory matmul"
    lines = [head + " kernels  protocol"]
    for r in records:
        if "problem" not in r:
            lines.append(json.dumps(r))
            continue
        left = f"{r['problem']:<19} {r['flags']:<12} {r['precision']:<9} {r['settings']:<13}"
        if "error" in r:
            lines.append(f"{left} {r['error'][:160]}")
            continue
        lines.append(
            f"{left} {r['start_s']:6.1f} {r['compile_s']:7.1f} {r['us_per_step']:8.1f} "
            f"{r['us_per_step_queued']:6.1f} {r['floor_memory_us']:7.1f} {r['floor_matmul_us']:6.1f} "
            f"{r['loop_kernels']:7d} {r['protocol_s']:8.1f}s"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="", help="folder for networks.json, profiles and program texts")
    parser.add_argument("--episodes", type=int, default=200, help="episodes timed per variant")
    parser.add_argument("--problems", default="accumulated-charge,key-to-door")
    parser.add_argument("--only", default="", help="regular expression on 'flags precision settings'")
    parser.add_argument("--seconds", type=float, default=480.0, help="start no further process after this long")
    parser.add_argument("--toy", action="store_true", help="three runs of tiny networks")
    parser.add_argument("--profile", action="store_true", help="write time per kernel")
    parser.add_argument("--hlo", default="", help="regular expression: write the compiled programs of these variants")
    parser.add_argument("--no-agreement", action="store_true", help="leave out the comparison with the CPU")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--flags", default="default", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
    if options.worker:
        worker(options)
        return
    chosen = [v for v in VARIANTS if re.search(options.only, f"{v[0]} {v[1]} {written(v[2])}")]
    jobs: dict[str, list] = {}
    for flags, *rest in chosen:
        jobs.setdefault(flags, []).extend([problem_name, *rest] for problem_name in options.problems.split(","))
    if jobs and not options.no_agreement:
        next(iter(jobs.values())).append(["agreement", "", {}])
    records, begin = [], time.perf_counter()
    for flags, job in jobs.items():
        left = options.seconds - (time.perf_counter() - begin)
        if left <= 0:
            records.append({"skipped": flags, "why": "out of time"})
            continue
        environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {FLAGS[flags]}".strip()}
        command = [sys.executable, *sys.argv, "--worker", json.dumps(job), "--flags", flags]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    records.append(json.loads(line))
                    print(table(records[-1:]).split("\n")[-1], flush=True)
                if options.out:
                    (Path(options.out) / "networks.json").write_text(json.dumps(records, indent=1))
                if time.perf_counter() - begin > options.seconds + 60:
                    process.kill()
        if process.returncode:
            records.append({"failed": flags, "returncode": process.returncode})
    print(table(records))


if __name__ == "__main__":
    main()
