"""Flags made from dataclasses: every setting is one, with help; what is wrong is one sentence."""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import pytest

from helpers.config import RLHFConfig
from helpers.tools.flags import FlagParser, setting


@dataclass(kw_only=True)
class Meal:
    name: str = setting(MISSING, "what it is called")
    guests: int = setting(2, "how many eat", "the table")
    hot: bool = setting(True, "served hot", "the table")
    prices: list[float] = setting([1.0, 2.5], "of each course")
    recipe: Path | None = setting(None, "a file")


def parser(*classes: type) -> FlagParser:
    return FlagParser(*classes, prog="meal", description="Cook.")


def test_every_field_of_the_config_is_a_flag_with_help():
    printed = parser(RLHFConfig).format_help()
    for field in fields(RLHFConfig):
        assert len(field.metadata["help"]) > 5, field.name
        assert printed.count(f"  --{field.name.replace('_', '-')} ") == 1, field.name
        assert f"--{field.name}" not in printed or "_" not in field.name  # listed once
        values = [] if field.default is None else [str(field.default)]
        given = parser(RLHFConfig).given([f"--{field.name.replace('_', '-')}", *(values or ["2"])])
        assert given == {field.name: 2.0 if field.default is None else field.default}
    assert set(parser(RLHFConfig).given([])) == set()


def test_only_what_was_given_is_found():
    given = parser(Meal).given(["--name", "soup", "--hot", "false", "--prices", "3", "4"])
    assert given == {"name": "soup", "hot": False, "prices": [3.0, 4.0]}


@pytest.mark.parametrize(
    ("flags", "hot"),
    [([], True), (["--hot"], True), (["--no-hot"], False), (["--hot", "0"], False)],
)
def test_a_switch(flags, hot):
    assert Meal(**parser(Meal).given(["--name", "soup", *flags])).hot is hot


def test_help_has_headings_and_true_defaults():
    printed = " ".join(parser(Meal).format_help().split())
    assert "the table: --guests N how many eat (default: 2)" in printed
    assert "--hot [true|false] served hot (default: True)" in printed
    assert "--no-hot" not in printed and "None" not in printed


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--name", "a", "--gusts", "3"], "unrecognized arguments: --gusts"),
        (["--name", "a", "--guest", "3"], "unrecognized arguments: --guest"),  # no shortened flag
        (["--name", "a", "--guests", "few"], "argument --guests: invalid int value: 'few'"),
        (["--name", "a", "--guests"], "argument --guests: expected one argument"),
        ([], "required: --name"),
    ],
)
def test_a_wrong_flag_is_one_sentence(capsys, flags, says):
    with pytest.raises(ValueError, match="lists the flags") as problem:
        parser(Meal).given(flags)
    assert says in str(problem.value) and "\n" not in str(problem.value)
    assert capsys.readouterr().err == ""
