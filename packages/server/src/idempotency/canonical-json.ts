import { hash } from 'node:crypto';

/** JSON whose object keys are sorted, so that neither order nor white space of the original shows. Takes JSON values. */
export function canonicalJson(value: unknown): string {
  // Asked about each value, JSON takes several times as long.
  return isCanonical(value) ? JSON.stringify(value) : JSON.stringify(value, sortedKeys);
}

/** Whether it is an object of plain values, as most bodies are, whose keys come sorted. */
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
  // Numeric names come first in every object, so two objects of the same names agree on their order.
  const entries = names.sort().map((name) => [name, (value as Record<string, unknown>)[name]]);
  return Object.fromEntries(entries);
}

function isSorted(names: readonly string[]): boolean {
  for (let index = 1; index < names.length; index++) {
    if ((names[index - 1] as string) > (names[index] as string)) return false;
  }
  return true;
}

/** What tells one request body from another, hex. */
export function hashBody(body: unknown): string {
  return hash('sha256', canonicalJson(body ?? {}), 'hex');
}
