"""The mistakes that `planted_in_helpers.py` plants still have a place in helpers/, and are Python."""

import pytest
from planted_in_helpers import PLANTS

from helpers.tools.files import ROOT


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_each_mistake_can_be_planted(plant):
    compile(plant.edited(), plant.file, "exec")
    for lesson in plant.lessons.split():
        assert len(list((ROOT / "notebooks").glob(f"{lesson}_*.ipynb"))) == 1
