import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import * as contract from '@cloche/contract';
import type { Plugin } from 'esbuild';

/** Every path of the API begins with it. */
const PATH_START = '/v1/';

/**
 * Replaces the contract in bundles of clients by what clients read at run time: its constants, and of each operation
 * and error what sending a request needs. Schemas stay out, and with them typebox: they are ten times as large as the
 * rest.
 */
export const clientContract: Plugin = {
  name: 'client-contract',
  setup(build) {
    build.onResolve({ filter: /^@cloche\/contract$/ }, () => ({
      path: 'contract',
      namespace: 'client-contract',
      sideEffects: false,
    }));
    build.onLoad({ filter: /.*/, namespace: 'client-contract' }, () => ({
      contents: clientContractModule(),
      resolveDir: resolve('.'),
    }));
  },
};

function clientContractModule(): string {
  const lines = Object.entries(contract).map(([name, value]) => {
    if (name === 'operations') return operationsTable();
    if (name === 'ERRORS') return `export const ERRORS = ${JSON.stringify(retryableErrors())};`;
    if (name === 'LIMITS') return `export const LIMITS = ${JSON.stringify(usedLimits())};`;
    if (typeof value === 'function') return `export { ${name} } from ${JSON.stringify(fileOf(name))};`;
    const isSchema = typeof value === 'object' && '~kind' in value;
    return isSchema ? '' : `export const ${name} = ${JSON.stringify(value)};`;
  });
  return lines.join('\n');
}

/**
 * Returns the operations, with the parts that `SentOperation` of the SDK has, as lines of text: objects would be twice
 * as long.
 */
function operationsTable(): string {
  const all: Readonly<Record<string, contract.Operation>> = contract.operations;
  const rows = Object.values(all).map(({ id, method, path, idempotency, upload, download, events }) => {
    const kind = (upload && 'upload') || (download && 'download') || (events && 'events') || '';
    if (Number(!!upload) + Number(!!download) + Number(!!events) > 1)
      throw new Error(`${id} has several kinds of bodies.`);
    return [id, method, path.replace(PATH_START, ''), idempotency, kind].join(' ').trimEnd();
  });
  return `export const operations = /* @__PURE__ */ Object.fromEntries(\`${rows.join('\n')}\`.split('\\n').map((row) => {
  const [id, method, path, idempotency, kind] = row.split(' ');
  return [id, { id, method, path: '${PATH_START}' + path, idempotency, ...(kind && { [kind]: true }) }];
}));`;
}

function retryableErrors(): object {
  const all = Object.entries(contract.ERRORS).map(([code, { retryable }]) => [code, { retryable }]);
  return Object.fromEntries(all);
}

/** Returns the limits that the sources of clients name. */
function usedLimits(): object {
  const sources = globSync('packages/{sdk,cli,dockerfile}/src/**/*.ts').map((file) => readFileSync(file, 'utf8'));
  const used = new Set([...sources.join('\n').matchAll(/\bLIMITS\.(\w+)/g)].map(([, name]) => name));
  return Object.fromEntries(Object.entries(contract.LIMITS).filter(([name]) => used.has(name)));
}

function fileOf(name: string): string {
  const declares = new RegExp(`^export (?:async )?(?:function|const) ${name}\\b`, 'm');
  const file = globSync('packages/contract/src/**/*.ts').find((each) => declares.test(readFileSync(each, 'utf8')));
  if (file === undefined) throw new Error(`The contract exports ${name}, and no file of it declares that.`);
  return resolve(file);
}
