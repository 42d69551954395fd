"""Command-line flags from dataclasses: a flag per field, with the help the field carries."""

import argparse
from collections.abc import Callable
from copy import copy
from dataclasses import Field, field, fields
from difflib import get_close_matches
from functools import partial, wraps
from pathlib import Path

from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from helpers.tools.command import exit_status

SYNONYMS = {  # what other programs call these settings
    "--lr": "--learning-rate",
    "--beta": "--kl-coef",
    "--epochs": "--num-ppo-epochs",
    "--model": "--actor",
}
METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH", string_to_bool: "true|false"}


def setting(default: object, help: str, group: str | None = None, **more: object) -> Field:
    """A dataclass field with the sentence that `--help` prints and the heading it stands under.

    A list as default is copied for each instance; `dataclasses.MISSING` makes the flag required;
    `choices=` lists the values allowed.
    """
    about = {"help": help} | ({} if group is None else {"group": group}) | more
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=about)
    return field(default=default, metadata=about)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help with defaults, except where the default is "not given"."""

    def _get_help_string(self, action: argparse.Action) -> str:
        return action.help if action.default in (None, []) else super()._get_help_string(action)


class FlagParser(HfArgumentParser):
    """A flag for every field of these dataclasses. A wrong flag or value raises ValueError."""

    def __init__(self, *dataclasses: type, prog: str, description: str):
        super().__init__(
            dataclasses,
            prog=prog,
            description=description,
            usage="%(prog)s [flags]",
            formatter_class=partial(_Help, max_help_position=32),
            allow_abbrev=False,
        )
        for action in self._actions:
            action.metavar = METAVARS.get(action.type)
            # --batch_size and --no-whiten-advantages are understood too, but not listed
            action.option_strings = [name for name in action.option_strings if "_" not in name]
            if action.const is False:
                action.help = argparse.SUPPRESS

    @staticmethod
    def _parse_dataclass_field(parser: argparse.ArgumentParser, field: Field) -> None:
        field, about = copy(field), dict(field.metadata)
        title = about.pop("group", None)
        field.metadata = about
        if title is not None:
            groups = {group.title: group for group in parser._action_groups}
            parser = groups.get(title) or parser.add_argument_group(title)
        HfArgumentParser._parse_dataclass_field(parser, field)

    def error(self, message: str) -> None:
        """One sentence, in place of a page of usage."""
        raise ValueError(f"{message}{self._meant(message)}; `{self.prog} --help` lists the flags.")

    def _meant(self, message: str) -> str:
        """Flags of this command that unknown ones in a message may stand for, as a question."""
        if not message.startswith("unrecognized"):
            return ""
        known = [name for action in self._actions for name in action.option_strings]
        words = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        close = [get_close_matches(SYNONYMS.get(word, word), known, 1) for word in words]
        meant = dict.fromkeys(name for names in close for name in names)
        return f" (did you mean {' and '.join(meant)}?)" if meant else ""

    def given(self, arguments: list[str] | None) -> dict:
        """The values of the flags that were given, by field name; those left out are absent."""
        left_out = object()
        nothing = argparse.Namespace(**{action.dest: left_out for action in self._actions})
        values = vars(self.parse_args(arguments, nothing))
        return {name: value for name, value in values.items() if value is not left_out}


def command(name: str, *kinds: type, stopped: str, **usual: object) -> Callable:
    """Decorate a function of options: it becomes a command, of arguments → exit status.

    The first kind is that of the options; its docstring is what `--help` says. Of a second one, a
    config, the function gets what was given, as a dict. `usual`: defaults that `--help` shows;
    `stopped`: what is said after Ctrl-C.
    """

    def decorate(run: Callable) -> Callable[[list[str] | None], int]:
        def parse_and_run(arguments: list[str] | None) -> None:
            parser = FlagParser(*kinds, prog=f"python -m {name}", description=kinds[0].__doc__)
            parser.set_defaults(**usual)
            given = parser.given(arguments)
            own = {field.name for field in fields(kinds[0])}
            options = kinds[0](**{key: x for key, x in given.items() if key in own})
            settings = {key: x for key, x in given.items() if key not in own}
            run(options, settings) if kinds[1:] else run(options)

        @wraps(run)
        def main(arguments: list[str] | None = None) -> int:
            return exit_status(lambda: parse_and_run(arguments), stopped)

        return main

    return decorate
