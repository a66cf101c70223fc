/** What goes along with a cell: a sentence, all variables where it leaves some out, and what cannot go along. */
import type { ReactElement } from 'react';
import { alongInWords, isShortened, sizeInWords, type Along } from '../model/along';
import type { SubmissionState } from '../model/submission';
import { useTrans } from './hooks';

export function GoesAlong({ along }: { along: SubmissionState['along'] }): ReactElement {
  const trans = useTrans();
  return (
    <div className="runai-Along" aria-live="polite">
      {along === 'waiting' && (
        <div className="runai-Field-help">{trans.__('What goes along is known once the kernel is idle.')}</div>
      )}
      {along && along !== 'waiting' && 'problem' in along && <div className="runai-Field-problem">{along.problem}</div>}
      {along && along !== 'waiting' && 'variables' in along && <Found along={along} />}
    </div>
  );
}

function Found({ along }: { along: Along }): ReactElement {
  const trans = useTrans();
  return (
    <>
      <div className="runai-Field-help">{alongInWords(along, trans)}</div>
      {isShortened(along) && (
        <details>
          <summary>{trans.__('All %1 variables', along.variables.length)}</summary>
          <table>
            <thead>
              <tr>
                <th scope="col">{trans.__('Variable')}</th>
                <th scope="col">{trans.__('Type')}</th>
                <th scope="col">{trans.__('Size')}</th>
              </tr>
            </thead>
            <tbody>
              {along.variables.map(variable => (
                <tr key={variable.name}>
                  <td>{variable.name}</td>
                  <td>{variable.type}</td>
                  <td>{sizeInWords(variable, trans)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
      {along.refused.map(sentence => (
        <div key={sentence} className="runai-Field-problem">
          {sentence}
        </div>
      ))}
    </>
  );
}
