/** The files in a job's output folder, with previews and downloads. */
import { useEffect, useState, type ReactElement } from 'react';
import type { JobView, OutputFile } from '../model/api';
import type { Client } from '../model/client';
import { bytes } from '../model/format';
import { useTrans } from './hooks';
import { canPreview, Preview } from './preview';

/** Files that the runner of a cell writes for the notebook are hidden. */
const INTERNAL = '.runai-cell/';

export function Files({ client, job }: { client: Client; job: JobView }): ReactElement {
  const trans = useTrans();
  const [files, setFiles] = useState<readonly OutputFile[] | string | null>(null);
  const [open, setOpen] = useState<string | null>(null);
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
    // Read again when the job's state changes.
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
          {canPreview(file) && (
            <button
              type="button"
              className="runai-Link"
              aria-expanded={open === file.path}
              aria-label={trans.__('Preview %1', file.path)}
              onClick={() => setOpen(open === file.path ? null : file.path)}
            >
              {open === file.path ? trans.__('Hide') : trans.__('Preview')}
            </button>
          )}
          {open === file.path && <Preview client={client} job={id} file={file} />}
        </li>
      ))}
    </ul>
  );
}
