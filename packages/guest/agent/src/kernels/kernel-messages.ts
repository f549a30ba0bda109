import type { FromKernel, KernelError } from '@cloche/protocol';

type Fields = Record<string, unknown>;

/** Most characters of an error. Kernels keep to it; the agent cuts what exceeds it all the same. */
const MAX_ERROR_CHARACTERS = 1024 * 1024;
const MAX_TRACEBACK_LINES = 1000;
/** Most characters of an id, as the protocol bounds it. */
const MAX_ID_CHARACTERS = 256;

const DRAINED = { drained: true } as const;

/**
 * Returns a checked message of a kernel. User code shares the kernel's process and can send anything. Throws if the
 * value is not a message of the protocol.
 */
export function readKernelMessage(value: unknown): FromKernel {
  const fields = objectOf(value);
  switch (fields.type) {
    case 'ready':
      return { type: 'ready', protocolVersion: integerOf(fields.protocolVersion) };
    case 'unfit':
      return { type: 'unfit', reason: textOf(fields.reason).slice(0, 256) };
    case 'output':
      return {
        type: 'output',
        runId: runIdOf(fields.runId),
        role: fields.role === 'result' ? 'result' : 'display',
        forms: objectOf(fields.forms),
        ...(fields.sync !== undefined && { sync: integerOf(fields.sync) }),
        ...(fields.drained === true && DRAINED),
      };
    case 'message':
      return {
        type: 'message',
        runId: runIdOf(fields.runId),
        message: textOf(fields.message),
        ...(fields.sync !== undefined && { sync: integerOf(fields.sync) }),
        ...(fields.drained === true && DRAINED),
      };
    case 'done': {
      const done = { type: 'done', runId: runIdOf(fields.runId), ...(fields.drained === true && DRAINED) } as const;
      const executionCount = integerOf(fields.executionCount);
      if (fields.error === undefined) return { ...done, executionCount };
      return { ...done, executionCount, error: errorOf(fields.error) };
    }
    default:
      throw new Error('the type of the message is unknown');
  }
}

/** Returns the first message of a kernel that connects by itself. Throws if the value is not such a message. */
export function readHello(value: unknown): { kernelId: string; pid: number } {
  const fields = objectOf(value);
  const kernelId = textOf(fields.kernelId);
  if (fields.type !== 'hello' || !/^[0-9a-f-]{1,64}$/.test(kernelId))
    throw new Error('the first message is not a valid hello');
  return { kernelId, pid: integerOf(fields.pid) };
}

function errorOf(value: unknown): KernelError {
  const fields = objectOf(value);
  const traceback = fields.traceback;
  if (!Array.isArray(traceback)) throw new Error('the traceback is not a list');
  const lines = traceback.slice(0, MAX_TRACEBACK_LINES).map(textOf);
  const tooLong = lines.reduce((characters, line) => characters + line.length, 0) > MAX_ERROR_CHARACTERS;
  return {
    name: textOf(fields.name).slice(0, 256),
    message: textOf(fields.message).slice(0, MAX_ERROR_CHARACTERS),
    traceback: tooLong ? [] : lines,
  };
}

function objectOf(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('a value is not an object');
  return value as Fields;
}

function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new Error('a value is not a string');
  return value;
}

function runIdOf(value: unknown): string {
  const runId = textOf(value);
  if (runId.length > MAX_ID_CHARACTERS) throw new Error('the id of the run is too long');
  return runId;
}

function integerOf(value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new Error('a value is not a non-negative integer');
  return value as number;
}
