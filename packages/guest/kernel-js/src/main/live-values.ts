import { types } from 'node:util';
import vm from 'node:vm';
import { aliasOf, type Look, type Seen, type SeenValue } from '../messages.ts';

// Saved, because user code can replace them.
const { apply, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { hasOwn } = Object;
const { isProxy } = types;
const functionText = Function.prototype.toString;
const symbolText = Symbol.prototype.toString;
const { forEach } = Set.prototype;
const globalObject = globalThis;
/** Globals that are accessors of Node's own. */
const ACCESSORS: Readonly<Record<string, unknown>> = { __proto__: null, process, Buffer };
const PROTOTYPES: Readonly<Record<string, object>> = {
  string: String.prototype,
  number: Number.prototype,
  boolean: Boolean.prototype,
  symbol: Symbol.prototype,
  bigint: BigInt.prototype,
};
const MAX_NAMES = 10_000;
/** Longest chain of prototypes. */
const MAX_DEPTH = 100;

/** Wraps a found value, which may itself be `undefined`. */
interface Found {
  readonly value: unknown;
}

/** Inspects the values of cells without running code of theirs: calls no getter, and touches no proxy. */
export class LiveValues {
  readonly #declared: ReadonlySet<string>;

  /** @param declared names in the scope that all cells share */
  constructor(declared: ReadonlySet<string>) {
    this.#declared = declared;
  }

  look({ sequence, path, prefix }: Look): Seen {
    try {
      if (prefix !== undefined) return { sequence, names: this.#names(path, prefix) };
      const found = this.#find(path);
      return { sequence, ...(found && { value: describe(found.value) }) };
    } catch {
      // For example, reading a variable that a module has not initialized yet throws.
      return { sequence };
    }
  }

  #names(path: readonly string[], prefix: string): string[] {
    const names: string[] = [];
    if (path.length === 0) {
      apply(forEach, this.#declared, [(name: string) => begins(name, prefix) && names.push(name)]);
      addNames(names, globalObject, prefix);
      return names;
    }
    const found = this.#find(path);
    if (found) addNames(names, objectOf(found.value), prefix);
    return names;
  }

  #find(path: readonly string[]): Found | undefined {
    let found = this.#findRoot(path[0] ?? '');
    for (let index = 1; found && index < path.length; index += 1) found = findProperty(found.value, path[index] ?? '');
    return found;
  }

  #findRoot(name: string): Found | undefined {
    const alias = aliasOf(name);
    const declared = this.#declared.has(alias) ? alias : name;
    if (!this.#declared.has(declared)) return findProperty(globalObject, name);
    // A variable can be read by evaluating its name, which runs no code of a cell.
    return { value: vm.runInThisContext(declared) };
  }
}

function findProperty(value: unknown, name: string): Found | undefined {
  let holder = objectOf(value);
  for (let depth = 0; holder !== null && depth < MAX_DEPTH && !isProxy(holder); depth += 1) {
    const descriptor = getOwnPropertyDescriptor(holder, name);
    if (descriptor && hasOwn(descriptor, 'value')) return { value: descriptor.value };
    if (descriptor) return holder === globalObject && name in ACCESSORS ? { value: ACCESSORS[name] } : undefined;
    holder = getPrototypeOf(holder);
  }
  return undefined;
}

function addNames(names: string[], object: object | null, prefix: string): void {
  let holder = object;
  for (let depth = 0; holder !== null && depth < MAX_DEPTH && !isProxy(holder); depth += 1) {
    const keys = ownKeys(holder);
    for (let index = 0; index < keys.length && names.length < MAX_NAMES; index += 1) {
      const key = keys[index];
      if (typeof key === 'string' && begins(key, prefix) && !isIndex(key)) names[names.length] = key;
    }
    holder = getPrototypeOf(holder);
  }
}

function describe(value: unknown): SeenValue {
  const type = typeof value;
  if (value === null || value === undefined) return { type: `${value}` };
  if (type === 'symbol') return { type, value: apply(symbolText, value, []) };
  if (type !== 'object' && type !== 'function') return { type, value: `${value as string}` };
  if (isProxy(value)) return { type: 'proxy' };
  if (type === 'function') return { type, source: apply(functionText, value, []) };
  const keys: string[] = [];
  addOwnNames(keys, value);
  const maker = findProperty(value, 'constructor')?.value;
  const name = typeof maker === 'function' ? findProperty(maker, 'name')?.value : undefined;
  return { type, keys, ...(typeof name === 'string' && { className: name }) };
}

/** Adds own names, up to the number that a description shows. */
function addOwnNames(names: string[], object: object): void {
  const keys = ownKeys(object);
  for (let index = 0; index < keys.length && names.length < 100; index += 1) {
    const key = keys[index];
    if (typeof key === 'string') names[names.length] = key;
  }
}

/** Returns the object whose properties a value has; null if it has none. */
function objectOf(value: unknown): object | null {
  if (typeof value === 'object' || typeof value === 'function') return value;
  return PROTOTYPES[typeof value] ?? null;
}

function begins(name: string, prefix: string): boolean {
  for (let index = 0; index < prefix.length; index += 1) if (name[index] !== prefix[index]) return false;
  return true;
}

/** Returns whether the name begins with a digit, so that it is no name in code. */
function isIndex(name: string): boolean {
  const first = name[0];
  return first !== undefined && first >= '0' && first <= '9';
}
