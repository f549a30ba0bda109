/** A use of `AbortSignal.timeout`. */
export interface BareTimeout {
  readonly line: number;
  readonly text: string;
}

const USE =
  /\bAbortSignal\s*(?:\?\.|\.|(?:\?\.)?\[\s*['"`])\s*timeout\b|\{[^{}=]*\btimeout\b[^{}=]*\}\s*=\s*AbortSignal\b/g;

/**
 * Finds uses of `AbortSignal.timeout` outside of comments. A `Deadline` bounds a wait in its place: its timer ends with
 * the wait, it passes on the signal of its caller, it says why the wait ended, and simulations can move its time.
 */
export function findBareTimeouts(source: string): BareTimeout[] {
  const code = source.replaceAll(/\/\*.*?\*\/|(?<![:'"`])\/\/[^\n]*/gs, (comment) => comment.replaceAll(/[^\n]/g, ' '));
  return [...code.matchAll(USE)].map(({ 0: text, index }) => ({
    line: code.slice(0, index).split('\n').length,
    text: text.replaceAll(/\s+/g, ' '),
  }));
}
