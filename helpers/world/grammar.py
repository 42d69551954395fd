"""The grammar of the embedded world: short reviews, as a weighted finite grammar.

`REVIEWS` maps each domain to the node of its reviews; `ALL_REVIEWS` chooses one of them at random.
A review is an opening without opinion, then a body of opinions. The words are in `lexicon.toml`.
"""

from helpers.world import lexicon
from helpers.world.nodes import Choice, Sequence, Words, even, maybe, one_of, phrase, weighted

SLOTS = {}
for name, text in lexicon.SLOTS.items():
    SLOTS[name] = one_of(text, **SLOTS)  # which may use what stands before it

# ---- clauses: sign +1 praises, -1 blames ----
RAISE = {sign: weighted(lexicon.DEGREE[sign]) for sign in (1, -1)}
EXTREME = {sign: [one_of(part) for part in lexicon.EXTREME[sign]] for sign in (1, -1)}


def judgement(adjectives, sign):
    """What follows "the soup was": "tasty", "not very fresh", "truly superb" ..."""
    own, opposite = map(one_of, adjectives if sign > 0 else adjectives[::-1])
    general = even(lexicon.GRADABLE[sign])
    one, two, three = EXTREME[sign]
    return weighted(
        lexicon.JUDGEMENT[sign],
        own=Choice([own, general], [3, 2]),
        specific=own,
        opposite=Choice([opposite, even(lexicon.NEGATABLE[-sign])], [3, 2]),
        general=general,
        plain=even(lexicon.UNGRADED[sign]),
        degree=RAISE[sign],
        extreme=Choice(EXTREME[sign]),
        **SLOTS | {"one": one, "two": two, "three": three},
    )


def clause(aspects, sign):
    """One opinion about one aspect: "the waiters were rude", "we enjoyed the music"."""
    noun = one_of(aspects.singular + "/" + aspects.plural)
    return weighted(
        lexicon.TEMPLATES["clause"],
        singular=one_of(aspects.singular),
        plural=one_of(aspects.plural),
        noun=noun,
        judged=judgement(aspects.adjectives, sign),
        overall=judgement(lexicon.WHOLE, sign),
        moved=even(lexicon.MOVING[sign]),
        liked=even(lexicon.LIKING[sign]),
        degree=RAISE[sign],
        plain=one_of(aspects.adjectives[0 if sign > 0 else 1]),
        **SLOTS,
    )


INTRO = maybe(0.3, one_of("overall ,/in the end ,/in short ,/all in all ,"))


def verdict(setting, sign):
    """A last sentence: "i would recommend it to friends", "it was a waste of money"."""
    return weighted(
        lexicon.VERDICT[sign],
        again=one_of(setting.again),
        thing=Words(setting.thing),
        liked=even(lexicon.ENJOYING[sign]),
        degree=RAISE[sign],
        felt=even(lexicon.FEELING[sign]),
        **SLOTS,
    )


# ---- whole reviews ----
STOP = weighted(lexicon.TEMPLATES["stop"])


def opening(setting):
    """A first sentence without opinion: what the writer did and when, or what this is about."""
    return weighted(
        lexicon.TEMPLATES["opening"],
        did=one_of(setting.did, **SLOTS),
        about=one_of(setting.about, **SLOTS),
        thing=Words(setting.thing),
        **SLOTS,
    )


JOINERS = {  # by whether two opinions have the same sign
    True: weighted(lexicon.TEMPLATES["joiner"]["same"]),
    False: weighted(lexicon.TEMPLATES["joiner"]["opposite"]),
}


def two_clauses(clauses, first, second, joiner):
    """Two clauses with these signs and a joiner, mostly about different aspects."""
    a, b = clauses[0, second], clauses[1, second]
    return Choice(
        [
            Sequence([clauses[0, first], joiner, Choice([b, a], [8, 1])]),
            Sequence([clauses[1, first], joiner, Choice([a, b], [8, 1])]),
        ]
    )


def torn(setting):
    """One thing praised and blamed: "the soup was fresh and the soup was bland"."""
    same = []
    for aspects in setting.aspects:
        good, bad = (one_of(words) for words in aspects.adjectives)
        for noun in aspects.singular.split("/"):
            text = f"the {noun} was {{x}} {{then}} the {noun} was {{y}}"
            for x, y in ((good, bad), (bad, good)):
                same.append(phrase(text, x=x, y=y, then=one_of("and/but/.")))
    both = phrase("{who} loved it and {who} hated it", **SLOTS)
    return Choice([Choice(same), both], [4, 1])


def last_word(clauses, verdicts, sign):
    """One clause with this sign and a verdict, sometimes of the other sign."""
    clause = Choice([clauses[0, sign], clauses[1, sign]])
    joined = {s: weighted({"{j}": 40, ". {i}": 60}, j=JOINERS[s == sign], i=INTRO) for s in (1, -1)}
    endings = [Sequence([clause, joined[s], verdicts[s]]) for s in (sign, -sign)]
    return Choice(endings, [3, 1])


def bodies(clauses, verdicts, fact, one_clause):
    """The longer bodies: two clauses, a clause and a verdict, both, or a fact and a clause."""
    signs = [(1, 1), (-1, -1), (1, -1), (-1, 1)]
    two = [two_clauses(clauses, *pair, JOINERS[pair[0] == pair[1]]) for pair in signs]
    some = Choice(two, [20, 29, 19, 19])
    either = Choice([verdicts[1], verdicts[-1]], [4, 6])
    return weighted(
        lexicon.TEMPLATES["body"],
        some=some,
        up=last_word(clauses, verdicts, 1),
        down=last_word(clauses, verdicts, -1),
        intro=INTRO,
        verdict=either,
        fact=fact,
        clause=one_clause,
    )


def reviews(setting):
    """The node of all reviews of one domain."""
    verdicts = {sign: verdict(setting, sign) for sign in (1, -1)}
    clauses = {
        (group, sign): clause(aspects, sign)
        for group, aspects in enumerate(setting.aspects)
        for sign in (1, -1)
    }
    one_clause = Choice(list(clauses.values()), [4 - sign for _, sign in clauses])
    longer = bodies(clauses, verdicts, one_of(setting.facts, **SLOTS), one_clause)
    body = Choice([longer, torn(setting)], [97, 3])
    return weighted(
        lexicon.TEMPLATES["review"],
        opening=opening(setting),
        brief=one_clause,
        body=body,
        stop=STOP,
    )


REVIEWS = {domain: reviews(setting) for domain, setting in lexicon.SETTINGS.items()}
ALL_REVIEWS = Choice(list(REVIEWS.values()))
