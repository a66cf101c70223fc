/** A preview of a job's file, if it is a text or an image of limited size. */
import { useEffect, useState, type ReactElement } from 'react';
import type { OutputFile } from '../model/api';
import type { Client } from '../model/client';
import { useTrans } from './hooks';

/** In bytes. */
const MOST = 2 ** 20;
const PICTURES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif' };
const TEXTS = /\.(txt|log|md|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|py|sh)$/i;

function pictureOf(path: string): string | undefined {
  return PICTURES[path.split('.').at(-1)!.toLowerCase()];
}

export function canPreview({ path, size }: OutputFile): boolean {
  return size <= MOST && (TEXTS.test(path) || pictureOf(path) !== undefined);
}

export function Preview({ client, job, file }: { client: Client; job: string; file: OutputFile }): ReactElement {
  const trans = useTrans();
  const [seen, setSeen] = useState<{ text: string } | { address: string } | null>(null);
  const { path } = file;
  useEffect(() => {
    let current = true;
    let address: string | null = null;
    const read = async () => {
      const content = await client.file(job, path);
      const type = pictureOf(path);
      const text = type ? '' : await content.text();
      if (current) {
        // Only the file name decides: the content type comes from the job, and an HTML page would run scripts here.
        address = type ? URL.createObjectURL(content.slice(0, content.size, type)) : null;
        setSeen(address ? { address } : { text });
      }
    };
    read().catch((error: Error) => current && setSeen({ text: error.message }));
    return () => {
      current = false;
      if (address) {
        URL.revokeObjectURL(address);
      }
    };
  }, [client, job, path]);
  if (seen === null) {
    return <div className="runai-Hint">{trans.__('Loading %1…', path)}</div>;
  }
  return 'address' in seen ? (
    <img className="runai-Preview" src={seen.address} alt={path} />
  ) : (
    <pre className="runai-Preview" tabIndex={0} aria-label={path}>
      {seen.text}
    </pre>
  );
}
