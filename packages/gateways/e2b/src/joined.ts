import { setImmediate } from 'node:timers/promises';

const LATER = Symbol();

/** Joins texts that follow each other without a pause, so that a client reads them at once. Delays none of them. */
export async function* joined(texts: AsyncGenerator<string>): AsyncGenerator<string> {
  const advance = () => {
    const next = texts.next();
    // A failure is thrown when its turn comes, after the texts before it.
    next.catch(() => undefined);
    return next;
  };
  try {
    for (let next = advance(), isOver = false; !isOver; ) {
      let text = '';
      for (let result: IteratorResult<string> | typeof LATER = await next; result !== LATER; ) {
        if (result.done) {
          isOver = true;
          break;
        }
        text += result.value;
        next = advance();
        result = await Promise.race([next, setImmediate(LATER)]).catch(() => LATER);
      }
      if (text !== '') yield text;
    }
  } finally {
    await texts.return(undefined);
  }
}
