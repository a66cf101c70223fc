/** What every view needs: the texts, the pool's state, the time, and stillness under the pointer. */
import {
  createContext,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type RefObject
} from 'react';
import type { JobView, PoolView } from '../model/api';
import type { IPoolModel, PoolState } from '../model/state';
import { plain, type Trans } from '../trans';

export const TransContext = createContext<Trans>(plain);

export function useTrans(): Trans {
  return useContext(TransContext);
}

export function usePool(model: IPoolModel): PoolState {
  return useSyncExternalStore(
    changed => {
      model.stateChanged.connect(changed);
      return () => {
        model.stateChanged.disconnect(changed);
      };
    },
    () => model.state
  );
}

/** The time in seconds since the epoch, new each second. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

const RESTING = 4000;

/**
 * Whether the pointer is at work inside the element. A pointer that has not moved for a few seconds is at rest: then
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
      setInside(false);
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

/** The value as it was when `held` began, for as long as it lasts. */
export function useFrozen<T>(value: T, held: boolean): T {
  const kept = useRef(value);
  useLayoutEffect(() => {
    if (!held) {
      kept.current = value;
    }
  });
  return held ? kept.current : value;
}

/**
 * While `held`, every `[data-still]` inside keeps the height it has, so that longer texts move nothing; one that `grows`
 * has nothing below it that is pointed at, and is read in full.
 */
function useKeptHeights(ref: RefObject<HTMLElement>, held: boolean): void {
  useLayoutEffect(() => {
    const elements = held ? ref.current?.querySelectorAll<HTMLElement>('[data-still]') : undefined;
    const still = [...(elements ?? [])].map(element => ({ element, height: element.offsetHeight }));
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

/**
 * What had the keyboard's focus inside the element may go away, as the button that ended a job does: the focus then goes to
 * what answers to `next`, and is not lost to the page. The handlers belong to the element.
 */
export function useKeptFocus(ref: RefObject<HTMLElement>, next: string): { onFocus: () => void; onBlur: () => void } {
  // React tells of no blur where it takes an element away itself.
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

/** Whether lists keep their order and their rows for now: the pointer is at work on the page that they are part of. */
export const StillContext = createContext(false);

/** Keeps everything inside the element where it is while the pointer is at work there; its value goes into `StillContext`. */
export function useStill(ref: RefObject<HTMLElement>): boolean {
  const busy = usePointer(ref);
  useKeptHeights(ref, busy);
  return busy;
}

/** Keeps the places in line of the jobs that wait up to date while they are shown. */
export function useShown(model: IPoolModel, jobs: readonly JobView[]): void {
  const ids = jobs
    .filter(job => job.state === 'queued')
    .map(job => job.id)
    .join();
  useEffect(() => (ids ? model.show(ids.split(',')) : undefined), [model, ids]);
}

const USAGE = 10_000;

/** Keeps the use of the GPUs fresh while the element can be seen, where anybody measures it. */
export function useUsage(ref: RefObject<HTMLElement>, model: IPoolModel, state: PoolState): void {
  const measured = state.connection === 'live' && isMeasured(state.pool);
  useEffect(() => {
    if (!measured) {
      return;
    }
    const timer = setInterval(() => {
      if (ref.current?.offsetParent && !document.hidden) {
        model.refresh();
      }
    }, USAGE);
    return () => clearInterval(timer);
  }, [ref, model, measured]);
}

function isMeasured(pool: PoolView | null): boolean {
  return !!pool?.nodes.some(node => node.gpus.some(gpu => gpu.utilisation !== null));
}
