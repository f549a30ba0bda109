import { inspect } from 'node:util';

/** The forms of one output: values by MIME type; see `KernelOutput`. */
export type Forms = Record<string, unknown>;

/**
 * Name of a method (without arguments, possibly asynchronous) that returns how to show its value: `{ mimeType: value
 * }`.
 */
export const DISPLAY = Symbol.for('cloche.display');

/** Name of the same method in libraries for other JavaScript kernels. */
const JUPYTER_DISPLAY = Symbol.for('Jupyter.display');

const MAX_JSON_NODES = 10_000;
const MAX_JSON_CHARACTERS = 64 * 1024;

/** Returns the forms of a value. Runs user code: getters, `toJSON`, custom inspection. */
export async function render(value: unknown): Promise<Forms> {
  const custom = customDisplay(value);
  if (custom) return toForms(await custom());
  return renderPlain(value);
}

export function renderPlain(value: unknown): Forms {
  const text = inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: 100_000, breakLength: 80 });
  const json = isContainer(value) && isPlainJson(value, { left: MAX_JSON_NODES }) ? value : undefined;
  if (json === undefined || JSON.stringify(json).length > MAX_JSON_CHARACTERS) return { 'text/plain': text };
  return { 'text/plain': text, 'application/json': json };
}

/** Returns a function that calls the value's own display method, if it has one. */
export function customDisplay(value: unknown): (() => unknown) | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return;
  for (const symbol of [DISPLAY, JUPYTER_DISPLAY]) {
    const method: unknown = Reflect.get(value, symbol);
    if (typeof method === 'function') return () => Reflect.apply(method, value, []);
  }
}

/** Returns whether an object is a set of forms: all its keys are MIME types. */
export function isForms(value: unknown): value is Forms {
  if (!isContainer(value) || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => /^[a-z]+\/[\w.+-]+$/.test(key));
}

/** Returns a set of forms for the protocol. Binary values become base64. */
export function toForms(value: unknown): Forms {
  if (!isForms(value)) throw new TypeError('A display is an object whose keys are MIME types');
  return Object.fromEntries(
    Object.entries(value).map(([mimeType, form]) => [mimeType, form instanceof Uint8Array ? base64(form) : form]),
  );
}

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function isContainer(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

/**
 * Returns whether JSON represents all of `value`: no cycles, holes, dates, functions or other values that JSON lacks.
 */
function isPlainJson(value: unknown, budget: { left: number }, ancestors: readonly object[] = []): boolean {
  budget.left -= 1;
  if (budget.left < 0) return false;
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (!isContainer(value) || ancestors.includes(value)) return false;
  if ('toJSON' in value || Object.getOwnPropertySymbols(value).length > 0) return false;

  const path = [...ancestors, value];
  if (Array.isArray(value)) return value.every((item) => isPlainJson(item, budget, path)) && !hasHoles(value);
  return Object.values(Object.getOwnPropertyDescriptors(value)).every(
    (property) => 'value' in property && property.enumerable && isPlainJson(property.value, budget, path),
  );
}

function hasHoles(array: unknown[]): boolean {
  return Object.keys(array).length !== array.length;
}
