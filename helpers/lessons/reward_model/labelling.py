"""Be the human: two responses side by side, one click, and the answers kept in a file.

`Answers` keeps them, `Labeller` shows them. Neither knows what anybody should prefer.
"""

import random
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import ipywidgets
from markupsafe import escape

from helpers.data import work_folder
from helpers.kit.markup import Markup, card
from helpers.kit.sliders import button, in_a_row, show_live
from helpers.reward_model import join
from helpers.tools.files import read_jsonl, write_jsonl
from helpers.tools.validate import require, require_choice, require_count

LABELS = "labels.jsonl"
COLUMNS = ("prompt", "chosen", "rejected")
CHOICES = {"A": "A is better", "B": "B is better", "tie": "a tie"}  # on buttons
KEYS = {"a": "A", "b": "B", "t": "tie", "u": "undo"}


def make_questions(pairs: list[dict], count: int, seed: int = 0) -> list[dict]:
    """`count` of these `{prompt, chosen, rejected}` rows as `{prompt, A, B}`, sides by coin toss."""
    require(len(pairs) > 0, "pairs", "an empty list", "at least one pair")
    require_count("count", count)
    rng, questions = random.Random(seed), []
    differ = (pair for pair in pairs if pair["chosen"] != pair["rejected"])
    for pair in islice(differ, count):
        sides = [pair["chosen"], pair["rejected"]]
        rng.shuffle(sides)
        questions.append({"prompt": pair["prompt"], "A": sides[0], "B": sides[1]})
    return questions


class Answers:
    """What one person said: choices in a file, ties for this session.

    `labels.jsonl` holds `{prompt, chosen, rejected}` and nothing else, so it is training data as it
    stands. Each choice is on disk, whole, before the next question shows, and is found again by a
    later session. FileProblem when the file is broken: it is never overwritten.
    """

    def __init__(self, questions: list[dict], folder: Path | None = None):
        self.questions, self.path = questions, Path(folder or work_folder()) / LABELS
        self.rows, self.ties = self._read(), []

    def _read(self) -> list[dict]:
        return read_jsonl(self.path, COLUMNS) if self.path.exists() else []

    def _write(self, rows: list[dict]) -> None:
        write_jsonl(self.path, rows)
        self.rows = rows  # only now: an answer that is not on disk does not count

    @property
    def open_questions(self) -> list[int]:
        """Numbers of the questions without an answer, whichever way round their responses stand."""
        known = {frozenset(row.values()) for row in self.rows + self.ties}
        return [i for i, q in enumerate(self.questions) if frozenset(q.values()) not in known]

    def add(self, question: dict, answer: str) -> None:
        """Keep one answer; a choice is on disk before this returns. Another tab's are kept too."""
        if answer == "tie":
            return self.ties.append(question)
        other = "B" if answer == "A" else "A"
        texts = question["prompt"], question[answer], question[other]
        self._write([*self._read(), dict(zip(COLUMNS, texts, strict=True))])

    def remove(self, question: dict) -> None:
        """Take the answer to this question back."""
        if question in self.ties:
            return self.ties.remove(question)
        self._write([row for row in self._read() if {*row.values()} != {*question.values()}])


class Labeller:
    """The page: a prompt, two responses, three answers, undo, and how far you are.

    Buttons take a mouse, or Tab and Enter; the field takes a letter and Enter. `answer("A")` and
    `undo()` do what the buttons do. Works with ipywidgets 7.7 and 8.
    """

    def __init__(self, questions: list[dict], folder: Path | None = None):
        self.answers, self.history = Answers(questions, folder), []
        self.page, self.message = ipywidgets.HTML(), ipywidgets.HTML()
        self.buttons = {}
        for name, words in CHOICES.items():
            style = "primary" if name in ("A", "B") else ""
            self.buttons[name] = button(words, partial(self.answer, name), self.say, style)
        self.buttons["undo"] = button("undo", self.undo, self.say)
        self.keys = ipywidgets.Text(
            placeholder="or type a, b, t or u, then Enter",
            continuous_update=False,
            layout=ipywidgets.Layout(width="17em"),
        )
        self.keys.observe(self._typed, names="value")
        row = in_a_row(*self.buttons.values(), self.keys)
        self.box = ipywidgets.VBox([self.page, row, self.message])
        self.show()

    def _typed(self, change: dict) -> None:
        letter = change["new"].strip().lower()
        if letter in KEYS:
            self.buttons[KEYS[letter]].click()
        elif letter:
            self.say(f"{letter!r} is not one of {', '.join(KEYS)}")
        self.keys.value = ""

    def say(self, words: str) -> None:
        """One line below the buttons, escaped unless Markup; a screen reader reads it out."""
        self.message.value = f'<div aria-live="polite">{escape(words)}</div>'

    @property
    def current(self) -> dict | None:
        """The question now on the page, or None when all are answered."""
        number = next(iter(self.answers.open_questions), None)
        return None if number is None else self.answers.questions[number]

    @property
    def labels(self) -> list[dict]:
        """Every choice so far, of earlier sessions too: `{prompt, chosen, rejected}` rows."""
        return list(self.answers.rows)

    def answer(self, choice: str) -> None:
        """Answer the question on the page: "A", "B" or "tie". ValueError for anything else."""
        require_choice("choice", choice, tuple(CHOICES))
        question = self.current
        require(question is not None, "choice", "an answer", "a question, but all are answered")
        self.answers.add(question, choice)
        self.history.append(question)
        self.show(f"{choice}: kept.")

    def undo(self) -> None:
        """Take back the last answer; of an earlier session, the last question answered."""
        still_open = self.answers.open_questions
        answered = [q for i, q in enumerate(self.answers.questions) if i not in still_open]
        if not answered:
            return self.say("There is nothing to undo.")
        last = (self.history or answered)[-1]
        self.answers.remove(last)
        self.history = [q for q in self.history if q != last]
        self.show("Taken back.")

    def show(self, words: str = "") -> None:
        """Draw the page for the question that is open now."""
        question, total = self.current, len(self.answers.questions)
        done = total - len(self.answers.open_questions)
        self.page.value = page_html(question, done, total)
        for name in CHOICES:
            self.buttons[name].disabled = question is None
        self.buttons["undo"].disabled = done == 0
        self.say(words)

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the same page, still, where there is none."""
        show_live(self.box, "two responses and four buttons", page=self.page.value)


def page_html(question: dict | None, done: int, total: int) -> str:
    """Progress, prompt and the two responses; every text is escaped, whoever wrote it."""
    bar = f'<progress value="{done}" max="{total}" aria-label="answered">{done}</progress>'
    head = Markup(f"<div>{bar} {done} of {total} answered</div>")
    if question is None:
        return head + Markup("<p><b>Thank you. All questions are answered.</b></p>")
    prompt, cards = question["prompt"], Markup("")
    words = Markup('<b>{}</b><div class="text"><span class="given">{}</span>{}</div>')
    for side in ("A", "B"):
        text = words.format(side, prompt, join(prompt, question[side])[len(prompt) :])
        cards += card(text, role="group", aria_label=f"response {side}")
    asks = Markup('<div>Which does your rule prefer?</div><div class="pair">{}</div>')
    return head + asks.format(cards)


def fill_in(
    labeller: Labeller, prefers_first: Callable[[str, str], bool | None], at_least: int = 12
) -> tuple[list[dict], str]:
    """Your choices, or, with fewer than `at_least`, a stand-in's for the questions you left open.

    `prefers_first(first, second)` sees whole texts; None is a tie, which gives no row. Its choices are
    returned, never written to your file. → rows, and one sentence that says who answered.
    """
    rows, answers = labeller.labels, labeller.answers
    if len(rows) >= at_least:
        return rows, f"You gave all {len(rows)} answers."
    own, ties = len(rows), 0
    for number in answers.open_questions:
        prompt, first, second = (answers.questions[number][name] for name in ("prompt", "A", "B"))
        better = prefers_first(join(prompt, first), join(prompt, second))
        if better is None:
            ties += 1
            continue
        chosen, rejected = (first, second) if better else (second, first)
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    words = f"You gave {own} answer{'' if own == 1 else 's'}; a stand-in gave {len(rows) - own}"
    return rows, f"{words}; ties: {ties}." if ties else f"{words}."
