/**
 * Generates the parts of the Python SDK that derive from the contract, and its synchronous client:
 * `node_modules/.bin/node scripts/python-sdk.ts`.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { LIMITS, type Operation, openApiDocument, operations } from '@cloche/contract';
import { CACHE_DIR } from '../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from './python-tools.ts';
import { releaseVersion } from './release/version.ts';

export const SDK_PYTHON = join(import.meta.dirname, '../packages/clients/sdk-python');

/** Limits that the client counts with. */
const USED_LIMITS = [
  'runTimeoutDefaultMs',
  'runTimeoutMaxMs',
  'contextTimeoutDefaultMs',
  'commandTimeoutDefaultMs',
  'outputStreamBytes',
  'waitDefaultMs',
  'waitMaxMs',
  'workspaceArchiveBytes',
  'workspaceArchiveTransferBytes',
  'workspaceArchiveEntries',
] as const satisfies (keyof typeof LIMITS)[];

/** Returns the contract as `tools/generate.py` reads it. */
function contract(): object {
  return {
    document: openApiDocument(releaseVersion()),
    operations: Object.values(operations).map((operation: Operation) => ({
      id: operation.id,
      method: operation.method,
      path: operation.path,
      kind: kindOf(operation),
      takesKey: operation.idempotency !== 'none' ? 'True' : 'False',
      uploads: operation.upload ? 'True' : 'False',
    })),
    limits: Object.fromEntries(USED_LIMITS.map((name) => [name, LIMITS[name]])),
  };
}

function kindOf({ events, download, webSocket }: Operation): string {
  if (webSocket) return 'socket';
  if (events) return 'events';
  return download ? 'bytes' : 'json';
}

/**
 * Writes the generated folders of the package `cloche` to `target`.
 * @param python interpreter that has the packages of `requirements-dev.txt`
 * @throws an error with what the generator printed
 */
export function generatePythonSdk(python: string, env: NodeJS.ProcessEnv, target: string): void {
  const { status, stderr } = spawnSync(python, [join(SDK_PYTHON, 'tools/generate.py'), target], {
    env,
    input: JSON.stringify(contract()),
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`The generator failed: ${stderr}`);
}

if (import.meta.main) {
  const env = { ...process.env, PYTHONPATH: ensurePythonTools(CACHE_DIR) };
  generatePythonSdk(PYTHON, env, join(SDK_PYTHON, 'src/cloche'));
}
