import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import * as contract from '@cloche/contract';
import type { Plugin } from 'esbuild';
import { operationsTable, retryableErrors } from '../client-contract.ts';

/**
 * Replaces the contract in bundles of clients by what clients read at run time: its constants, and of each operation
 * and error what sending a request needs. Schemas stay out, and with them typebox: they are ten times as large as the
 * rest.
 */
export const clientContract: Plugin = {
  name: 'client-contract',
  setup(build) {
    build.onResolve({ filter: /^@cloche\/contract(?:\/client)?$/ }, () => ({
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
    if (name === 'operations') return `export const operations = ${operationsTable()};`;
    if (name === 'ERRORS') return `export const ERRORS = ${JSON.stringify(retryableErrors())};`;
    if (name === 'LIMITS') return `export const LIMITS = ${JSON.stringify(usedLimits())};`;
    if (typeof value === 'function') return `export { ${name} } from ${JSON.stringify(fileOf(name))};`;
    const isSchema = typeof value === 'object' && '~kind' in value;
    return isSchema ? '' : `export const ${name} = ${JSON.stringify(value)};`;
  });
  return lines.join('\n');
}

/** Returns the limits that the sources of clients name. */
function usedLimits(): object {
  const sources = globSync('packages/clients/{sdk,cli,dockerfile}/src/**/*.ts').map((file) =>
    readFileSync(file, 'utf8'),
  );
  const used = new Set([...sources.join('\n').matchAll(/\bLIMITS\.(\w+)/g)].map(([, name]) => name));
  return Object.fromEntries(Object.entries(contract.LIMITS).filter(([name]) => used.has(name)));
}

function fileOf(name: string): string {
  const declares = new RegExp(`^export (?:async )?(?:function|const) ${name}\\b`, 'm');
  const file = globSync('packages/shared/contract/src/**/*.ts').find((each) =>
    declares.test(readFileSync(each, 'utf8')),
  );
  if (file === undefined) throw new Error(`The contract exports ${name}, and no file of it declares that.`);
  return resolve(file);
}
