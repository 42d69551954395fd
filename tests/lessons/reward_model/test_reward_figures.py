"""The pictures of lesson 05 show all that they are given."""

from helpers.lessons.reward_model.figures import FARTHEST, gap_histogram


def test_a_gap_beyond_the_frame_stands_at_its_edge():
    gaps = [-1.2, 0.4, FARTHEST - 0.1, FARTHEST + 5.5]
    axes = gap_histogram(gaps).axes[0]
    assert sum(bar.get_height() for bar in axes.patches) == len(gaps)
    left, right = axes.get_xlim()
    assert all(left <= bar.get_x() <= right for bar in axes.patches if bar.get_height())
    assert max(bar.get_height() for bar in axes.patches) == 2  # both large ones, in the last bar
