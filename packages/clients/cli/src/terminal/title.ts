/** Keep the title on the terminal's own stack, and take it back from there. */
const KEEP = '\u001b[22;0t';
const TAKE_BACK = '\u001b[23;0t';

/** Gives the window of the terminal a title, until disposed. */
export function titled(title: string): Disposable {
  const isTerminal = process.stdout.isTTY === true && process.env.TERM !== 'dumb';
  if (!isTerminal) return { [Symbol.dispose]() {} };
  process.stdout.write(`${KEEP}\u001b]2;${title}\u0007`);
  return {
    [Symbol.dispose]() {
      process.stdout.write(TAKE_BACK);
    },
  };
}
