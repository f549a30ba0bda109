import { type KernelMessageEvent, LIMITS } from '@cloche/contract';
import { isClocheError } from '@cloche/sdk';
import { JUPYTER_LANGUAGES } from '../kernels/languages.ts';
import { type Answer, type Fields, iopub } from './message.ts';
import { asksForOwnForms } from './mime-bundle.ts';
import { type RunEnd, RunOutputs } from './run-outputs.ts';
import type { SharedKernel, ShellRequest } from './shared-kernel.ts';

/** The content of an `execute_reply`. */
interface ExecuteReply extends Fields {
  readonly status: 'ok' | 'error';
  readonly execution_count: number;
}

/** Errors of cells whose kernel is replaced by a new one. */
const DEATHS: ReadonlySet<unknown> = new Set(['KernelDiedError', 'OutOfMemoryError']);

/** Runs a cell, and tells its outputs as they come. Returns the content of the reply. */
export async function executeCell(request: ShellRequest, shared: SharedKernel): Promise<Fields> {
  const { connection, message } = request;
  const { code, silent, store_history, stop_on_error, user_expressions } = message.content;
  if (typeof code !== 'string') return errorReply('ValueError', 'content.code must be a string');
  const isEmpty = code.trim() === '';
  const hasExpressions = Object.keys(user_expressions ?? {}).length > 0;
  if (isEmpty && !hasExpressions) return okReply(shared.executionCount);
  const isSilent = silent === true;
  // A kernel that does not answer questions gets the cell as code. The client then sees a failure of the kernel as one
  // of the cell.
  const takesCells = JUPYTER_LANGUAGES[connection.context.language].answers === 'messages';
  const hasMessages = takesCells && (await shared.factsOf(connection).catch(() => undefined)) !== undefined;
  if (isEmpty && !takesCells) return withExpressions(request, shared, okReply(shared.executionCount));
  const isCounted = !hasMessages || !(isSilent || isEmpty || store_history === false);
  const executionCount = shared.executionCount + (isCounted ? 1 : 0);
  if (!isSilent) await shared.tell(iopub('execute_input', { code, execution_count: executionCount }), message);
  const tell = async (answer: Answer) => {
    // As ipykernel does: a silent cell leaves out its source and its value.
    if (!isSilent || answer.type !== 'execute_result') await shared.pass(request, answer);
  };
  const { signal } = shared;
  const events = hasMessages
    ? connection.kernel.send(message, signal)
    : connection.context.stream(code, { timeoutMs: LIMITS.runTimeoutMaxMs, signal });
  const outputs = new RunOutputs(tell, executionCount, asksForOwnForms(message.metadata));
  const reply = await replyOf(events, outputs, executionCount);
  shared.executionCount = countAfter(outputs.end, executionCount);
  shared.noteEnd({ isStateLost: outputs.end.isStateLost, isDeath: DEATHS.has(outputs.end.error?.ename) });
  if (reply.status === 'error' && stop_on_error !== false) shared.abortWaiting();
  return hasExpressions && !takesCells && reply.status === 'ok' ? withExpressions(request, shared, reply) : reply;
}

/** Adds the values of the expressions that the client asks for, to a kernel whose cells are run as code. */
async function withExpressions(
  request: ShellRequest,
  shared: SharedKernel,
  reply: ExecuteReply,
): Promise<ExecuteReply> {
  const { connection, message } = request;
  const question = { ...message, content: { code: '', user_expressions: message.content.user_expressions } };
  const outputs = new RunOutputs((answer) => shared.pass(request, answer), reply.execution_count);
  const answered = await replyOf(connection.kernel.send(question, shared.signal), outputs, reply.execution_count);
  return answered.status === 'ok' ? { ...reply, user_expressions: answered.user_expressions } : answered;
}

async function replyOf(
  events: AsyncIterable<KernelMessageEvent>,
  outputs: RunOutputs,
  executionCount: number,
): Promise<ExecuteReply> {
  try {
    for await (const event of events) await outputs.take(event);
  } catch (error) {
    if (!isClocheError(error)) throw error;
    await outputs.fail({ name: error.code, message: error.message });
  }
  const { error, reply } = outputs.end;
  if (error) return { ...error, status: 'error', execution_count: executionCount };
  // The number that all messages of the cell have: the kernel may have been replaced before it, and then counts anew.
  return { ...okReply(executionCount), ...reply, execution_count: executionCount };
}

/** Returns the number of the kernel's last cell. */
function countAfter({ error, executionCount: counted = 0, isStateLost }: RunEnd, executionCount: number): number {
  if (DEATHS.has(error?.ename)) return 0;
  // A run that was ended early does not tell the kernel's count.
  return error && !isStateLost ? Math.max(counted, executionCount) : counted;
}

function okReply(executionCount: number): ExecuteReply {
  return { status: 'ok', execution_count: executionCount, user_expressions: {}, payload: [] };
}

function errorReply(ename: string, evalue: string): Fields {
  return { status: 'error', ename, evalue, traceback: [`${ename}: ${evalue}`] };
}
