import { isClocheError } from '@cloche/sdk';
import { CommanderError } from 'commander';
import { CliError, OperatorError, UsageError } from './cli-error.ts';
import { clientFilePath } from './client-file.ts';
import { Interrupted } from './interruption.ts';
import { jsonLine, printable } from './terminal/printable.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Says what went wrong in one sentence with the next step. Returns the exit code: 2 where the command line is wrong. */
export async function reportError(error: unknown, json: boolean, { err }: Terminal): Promise<number> {
  // Help and the version are thrown too, when they are printed.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const exitCode = error instanceof CliError ? error.exitCode : 1;
  // Whoever reads the output stopped by intention.
  if (error instanceof Interrupted && error.signal === 'SIGPIPE') return exitCode;
  if (json) {
    await err.line(jsonLine({ error: describeAsJson(error) }));
  } else {
    await err.line(`${err.colors.red('error:')} ${printable(describe(error))}`);
  }
  return exitCode;
}

/** How the service names the fields of a request, of which a command line knows nothing. */
const FIELD_PREFIX = /(^|; )(body|query|params)\./g;

function describe(error: unknown): string {
  if (isClocheError(error, 'missing_api_key')) {
    return (
      'The API key is missing; pass --api-key, set CLOCHE_API_KEY, or start Cloche on this machine with `npm start`, ' +
      `which writes one to ${clientFilePath()}.`
    );
  }
  if (isClocheError(error, 'unreachable')) {
    return `${error.message.split(';')[0]}; start it with \`npm start\`, or give its address with --url or CLOCHE_URL.`;
  }
  if (isClocheError(error, 'internal')) return `${error.message} (request ${error.requestId ?? 'unknown'})`;
  // A command line has no body.
  if (isClocheError(error) || error instanceof OperatorError) return error.message.replace(FIELD_PREFIX, '$1');
  return error instanceof Error ? error.message : String(error);
}

function describeAsJson(error: unknown): Record<string, unknown> {
  if (error instanceof OperatorError) return { ...error.answer };
  if (error instanceof UsageError) return { code: 'usage', message: error.message };
  if (!isClocheError(error)) return { code: 'failed', message: describe(error) };
  const { code, requestId, details } = error;
  return { code, message: describe(error), requestId, details };
}
