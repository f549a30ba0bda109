import { inspect } from 'node:util';
import { isNativeError } from 'node:util/types';
import type { KernelError } from '@cloche/protocol';

const MAX_MESSAGE_CHARACTERS = 64 * 1024;
const MAX_LINES = 200;
const MAX_LINE_CHARACTERS = 4096;

/** Describes any thrown value. Runs user code, but never throws. */
export function describeError(thrown: unknown): KernelError {
  try {
    return isErrorLike(thrown) ? describeErrorObject(thrown) : describeOther(thrown);
  } catch {
    const message = 'The thrown value cannot be shown: showing it throws';
    return { name: 'Error', message, traceback: [`Error: ${message}`] };
  }
}

function describeErrorObject(error: Error): KernelError {
  const message = String(error.message);
  const name = className(error);
  return { name, message: message.slice(0, MAX_MESSAGE_CHARACTERS), traceback: bounded(inspect(error)) };
}

/** Describes a thrown value that is not an error, as in `throw 'text'`. */
function describeOther(thrown: unknown): KernelError {
  const shown = inspect(thrown, { depth: 2 });
  const message = typeof thrown === 'string' ? thrown : shown;
  return {
    name: 'UncaughtValue',
    message: message.slice(0, MAX_MESSAGE_CHARACTERS),
    traceback: bounded(`Uncaught ${shown}`),
  };
}

function isErrorLike(thrown: unknown): thrown is Error {
  return isNativeError(thrown) || thrown instanceof Error;
}

/** Returns the error's name. If its class has not set `name`, returns the class name. */
function className(error: Error): string {
  const name = String(error.name);
  const type: unknown = error.constructor;
  return name === 'Error' && typeof type === 'function' && type.name ? type.name : name;
}

function bounded(text: string): string[] {
  const lines = text.split('\n').map((line) => line.slice(0, MAX_LINE_CHARACTERS));
  return lines.length <= MAX_LINES ? lines : [...lines.slice(0, MAX_LINES), `… ${lines.length - MAX_LINES} more lines`];
}
