"""The names that a cell uses before it assigns them, and those that it assigns. Pure: source text in, names out.

Both lists err towards too many (a name in one branch of an `if` counts): no name that the cell needs may be missing,
and a name that it certainly assigns first is not sent (such as a connection that the cell opens itself).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Transform = Callable[[str], str]
"""From a cell as it was typed, magics and all, to plain Python."""


_DEEPEST = 3
"""The depth to which nested magics are read."""


@dataclass(frozen=True, slots=True)
class Names:
    """`needs`: names in order of first use that the cell may read before it assigns them; `assigns`: all it assigns.

    `changes`: those whose items or attributes it changes (`a[i] = …`, `a.b += …`, `a.append(…)`).

    `opaque` is true where the cell does something that its text does not show (`exec`, `from x import *`, a magic).
    """

    needs: tuple[str, ...]
    assigns: frozenset[str]
    changes: frozenset[str]
    opaque: bool


def names_of(source: str, transform: Transform) -> Names:
    """Read a cell. Raises `SyntaxError` as Python does."""
    return _read(source, transform, depth=0)


def _read(source: str, transform: Transform, depth: int) -> Names:
    reading = _Reading(transform, depth)
    reading.block(ast.parse(transform(source)).body, set())
    return Names(tuple(reading.needs), frozenset(reading.assigns), frozenset(reading.changes), reading.opaque)


class _Reading:
    """Walks statements in order with the set of names that certainly have a value by then."""

    def __init__(self, transform: Transform, depth: int) -> None:
        self.needs: dict[str, None] = {}
        self.assigns: set[str] = set()
        self.changes: set[str] = set()
        self.opaque = False
        self._transform = transform
        self._depth = depth

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], known: set[str]) -> set[str]:
        """Read statements in order; returns the names that certainly have a value after them."""
        for statement in body:
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: set[str]) -> set[str]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._use(node, known)
                return known | self._give({node.name})
            case ast.If():
                self._use(node.test, known)
                known = known | self._walrus(node.test)
                return self.block(node.body, known) & self.block(node.orelse, known)
            case ast.For() | ast.AsyncFor():
                self._use(node.iter, known)
                self.block(node.body, known | self._targets(node.target, known))
                self.block(node.orelse, known)
                return known
            case ast.While():
                self._use(node.test, known)
                self.block(node.body, known | self._walrus(node.test))
                self.block(node.orelse, known)
                return known
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._use(item.context_expr, known)
                    known = known | self._walrus(item.context_expr)
                    if item.optional_vars is not None:
                        known = known | self._targets(item.optional_vars, known)
                return self.block(node.body, known)
            case ast.Try() | ast.TryStar():
                after = self.block(node.body, known)
                for handler in node.handlers:
                    if handler.type is not None:
                        self._use(handler.type, known)
                    named = self._give({handler.name}) if handler.name else set()
                    self.block(handler.body, known | named)
                self.block(node.orelse, after)
                return self.block(node.finalbody, known if node.handlers else after)
            case ast.Match():
                self._use(node.subject, known)
                for case in node.cases:
                    bound = self._give(_bound(case.pattern))
                    self._use(case.pattern, known)
                    if case.guard is not None:
                        self._use(case.guard, known | bound)
                    self.block(case.body, known | bound)
                return known
            case ast.Import() | ast.ImportFrom():
                given = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
                self.opaque |= "*" in given
                return known | self._give(given - {"*"})
            case ast.AugAssign():
                self._use(node.value, known)
                if isinstance(node.target, ast.Name):
                    self._need(node.target.id, known)
                return known | self._targets(node.target, known)
            case ast.Delete():
                for target in node.targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            self._need(part.id, known)
                return known - {target.id for target in node.targets if isinstance(target, ast.Name)}
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if isinstance(node, ast.AnnAssign):
                    self._use(node.annotation, known)
                    if node.value is None:
                        return known
                if node.value is not None:
                    self._use(node.value, known)
                    known = known | self._walrus(node.value)
                for target in targets:
                    known = known | self._targets(target, known)
                return known
            case _:
                self._use(node, known)
                return known | self._walrus(node)

    def _targets(self, target: ast.expr, known: set[str]) -> set[str]:
        """The names that an assignment gives a value; what its targets read (`a[i].b = …`) is used."""
        self._use(target, known)
        self.changes |= {_root(n) for n in ast.walk(target) if isinstance(getattr(n, "ctx", None), ast.Store)} - {""}
        return self._give({n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})

    def _walrus(self, node: ast.AST) -> set[str]:
        given = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        self._give(given)
        return given if isinstance(node, ast.NamedExpr) else set()

    def _give(self, names: set[str]) -> set[str]:
        self.assigns |= names
        return names

    # -- uses -----------------------------------------------------------------------------------------------

    def _use(self, node: ast.AST, known: set[str]) -> None:
        """Every name that `node` reads, however deep, unless it is its own."""
        for name in _free(node, self.assigns):
            self._need(name, known)
        for part in ast.walk(node):
            match part:
                case ast.Call():
                    self._call(part, known)
                case ast.Attribute(value=ast.Name(id="__main__")):
                    self._need(part.attr, known)

    def _need(self, name: str, known: set[str]) -> None:
        if name not in known:
            self.needs.setdefault(name)

    def _call(self, call: ast.Call, known: set[str]) -> None:
        match call.func:
            case ast.Name(id="exec" | "eval" | "globals" | "locals" | "vars"):
                self.opaque = True
                for text in _texts(call.args[:1]):
                    self._text(text, known)
            case ast.Attribute(attr="append" | "extend" | "update"):
                self.changes |= {_root(call.func)} - {""}
            case ast.Attribute(attr="query" | "eval"):
                for text in _texts(call.args):
                    for name in in_query(text):
                        self._need(name, known)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython"))):
                self.opaque = True
                names_a_magic = call.func.attr in ("run_line_magic", "run_cell_magic")
                for text in _texts(call.args[names_a_magic:]):
                    self._text(text, known)

    def _text(self, text: str, known: set[str]) -> None:
        """The text of a magic or shell command: possibly Python code, or text with `{expressions}` and `$names`."""
        if self._depth == _DEEPEST:
            return
        for piece in (text, *_pieces(text)):
            try:
                inner = _read(piece, self._transform, self._depth + 1)
            except SyntaxError:
                continue
            for name in inner.needs:
                self._need(name, known)
            self.assigns |= inner.assigns


def _root(node: ast.AST) -> str:
    """The name whose content `a[i].b` is; empty where it is something else's."""
    inner = node
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    return inner.id if inner is not node and isinstance(inner, ast.Name) else ""


def in_query(text: str) -> list[str]:
    """The variables in the text of a pandas query: `df.query("loss < @best")`."""
    return re.findall(r"@([A-Za-z_]\w*)", text)


def _texts(arguments: Iterable[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def _pieces(text: str) -> Iterator[str]:
    for match in re.finditer(r"\{([^{}]+)\}|\$\{?([A-Za-z_]\w*)", text):
        yield match[1] or match[2]
    # Options first (`%timeit -n 3 f(x)`, `%time f(x)`): what is left after each word may be code.
    words = text.split(" ")
    for index in range(1, min(len(words), 8)):
        if words[index - 1].startswith("-") or words[index - 1].isdigit():
            yield " ".join(words[index:])


def _free(node: ast.AST, assigns: set[str]) -> Iterator[str]:
    """Names that `node` reads from the namespace around it, in order; names that it declares `global` and assigns are
    added."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            arguments = node.args
            outer: list[ast.AST] = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
            own = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
            own |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
            inner: list[ast.AST]
            if isinstance(node, ast.Lambda):
                inner = [node.body]
            else:
                annotated = [a.annotation for a in ast.walk(arguments) if isinstance(a, ast.arg)]
                outer += [*node.decorator_list, *(a for a in (*annotated, node.returns) if a is not None)]
                inner = list(node.body)
            local, shared = _locals(inner)
            assigns |= shared
            for part in outer:
                yield from _free(part, assigns)
            for part in inner:
                yield from (name for name in _free(part, assigns) if name not in own | local)
        case ast.ClassDef():
            # A class body reads the namespace around it even for names it assigns later on.
            for part in (*node.decorator_list, *node.bases, *node.keywords, *node.body):
                yield from _free(part, assigns)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            for child in ast.iter_child_nodes(node):
                yield from (name for name in _free(child, assigns) if name not in own)
        case ast.Name(ctx=ast.Load()):
            yield node.id
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _free(child, assigns)


def _locals(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The local names of a function's body, and those that it declares `global`."""
    own: set[str] = set()
    shared: set[str] = set()
    for node in _same_scope(body):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                own.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                own.add(node.name)
            case ast.Import() | ast.ImportFrom():
                own |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            case ast.ExceptHandler(name=str(name)):
                own.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                own.add(name)
            case ast.MatchMapping(rest=str(name)):
                own.add(name)
            case ast.Global():
                shared |= set(node.names)
    return own - shared, shared


def _same_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _same_scope(ast.iter_child_nodes(node))


def _bound(pattern: ast.pattern) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(pattern):
        match node:
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found
