import { JUPYTER_LANGUAGES } from '../kernels/languages.ts';
import { execute } from './execute.ts';
import { type Answer, type Fields, type Message, PROTOCOL_VERSION } from './message.ts';
import type { Connection, Room } from './room.ts';

export { iopub } from './execute.ts';

/** A request with the client that sent it. */
export interface ShellRequest {
  readonly connection: Connection;
  readonly message: Message;
}

type Serve = (request: ShellRequest, room: Room) => Promise<Fields | undefined> | Fields | undefined;

const SHELL: Readonly<Record<string, Serve>> = {
  execute_request: (request, room) => executeCell(request, room),
  kernel_info_request: ({ connection }) => kernelInfo(connection),
  complete_request: ({ message: { content } }) => {
    const position = content.cursor_pos ?? 0;
    return { status: 'ok', matches: [], cursor_start: position, cursor_end: position, metadata: {} };
  },
  inspect_request: () => ({ status: 'ok', found: false, data: {}, metadata: {} }),
  is_complete_request: () => ({ status: 'unknown' }),
  history_request: () => ({ status: 'ok', history: [] }),
  comm_info_request: () => ({ status: 'ok', comms: {} }),
};

/** Answers a request of the shell channel. An unknown one has no answer, as the protocol wants it. */
export async function serveShell(room: Room, request: ShellRequest): Promise<Answer | undefined> {
  const { channel, header } = request.message;
  const content = await SHELL[header.msg_type]?.(request, room);
  return content && { channel, type: header.msg_type.replace(/_request$/, '_reply'), content };
}

/** Returns the content of a `kernel_info_reply`. */
export function kernelInfo({ context }: Connection): Fields {
  const { info, title } = JUPYTER_LANGUAGES[context.language];
  return {
    status: 'ok',
    protocol_version: PROTOCOL_VERSION,
    implementation: 'cloche',
    implementation_version: '1',
    language_info: info,
    banner: `${title} in a sandbox of Cloche`,
    debugger: false,
    help_links: [],
    supported_features: [],
  };
}

async function executeCell({ connection, message }: ShellRequest, room: Room): Promise<Fields> {
  const { code, silent = false, stop_on_error = true } = message.content;
  if (typeof code !== 'string') return errorReply('ValueError', 'content.code must be a string');
  const reply = await execute(connection.context, {
    code,
    isSilent: silent === true,
    executionCount: room.executionCount + 1,
    signal: room.signal,
    tell: (answer) => room.tell(answer, message),
  });
  room.executionCount = Math.max(room.executionCount, reply.execution_count);
  if (reply.status === 'error' && stop_on_error !== false) room.abortWaiting();
  return reply;
}

function errorReply(ename: string, evalue: string): Fields {
  return { status: 'error', ename, evalue, traceback: [`${ename}: ${evalue}`] };
}
