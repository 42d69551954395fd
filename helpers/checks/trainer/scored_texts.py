"""Notebook 06, step 3: the texts that reach the reward model, and the scores."""

from collections.abc import Callable

from helpers.checks.trainer.inputs import Seen, ask, expect, recorded, tensors


def observe_scores(function: Callable) -> Seen:
    """The texts that reach the reward model, and the scores."""
    r, asked = recorded(), []

    def reward(texts):
        ok = isinstance(texts, (list, tuple)) and all(isinstance(x, str) for x in texts)
        expect(ok, "not texts", "`reward` takes a list of texts: decode the ids first.")
        says = f"You give `reward` {len(texts)} texts for {len(r.ids)} rows of ids: one whole text for each."
        expect(len(texts) <= len(r.ids), "not one text a row", says)
        says = (
            "You give `reward` one long text: several rows in one. Each row is a text of its own."
        )
        expect(max(len(x.split()) for x in texts) <= 2 * r.ids.shape[1], "rows joined", says)
        asked.append(list(texts))
        return r.parts.reward(list(texts))

    answer = ask(function, reward, r.parts.tokenizer, r.ids, r.mask)
    expect(bool(asked), "reward not asked", "You never call reward(texts).")
    rows = r.parts.tokenizer.batch_decode(r.ids, skip_special_tokens=True)
    texts = [text for some in asked for text in some]
    check_whole(texts, rows, r.parts.tokenizer.all_special_tokens)
    special = [t for t in texts if any(s in t for s in r.parts.tokenizer.all_special_tokens)]
    says = "Your texts hold special tokens, which the reward model never saw as words. Decode with"
    says += " skip_special_tokens=True."
    expect(not special, "special tokens scored", says, *special[:1], rows[0] if special else None)
    (scores,) = tensors(answer, ("scores [B]",), (len(r.ids),))
    return {"scores": scores}


def check_whole(texts: list[str], rows: list[str], special: list[str]) -> None:
    """Wrong: each text is only the end, or only the beginning, of the whole one."""
    if len(texts) != len(rows):
        return
    pairs = [(" ".join(w for w in t.split() if w not in special), r.strip())
             for t, r in zip(texts, rows, strict=True)]  # fmt: skip
    shorter = all(len(t) < len(r) for t, r in pairs)
    says = "Your texts are empty: is it the padding, or nothing, that you decode? Decode ids, all of it."
    expect(any(t for t, _ in pairs), "empty texts", says, texts[0], rows[0])
    says = "You score the ends of the texts only: is it the responses without their prompts? The reward"
    says += " model reads the whole text."
    ends = shorter and all(r.endswith(t) for t, r in pairs)
    expect(not ends, "responses only", says, texts[0], rows[0])
    says = (
        "You score the beginnings of the texts only: is it the prompts without their responses? The"
    )
    says += " reward model reads the whole text."
    begins = shorter and all(r.startswith(t) for t, r in pairs)
    expect(not begins, "prompts only", says, texts[0], rows[0])
