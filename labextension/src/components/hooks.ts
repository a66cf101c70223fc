/** Hooks that every view uses: texts, the pool's state, the time, and a stable layout under the pointer. */
import type { ISignal } from '@lumino/signaling';
import {
  createContext,
  startTransition,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type RefObject
} from 'react';
import type { JobView } from '../model/api';
import { isFinal, type IPoolModel, type PoolState } from '../model/state';
import { plain, type Trans } from '../trans';

export const TransContext = createContext<Trans>(plain);

export function useTrans(): Trans {
  return useContext(TransContext);
}

export function usePool(model: IPoolModel): PoolState {
  return useChanging(model.stateChanged, () => model.state);
}

/** What `read` returns, again after each signal; it must return the same object while nothing has changed. */
export function useChanging<S, T>(signal: ISignal<S, unknown>, read: () => T): T {
  return useSyncExternalStore(
    useCallback(
      changed => {
        signal.connect(changed);
        return () => {
          signal.disconnect(changed);
        };
      },
      [signal]
    ),
    read
  );
}

/** The time in seconds since the epoch, updated every second; a long list is rendered in slices, between frames. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => startTransition(() => setNow(Date.now() / 1000)), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

const RESTING = 4000;

/**
 * Whether the pointer is active inside the element. After a few seconds without movement it counts as inactive, and
 * lists may change again.
 */
function usePointer(ref: RefObject<HTMLElement>): boolean {
  const [inside, setInside] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leave = () => {
      clearTimeout(timer);
      startTransition(() => setInside(false)); // it renders all that was held back
    };
    const move = () => {
      clearTimeout(timer);
      timer = setTimeout(leave, RESTING);
      setInside(true);
    };
    element.addEventListener('pointermove', move);
    element.addEventListener('pointerdown', move);
    element.addEventListener('pointerleave', leave);
    return () => {
      clearTimeout(timer);
      element.removeEventListener('pointermove', move);
      element.removeEventListener('pointerdown', move);
      element.removeEventListener('pointerleave', leave);
    };
  }, [ref]);
  return inside;
}

/** Keeps the value from the moment when `held` became true, until it becomes false or `asked` changes. */
export function useFrozen<T>(value: T, held: boolean, asked?: unknown): T {
  const kept = useRef({ value, asked });
  const still = held && kept.current.asked === asked;
  useLayoutEffect(() => {
    if (!still) {
      kept.current = { value, asked };
    }
  });
  return still ? kept.current.value : value;
}

/**
 * While `held`, every `[data-still]` that is rendered inside keeps its height, so that longer texts move nothing. One
 * that `grows` is exempt: it has no targets below it, and is shown in full.
 */
function useKeptHeights(ref: RefObject<HTMLElement>, held: boolean): void {
  useLayoutEffect(() => {
    const elements = held ? ref.current?.querySelectorAll<HTMLElement>('[data-still]') : undefined;
    const still = [...(elements ?? [])].filter(isRendered).map(element => ({ element, height: element.offsetHeight }));
    for (const { element, height } of still) {
      const grows = element.dataset.still === 'grows';
      element.style[grows ? 'minHeight' : 'height'] = `${height}px`;
      element.style.overflow = grows ? '' : 'hidden';
    }
    return () => {
      for (const { element } of still) {
        element.style.height = element.style.minHeight = element.style.overflow = '';
      }
    };
  }, [ref, held]);
}

/** Not a row of a long list that is scrolled out of view: the browser lays it out when it comes into view. */
function isRendered(element: HTMLElement): boolean {
  return element.checkVisibility?.({ contentVisibilityAuto: true }) ?? true;
}

/**
 * The focused element may disappear, like the button that cancelled a job. The focus then moves to the element that
 * matches `next` instead of being lost to the page. The handlers belong to the container.
 */
export function useKeptFocus(ref: RefObject<HTMLElement>, next: string): { onFocus: () => void; onBlur: () => void } {
  // React fires no blur event when it removes the focused element itself.
  const within = useRef(false);
  useLayoutEffect(() => {
    if (within.current && document.activeElement === document.body) {
      within.current = false;
      ref.current?.querySelector<HTMLElement>(next)?.focus({ preventScroll: true });
    }
  });
  return {
    onFocus: () => {
      within.current = true;
    },
    onBlur: () => {
      within.current = false;
    }
  };
}

/** Whether lists keep their order and rows for now, because the pointer is active on their page. */
export const StillContext = createContext(false);

/** Keeps the content of the element in place while the pointer is active on it. Its value goes into `StillContext`. */
export function useStill(ref: RefObject<HTMLElement>): boolean {
  const busy = usePointer(ref);
  useKeptHeights(ref, busy);
  return busy;
}

/** Keeps the queue positions of waiting jobs, and the GPU use of my running ones, up to date while they are shown. */
export function useShown(model: IPoolModel, jobs: readonly JobView[]): void {
  const ids = jobs
    .filter(job => job.state === 'queued' || (job.mine && !isFinal(job.state) && job.state !== 'paused'))
    .map(job => job.id)
    .join();
  useEffect(() => (ids ? model.show(ids.split(',')) : undefined), [model, ids]);
}
