/**
 * Finds the cell that shows a card and continues its outputs when its kernel no longer writes them. The rules:
 * a page writes a cell's outputs only once, even in several views, and never while a kernel may write them.
 */
import type { Widget } from '@lumino/widgets';
import type { JobView } from '../model/api';
import { followOutputs, OutputWriter, type IOutputs, type Output } from '../model/outputs';
import { isFinal, type IPoolModel } from '../model/state';

/** The parts of JupyterLab's output area that are used here. */
interface IOutputArea {
  readonly model: IOutputs;
  readonly future?: { readonly isDisposed: boolean } | null;
}

type Data = Record<string, unknown>;

/** The outputs that this page writes. */
const writing = new WeakSet<IOutputs>();
const cards = new Set<Card>();

/** A card in a cell. */
interface Card {
  readonly id: string;
  readonly widget: Widget;
}

/** Watches a card while it is shown. Once started, it continues the outputs until the cell is removed. */
export class OutputContinuation {
  constructor(
    private readonly _card: Card,
    private readonly _model: IPoolModel,
    private readonly _mime: string,
    private readonly _more: string
  ) {
    cards.add(_card);
    this._timer = setInterval(() => this._look(), 1000);
  }

  dispose(): void {
    clearInterval(this._timer);
    cards.delete(this._card);
  }

  private _look(): void {
    const area = areaOf(this._card.widget);
    const job = this._model.state.jobs.get(this._card.id);
    if (area && job?.mine && !writing.has(area.model) && !followed(area.model)) {
      clearInterval(this._timer);
      void continueOutputs(area.model, job, this._model, this._mime, this._more);
    }
  }

  private readonly _timer: ReturnType<typeof setInterval>;
}

/** Writes everything that a job displays below its card, until the job ends or the cell is removed. */
async function continueOutputs(
  outputs: IOutputs,
  job: JobView,
  model: IPoolModel,
  mime: string,
  more: string
): Promise<void> {
  const place = placeOf(outputs, job.id, mime);
  if (place < 0) {
    return;
  }
  writing.add(outputs);
  const abort = new AbortController();
  let writer: OutputWriter | null = null;
  const now = () => model.state.jobs.get(job.id) ?? job;
  let seen = now();
  const look = () => {
    if (now() !== seen) {
      seen = now();
      model.client.written.ring([job.id]);
    }
  };
  model.stateChanged.connect(look);
  const standing = () => {
    // The cell was removed, run again or cleared.
    if (outputs.isDisposed || placeOf(outputs, job.id, mime) !== place) {
      abort.abort();
    }
    return { attempts: now().attempts.length, ended: isFinal(now().state) };
  };
  const write = (output: Output) => {
    // Wait for the first output: what the kernel wrote stays if the scheduler does not answer.
    writer ??= new OutputWriter(outputs, place + 1, more);
    writer.write(output);
  };
  if (await followOutputs(model.client, job.id, standing, write, abort.signal)) {
    finish(outputs, place, now(), mime);
  }
  model.stateChanged.disconnect(look);
  writing.delete(outputs);
}

/** The outputs of the cell that contains a widget; null for another view of them, or while there is no cell. */
function areaOf(widget: Widget): IOutputArea | null {
  for (let above: Widget | null = widget.parent; above; above = above.parent) {
    if ('outputArea' in above) {
      return above.outputArea as IOutputArea;
    }
  }
  return null;
}

/** Whether a kernel still writes the outputs, in any view of this page. */
function followed(outputs: IOutputs): boolean {
  return [...cards].some(card => {
    const area = areaOf(card.widget);
    return area?.model === outputs && !!area.future && !area.future.isDisposed;
  });
}

function placeOf(outputs: IOutputs, id: string, mime: string): number {
  return outputs.toJSON().findIndex(output => {
    const data = (output.data as Data | undefined)?.[mime] as Data | undefined;
    return data?.id === id && !!data.follows;
  });
}

/** Marks the card's outputs as complete. */
function finish(outputs: IOutputs, place: number, job: JobView, mime: string): void {
  const card = outputs.toJSON()[place];
  const text = `${job.name} (${job.id}) · ${job.project}: ${job.state}.`;
  outputs.set(place, { ...card, data: { [mime]: { id: job.id }, 'text/plain': text } });
}
