import { randomUUID } from 'node:crypto';

export const PROTOCOL_VERSION = '5.4';

export type Fields = Readonly<Record<string, unknown>>;
export type Channel = 'shell' | 'control' | 'stdin' | 'iopub';

export interface Header {
  readonly msg_id: string;
  readonly msg_type: string;
  readonly session: string;
  readonly username: string;
  readonly date: string;
  readonly version: string;
}

/** A message of Jupyter's protocol 5.4. */
export interface Message {
  readonly channel: Channel;
  readonly header: Header;
  readonly parent_header: Header | Record<never, never>;
  readonly metadata: Fields;
  readonly content: Fields;
  readonly buffers: readonly Uint8Array[];
}

/** A message of a kernel, without the fields that all messages of a request have in common. */
export interface Answer {
  readonly channel: Channel;
  readonly type: string;
  readonly content: Fields;
  readonly metadata?: Fields | undefined;
  readonly buffers?: readonly Uint8Array[] | undefined;
}

export function iopub(type: string, content: Fields): Answer {
  return { channel: 'iopub', type, content };
}

/** Returns a message of the kernel: an answer to `request`, or a message without a request. */
export function messageOf(answer: Answer, session: string, request: Message | undefined): Message {
  const { channel, type, content, metadata = {}, buffers = [] } = answer;
  const header = {
    msg_id: randomUUID(),
    msg_type: type,
    session,
    username: 'cloche',
    date: new Date().toISOString(),
    version: PROTOCOL_VERSION,
  };
  return { channel, header, parent_header: request?.header ?? {}, metadata, content, buffers };
}

/** @throws Error if the value, which a client sent, is not a message */
export function readMessage(value: unknown, channel: unknown, buffers: readonly Uint8Array[]): Message {
  const { header, metadata, content } = fieldsOf(value);
  const { msg_id, msg_type, session, username, date, version } = fieldsOf(header);
  if (channel !== 'shell' && channel !== 'control' && channel !== 'stdin')
    throw new Error('the channel is not shell, control or stdin');
  return {
    channel,
    header: {
      msg_id: textOf(msg_id),
      msg_type: textOf(msg_type),
      session: textOf(session),
      username: textOf(username ?? ''),
      // The gateway client of jupyter_server sends a number.
      date: typeof date === 'string' ? textOf(date) : new Date().toISOString(),
      version: textOf(version ?? PROTOCOL_VERSION),
    },
    parent_header: {},
    metadata: fieldsOf(metadata ?? {}),
    content: fieldsOf(content),
    buffers,
  };
}

/** Longest name or id in a header. */
const TEXT_LENGTH = 256;

function textOf(value: unknown): string {
  if (typeof value !== 'string' || value.length > TEXT_LENGTH)
    throw new Error('a field of the header is not a short text');
  return value;
}

function fieldsOf(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('a part is not an object');
  // An object of JSON.
  return value as Fields;
}
