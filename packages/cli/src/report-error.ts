import { isClocheError } from '@cloche/sdk';
import { CommanderError } from 'commander';
import { CliError, OperatorError } from './cli-error.ts';
import { clientFilePath } from './client-file.ts';
import { Interrupted } from './interruption.ts';
import { jsonLine, printable } from './terminal/printable.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Says what went wrong in one sentence with the next step. Returns the exit code: 2 where the command line is wrong. */
export async function reportError(error: unknown, json: boolean, { err }: Terminal): Promise<number> {
  if (error instanceof CommanderError) return reportUsage(error);
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

/** Commander has written the message itself. */
function reportUsage(error: CommanderError): number {
  return error.code === 'commander.helpDisplayed' || error.code === 'commander.version' ? 0 : 2;
}

function describe(error: unknown): string {
  if (isClocheError(error, 'missing_api_key')) {
    return (
      'No API key is known; pass --api-key, set CLOCHE_API_KEY, or start Cloche on this machine with `npm start`, ' +
      `which writes one to ${clientFilePath()}.`
    );
  }
  if (isClocheError(error, 'unreachable')) {
    return `${error.message.split(';')[0]}; start it with \`npm start\`, or give its address with --url or CLOCHE_URL.`;
  }
  if (isClocheError(error, 'internal')) return `${error.message} (request ${error.requestId ?? 'unknown'})`;
  // Whoever types a command knows of no body.
  if (isClocheError(error, 'invalid_request')) return error.message.replace(/(^|; )(body|query|params)\./g, '$1');
  return error instanceof Error ? error.message : String(error);
}

function describeAsJson(error: unknown): Record<string, unknown> {
  if (error instanceof OperatorError) return { ...error.answer };
  if (!isClocheError(error)) return { code: 'failed', message: describe(error) };
  const { code, requestId, details } = error;
  return { code, message: describe(error), requestId, details };
}
