import type { CurrentSandboxMetrics } from '@cloche/sdk';

export const ORDERS = ['cpu', 'memory', 'disk', 'sent', 'received', 'id'] as const;
export type Order = (typeof ORDERS)[number];

/** State of the screen of `cloche top`, and the change that each key makes to it. */
export interface TopState {
  readonly view: 'list' | 'one' | 'help' | 'filter' | 'confirm';
  readonly order: Order;
  /** Only sandboxes whose id contains this text are shown. */
  readonly filter: string;
  /** Id of the selected sandbox, or of the one in the detail view. Undefined: the first one of the list. */
  readonly selectedId?: string | undefined;
  /** Whether there is only the detail view (`cloche top SANDBOX`), so that leaving it ends the program. */
  readonly isOnlyOne: boolean;
}

export type TopAction = 'quit' | 'destroy' | undefined;

const VALUES: Readonly<Record<Exclude<Order, 'id'>, (one: CurrentSandboxMetrics) => number>> = {
  cpu: ({ now }) => now.cpu,
  memory: ({ now }) => now.memoryBytes,
  disk: ({ now }) => now.diskBytes ?? 0,
  sent: ({ now }) => now.networkBytes.egress,
  received: ({ now }) => now.networkBytes.ingress,
};

/** Returns the sandboxes that the list shows, the largest first. */
export function shownRows(
  data: readonly CurrentSandboxMetrics[],
  { order, filter }: Pick<TopState, 'order' | 'filter'>,
): CurrentSandboxMetrics[] {
  const found = data.filter(({ sandboxId }) => sandboxId.includes(filter));
  if (order === 'id') return found.toSorted((one, other) => (one.sandboxId < other.sandboxId ? -1 : 1));
  const value = VALUES[order];
  return found.toSorted((one, other) => value(other) - value(one) || other.now.memoryBytes - one.now.memoryBytes);
}

/** Returns the state after a key, and the action that the key asks for. */
export function pressed(state: TopState, key: string, ids: readonly string[]): { state: TopState; action?: TopAction } {
  if (key === 'interrupt') return { state, action: 'quit' };
  const back = { ...state, view: state.isOnlyOne ? ('one' as const) : ('list' as const) };
  switch (state.view) {
    case 'help':
      return { state: back };
    case 'filter':
      return { state: typed(state, key) };
    case 'confirm':
      return key === 'y' || key === 'Y' ? { state: back, action: 'destroy' } : { state: back };
    case 'one':
      if (key === 'q' || (key === 'escape' && state.isOnlyOne)) return { state, action: 'quit' };
      if (key === 'escape' || key === 'enter' || key === 'backspace') return { state: back };
      return { state: common(state, key) };
    case 'list':
      if (key === 'q' || key === 'Q' || key === 'escape') return { state, action: 'quit' };
      return { state: common(inList(state, key, ids), key) };
  }
}

function common(state: TopState, key: string): TopState {
  if (key === '?') return { ...state, view: 'help' };
  if (key === 'k' && state.selectedId !== undefined) return { ...state, view: 'confirm' };
  return state;
}

function inList(state: TopState, key: string, ids: readonly string[]): TopState {
  const at = Math.max(0, ids.indexOf(state.selectedId ?? ''));
  const select = (index: number) => ({ ...state, selectedId: ids[Math.min(Math.max(0, index), ids.length - 1)] });
  switch (key) {
    case 'up':
      return select(at - 1);
    case 'down':
      return select(at + 1);
    case 'enter':
      return ids.length === 0 ? state : { ...select(at), view: 'one' };
    case 'k':
      return ids.length === 0 ? { ...state, selectedId: undefined } : select(at);
    case 's':
      return { ...state, order: ORDERS[(ORDERS.indexOf(state.order) + 1) % ORDERS.length] ?? 'cpu' };
    case '/':
      return { ...state, view: 'filter' };
    default:
      return state;
  }
}

function typed(state: TopState, key: string): TopState {
  if (key === 'enter') return { ...state, view: 'list' };
  if (key === 'escape') return { ...state, view: 'list', filter: '' };
  if (key === 'backspace') return { ...state, filter: state.filter.slice(0, -1) };
  return /^[0-9a-z_]$/.test(key) ? { ...state, filter: (state.filter + key).slice(0, 30) } : state;
}
