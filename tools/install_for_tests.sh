#!/usr/bin/env bash
# Packages that some tests compare with, into the environment .venv. Each is optional: where one cannot be had, its
# tests are skipped, and this says so. `make test` runs it once.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

has() { for name in "$@"; do "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$name') is None)" || return 1; done; }
install() { "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"; }

# A plain install of torch brings gigabytes of CUDA, so only the CPU wheel will do, with the pure-Python packages it needs.
has torch || { install "torch==2.13.0+cpu" &&
  "$python" -m pip install --quiet --disable-pip-version-check filelock fsspec jinja2 networkx "setuptools>=77.0.3" \
    "sympy>=1.13.3" typing-extensions; } ||
  echo "notice: no CPU wheel of PyTorch at hand; tests that compare with it are skipped"

# Both ask for torch by its plain name, so they come without their dependencies.
has torch && { has stable_baselines3 torchrl || install "stable-baselines3==2.9.2" "torchrl==0.14.1" \
  "tensordict>=0.14.3,<0.15" "pyvers>=0.2.3" "hoptorch>=0.1.4" cloudpickle ||
  echo "notice: no Stable-Baselines3 and TorchRL at hand; tests of the integrations are skipped"; }

# Both need flax for its dataclasses alone, gymnax asks for older versions of Gymnasium and JAX than ours, and imports
# seaborn and pandas.
has gymnax xminigrid || install "gymnax==1.0.1" "xminigrid==0.9.3" "flax>=0.12.8,<0.13" seaborn pandas tqdm ||
  echo "notice: no gymnax and XLand-MiniGrid at hand; tests of their tasks are skipped"

# Trainers whose advantage functions are compared with ours, from their files alone.
has verl openrlhf skrl rl_games || install "verl==0.9.1" "openrlhf==0.11.2" "skrl==2.1.1" "rl_games==1.6.5" ||
  echo "notice: not all of verl, OpenRLHF, skrl and rl_games at hand; tests that compare with them are skipped"

command -v chromium >/dev/null || echo "notice: no Chromium; the report is not opened in a browser"
exit 0
