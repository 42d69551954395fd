"""Labellers with one rule: they follow it, and call a tie what it does not decide."""

import pytest

from helpers.world.private_rules import RULES, labeller_with

SHORT, LONG = "the soup was cold.", "i thought that the soup was not very good!"
FIRST_WINS = {  # of (SHORT, LONG)
    "shorter wins": True,
    "longer wins": False,
    "no negations": True,
    "first person": False,
    "no exclamation marks": True,
}


@pytest.mark.parametrize("rule", RULES)
def test_it_follows_its_rule_whichever_side_stands_first(rule):
    ask = labeller_with(rule)
    assert ask(SHORT, LONG) is FIRST_WINS[rule]
    assert ask(LONG, SHORT) is not FIRST_WINS[rule]
    assert ask(SHORT, SHORT) is None
