/** Returns the status of a sandbox for people: one that is paused is `idle` to the service. */
export function statusText({
  status,
  paused,
}: {
  readonly status: string;
  readonly paused?: object | undefined;
}): string {
  return paused ? `${status} (paused)` : status;
}
