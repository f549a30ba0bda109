import { isClocheError } from '@cloche/sdk';
import type { Answer, Fields, Message } from './message.ts';
import type { Connection, Room } from './room.ts';
import { kernelInfo } from './shell-requests.ts';

export interface ControlRequest {
  readonly connection: Connection;
  readonly message: Message;
  /** Ends the kernel at a client's request. */
  readonly shutDown: () => Promise<void>;
  /** Disconnects all clients of a kernel that has ended. */
  readonly closeRoom: () => Promise<void>;
}

/** Requests that do not wait for cells, also if they come by the shell channel, as those of earlier clients do. */
export function isControl({ channel, header }: Message): boolean {
  return channel === 'control' || (channel === 'shell' && /^(?:shutdown|interrupt)_request$/.test(header.msg_type));
}

/** Answers a request of the control channel, which does not wait for cells. */
export async function serveControl(room: Room, request: ControlRequest): Promise<void> {
  const { connection, message, closeRoom } = request;
  const type = message.header.msg_type;
  const act = CONTROL[type];
  if (!act) return;
  // Stays false if the client's key may not end the kernel, or if that failed.
  let isOver = false;
  await room.answer(connection, message, async (): Promise<Answer> => {
    const content = await act(request, room).catch(failed);
    isOver = type === 'shutdown_request' && content.status === 'ok' && content.restart === false;
    return { channel: message.channel, type: type.replace(/_request$/, '_reply'), content };
  });
  if (isOver) await closeRoom();
}

const CONTROL: Readonly<Record<string, (request: ControlRequest, room: Room) => Promise<Fields>>> = {
  kernel_info_request: async ({ connection }, room) => kernelInfo(connection, room.knownFacts),
  interrupt_request: async ({ connection }) => {
    await connection.context.interrupt();
    return { status: 'ok' };
  },
  shutdown_request: async ({ connection, message, shutDown }, room) => {
    const restart = message.content.restart === true;
    if (restart) {
      await connection.context.restart();
      room.forget();
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
