import { createRoot } from 'react-dom/client';
import { PoolModel } from '../model/pool';
import '../../style/admin.css';
import { PoolPage } from './page';
import { ServiceTransport } from './transport';

const host = document.getElementById('runai-admin');
if (host) {
  const model = new PoolModel(new ServiceTransport(host.dataset.baseUrl ?? '/services/runai/'));
  model.start();
  createRoot(host).render(<PoolPage model={model} />);
}
