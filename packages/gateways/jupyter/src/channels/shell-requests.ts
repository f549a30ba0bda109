import { JUPYTER_LANGUAGES } from '../kernels/languages.ts';
import { executeCell } from './execute.ts';
import { type Answer, type Fields, PROTOCOL_VERSION } from './message.ts';
import { RunOutputs } from './run-outputs.ts';
import type { Connection, SharedKernel, ShellRequest } from './shared-kernel.ts';

/** Facts about a kernel that answers messages. */
export interface KernelFacts {
  readonly languageVersion: string | undefined;
}

/** Replies to requests that the kernel does not answer. */
const UNANSWERED: Readonly<Record<string, (content: Fields) => Fields>> = {
  complete_request: ({ cursor_pos: position = 0 }) => ({
    status: 'ok',
    matches: [],
    cursor_start: position,
    cursor_end: position,
    metadata: {},
  }),
  inspect_request: () => ({ status: 'ok', found: false, data: {}, metadata: {} }),
  is_complete_request: () => ({ status: 'unknown' }),
  history_request: () => ({ status: 'ok', history: [] }),
  comm_info_request: () => ({ status: 'ok', comms: {} }),
};
/** Requests that are passed to every kernel that answers questions. */
const QUESTIONS: ReadonlySet<string> = new Set([
  'complete_request',
  'inspect_request',
  'is_complete_request',
  'history_request',
]);
const COMM_MESSAGES: ReadonlySet<string> = new Set(['comm_open', 'comm_msg', 'comm_close']);

/** Answers a request of the shell channel. As the protocol requires, an unknown request gets no answer. */
export async function serveShell(shared: SharedKernel, request: ShellRequest): Promise<Answer | undefined> {
  const { channel, header } = request.message;
  const content = await contentOf(shared, request);
  return content && { channel, type: header.msg_type.replace(/_request$/, '_reply'), content };
}

async function contentOf(shared: SharedKernel, request: ShellRequest): Promise<Fields | undefined> {
  const { connection, message } = request;
  const type = message.header.msg_type;
  if (type === 'execute_request') return executeCell(request, shared);
  if (type === 'kernel_info_request') {
    // A client also learns what it needs of a kernel that does not answer.
    return kernelInfo(connection, await shared.factsOf(connection).catch(() => undefined));
  }
  const unanswered = UNANSWERED[type];
  if (!unanswered && !COMM_MESSAGES.has(type)) return undefined;
  const isServed = QUESTIONS.has(type) || JUPYTER_LANGUAGES[connection.context.language].answers === 'messages';
  const facts = isServed && (await shared.factsOf(connection));
  const reply = facts ? await ask(shared, request) : undefined;
  return reply ?? unanswered?.(message.content);
}

/** Asks the kernel about itself. Returns undefined if it has no messages. */
export async function askFacts(shared: SharedKernel, connection: Connection): Promise<KernelFacts | undefined> {
  const reply = await ask(shared, { connection, message: KERNEL_INFO_REQUEST });
  if (!reply) return undefined;
  const { version } = (reply.language_info ?? {}) as { version?: unknown };
  return { languageVersion: typeof version === 'string' ? version : undefined };
}

const KERNEL_INFO_REQUEST = {
  channel: 'shell',
  header: {
    msg_id: '',
    msg_type: 'kernel_info_request',
    session: '',
    username: '',
    date: '',
    version: PROTOCOL_VERSION,
  },
  parent_header: {},
  metadata: {},
  content: {},
  buffers: [],
} as const;

/**
 * Sends a request to the kernel and passes on what it tells meanwhile. Returns the content of the reply, if there is
 * one.
 */
async function ask(shared: SharedKernel, request: ShellRequest): Promise<Fields | undefined> {
  const outputs = new RunOutputs((answer) => shared.pass(request, answer), shared.executionCount);
  for await (const event of request.connection.kernel.send(request.message, shared.signal)) await outputs.take(event);
  const { reply, error, executionCount } = outputs.end;
  shared.executionCount = executionCount ?? shared.executionCount;
  return error && request.message.header.msg_type.endsWith('_request') ? { ...error, status: 'error' } : reply;
}

/** Returns the content of a `kernel_info_reply`. */
export function kernelInfo({ context }: Connection, facts: KernelFacts | undefined): Fields {
  const { info, title } = JUPYTER_LANGUAGES[context.language];
  return {
    status: 'ok',
    protocol_version: PROTOCOL_VERSION,
    implementation: 'cloche',
    implementation_version: '1',
    language_info: facts?.languageVersion === undefined ? info : { ...info, version: facts.languageVersion },
    banner: `${title} in a sandbox of Cloche`,
    debugger: false,
    help_links: [],
    supported_features: [],
  };
}
