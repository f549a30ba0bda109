/**
 * Returns JSON with sorted object keys and without white space, so that equal values give equal text. `value` must be a
 * JSON value.
 */
export function canonicalJson(value: unknown): string {
  // With a replacer function, `JSON.stringify` takes several times as long.
  return isCanonical(value) ? JSON.stringify(value) : JSON.stringify(value, sortedKeys);
}

/** Whether `value` is an object of primitive values with sorted keys, as most bodies are. */
function isCanonical(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  let last = '';
  for (const name of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[name];
    if (name < last || (typeof field === 'object' && field !== null)) return false;
    last = name;
  }
  return true;
}

function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const names = Object.keys(value);
  if (isSorted(names)) return value;
  // Objects list integer keys first, so two objects with the same keys still agree on their order.
  const entries = names.sort().map((name) => [name, (value as Record<string, unknown>)[name]]);
  return Object.fromEntries(entries);
}

function isSorted(names: readonly string[]): boolean {
  for (let index = 1; index < names.length; index++) {
    if ((names[index - 1] as string) > (names[index] as string)) return false;
  }
  return true;
}
