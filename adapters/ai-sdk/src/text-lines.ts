/** Returns the lines from `first` to `last`, counted from 1. A `last` behind the end means the end. */
export function linesOf(text: string, first = 1, last = Number.POSITIVE_INFINITY): string {
  const [ending = '\n'] = /\r\n|\n|\r/.exec(text) ?? [];
  return text
    .split(ending)
    .slice(Math.max(first, 1) - 1, Math.max(last, 0))
    .join(ending);
}
