"""Record what helpers' own RLOO reaches with the page's settings: `python -m tests.page.rloo_band`."""

import json
from pathlib import Path

from helpers.config import RLHFConfig
from helpers.state import start_run
from helpers.steps import iterate

FILE = Path(__file__).with_suffix(".json")
BETAS, SEEDS, ITERATIONS = (0.0, 0.1, 1.0), range(8), 20
SETTINGS = {  # as in helpers/page/train/rloo.js
    "method": "rloo",
    "responses_per_prompt": 4,
    "num_ppo_epochs": 1,
    "learning_rate": 2e-3,
    "device": "cpu",
}


def curves(beta: float, seed: int) -> dict[str, list[float]]:
    """Score and KL of the first iterations of one run."""
    state = start_run(RLHFConfig(kl_coef=beta, seed=seed, **SETTINGS))
    records = [iterate(state) for _ in range(ITERATIONS)]
    return {name: [round(r[name], 4) for r in records] for name in ("score", "kl")}


if __name__ == "__main__":
    found = {f"{beta:g}": [curves(beta, seed) for seed in SEEDS] for beta in BETAS}
    FILE.write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")
