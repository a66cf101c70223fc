/** The files that a job has left in its output folder, to be downloaded. */
import { useEffect, useState, type ReactElement } from 'react';
import type { JobView, OutputFile } from '../model/api';
import type { Client } from '../model/client';
import { bytes } from '../model/format';
import { useTrans } from './hooks';

/** What the runner of a cell leaves for the notebook is not for people. */
const INTERNAL = '.runai-cell/';

export function Files({ client, job }: { client: Client; job: JobView }): ReactElement {
  const trans = useTrans();
  const [files, setFiles] = useState<readonly OutputFile[] | string | null>(null);
  const { id, state } = job;
  useEffect(() => {
    let current = true;
    client.files(id).then(
      found => current && setFiles(found.filter(file => !file.path.startsWith(INTERNAL))),
      (error: Error) => current && setFiles(error.message)
    );
    return () => {
      current = false;
    };
    // Asked again when the job has gone on to another state.
  }, [client, id, state]);
  if (files === null || typeof files === 'string') {
    return <div className="runai-Hint">{files ?? trans.__('Loading the files…')}</div>;
  }
  if (!files.length) {
    return <div className="runai-Hint">{trans.__('The output folder is empty.')}</div>;
  }
  return (
    <ul className="runai-Files" aria-label={trans.__('Files of %1', job.name)}>
      {files.map(file => (
        <li key={file.path}>
          <a href={client.fileAddress(id, file.path) ?? undefined} download>
            {file.path}
          </a>
          <span className="runai-Aside">{bytes(file.size, trans)}</span>
        </li>
      ))}
    </ul>
  );
}
