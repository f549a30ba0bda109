import { parsePlainJson } from '@cloche/node-support';
import type { Answer, Channel, Fields, Message } from './message.ts';

/** Types of messages that kernels may send on each channel. A kernel runs untrusted code and can send anything. */
const TYPES: Readonly<Partial<Record<Channel, RegExp>>> = {
  iopub: /^(?:display_data|update_display_data|execute_result|clear_output|error|comm_open|comm_msg|comm_close)$/,
  stdin: /^input_request$/,
  shell: /^[a-z_]{1,64}_reply$/,
};
const MAX_BUFFERS = 1000;
/** Most values of a message: as many as a plot of some 100,000 points has. */
const MAX_VALUES = 500_000;

/** Returns a message of a client as the text that kernels read. */
export function kernelText({ header, content, metadata, buffers }: Message): string {
  const texts = buffers.map((buffer) => Buffer.from(buffer).toString('base64'));
  return JSON.stringify({ header, content, metadata, buffers: texts });
}

/** Returns the message that a kernel has sent, or undefined if kernels may not send it: its type, or that many values or levels. */
export function readKernelText(text: string): Answer | undefined {
  const fields = fieldsOf(parse(text));
  const { channel, type } = fields;
  const content = fieldsOf(fields.content);
  const buffers = fields.buffers ?? [];
  if ((channel !== 'iopub' && channel !== 'stdin' && channel !== 'shell') || typeof type !== 'string') return undefined;
  if (!TYPES[channel]?.test(type) || !Array.isArray(buffers) || buffers.length > MAX_BUFFERS) return undefined;
  return {
    channel,
    type,
    content,
    metadata: fieldsOf(fields.metadata),
    buffers: buffers.map((buffer) => Buffer.from(String(buffer), 'base64')),
  };
}

function parse(text: string): unknown {
  try {
    return parsePlainJson(text, MAX_VALUES);
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
