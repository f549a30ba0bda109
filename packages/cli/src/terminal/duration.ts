const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND, m: MINUTE, min: MINUTE, h: HOUR, d: DAY };

/** `500ms`, `90s`, `10m`, `1h30m`, `2d` in milliseconds; undefined for anything else, a bare number among it. */
export function parseDuration(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|min|m|h|d))+$/.test(text)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)([a-z]+)/g)) {
    totalMs += Number(amount) * (UNITS[unit ?? ''] ?? Number.NaN);
  }
  return Math.round(totalMs);
}

/** For people: `320 ms`, `45 s`, `59 min`, `1 h 30 min`, `3 d`. Rounded down, so that it never promises too much. */
export function formatDuration(durationMs: number): string {
  const ms = Math.max(0, durationMs);
  if (ms < SECOND) return `${Math.floor(ms)} ms`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return withRest(Math.floor(ms / HOUR), 'h', Math.floor((ms % HOUR) / MINUTE), 'min');
  return withRest(Math.floor(ms / DAY), 'd', Math.floor((ms % DAY) / HOUR), 'h');
}

/** `3 min ago`; a clock that is ahead of the service's says `0 ms ago`. */
export function formatAge(timestamp: string, now = Date.now()): string {
  return `${formatDuration(now - Date.parse(timestamp))} ago`;
}

/** Time left until `timestamp`. */
export function formatLeft(timestamp: string, now = Date.now()): string {
  return formatDuration(Date.parse(timestamp) - now);
}

function withRest(whole: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${restUnit}`;
}
