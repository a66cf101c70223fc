/** Requests to the user's own server whose errors are sentences for a field. */
import { errorOf, PoolError, UNREACHABLE, type ITransport } from './transport';

/** An error and its field; null if it concerns no single field. */
export interface Refusal {
  field: string | null;
  sentence: string;
}

/** Throws a `PoolError`. */
export async function asked<A>(server: ITransport, path: string, init: RequestInit): Promise<A> {
  let response: Response;
  try {
    response = await server.send(path, init);
  } catch (reason) {
    throw reason instanceof PoolError ? reason : new PoolError(UNREACHABLE);
  }
  if (!response.ok) {
    throw await errorOf(response);
  }
  return (await response.json()) as A;
}

export function refusalOf(error: PoolError): Refusal {
  return { field: error.field, sentence: error.message };
}
