import { isClocheError } from '@cloche/sdk';
import type { Answer, Fields, Message } from './message.ts';
import type { Connection, SharedKernel } from './shared-kernel.ts';
import { kernelInfo } from './shell-requests.ts';

export interface ControlRequest {
  readonly connection: Connection;
  readonly message: Message;
  /** Ends the kernel at a client's request. */
  readonly shutDown: () => Promise<void>;
  /** Disconnects all clients of a kernel that has ended. */
  readonly disconnectClients: () => Promise<void>;
}

/** Requests that do not wait for cells, also if they come by the shell channel, as those of earlier clients do. */
export function isControl({ channel, header }: Message): boolean {
  return channel === 'control' || (channel === 'shell' && /^(?:shutdown|interrupt)_request$/.test(header.msg_type));
}

/** Answers a request of the control channel, which does not wait for cells. */
export async function serveControl(shared: SharedKernel, request: ControlRequest): Promise<void> {
  const { connection, message, disconnectClients } = request;
  const type = message.header.msg_type;
  const act = CONTROL[type];
  if (!act) return;
  // Stays false if the client's key may not end the kernel, or if that failed.
  let isOver = false;
  await shared.answer(connection, message, async (): Promise<Answer> => {
    const content = await act(request, shared).catch(failed);
    isOver = type === 'shutdown_request' && content.status === 'ok' && content.restart === false;
    return { channel: message.channel, type: type.replace(/_request$/, '_reply'), content };
  });
  if (isOver) await disconnectClients();
}

const CONTROL: Readonly<Record<string, (request: ControlRequest, shared: SharedKernel) => Promise<Fields>>> = {
  kernel_info_request: async ({ connection }, shared) => kernelInfo(connection, shared.knownFacts),
  interrupt_request: async ({ connection }) => {
    await connection.context.interrupt();
    return { status: 'ok' };
  },
  shutdown_request: async ({ connection, message, shutDown }, shared) => {
    const restart = message.content.restart === true;
    if (restart) {
      await connection.context.restart();
      shared.forget();
    } else {
      await shutDown();
    }
    return { status: 'ok', restart };
  },
};

function failed(error: unknown): Fields {
  const { message } = error as Error;
  const ename = isClocheError(error) ? error.code : 'internal';
  return { status: 'error', ename, evalue: message, traceback: [`${ename}: ${message}`] };
}
