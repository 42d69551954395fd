"""`python -m helpers explorer`: the drift page as one file; `make explorer` serves it live."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from helpers.tools.flags import command, setting


@dataclass(kw_only=True)
class ExplorerOptions:
    """Write the drift explorer of notebook 07 as a web page of one file."""

    export: Path = setting(MISSING, "write the page as this HTML file")
    policies: list[float] = setting(
        [], "β of policies that run in the page, from a folder `policies` beside it"
    )


@command("helpers explorer", ExplorerOptions, stopped="Nothing was written.")
def main(options: ExplorerOptions) -> None:
    """Write the page as one file, and policies beside it if asked for: no network, no kernel."""
    from helpers.lessons.real_models.drift_records import real_records
    from helpers.lessons.real_models.reward_study import load_real_reward
    from helpers.page import drift_page  # with torch, which `--help` can do without
    from helpers.page import policies as page_policies

    path, betas = options.export, options.policies
    beside = page_policies.export_policies(path.parent / "policies", betas) if betas else []
    drift_page.export(path, policies=beside, second=real_records(load_real_reward()))
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB; open it in any browser.")
