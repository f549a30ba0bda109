/** A server that stands still between two awaits, as one whose process or machine is paused. */
export interface Standstill<Args> {
  /** Resolves when the server stands still, with the arguments of the call. */
  readonly reached: Promise<Args>;
  readonly goOn: () => void;
}

type Methods<Name extends string> = Record<Name, (...args: never[]) => Promise<unknown>>;

/** Makes the next call of a method stand still before it begins, or when it has its result. */
export function standStill<Name extends string, Target extends Methods<Name>>(
  when: 'before' | 'after',
  target: Target,
  name: Name,
): Standstill<Parameters<Target[Name]>> {
  const [reached, goesOn] = [Promise.withResolvers<Parameters<Target[Name]>>(), Promise.withResolvers<void>()];
  const methods: Methods<Name> = target;
  const original = methods[name];
  methods[name] = async (...args) => {
    const wait = () => {
      reached.resolve(args as Parameters<Target[Name]>);
      return goesOn.promise;
    };
    methods[name] = original;
    if (when === 'before') await wait();
    const result = await original.apply(target, args);
    if (when === 'after') await wait();
    return result;
  };
  return { reached: reached.promise, goOn: goesOn.resolve };
}
