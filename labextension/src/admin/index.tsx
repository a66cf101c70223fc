import { createRoot } from 'react-dom/client';
import { PoolModel } from '../model/pool';
import '../../style/admin.css';
import { PoolPage } from './page';
import { ServiceTransport } from './transport';

const RELOADED = 'runai-reloaded';

/** The hub signs its user in again without asking: on the way through a reload, though not again and again. */
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
