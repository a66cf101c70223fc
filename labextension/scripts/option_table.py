"""Write `src/model/options.ts`: the options that the dialog offers, made from `scheduler/submission/options.py`.

python labextension/scripts/option_table.py            write the file
python labextension/scripts/option_table.py --check    say whether it is up to date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from scheduler.submission import values
from scheduler.submission.options import Group, Interface, Offer, Option, of

TARGET = Path(__file__).parent.parent / "src" / "model" / "options.ts"

FIELDS = {
    values.TEXT: "text",
    values.MEMORY: "text",
    values.DURATION: "text",
    values.ARRAY: "text",
    values.SPACE: "text",
    values.AMOUNT: "number",
    values.COUNT: "number",
    values.WHOLE: "number",
    values.NAMES: "names",
    values.SWITCH: "switch",
    values.VARIABLES: "lines",
    values.PARAMETERS: "lines",
}
"""How a form asks for a kind of value; one of several choices is chosen."""

OFFERS = {Offer.PROJECT: "project", Offer.GPU_TYPE: "gpuType", Offer.NODE_POOL: "nodePool", Offer.JOB: "job"}
"""What the pool as the panel knows it can offer."""

HEAD = """\
// Made by scripts/option_table.py from scheduler/submission/options.py: change that file, not this one.

/** How a value is asked for. `lines`: an assignment on each line; `names`: with commas between them. */
export type FieldKind = 'text' | 'number' | 'names' | 'switch' | 'lines' | 'choice';

/** What the pool knows values of. */
export type OfferKind = 'project' | 'gpuType' | 'nodePool' | 'job';

/** An option of a submission. `standard` is what holds without it, in words or as a value. */
export interface SubmitOption {
  name: string;
  label: string;
  field: FieldKind;
  help: string;
  group: string;
  basic: boolean;
  example: string;
  standard: string;
  metavar: string;
  choices: readonly string[];
  offers: OfferKind | null;
}
"""


def described(option: Option) -> dict[str, Any]:
    title = option.group.value
    return {
        "name": option.name,
        "label": option.label,
        "field": "choice" if option.kind.choices else FIELDS[option.kind],
        "help": f"{option.help[:1].upper()}{option.help[1:]}.",
        "group": f"{title[:1].upper()}{title[1:]}",
        "basic": option.basic,
        "example": option.example,
        "standard": option.default,
        "metavar": option.metavar,
        "choices": list(option.kind.choices),
        "offers": OFFERS.get(option.offers) if option.offers else None,
    }


def literal(value: Any) -> str:
    """A value as prettier writes it in TypeScript."""
    if isinstance(value, str):
        quote = '"' if "'" in value and '"' not in value else "'"
        return quote + value.replace("\\", "\\\\") + quote
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value)


def render() -> str:
    order = list(Group)
    options = sorted(of(Interface.DIALOG), key=lambda option: order.index(option.group))
    parts = []
    for option in options:
        lines = [f"    {key}: {literal(value)}" for key, value in described(option).items()]
        parts.append("  {\n" + ",\n".join(lines) + "\n  }")
    return f"{HEAD}\nexport const OPTIONS: readonly SubmitOption[] = [\n" + ",\n".join(parts) + "\n];\n"


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET} is not what the options say: run python {Path(__file__).name}", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
