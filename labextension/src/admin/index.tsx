import { createRoot } from 'react-dom/client';
import { PoolModel } from '../model/pool';
import '../../style/admin.css';
import { PoolPage } from './page';
import { ServiceTransport } from './transport';

const RELOADED = 'runai-reloaded';

/** Reloads the page so that the hub signs the user in again, but at most once a minute. */
function signIn(): void {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - last > 60_000) {
    sessionStorage.setItem(RELOADED, String(Date.now()));
    location.reload();
  }
}

const host = document.getElementById('runai-admin');
if (host) {
  const model = new PoolModel(new ServiceTransport(host.dataset.baseUrl ?? '/services/runai/', signIn), {}, true);
  model.start();
  createRoot(host).render(<PoolPage model={model} />);
}
