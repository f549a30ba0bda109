import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CliError, OperatorError } from '@cloche/cli/kit';
import { ErrorBody } from '@cloche/contract';
import { dataPaths, runPaths, startCommand } from '@cloche/layout';
import type { Static, TSchema } from 'typebox';

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
  const response = await sendRequest(await operatorSocketPath(), method, path, body);
  const text = (await response.setEncoding('utf8').toArray()).join('');
  const status = response.statusCode ?? 0;
  if (status >= 400) throw await refusal(status, text);
  // Loaded late, because only operator commands need it.
  const { Value } = await import('typebox/value');
  return Value.Parse(answer, text === '' ? {} : JSON.parse(text));
}

/**
 * Yields the lines of a response of the operator socket as they arrive, so that memory stays bounded.
 * @throws {CliError} as `callOperator` does.
 */
export async function* readOperatorLines(path: string): AsyncGenerator<string, void> {
  const response = await sendRequest(await operatorSocketPath(), 'GET', path, undefined);
  response.setEncoding('utf8');
  if (response.statusCode !== 200) throw await refusal(response.statusCode ?? 0, (await response.toArray()).join(''));
  yield* createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY });
  if (!response.complete) throw new CliError('The service broke off its answer; repeat the command.');
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
    const message = `There is no installation in ${dataDir}; create one with \`${startCommand()}\`, or set CLOCHE_DATA_DIR to its folder.`;
    throw new CliError(message);
  }
}

async function operatorSocketPath(): Promise<string> {
  if (process.getuid?.() !== 0) throw new CliError('Operator commands need root; run it again with sudo.');
  return runPaths((await installationFolders()).runDir).operatorSocket;
}

async function refusal(status: number, text: string): Promise<Error> {
  const { Value } = await import('typebox/value');
  const received: unknown = text === '' ? {} : JSON.parse(text);
  return Value.Check(ErrorBody, received)
    ? new OperatorError(received.error)
    : new CliError(`The service answered ${status}.`);
}

function sendRequest(socketPath: string, method: string, path: string, body: unknown): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const headers = payload === undefined ? {} : { 'content-type': 'application/json' };
  const call = request({ socketPath, method, path, headers, agent: false }, resolve);
  call.on('error', () =>
    reject(
      new CliError(
        `No Cloche answers at ${socketPath}; start it with \`${startCommand()}\`, or set CLOCHE_RUN_DIR to its folder.`,
      ),
    ),
  );
  call.end(payload);
  return promise;
}
