import { FilterBox } from '@jupyterlab/ui-components';
import type { PanelProps } from '../components/panel';
import type { Trans } from '../trans';

/** JupyterLab's own search box, for the panel. */
export function filterBox(trans: Trans): PanelProps['filterBox'] {
  return (query, change) => (
    <FilterBox
      placeholder={trans.__('Filter the jobs')}
      initialQuery={query}
      updateFilter={(_, typed) => change(typed ?? '')}
      useFuzzyFilter={false}
    />
  );
}
