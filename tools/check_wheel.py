"""Build the package, check its metadata, install it in bare environments and use it there.

    python tools/check_wheel.py [--python 3.11 3.13]

For each Python at hand: a new environment with the wheel and its plain dependencies alone, whose size is checked, and
in which the README's code, one return per installed backend and the command's hint about the extra `lab` are tried.
In the first of them the extras `jax` and `lab` are added afterwards, which may change no version, and the backends JAX
and Torch (the one that is installed here) are tried.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "wheel"
UV = Path(sys.executable).with_name("uv")
MOST = 280
"""Megabytes of the plain install, dependencies included, byte code not."""

RETURNS = """
import sys
import numpy as np
from chunked_td.returns import lambda_returns

def arrays(name):
    if name == "jax":
        import jax.numpy as jnp
        return jnp.asarray
    if name == "torch":
        import torch
        return torch.tensor
    return np.array

for name in sys.argv[1:]:
    make = arrays(name)
    r, discount, v = make([1.0, 2.0]), make([0.5, 0.0]), make([10.0, 0.0])
    found = np.asarray(lambda_returns(r, discount, v, 0.5))
    # G_1 = 2; G_0 = 1 + 0.5 (0.5 * 10 + 0.5 * 2)
    assert np.allclose(found, [4.0, 2.0]), (name, found)
    print(f"  one return with {name}: as computed by hand")
"""


def main() -> None:
    """Build and try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", nargs="+", default=["3.11", "3.13"], help="versions to try")
    versions = parser.parse_args().python
    shutil.rmtree(BUILD, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", BUILD, ROOT, quiet=True)
    files = sorted(BUILD.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    wheel = next(path for path in files if path.suffix == ".whl")
    tried = [number for number in versions if try_python(number, wheel, backends=number == versions[0])]
    if not tried:
        sys.exit("none of these Pythons is at hand")


def try_python(number: str, wheel: Path, *, backends: bool) -> bool:
    """Whether this Python is at hand; if so, install and use the wheel with it."""
    found = interpreter(number)
    if found is None:
        print(f"notice: Python {number} is not at hand; the wheel is not tried with it")
        return False
    home = BUILD / f"bare-{number}"
    run(UV, "venv", "--quiet", "--python", found, home)
    python = home / "bin" / "python"
    install(python, wheel)
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and path.suffix != ".pyc") / 1e6
    print(f"Python {number}: {size:.0f} MB with dependencies (at most {MOST})")
    if size > MOST:
        sys.exit(f"the plain install has {size:.0f} MB; at most {MOST} are allowed")
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    run(python, "-W", "error", "-c", "\n".join(blocks), cwd=home)
    run(python, "-c", RETURNS, "numpy", cwd=home)
    told = subprocess.run([home / "bin" / "chunked-td", "train", "Taxi-v4"], capture_output=True, text=True)
    if told.returncode != 1 or "pip install '.[lab]'" not in told.stderr or told.stderr.count("\n") != 1:
        sys.exit(f"the command does not say in one line what to install: {told.stderr!r}")
    if backends:
        before = installed(python)
        install(python, f"{wheel}[jax,lab]")
        changed = {name: was for name, was in before.items() if installed(python)[name] != was}
        if changed:
            sys.exit(f"the extras changed what was installed: {changed}")
        run(home / "bin" / "chunked-td", "--version")
        run(python, "-c", RETURNS, "jax", cwd=home)
        same = sys.version_info[:2] == tuple(map(int, number.split(".")))
        if same and importlib.util.find_spec("torch"):  # as it is here; a plain install of Torch brings gigabytes
            run(
                python,
                "-c",
                f"import sys; sys.path.append({sysconfig.get_path('purelib')!r}){RETURNS}",
                "torch",
                cwd=home,
            )
        else:
            print("notice: no Torch for this Python at hand; its return is not tried")
    return True


def interpreter(number: str) -> str | None:
    """The path of a Python, found by uv or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (*sorted(pyenv.glob(f"{number}.*/bin/python")), shutil.which(f"python{number}")):
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return str(path)
    asked = subprocess.run([UV, "python", "find", number], capture_output=True, text=True)
    return asked.stdout.strip() if asked.returncode == 0 else None


def installed(python: Path) -> dict[str, str]:
    """Names and versions of the packages in an environment."""
    listed = subprocess.run([UV, "pip", "freeze", "--python", python], capture_output=True, text=True, check=True)
    return dict(re.findall(r"^(\S+?)(?:==| @ )(\S+)$", listed.stdout, re.M))


def install(python: Path, what: str | Path) -> None:
    """Install into an environment; what was downloaded once is linked from the cache."""
    run(UV, "pip", "install", "--quiet", "--python", python, what)


def run(*command: str | Path, quiet: bool = False, cwd: Path | None = None) -> None:
    """Run a command and stop where it fails."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE if quiet else None, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout or ''}\nfailed with exit code {done.returncode}: {' '.join(map(str, command))[:200]}")


if __name__ == "__main__":
    main()
