/**
 * Writes the types of the contract as one declaration file without typebox, for the published package: schemas become
 * types, and their descriptions become TSDoc. `contract-types-check.ts` checks it against the sources.
 */
import { globSync, readFileSync } from 'node:fs';
import * as contract from '@cloche/contract';
import { printSchema, type Schema, tsDoc } from './schema-types.ts';

/** Declarations whose sources depend on typebox, in the terms of the simpler `Operations` below. */
const BY_HAND: Readonly<Record<string, string>> = {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is TypeScript
  Id: 'declare const kind: unique symbol;\ntype Id<Prefix extends string> = `${Prefix}${string}` & { readonly [kind]?: Prefix };',
  Operation: `/** The properties of an operation that clients use. */
export interface Operation {
  id: string;
  method: string;
  path: string;
  idempotency: 'none' | 'optional' | 'required';
  params?: unknown;
  headers?: unknown;
  query?: unknown;
  body?: unknown;
  bodyOptional?: boolean;
  upload?: boolean;
  download?: boolean;
  webSocket?: string;
  events?: unknown;
  response: unknown;
}`,
  OperationId: 'export type OperationId = keyof Operations;',
  ParamsOf: partOf('params', 'Record<string, never>'),
  QueryOf: partOf('query', 'Record<string, never>'),
  BodyOf: partOf('body', 'undefined'),
  ResponseOf: partOf('response', 'never'),
  EventOf: partOf('events', 'never'),
  ErrorCode: 'export type ErrorCode = keyof ErrorDetailsByCode;',
  ErrorDetails:
    'export type ErrorDetails<Code extends ErrorCode> = Code extends ErrorCode ? ErrorDetailsByCode[Code] : never;',
};

/** Types that take a parameter: an operation, or the code of an error. */
export const GENERIC = ['ParamsOf', 'QueryOf', 'BodyOf', 'ResponseOf', 'EventOf', 'ErrorDetails'] as const;

function partOf(part: string, otherwise: string): string {
  const name = { params: 'ParamsOf', query: 'QueryOf', body: 'BodyOf', response: 'ResponseOf', events: 'EventOf' }[
    part
  ];
  return `export type ${name}<O extends Operation> = O extends { ${part}: infer Part } ? Part : ${otherwise};`;
}

const values = contract as unknown as Readonly<Record<string, unknown>>;
const sources = globSync('packages/shared/contract/src/**/*.ts', { exclude: ['**/*.test.ts'] })
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n');

/** Exported schemas by the `$id` under which other schemas contain them. */
const namesById = new Map(
  Object.entries(values).flatMap(([name, value]) => (isSchema(value) && value.$id ? [[value.$id, name] as const] : [])),
);

/** Returns the declarations of `names` and of everything that they name, sorted. */
export function contractTypes(names: readonly string[]): string {
  const declarations = new Map<string, string>();
  const queue = [...GENERIC, ...names];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (declarations.has(name)) continue;
    const text = declarationOf(name);
    declarations.set(name, text);
    queue.push(...namesIn(text).filter((each) => each !== name && isDeclared(each)));
  }
  const sorted = [...declarations].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, text]) => text);
  return `// Made from the contract of Cloche's API.\n${sorted.join('\n\n')}\n\nexport {};\n`;
}

/** Returns the names that a text may use as types: not those in comments and strings. */
function namesIn(text: string): string[] {
  const code = text.replace(/\/\*\*.*?\*\//gs, '').replace(/'[^']*'/g, '');
  return [...new Set(code.match(/\b[A-Z]\w+\b/g))];
}

function isDeclared(name: string): boolean {
  const isMade = name in BY_HAND || ['Operations', 'ErrorDetailsByCode'].includes(name);
  return isMade || isSchema(values[name]) || sourceOf(name) !== undefined;
}

function declarationOf(name: string): string {
  const byHand = BY_HAND[name];
  if (byHand !== undefined) return byHand;
  if (name === 'Operations') return operationsType();
  if (name === 'ErrorDetailsByCode') return errorDetailsType();
  const value = values[name];
  const source = sourceOf(name);
  if (isSchema(value))
    return `${tsDoc(value.description)}export type ${name} = ${printSchema(value, namesById, name)};`;
  if (source === undefined) throw new Error(`The contract has no type ${name}.`);
  const [, list, keys] = /=\s*(?:\(typeof (\w+)\)\[number\]|keyof typeof (\w+));$/.exec(source) ?? [];
  const listed = values[list ?? ''] ?? Object.keys(values[keys ?? ''] ?? {});
  if (!list && !keys) return source;
  return `export type ${name} = ${(listed as readonly string[]).map((each) => `'${each}'`).join(' | ')};`;
}

/** Returns the declaration of a type in the sources, which is one statement. */
function sourceOf(name: string): string | undefined {
  return new RegExp(`^(?:export )?type ${name}\\b[^;]*;`, 'm').exec(sources)?.[0];
}

function operationsType(): string {
  const entries = Object.entries(contract.operations as Readonly<Record<string, contract.Operation>>).map(
    ([id, each]) => {
      const { method, path, idempotency, params, query, body, bodyOptional, headers, response, events } = each;
      const print = (schema: unknown) => printSchema(schema as Schema, namesById);
      const parts = {
        id: `'${id}'`,
        method: `'${method}'`,
        path: `'${path}'`,
        idempotency: `'${idempotency}'`,
        ...(params && { params: print(params) }),
        ...(headers && {
          headers: `{ ${Object.keys(headers)
            .map((key) => `'${key}': string`)
            .join('; ')} }`,
        }),
        ...(query && { query: print(query) }),
        ...(body && { body: print(body) }),
        ...(bodyOptional && { bodyOptional: 'true' }),
        ...(each.upload && { upload: 'true' }),
        ...(each.download && { download: 'true' }),
        ...(each.webSocket && { webSocket: 'string' }),
        ...(events && { events: print(events) }),
        response: print(response.schema),
      };
      const lines = Object.entries(parts).map(([key, type]) => `  ${key}: ${type};`);
      const doc = tsDoc([`${each.summary}.`, each.description].filter(Boolean).join(' '));
      return `${doc}${id}: {\n${lines.join('\n')}\n};`;
    },
  );
  return `/** The operations of the API, by id. */\nexport interface Operations {\n${entries.join('\n')}\n}`;
}

function errorDetailsType(): string {
  const lines = Object.entries(contract.ERRORS).map(([code, { details, summary }]) => {
    const type = details === undefined ? 'undefined' : printSchema(details as Schema, namesById);
    return `${tsDoc(summary)}${code}: ${type};`;
  });
  return `/** Types of the \`details\` of errors, by code. */\nexport interface ErrorDetailsByCode {\n${lines.join('\n')}\n}`;
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && '~kind' in value;
}
