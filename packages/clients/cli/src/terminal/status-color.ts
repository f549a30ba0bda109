import type { Colors } from './terminal.ts';

const COLOR_OF: Readonly<Record<string, 'green' | 'yellow' | 'cyan' | 'red' | 'dim'>> = {
  ready: 'green',
  idle: 'green',
  enabled: 'green',
  succeeded: 'green',
  exited: 'green',
  delivered: 'green',
  creating: 'yellow',
  starting: 'yellow',
  queued: 'yellow',
  pending: 'yellow',
  running: 'cyan',
  failed: 'red',
  timed_out: 'red',
  canceled: 'dim',
  killed: 'dim',
  expiring: 'dim',
  destroyed: 'dim',
  deleted: 'dim',
  disabled: 'dim',
};

/** Returns the colour of a status: green is well, yellow waits, blue runs, red failed, and what has ended is dim. */
export function statusColor(status: string, colors: Colors): (text: string) => string {
  const color = Object.hasOwn(COLOR_OF, status) ? COLOR_OF[status] : undefined;
  return color === undefined ? (text) => text : colors[color];
}
