"""The names that a cell needs from the notebook, read from its text."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_ext.names import names_of

TRANSFORM = TransformerManager().transform_cell

NEEDS = {
    "x + y": "x y",
    "x = 1\nx + y": "y",
    "x += 1": "x",
    "x = x + 1": "x",
    "conn = connect()\nconn.execute(q)": "connect q",
    "if a:\n    b = 1\nb": "a b",
    "if a:\n    b = 1\nelse:\n    b = 2\nb": "a",
    "for i in r:\n    s = i\ns": "r s",
    "for i in r:\n    s = i\n    s + t": "r t",
    "while (n := step()):\n    print(n)": "step print",
    "with open(p) as f:\n    text = f.read()\ntext": "open p",
    "try:\n    a = f()\nexcept E as e:\n    print(e)\na": "f E print a",
    "try:\n    a = f()\nfinally:\n    g()\na": "f g",
    "[i * k for i in r if i > m]": "r k m",
    "sum(i for i in r)": "sum r",
    "{k: v for k, v in d.items()}": "d",
    "def f(a, b=c):\n    d = a\n    return d + e\nf(1)": "c e",
    "def f():\n    global g\n    g = h\nf()": "h",
    "lambda a: a + b": "b",
    "class A(B):\n    c = d\n    def m(self):\n        return self.e + f": "B d f",
    "@decorate(n)\ndef f(): ...": "decorate n",
    "def f(a: T) -> R: ...": "T R",
    "import numpy as np\nnp.zeros(n)": "n",
    "from m import a\na(b)": "b",
    "a.b.c = d": "d a",
    "a[i] = v": "v a i",
    "del a\na = 1": "a",
    "a: int = b": "int b",
    "match v:\n    case {'k': k}:\n        k + u": "v u",
    "f'{a:{w}}'": "a w",
    "(a := b) + a": "b a",
    "await f(x)": "f x",
    "async with s as t:\n    async for u in t: u": "s",
    "x, *rest = y\nrest": "y",
    "df.query('v < @limit and w == @other')": "df limit other",
    "limit = 1\ndf.query('v < @limit')": "df",
    "send('me@example')": "send",
    "eval('a + b')": "eval a b",
}
"""A cell, and the names it needs (built-in ones too: what is in the notebook decides)."""


@pytest.mark.parametrize("cell", NEEDS)
def test_a_cell_needs_what_it_reads_before_it_assigns_it(cell: str) -> None:
    assert set(names_of(cell, TRANSFORM).needs) == set(NEEDS[cell].split())


@pytest.mark.parametrize(
    ("cell", "needs"),
    [
        ("%time f(x)", {"f", "x"}),
        ("%timeit -n 3 f(x)", {"f", "x"}),
        ("!echo {x} $y", {"x", "y"}),
        ("files = !ls {folder}", {"folder"}),
        ("%%time\ny = f(x)", {"f", "x"}),
        ("%%capture out\nprint(x)", {"x"}),
        ("?x", set()),
    ],
)
def test_magics_are_read_too(cell: str, needs: set[str]) -> None:
    assert needs <= set(names_of(cell, TRANSFORM).needs)


def test_what_a_cell_assigns() -> None:
    cell = """
a, (b, *c) = 1, (2, 3)
for d in []: e = 1
with x as f: pass
def g(): global h; h = 1
class i: j = 1
import k.l
from m import n as o
try: pass
except E as p: pass
if (q := 1): r: int = 2
"""
    assert names_of(cell, TRANSFORM).assigns == set("abcdefghikopqr")


@pytest.mark.parametrize(
    ("cell", "changes"),
    [
        ("df['z'] = df.x * 2", {"df"}),
        ("a.b.c[0] += 1", {"a"}),
        ("for step in steps:\n    losses.append(step)", {"losses"}),
        ("config.update(lr=1)", {"config"}),
        ("f().x = 1\nx = y[0]\nprint(z.append)", set()),
        ("x = {}\nx['a'] = 1", {"x"}),
        ("def f():\n    own = []\n    own.append(1)", {"own"}),
    ],
)
def test_what_a_cell_changes_in_place(cell: str, changes: set[str]) -> None:
    assert names_of(cell, TRANSFORM).changes == changes


def test_what_its_text_does_not_show() -> None:
    assert names_of("exec(code)", TRANSFORM).opaque
    assert names_of("from m import *", TRANSFORM).opaque
    assert names_of("%run other.py", TRANSFORM).opaque
    assert not names_of("a = b", TRANSFORM).opaque


def test_what_is_not_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        names_of("x y", TRANSFORM)
