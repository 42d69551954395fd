"""The solution with one small thing changed, of the kinds that happen, to see which gives the results.

Tried where no conceptual mistake of the exercise fits. What is said is a fact: the results are those of
the right function with one text in place of another.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from helpers.kit.exercise import Exercise

INSTEAD = {  # a name → what is written for it
    "mean": ["sum"], "sum": ["mean", "cumsum"], "minimum": ["maximum"], "maximum": ["minimum"],
    "amax": ["amin"], "prod": ["sum"],
    "min": ["max"], "max": ["min"], "log_softmax": ["softmax"], "logsigmoid": ["sigmoid"],
    "sigmoid": ["tanh"], "log": ["exp"],
    "argmax": ["argmin"], "zeros_like": ["ones_like"], "square": ["abs"], "SGD": ["Adam", "AdamW"],
    "no_grad": ["enable_grad"], "sorted": ["list"], "ones": ["zeros"],
}  # fmt: skip
DROPPED = {  # a call x.name(…) → x alone
    "exp", "log", "sqrt", "square", "abs", "detach", "flip", "cumsum", "clamp", "clip", "roll", "float",
    "masked_fill", "log_softmax", "softmax", "sigmoid", "unsqueeze", "neg", "rsqrt", "mean",
}  # fmt: skip


class Change(NamedTuple):
    """A small change: its kind, what to say, whose source it is of, and that source with the change."""

    kind: str
    says: str
    name: str
    source: str


@cache
def mutations(exercise: Exercise) -> list[Change]:
    """The changes of the solution, and of the exercises that it calls; made once, when first needed."""
    found = []
    for name in (exercise.name, *exercise.used):
        one = exercise.used.get(name, exercise)
        tree = ast.parse(one.solution)
        for where, node in enumerate(ast.walk(tree)):
            for kind, new in (*changes(node), *other_names(node, one.names)):
                changed = copy.deepcopy(tree)
                at = next(x for k, x in enumerate(ast.walk(changed)) if k == where)
                source = ast.unparse(ast.fix_missing_locations(replaced(changed, at, new)))
                found.append(Change(kind, sentence(node, new), name, source))
    return found


def compiled(exercise: Exercise, change: Change) -> Callable:
    """The exercise's solution with the changed source of one of its functions."""
    if change.name == exercise.name:
        return exercise.compiled(change.source)
    called = {change.name: exercise.used[change.name].compiled(change.source)}
    return exercise.compiled(exercise.solution, **called)


def sentence(old: ast.AST, new: ast.AST | None) -> str:
    """What was changed, as two texts."""
    text = ast.unparse(old)
    if new is None:
        return f"The solution without `{text}` gives your results: has it no effect in yours?"
    return f"The solution gives your results if `{ast.unparse(new)}` stands where `{text}` belongs."


def replaced(tree: ast.AST, at: ast.AST, new: ast.AST | None) -> ast.AST:
    """The tree with another node in this place; a statement may go."""

    class Put(ast.NodeTransformer):
        def visit(self, node):
            if node is at:
                return ast.Pass() if new is None else new
            return self.generic_visit(node)

    return Put().visit(tree)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """The changes of one node of the solution: (kind, what stands there then)."""
    if isinstance(node, ast.BinOp):
        yield from of_operation(node)
    elif isinstance(node, ast.UnaryOp):
        kind = {ast.USub: "wrong sign", ast.Invert: "mask inverted"}.get(type(node.op))
        if kind and not isinstance(node.operand, ast.Constant):
            yield kind, node.operand
    elif isinstance(node, ast.Call):
        yield from of_call(node)
    elif isinstance(node, ast.Attribute) and node.attr in INSTEAD:
        for name in INSTEAD[node.attr]:
            yield f"{name} for {node.attr}", ast.Attribute(node.value, name, node.ctx)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        for other in (node.value - 1, node.value + 1):
            yield "one too many or too few", ast.Constant(other)
    elif isinstance(node, ast.Return) and node.value is not None:
        for end in ("round()", "abs()", "exp()", "log()", "sqrt()", "softmax(-1)", "mean()"):
            yield f"right, then {end}", ast.Return(expression(f"({ast.unparse(node.value)}).{end}"))
    elif isinstance(node, ast.Slice):
        yield from of_slice(node)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "a line is missing", None
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}.get(
            type(node.ops[0])
        )
        if other:
            yield "the boundary", ast.Compare(node.left, [other()], node.comparators)


def other_names(node: ast.AST, arguments: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    """Another argument in place of this one."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in arguments:
        for name in arguments:
            if name != node.id:
                yield f"{name} for {node.id}", ast.Name(name, ast.Load())


def expression(source: str) -> ast.AST:
    """The tree of one expression."""
    return ast.parse(source, mode="eval").body


def of_operation(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    """A term or factor missing, sides exchanged, another operation."""
    left, right, op = node.left, node.right, node.op
    if isinstance(op, ast.Sub):
        yield "wrong sign", ast.BinOp(right, op, left)
        yield "wrong sign", ast.BinOp(left, ast.Add(), right)
        yield "a term is missing", left
        yield "a term is missing", ast.UnaryOp(ast.USub(), right)
        yield "a difference is missing", right
        for factor in (2, 0.5):
            yield "a factor too many", ast.BinOp(ast.Constant(factor), ast.Mult(), node)
    elif isinstance(op, ast.Add):
        yield "wrong sign", ast.BinOp(left, ast.Sub(), right)
        yield "a term is missing", left
        yield "a term is missing", right
    elif isinstance(op, ast.Mult):
        yield "a factor is missing", left
        yield "a factor is missing", right
        yield "divided in place of multiplied", ast.BinOp(left, ast.Div(), right)
    elif isinstance(op, (ast.Div, ast.FloorDiv)):
        yield "not divided", left
        yield "multiplied in place of divided", ast.BinOp(left, ast.Mult(), right)
        yield "divided the other way round", ast.BinOp(right, op, left)
    elif isinstance(op, ast.Pow):
        yield "the power is missing", left
    elif isinstance(op, (ast.BitAnd, ast.BitOr)):
        yield "a condition is missing", left
        yield "a condition is missing", right


def of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """A call dropped, its arguments in another order, another axis, a keyword left out."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method in ("sum", "numel") or ast.unparse(node.func) == "len":
        yield "one too few", ast.BinOp(node, ast.Sub(), ast.Constant(1))
    if method in ("arange", "range") and len(node.args) == 1:
        for op in (ast.Add(), ast.Sub()):
            yield (
                "one step off",
                ast.Call(node.func, [ast.BinOp(node.args[0], op, ast.Constant(1))], []),
            )
    if method in DROPPED and isinstance(node.func, ast.Attribute):
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"):
            yield f"{method} is missing", node.func.value
        elif node.args:
            yield f"{method} is missing", node.args[0]
    if method == "mean" and not node.args:
        yield "the first alone", ast.Subscript(node.func.value, ast.Constant(0), ast.Load())
        inner, text = node.func.value, ast.unparse(node.func.value)
        yield "divided by n − 1", expression(f"({text}).sum() / (({text}).numel() - 1)")
        if isinstance(inner, ast.Call) and len(inner.args) == 1:
            first = expression(f"({ast.unparse(inner.args[0])}).mean()")
            yield "the mean taken too early", ast.Call(inner.func, [first], inner.keywords)
    if method in ("SGD", "Adam"):
        for setting in ("momentum=0.9", "weight_decay=0.1", "weight_decay=0.01"):
            words = expression(f"f({setting})").keywords
            yield setting, ast.Call(node.func, node.args, [*node.keywords, *words])
    if method == "where" and len(node.args) == 3:
        yield (
            "padding counted" if "mask" in ast.unparse(node.args[0]) else "not chosen",
            node.args[1],
        )
        yield (
            "the cases exchanged",
            ast.Call(node.func, [node.args[0], *node.args[:0:-1]], node.keywords),
        )
    elif len(node.args) == 2:
        yield "arguments exchanged", ast.Call(node.func, node.args[::-1], node.keywords)
    for k, x in enumerate(node.args):
        for axis in other_axes(x):
            args = [*node.args[:k], ast.Constant(axis), *node.args[k + 1 :]]
            yield "another axis", ast.Call(node.func, args, node.keywords)
    for k, word in enumerate(node.keywords):
        for axis in other_axes(word.value):
            words = [
                *node.keywords[:k],
                ast.keyword(word.arg, ast.Constant(axis)),
                *node.keywords[k + 1 :],
            ]
            yield "another axis", ast.Call(node.func, node.args, words)
        rest = [*node.keywords[:k], *node.keywords[k + 1 :]]
        yield f"{word.arg} is not given", ast.Call(node.func, node.args, rest)


def other_axes(x: ast.AST) -> list[int]:
    """Other axes, where a number may be one."""
    return {"0": [1], "1": [0], "-1": [0, 1], "2": [1]}.get(ast.unparse(x), [])


def of_slice(node: ast.Slice) -> Iterator[tuple[str, ast.AST]]:
    """One place further, or all."""
    bounds = tuple(x and ast.unparse(x) for x in (node.lower, node.upper))
    other = {("1", None): (None, ast.UnaryOp(ast.USub(), ast.Constant(1))),
             (None, "-1"): (ast.Constant(1), None)}.get(bounds)  # fmt: skip
    if other:
        yield "one place off", ast.Slice(*other)
    if any(bounds):
        yield "not cut", ast.Slice()
