import { setTimeout } from 'node:timers/promises';
import type {
  JupyterClient,
  KernelChannels,
  KernelMessage,
} from '../../packages/service/server/testing/jupyter-client.ts';
import type { CellMessage } from './cell-outcome.ts';
import type { Cell, CellGroup } from './notebook-cells.ts';

/** Time that a cell may take on a busy machine. */
const CELL_MS = 180_000;
/** Time after which the cell does what it does after it has said so. */
const UNTIL_INTERRUPT_MS = 200;

/** Runs the cells of a group in a kernel of its own, and returns the messages of each cell. */
export async function runGroup(jupyter: JupyterClient, kernel: string, { cells }: CellGroup): Promise<CellMessage[][]> {
  const { id } = (await jupyter.post('/api/kernels', { name: kernel })).body;
  try {
    await using channels = await jupyter.open(id);
    const results: CellMessage[][] = [];
    for (const cell of cells) results.push(await runCell(channels, cell));
    return results;
  } finally {
    await jupyter.delete(`/api/kernels/${id}`);
  }
}

async function runCell(channels: KernelChannels, { code, input, interrupt }: Cell): Promise<CellMessage[]> {
  const from = channels.messages.length;
  const request = { code, silent: false, store_history: true, allow_stdin: input !== undefined, stop_on_error: false };
  const id = channels.send('execute_request', request);
  const told = () => channels.messages.slice(from).filter(({ parent_header }) => parent_header.msg_id === id);
  const has = (fits: (message: KernelMessage) => boolean) => told().some(fits);
  const isOver = () =>
    has(({ content }) => content.execution_state === 'idle') && has(({ channel }) => channel === 'shell');
  const late = lateness(code);
  const deadline = performance.now() + CELL_MS;
  const given = [...(input ?? [])];
  let seen = from;
  let asked = 0;
  let isInterrupted = false;
  while (performance.now() < deadline && !isOver()) {
    await Promise.race([channels.received(() => channels.messages.length > seen), late]);
    seen = channels.messages.length;
    const requests = told().filter(({ channel }) => channel === 'stdin').length;
    for (; asked < requests; asked += 1) channels.send('input_reply', { value: given.shift() ?? '' }, 'stdin');
    if (interrupt === undefined || isInterrupted || !textOf(told()).includes(interrupt)) continue;
    isInterrupted = true;
    await setTimeout(UNTIL_INTERRUPT_MS);
    channels.send('interrupt_request', {}, 'control');
  }
  if (!isOver()) throw new Error(`It takes too long: ${code}`);
  const order = ({ channel }: KernelMessage) => (channel === 'shell' ? 1 : 0);
  return told()
    .sort((one, other) => order(one) - order(other))
    .map(({ header, content }) => ({ type: header.msg_type, content }));
}

/** Rejects when a cell takes too long. */
function lateness(code: string): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  AbortSignal.timeout(CELL_MS).addEventListener('abort', () => reject(new Error(`It takes too long: ${code}`)));
  // The cell may have ended by then.
  promise.catch(() => undefined);
  return promise;
}

function textOf(messages: readonly KernelMessage[]): string {
  return messages.reduce((text, { header, content }) => text + (header.msg_type === 'stream' ? content.text : ''), '');
}
