import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { ErrorBody } from '@cloche/contract';
import { dataPaths, runPaths } from '@cloche/layout';
import type { Static, TSchema } from 'typebox';
import { CliError, OperatorError } from './cli-error.ts';

/**
 * Sends a request to the operator socket of the configured installation.
 * @throws {CliError} if the user is not root or no installation is running.
 */
export async function callOperator<S extends TSchema>(
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  answer: S,
  body?: unknown,
): Promise<Static<S>> {
  if (process.getuid?.() !== 0) throw new CliError('Operator commands need root; run it again with sudo.');
  const { operatorSocket: socketPath } = runPaths((await installationFolders()).runDir);
  const { status, text } = await exchange(socketPath, method, path, body);
  // Loaded late, because only operator commands need it.
  const { Value } = await import('typebox/value');
  const received: unknown = text === '' ? {} : JSON.parse(text);
  if (status >= 400) {
    if (Value.Check(ErrorBody, received)) throw new OperatorError(received.error);
    throw new CliError(`The service answered ${status}.`);
  }
  return Value.Parse(answer, received);
}

/** Returns the folders of the configured installation. @throws {CliError} if there is none */
export async function installationFolders(): Promise<{ runDir: string; dataDir: string }> {
  // Loaded late, because no other command needs the settings of a host.
  const { effectiveSettings, settingsFor } = await import('@cloche/settings');
  const settings = settingsFor('cli', effectiveSettings(process.env));
  const { CLOCHE_DATA_DIR: dataDir = '', CLOCHE_RUN_DIR: runDir } = settings;
  if (runDir) return { runDir, dataDir };
  try {
    const id = (await readFile(dataPaths(dataDir).installationId, 'utf8')).trim();
    return { runDir: join('/run/cloche', id), dataDir };
  } catch {
    const message = `There is no installation in ${dataDir}; create one with \`npm start\`, or set CLOCHE_DATA_DIR to its folder.`;
    throw new CliError(message);
  }
}

function exchange(
  socketPath: string,
  method: string,
  path: string,
  body: unknown,
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const headers = payload === undefined ? {} : { 'content-type': 'application/json' };
  const call = request({ socketPath, method, path, headers, agent: false }, async (response) => {
    try {
      response.setEncoding('utf8');
      let text = '';
      for await (const chunk of response) text += chunk;
      resolve({ status: response.statusCode ?? 0, text });
    } catch (error) {
      reject(error);
    }
  });
  call.once('error', () =>
    reject(
      new CliError(
        `No Cloche answers at ${socketPath}; start it with \`npm start\`, or set CLOCHE_RUN_DIR to its folder.`,
      ),
    ),
  );
  call.end(payload);
  return promise;
}
