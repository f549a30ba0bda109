/** A use of `AbortSignal.timeout`. */
export interface BareTimeout {
  readonly line: number;
  readonly text: string;
}

const USE =
  /\bAbortSignal\s*(?:\?\.|\.|(?:\?\.)?\[\s*['"`])\s*timeout\b|\{[^{}=]*\btimeout\b[^{}=]*\}\s*=\s*AbortSignal\b/g;

/**
 * Finds uses of `AbortSignal.timeout` outside of comments. Code uses a `Deadline` instead: it clears its timer when the
 * wait ends, follows the signal of the caller, and tells why the wait ended. Simulations can advance its time.
 */
export function findBareTimeouts(source: string): BareTimeout[] {
  const code = source.replaceAll(/\/\*.*?\*\/|(?<![:'"`])\/\/[^\n]*/gs, (comment) => comment.replaceAll(/[^\n]/g, ' '));
  return [...code.matchAll(USE)].map(({ 0: text, index }) => ({
    line: code.slice(0, index).split('\n').length,
    text: text.replaceAll(/\s+/g, ' '),
  }));
}
