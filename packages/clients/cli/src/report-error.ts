import type * as Sdk from '@cloche/sdk';
import { CommanderError } from 'commander';
import { CliError, OperatorError, UsageError } from './cli-error.ts';
import { clientFilePath } from './client-file.ts';
import { RefusedError } from './error-words.ts';
import { findHostCommands } from './host-commands.ts';
import { InterruptedError } from './interruption.ts';
import { jsonLine, printable } from './terminal/printable.ts';
import type { Terminal } from './terminal/terminal.ts';
import { unreachableWords } from './unreachable-words.ts';

/** Prints an error as one sentence with the next step. Returns the exit code: 2 for an invalid command line. */
export async function reportError(error: unknown, json: boolean, { err }: Terminal): Promise<number> {
  // Commander also throws after it printed the help or the version.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const exitCode = error instanceof CliError ? error.exitCode : 1;
  // The reader of the output stopped on purpose.
  if (error instanceof InterruptedError && error.signal === 'SIGPIPE') return exitCode;
  if (error instanceof InterruptedError && !json) {
    // The user asked for it, so that it is no error; a command that follows has nothing to say either.
    if (!error.isEndOfFollowing) await err.line(err.colors.dim(error.message));
    return exitCode;
  }
  if (error instanceof UsageError) {
    const text = json ? jsonLine({ error: { code: 'usage', message: error.message } }) : errorLine(error.message, err);
    await err.line(text);
    return exitCode;
  }
  // Loaded late, because a command that does not use the service starts faster without it.
  const sdk = await import('@cloche/sdk');
  const start = (await findHostCommands())?.startCommand() ?? 'cloche start';
  if (json) {
    await err.line(jsonLine({ error: describeAsJson(error, sdk, start) }));
  } else {
    await err.line(errorLine(describe(error, sdk, start), err));
  }
  return exitCode;
}

function errorLine(message: string, { colors }: Terminal['err']): string {
  return `${colors.red('error:')} ${printable(message)}`;
}

/** Prefixes of request fields in the service's messages, which mean nothing on a command line. */
const FIELD_PREFIX = /(^|; )(body|query|params)\./g;

function describe(error: unknown, { isClocheError }: typeof Sdk, start: string): string {
  if (isClocheError(error, 'missing_api_key')) {
    return (
      'The API key is missing; pass --api-key, set CLOCHE_API_KEY, log in with `cloche login`, ' +
      `or start Cloche on this machine with \`${start}\`, which writes one to ${clientFilePath()}.`
    );
  }
  if (isClocheError(error, 'unreachable')) {
    return unreachableWords(urlOf(error), error, start);
  }
  if (isClocheError(error, 'internal'))
    return `${error.message} (request ${error.requestId ?? 'unknown'}); the log of the service has the cause.`;
  // Remove the prefixes of request fields.
  if (isClocheError(error) || error instanceof OperatorError) return error.message.replace(FIELD_PREFIX, '$1');
  return error instanceof Error ? error.message : String(error);
}

/** Returns the address that the message of the SDK names. */
function urlOf({ message }: Error): string {
  return / at (\S+)/.exec(message)?.[1] ?? 'its address';
}

function describeAsJson(error: unknown, sdk: typeof Sdk, start: string): Record<string, unknown> {
  if (error instanceof OperatorError) return { ...error.answer };
  if (error instanceof RefusedError) return describeAsJson(error.cause, sdk, start);
  if (!sdk.isClocheError(error)) return { code: 'failed', message: describe(error, sdk, start) };
  const { code, requestId, details } = error;
  return { code, message: describe(error, sdk, start), requestId, details };
}
