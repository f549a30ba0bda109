/** Helpers for legacy decorators. The TypeScript transformer's output calls them under this name. */
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
    // `null` means the method's own descriptor. A property has none.
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
