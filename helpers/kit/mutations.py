"""The solution with one small thing changed, of the kinds that happen, to see which gives the results.

Tried where no conceptual mistake of the exercise fits. What is said is a fact: the results are those of
the right function with one text in place of another.
"""

import ast
import copy
from collections.abc import Iterator
from functools import cache

from helpers.kit.exercise import Change, Exercise

INSTEAD = {  # a name → what is written for it
    "mean": ["sum"], "sum": ["mean", "cumsum"], "minimum": ["maximum"], "maximum": ["minimum"],
    "amax": ["amin"], "prod": ["sum"], "min": ["max"], "max": ["min"], "log_softmax": ["softmax"],
    "logsigmoid": ["sigmoid"], "sigmoid": ["tanh"], "log": ["exp"], "argmax": ["argmin"],
    "zeros_like": ["ones_like"], "square": ["abs"], "SGD": ["Adam", "AdamW"],
    "no_grad": ["enable_grad"], "sorted": ["list"], "ones": ["zeros"],
}  # fmt: skip
DROPPED = {  # a call x.name(…) → x alone
    "exp", "log", "sqrt", "square", "abs", "detach", "flip", "cumsum", "clamp", "clip", "roll", "float",
    "masked_fill", "log_softmax", "softmax", "sigmoid", "unsqueeze", "neg", "rsqrt", "mean",
}  # fmt: skip
DIVISIONS = {
    "not divided": ["{l}"],
    "multiplied in place of divided": ["{l} * {r}"],
    "divided the other way round": ["{r} / {l}"],
}
OPERATIONS = {  # a sign → kinds, and what is written for l and r with this sign between them
    ast.Sub: {
        "wrong sign": ["{r} - {l}", "{l} + {r}"],
        "a term is missing": ["{l}", "-{r}"],
        "a difference is missing": ["{r}"],
        "a factor too many": ["2 * ({l} - {r})", "0.5 * ({l} - {r})"],
    },
    ast.Add: {"wrong sign": ["{l} - {r}"], "a term is missing": ["{l}", "{r}"]},
    ast.Mult: {
        "a factor is missing": ["{l}", "{r}"],
        "divided in place of multiplied": ["{l} / {r}"],
    },
    ast.Div: DIVISIONS,
    ast.FloorDiv: DIVISIONS,
    ast.Pow: {"the power is missing": ["{l}"]},
    ast.BitAnd: {"a condition is missing": ["{l}", "{r}"]},
    ast.BitOr: {"a condition is missing": ["{l}", "{r}"]},
}
SIGNS = {ast.USub: "wrong sign", ast.Invert: "mask inverted"}
BOUNDARIES = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
ENDS = ("round()", "abs()", "exp()", "log()", "sqrt()", "softmax(-1)", "mean()")
AXES = {"0": ["1"], "1": ["0"], "-1": ["0", "1"], "2": ["1"]}  # an axis → others
Kinds = Iterator[tuple[str, str]]  # the kind of change, what is written


@cache
def mutations(exercise: Exercise) -> list[Change]:
    """The changes of the solution, and of the exercises that it calls; made once, when first needed."""
    found = []
    for name, one in ({exercise.name: exercise} | exercise.used).items():
        tree = ast.parse(one.solution)
        for node in ast.walk(tree):
            for kind, text in (*changes(node), *other_names(node, one.names)):
                new = parsed(text, node)
                found.append(Change(kind, sentence(node, new), name, put(tree, node, new)))
    return found


def sentence(old: ast.AST, new: ast.AST) -> str:
    """What was changed, as two texts."""
    text = ast.unparse(old)
    if isinstance(new, ast.Pass):
        return f"The solution without `{text}` gives your results: has it no effect in yours?"
    return f"The solution gives your result here if `{ast.unparse(new)}` stands where `{text}` belongs."


def parsed(text: str, old: ast.AST) -> ast.AST:
    """The tree of a text that stands in a node's place."""
    if isinstance(old, ast.Slice):
        return ast.parse(f"x[{text}]").body[0].value.slice
    line = ast.parse(text).body[0]
    return line if isinstance(old, ast.stmt) else line.value


def put(tree: ast.AST, old: ast.AST, new: ast.AST) -> str:
    """The source of a tree with another node in place of one of its own."""
    memo = {id(old): new}  # what deepcopy holds to be the copy of `old`
    return ast.unparse(copy.deepcopy(tree, memo))


def changes(node: ast.AST) -> Kinds:
    """The changes of one node of the solution: (kind, what stands there then)."""
    if isinstance(node, ast.BinOp):
        both = {"l": f"({ast.unparse(node.left)})", "r": f"({ast.unparse(node.right)})"}
        for kind, texts in OPERATIONS.get(type(node.op), {}).items():
            yield from ((kind, text.format(**both)) for text in texts)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        if type(node.op) in SIGNS:
            yield SIGNS[type(node.op)], ast.unparse(node.operand)
    elif isinstance(node, ast.Call):
        yield from of_call(node)
    elif isinstance(node, ast.Attribute):
        for name in INSTEAD.get(node.attr, ()):
            yield f"{name} for {node.attr}", f"({ast.unparse(node.value)}).{name}"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        for other in (node.value - 1, node.value + 1):
            yield "one too many or too few", str(other)
    elif isinstance(node, ast.Return) and node.value is not None:
        for end in ENDS:
            yield f"right, then {end}", f"return ({ast.unparse(node.value)}).{end}"
    elif isinstance(node, ast.Slice):
        other = {"1:": ":-1", ":-1": "1:"}.get(ast.unparse(node))
        yield from [("one place off", other)] if other else []
        yield from [("not cut", ":")] if node.lower or node.upper else []
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "a line is missing, or has no effect", "pass"
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in BOUNDARIES:
        sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "the boundary", f" {BOUNDARIES[type(node.ops[0])]} ".join(sides)


def other_names(node: ast.AST, arguments: tuple[str, ...]) -> Kinds:
    """Another argument in place of this one."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in arguments:
        yield from ((f"{name} for {node.id}", name) for name in arguments if name != node.id)


def of_call(node: ast.Call) -> Kinds:
    """A call dropped, its arguments in another order, another axis, a keyword left out."""
    whole, name = ast.unparse(node), ast.unparse(node.func)
    before, _, method = name.rpartition(".")
    args, words = [ast.unparse(x) for x in node.args], [ast.unparse(x) for x in node.keywords]

    def call(args: list[str], words: list[str] = words) -> str:
        return f"{name}({', '.join([*args, *words])})"

    if method in ("sum", "numel", "len"):
        yield "one too few", f"{whole} - 1"
    if method in ("arange", "range") and len(args) == 1:
        yield from (("one step off", call([f"{args[0]} {sign} 1"])) for sign in "+-")
    alone = [before] if before not in ("", "torch") else args[:1]
    if method in DROPPED and alone:
        yield f"{method} has no effect", alone[0]
    if method == "mean" and not args:
        yield "the first alone", f"({before})[0]"
        yield "divided by n − 1", f"({before}).sum() / (({before}).numel() - 1)"
        if isinstance(inner := node.func.value, ast.Call) and len(inner.args) == 1:
            more = "".join(f", {ast.unparse(x)}" for x in inner.keywords)
            first = f"({ast.unparse(inner.args[0])}).mean()"
            yield "the mean taken too early", f"{ast.unparse(inner.func)}({first}{more})"
        elif before.endswith("[mask]"):
            of_each = f"torch.where(mask, {before[:-6]}, 0.0).sum(1) / mask.sum(1)"
            yield "the mean of each response first", f"({of_each}).mean()"
    if method in ("SGD", "Adam"):
        for setting in ("momentum=0.9", "weight_decay=0.1", "weight_decay=0.01"):
            yield setting, call(args, [*words, setting])
    if method == "where" and len(args) == 3:
        yield "padding counted" if "mask" in args[0] else "not chosen", args[1]
        yield "the cases exchanged", call([args[0], args[2], args[1]])
    elif len(args) == 2:
        yield "arguments exchanged", call(args[::-1])
    for k, x in enumerate(args):
        for axis in AXES.get(x, ()):
            yield "another axis", call([*args[:k], axis, *args[k + 1 :]])
    for k, word in enumerate(words):
        option, _, x = word.partition("=")
        for axis in AXES.get(x, ()):
            yield "another axis", call(args, [*words[:k], f"{option}={axis}", *words[k + 1 :]])
        yield f"{option} is not given", call(args, [*words[:k], *words[k + 1 :]])
