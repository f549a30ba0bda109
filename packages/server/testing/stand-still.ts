/** A server that stands still between two awaits, as one whose process or machine is paused. */
export interface Standstill {
  /** Resolves when the server stands still. */
  readonly reached: Promise<void>;
  readonly goOn: () => void;
}

type Methods<Name extends string> = Record<Name, (...args: never[]) => Promise<unknown>>;

/** Makes the next call of a method stand still before it begins, or when it has its result. */
export function standStill<Name extends string>(
  when: 'before' | 'after',
  target: Methods<NoInfer<Name>>,
  name: Name,
): Standstill {
  const [reached, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const original = target[name];
  const wait = () => {
    reached.resolve();
    return goesOn.promise;
  };
  target[name] = async (...args) => {
    target[name] = original;
    if (when === 'before') await wait();
    const result = await original.apply(target, args);
    if (when === 'after') await wait();
    return result;
  };
  return { reached: reached.promise, goOn: goesOn.resolve };
}
