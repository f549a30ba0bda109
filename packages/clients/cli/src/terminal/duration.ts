const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND, m: MINUTE, min: MINUTE, h: HOUR, d: DAY };

/**
 * Parses durations such as `500ms`, `90s`, `10m`, `1h30m` and `2d` into milliseconds. Returns undefined for other text,
 * including a bare number.
 */
export function parseDuration(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|min|m|h|d))+$/.test(text)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)([a-z]+)/g)) {
    totalMs += Number(amount) * (UNITS[unit ?? ''] ?? Number.NaN);
  }
  return Math.round(totalMs);
}

/**
 * Formats a duration for people: `320 ms`, `45 s`, `59 min`, `1 h 30 min`, `3 d`. Rounds down.
 */
export function formatDuration(durationMs: number): string {
  const ms = Math.max(0, durationMs);
  if (ms < SECOND) return `${Math.floor(ms)} ms`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return withRest(Math.floor(ms / HOUR), 'h', Math.floor((ms % HOUR) / MINUTE), 'min');
  return withRest(Math.floor(ms / DAY), 'd', Math.floor((ms % DAY) / HOUR), 'h');
}

/** Returns an age such as `3 min ago`; `0 ms ago` if the local clock is behind the service's. */
export function formatAge(timestamp: string, now = Date.now()): string {
  return `${formatDuration(now - Date.parse(timestamp))} ago`;
}

/** Returns the time left until `timestamp`, to the nearest unit: a moment after it was set to 30 min, these are left. */
export function formatLeft(timestamp: string, now = Date.now()): string {
  const leftMs = Date.parse(timestamp) - now;
  const unit = leftMs < MINUTE ? SECOND : leftMs < DAY ? MINUTE : HOUR;
  return leftMs < SECOND ? formatDuration(leftMs) : formatDuration(Math.round(leftMs / unit) * unit);
}

/** Returns the time left with the time of day of the end, such as `30 min (15:42)`. */
export function formatEnd(timestamp: string, now = Date.now()): string {
  return `${formatLeft(timestamp, now)} (${formatTime(timestamp, now).replace(/:\d\d$/, '')})`;
}

/** Returns the local time: `15:42:07` for today, else `2026-01-31 15:42:07`. */
export function formatTime(timestamp: string, now = Date.now()): string {
  const [day, time] = dayAndTime(new Date(timestamp));
  return day === dayAndTime(new Date(now))[0] ? time : `${day} ${time}`;
}

function dayAndTime(date: Date): [day: string, time: string] {
  const two = (value: number) => String(value).padStart(2, '0');
  return [
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`,
    [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':'),
  ];
}

function withRest(whole: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${restUnit}`;
}
