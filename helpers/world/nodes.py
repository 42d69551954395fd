"""Weighted finite grammars of three kinds of node: sample a text, compute the probability of one.

A node is `Words` (fixed tokens), `Sequence` (parts in order) or `Choice` (weighted alternatives).
There is no recursion, so a sentence has finitely many derivations, and the sum over them gives the
exact probability of a text (the inside algorithm, memoised). Each node has

    node.sample(rng)                 -> list of tokens
    node.ends(tokens, start, memo)   -> {end: P(node yields tokens[start:end])} of all possible ends

and `first` (tokens it can begin with), `nullable` (whether it can be empty), `longest` (the maximum
number of tokens) and `vocabulary` (every token that can occur).
"""


class Words:
    """Fixed tokens, possibly none, with probability 1."""

    def __init__(self, text):
        self.tokens = text.split()
        self.first = frozenset(self.tokens[:1])
        self.nullable = not self.tokens
        self.longest = len(self.tokens)
        self.vocabulary = frozenset(self.tokens)

    def sample(self, rng):
        return list(self.tokens)

    def ends(self, tokens, start, memo):
        end = start + self.longest
        return {end: 1.0} if tokens[start:end] == self.tokens else {}


class Sequence:
    """Parts one after the other, sampled independently."""

    def __init__(self, parts):
        self.parts = parts
        self.first, self.nullable = frozenset(), True
        for part in parts:
            if self.nullable:  # everything before this part can be empty
                self.first |= part.first
            self.nullable = self.nullable and part.nullable
        self.longest = sum(part.longest for part in parts)
        self.vocabulary = frozenset().union(*(part.vocabulary for part in parts))

    def sample(self, rng):
        return [token for part in self.parts for token in part.sample(rng)]

    def ends(self, tokens, start, memo):
        reached, length = {start: 1.0}, len(tokens)
        for part in self.parts:
            further = {}
            for middle, before in reached.items():
                if middle < length and tokens[middle] not in part.first and not part.nullable:
                    continue  # the part cannot begin with this token
                for end, inside in part.ends(tokens, middle, memo).items():
                    further[end] = further.get(end, 0.0) + before * inside
            if not further:
                return further
            reached = further
        return reached


class Choice:
    """One of several nodes, with probabilities from weights above 0; without weights all are as likely."""

    def __init__(self, nodes, weights=None):
        self.nodes = nodes
        weights = weights or [1] * len(nodes)
        self.probabilities = [weight / sum(weights) for weight in weights]
        self.first = frozenset().union(*(node.first for node in nodes))
        self.nullable = any(node.nullable for node in nodes)
        self.longest = max(node.longest for node in nodes)
        self.vocabulary = frozenset().union(*(node.vocabulary for node in nodes))
        options = list(zip(self.probabilities, nodes, strict=True))
        self.otherwise = [(p, node) for p, node in options if node.nullable]
        # most alternatives cannot begin with the next token: this table makes parsing fast
        self.options_by_token = {
            token: [(p, node) for p, node in options if token in node.first or node.nullable]
            for token in self.first
        }

    def sample(self, rng):
        return rng.choices(self.nodes, self.probabilities)[0].sample(rng)

    def ends(self, tokens, start, memo):
        key = (id(self), start)
        if key not in memo:
            token = tokens[start] if start < len(tokens) else None
            found = {}
            for probability, node in self.options_by_token.get(token, self.otherwise):
                for end, inside in node.ends(tokens, start, memo).items():
                    found[end] = found.get(end, 0.0) + probability * inside
            memo[key] = found
        return memo[key]


def phrase(template, **slots):
    """A node from a template: in "the {noun} was", the slot is the node given as `noun=`."""
    parts = []
    for i, piece in enumerate(template.replace("}", "{").split("{")):
        if i % 2:
            parts.append(slots[piece])
        elif piece.strip():
            parts.append(Words(piece))
    return parts[0] if len(parts) == 1 else Sequence(parts)


def weighted(alternatives, **slots):
    """A choice from {template: weight}."""
    return Choice([phrase(text, **slots) for text in alternatives], list(alternatives.values()))


def one_of(text, **slots):
    """A uniform choice among templates separated by "/"."""
    return Choice([phrase(template, **slots) for template in text.split("/")])


def maybe(probability, node):
    """The node with this probability, else no tokens."""
    return Choice([node, Words("")], [probability, 1 - probability])


def even(words):
    """A uniform choice among single words, from any iterable."""
    return one_of("/".join(words))
