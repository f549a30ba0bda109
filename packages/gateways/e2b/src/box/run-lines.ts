import type { CodeOutput, CodeRunEvent } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { isClocheError } from '@cloche/sdk';
import { isGone } from './box-session.ts';
import { resultsOf } from './e2b-result.ts';

/**
 * Translates the events of a run to the lines that E2B's clients read. Throws when the sandbox ends, which breaks the
 * connection: only then do the clients look whether the sandbox was killed, and say so.
 */
export async function* lines(events: AsyncIterable<CodeRunEvent>): AsyncGenerator<string> {
  const line = (message: object) => `${JSON.stringify(message)}\n`;
  const timestamp = () => new Date().toISOString();
  let bundle: CodeOutput[] = [];
  const flush = () => resultsOf(bundle.splice(0)).map(line);
  try {
    for await (const event of events) {
      if (event.type === 'output' && bundle[0] !== undefined && bundle[0].bundle !== event.data.bundle) yield* flush();
      if (event.type === 'output') {
        bundle = [...bundle, event.data];
        continue;
      }
      yield* flush();
      if (event.type === 'stdout' || event.type === 'stderr') {
        yield line({ type: event.type, text: event.data, timestamp: timestamp() });
      }
      if (event.type === 'error') {
        const { name, message, traceback = [] } = event.data;
        yield line({ type: 'error', name, value: message, traceback: traceback.join('\n') || `${name}: ${message}` });
      }
      if (event.type === 'complete') {
        yield line({ type: 'number_of_executions', execution_count: event.data.executionCount });
      }
    }
  } catch (error) {
    const { name, message } = refusalOf(error);
    yield line({ type: 'error', name, value: message, traceback: `${name}: ${message}` });
  }
  yield line({ type: 'end_of_execution' });
}

/** Returns what a refusal says that comes after the head of the response. Throws any other error. */
function refusalOf(error: unknown): { readonly name: string; readonly message: string } {
  if (isClocheError(error) && !isGone(error)) return { name: error.code, message: error.message };
  if (error instanceof GatewayError && error.status < 500) return { name: 'invalid_request', message: error.message };
  throw error;
}
