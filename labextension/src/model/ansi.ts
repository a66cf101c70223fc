/**
 * The colours and emphasis of text on a terminal (ECMA-48, "select graphic rendition").
 *
 * JupyterLab renders such text only as a whole and each line anew. A log grows, and a carriage return overwrites parts
 * of a line in another colour, so that each part carries its style here. The class names are JupyterLab's.
 */

/** One of the 16 colours of the terminal, an RGB colour, or the default. */
type Colour = number | string | null;

export interface Style {
  readonly text: Colour;
  readonly background: Colour;
  readonly bold: boolean;
  readonly underline: boolean;
  readonly inverse: boolean;
}

export const PLAIN: Style = { text: null, background: null, bold: false, underline: false, inverse: false };

/** The style after a sequence with these parameters, like "1;31". Unknown codes change nothing. */
export function restyled(style: Style, parameters: string): Style {
  const codes = parameters.split(';').map(Number);
  while (codes.length) {
    style = changed(style, codes.shift()!, codes);
  }
  return Object.values(style).every(one => one === null || one === false) ? PLAIN : style;
}

/** `rest` are the codes that follow; those of an extended colour are removed. */
function changed(style: Style, code: number, rest: number[]): Style {
  switch (code) {
    case 0:
      return PLAIN;
    case 1:
    case 5:
      return { ...style, bold: true };
    case 4:
      return { ...style, underline: true };
    case 7:
      return { ...style, inverse: true };
    case 21:
    case 22:
      return { ...style, bold: false };
    case 24:
      return { ...style, underline: false };
    case 27:
      return { ...style, inverse: false };
    case 38:
      return { ...style, text: extended(rest) };
    case 39:
      return { ...style, text: null };
    case 48:
      return { ...style, background: extended(rest) };
    case 49:
      return { ...style, background: null };
  }
  const colour = code % 10;
  switch (colour < 8 ? code - colour : 0) {
    case 30:
      return { ...style, text: colour };
    case 40:
      return { ...style, background: colour };
    case 90:
      return { ...style, text: colour + 8 };
    case 100:
      return { ...style, background: colour + 8 };
  }
  return style;
}

/** The colour in the codes after 38 or 48: `5;n` of 256 colours, or `2;r;g;b`. */
function extended(codes: number[]): Colour {
  const kind = codes.shift();
  if (kind === 2) {
    return rgb(codes.splice(0, 3));
  }
  const index = kind === 5 ? codes.shift() : undefined;
  if (index === undefined || !(index >= 0 && index < 256)) {
    return null;
  }
  if (index < 16) {
    return index;
  }
  if (index >= 232) {
    return rgb(Array<number>(3).fill((index - 232) * 10 + 8));
  }
  // A cube of 6 × 6 × 6 colours.
  return rgb([36, 6, 1].map(size => Math.floor((index - 16) / size) % 6).map(level => level && 55 + level * 40));
}

function rgb(values: readonly number[]): Colour {
  return values.length === 3 && values.every(one => one >= 0 && one < 256) ? `rgb(${values.join(', ')})` : null;
}

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

export interface Looks {
  readonly className: string;
  readonly style: { readonly color?: string; readonly backgroundColor?: string };
}

/** The classes that JupyterLab's output area uses for the style, and the colours that have none. */
export function looks(style: Style): Looks {
  // As on most terminals, bold text has the intense variant of its colour.
  const bright = style.bold && typeof style.text === 'number' && style.text < 8 ? style.text + 8 : style.text;
  const [text, background] = style.inverse ? [style.background, bright] : [bright, style.background];
  const name = (colour: Colour, part: 'fg' | 'bg') =>
    typeof colour === 'number'
      ? `ansi-${NAMES[colour % 8]}${colour < 8 ? '' : '-intense'}-${part}`
      : colour === null && style.inverse && `ansi-default-inverse-${part}`;
  const classes = [
    name(text, 'fg'),
    name(background, 'bg'),
    style.bold && 'ansi-bold',
    style.underline && 'ansi-underline'
  ];
  return {
    className: classes.filter(Boolean).join(' '),
    style: {
      ...(typeof text === 'string' ? { color: text } : {}),
      ...(typeof background === 'string' ? { backgroundColor: background } : {})
    }
  };
}
