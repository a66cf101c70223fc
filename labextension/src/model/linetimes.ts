/** When the last lines of a log were written, from the lengths that the log had at different times. */

const NEWLINE = 10;

export class LineTimes {
  constructor(private readonly _most: number) {}

  /** Seconds since the epoch, by the number of the line, which counts from the first line of the log. */
  get times(): ReadonlyMap<number, number> {
    return this._times;
  }

  /** Adds the next bytes of the log. */
  push(bytes: Uint8Array): void {
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) {
      this._end(this._size + at + 1);
    }
    this._size += bytes.length;
  }

  /** The log is complete: its last line may end without a line break. */
  close(): void {
    if (this._size > this._ended) {
      this._end(this._size);
    }
  }

  /** The offset from which times are missing; null if every line has its time. */
  get missing(): number | null {
    const [first] = this._ends.values();
    return first === undefined ? null : first - 1;
  }

  /** Adds lengths with their times, both ascending, from `missing` on. */
  know(lengths: readonly (readonly [number, number])[]): void {
    const times = new Map(this._times);
    let next = 0;
    for (const [line, end] of this._ends) {
      while (next < lengths.length && lengths[next]![0] < end) {
        next++;
      }
      if (next === lengths.length) {
        break;
      }
      times.set(line, lengths[next]![1]);
      this._ends.delete(line);
    }
    for (const line of times.keys()) {
      if (line < this._line - this._most) {
        times.delete(line);
      }
    }
    this._times = times;
  }

  private _end(offset: number): void {
    this._ended = offset;
    this._ends.set(this._line++, offset);
    this._ends.delete(this._line - 1 - this._most);
  }

  /** The ends of the lines without a time, in bytes, by line. */
  private _ends = new Map<number, number>();
  private _times: ReadonlyMap<number, number> = new Map();
  private _line = 0;
  /** The end of the last line, in bytes. */
  private _ended = 0;
  private _size = 0;
}
