/** Generates requests that nearly match the contract: valid ones with one to three changes. */
import { type Operation, type OperationId, operations } from '@cloche/contract';
import type { Random } from '@cloche/testkit/fuzz';
import type { RequestOptions } from './api.ts';

export interface MalformedRequest {
  readonly operation: Operation;
  readonly path: string;
  readonly options: RequestOptions;
}

type Json = unknown;

/** Bodies that the contract accepts, except that the project does not exist: so few of them create a sandbox. */
const GOOD_BODIES: Partial<Record<OperationId, Record<string, Json>>> = {
  createSandbox: {
    projectId: 'prj_none',
    template: 'python-node',
    ttlMs: 60_000,
    idleTimeoutMs: 5_000,
    metadata: { team: 'a', 'x.y': 'b' },
    env: { A: 'b' },
    resources: { cpu: 0.5, memoryMb: 256 },
    networkPolicy: { mode: 'allowlist', hosts: ['example.com', '*.example.org', '192.0.2.1'] },
  },
  setSandboxTtl: { ttlMs: 60_000 },
  extendSandbox: { ttlMs: 60_000 },
  createContext: { language: 'python', cwd: '/workspace', timeoutMs: 30_000 },
  runCode: { code: '1', language: 'python', cwd: '/workspace', timeoutMs: 5_000, artifactPolicy: 'inline_only' },
  streamCode: { code: '1', language: 'python', contextId: 'cctx_none', timeoutMs: 5_000 },
};

const TEXTS: [string, ...string[]] = [
  '',
  ' ',
  '\0',
  '\ud800',
  '\u2028',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  "'; DROP TABLE sandboxes; --",
  '☃'.repeat(300),
  'x'.repeat(600),
  '%00',
  'null',
  'cctx_',
  'tplv_none',
  'EXAMPLE.com',
  '256.1.1.1',
  '*.',
];
const NUMBERS: [number, ...number[]] = [
  0,
  -1,
  -0,
  1.5,
  600_001,
  3_600_001,
  86_400_001,
  2 ** 31,
  2 ** 53,
  1e308,
  -1e308,
];
const QUERIES: [string, ...string[]] = [
  'status=alive',
  'status=ready&status=idle',
  'include=',
  'metadata.=x',
  'metadata.__proto__=x',
  'metadata=x',
  'projectId=%ff',
  'projectId=%00',
  'waitFor=ready&waitMs=1e3',
  'waitFor=nothing',
  'waitMs=-1',
  '%zz',
  '__proto__=1',
  'limit=5',
  '&&==&',
  'a&'.repeat(500),
];

export function malformedRequest(random: Random, ids: { sandboxId: string; contextId: string }): MalformedRequest {
  const id = random.pick(Object.keys(operations) as [OperationId, ...OperationId[]]);
  const operation: Operation = operations[id];
  // Requests that end something never get real ids, and neither does a restart, as a kernel takes long to start.
  const isSafe = operation.method !== 'DELETE' && id !== 'restartContext';
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: 'sandboxId' | 'contextId') =>
    isSafe && name in ids && random.chance(0.8) ? ids[name] : encodeURIComponent(random.pick(TEXTS).toWellFormed()),
  );
  const query = operation.method === 'GET' || random.chance(0.1) ? `?${random.pick(QUERIES)}` : '';
  const good = GOOD_BODIES[id];
  const body = good ? brokenText(random, good) : random.chance(0.2) ? '{"a":1}' : undefined;
  const sent = operation.method === 'GET' ? undefined : body;
  return {
    operation,
    path: path + query,
    options: { ...(sent === undefined ? {} : { body: sent }), ...keyed(random) },
  };
}

function keyed(random: Random): Pick<RequestOptions, 'key'> {
  if (random.chance(0.1)) return {};
  return { key: random.pick(['auto', 'auto', 'auto', 'auto', 'one key', '', 'k'.repeat(256)]) };
}

/** Returns JSON text of `good` with some values changed; now and then the text itself is malformed. */
function brokenText(random: Random, good: Record<string, Json>): string {
  let body: Json = structuredClone(good);
  for (let left = 1 + random.below(3); left > 0; left--) body = broken(random, body);
  const text = JSON.stringify(body) ?? '';
  if (random.chance(0.9)) return text;
  const at = random.below(text.length);
  return text.slice(0, at) + random.pick(['', '"', '}', '\\u0000', '\\ud800', ',,', '\u0007']) + text.slice(at + 1);
}

function broken(random: Random, value: Json): Json {
  if (typeof value !== 'object' || value === null || random.chance(0.05)) return anything(random, 0);
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, Json>;
  const names = Object.keys(copy);
  const [first = 'x', ...others] = names;
  const name = random.pick([first, ...others]);
  switch (random.below(4)) {
    case 0:
      copy[name] = broken(random, copy[name]);
      break;
    case 1:
      copy[name] = anything(random, 0);
      break;
    case 2:
      delete copy[name];
      break;
    default:
      for (let left = random.pick([1, 3, 20, 100]); left > 0; left--)
        define(copy, unknownName(random), anything(random, 0));
  }
  return copy;
}

function anything(random: Random, depth: number): Json {
  switch (random.below(depth > 2 ? 4 : 6)) {
    case 0:
      return random.pick(TEXTS);
    case 1:
      return random.pick(NUMBERS);
    case 2:
      return random.pick([null, true, false]);
    case 3:
      return random.pick([[], {}]);
    case 4:
      return Array.from({ length: random.pick(depth === 0 ? [1, 5, 70] : [1, 3]) }, () => anything(random, depth + 1));
    default: {
      const made: Record<string, Json> = {};
      for (let left = random.pick(depth === 0 ? [1, 5, 70] : [1, 3]); left > 0; left--)
        define(made, unknownName(random), anything(random, depth + 2));
      return made;
    }
  }
}

/** Defines a property even if its name is `__proto__`. */
function define(target: object, name: string, value: Json): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}

function unknownName(random: Random): string {
  return random.chance(0.5) ? `field${random.below(1000)}` : random.pick(TEXTS);
}
