/** A loop in a test that may wait for ever. */
export interface UnboundedWait {
  readonly line: number;
  readonly text: string;
}

/**
 * Finds loops that poll with no limit: `while (…)` or `for (;;)` whose body awaits nothing else, or awaits a timer.
 * Not counted are loops that end by themselves, over the clock or beside a promise that sets `isOver`, and loops that
 * yield, which end with their reader.
 */
export function findUnboundedWaits(source: string): UnboundedWait[] {
  return [...source.matchAll(/\b(while|for) \(/g)].flatMap(({ 0: start, 1: keyword, index }) => {
    const head = upToClosing(source, index + start.length - 1);
    const bodyAt = index + start.length - 1 + head.length + 1;
    const isBlock = source[bodyAt] === '{';
    const body = isBlock ? upToClosing(source, bodyAt) : source.slice(bodyAt, source.indexOf(';', bodyAt));
    const isEndless = keyword === 'while' || /^\([^;]*;\s*;/.test(head);
    if (!isEndless || /performance\.now|Date\.now|!isOver/.test(head) || /\byield\b/.test(body)) return [];
    const polls = /\bawait (?:new Promise\b[^;]*\b)?(?:delay|sleep|setTimeout|setImmediate|turn|nextTurn|settle)\(/;
    const waits = isBlock ? polls.test(head + body) : /^await\b/.test(body) || polls.test(head);
    return waits ? [{ line: source.slice(0, index).split('\n').length, text: `${start}${head.slice(1)}` }] : [];
  });
}

/** Returns the text from the bracket at `start` to the bracket that closes it. */
function upToClosing(source: string, start: number): string {
  let depth = 0;
  for (let index = start; index < source.length; index++) {
    if ('({'.includes(source[index] ?? '')) depth++;
    if (')}'.includes(source[index] ?? '') && --depth === 0) return source.slice(start, index + 1);
  }
  return source.slice(start);
}
