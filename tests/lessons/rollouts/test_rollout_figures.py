"""Pictures of lesson 01: where they begin to count, and room above the bars."""

from helpers.kit.figures import KL, POLICY
from helpers.lessons.rollouts.figures import arms_figure, length_figure


def test_arms_begin_where_they_are_told():
    (axes,) = arms_figure({"a": ([1.0, 2.0], POLICY)}, "t", "x", "y", first=1).axes
    assert axes.lines[0].get_xdata().tolist() == axes.get_xticks().tolist() == [1, 2]
    (axes,) = arms_figure({"a": ([1.0, 2.0], KL)}, "t", "x", "y", step=5).axes
    assert axes.lines[0].get_xdata().tolist() == [0, 5]


def test_the_tallest_bar_stays_below_the_frame():
    (axes,) = length_figure([2, 2, 2, 3], [True, True, False, False], 3).axes
    assert axes.get_ylim()[1] > 3
