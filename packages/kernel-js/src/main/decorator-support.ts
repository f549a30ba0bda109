/** What the TypeScript transformer's output calls for legacy decorators, under the name that it expects. */
export const babelHelpers = {
  decorate: (
    decorators: ((...target: unknown[]) => unknown)[],
    target: object,
    key?: PropertyKey,
    described?: PropertyDescriptor | null,
  ): unknown => {
    if (key === undefined) {
      return decorators.reduceRight((decorated: unknown, decorator) => decorator(decorated) ?? decorated, target);
    }
    // `null` asks for the method's own descriptor; a property has none.
    const own = described === null ? Object.getOwnPropertyDescriptor(target, key) : described;
    const result = decorators.reduceRight<unknown>((current, decorator) => {
      return decorator(target, key, current) ?? current;
    }, own);
    if (result) Object.defineProperty(target, key, result);
    return result;
  },

  decorateParam: (index: number, decorator: (target: object, key: PropertyKey | undefined, index: number) => void) => {
    return (target: object, key: PropertyKey | undefined) => decorator(target, key, index);
  },
};
