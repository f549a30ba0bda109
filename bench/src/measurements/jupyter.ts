import type { Measurement } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const WARM_UP = 100;
/** Time that the gateway may add to a cell, at the median. */
const ADDED_MS = 2;

/** Compares a cell through the kernel gateway with a run by `/v1` in another context of the same sandbox. */
export const jupyter: Measurement = {
  name: 'jupyter',
  title: 'Jupyter’s kernel gateway',
  async measure(bench) {
    const subject = await bench.subject();
    const id = await subject.createReady();
    const { body: kernel } = await subject.http.call('POST', '/jupyter/api/kernels', { name: `python3@${id}` });
    const contextId = await subject.createContext(id, 'python');
    const cells = await Cells.open(subject.url, subject.apiKey, kernel.id);
    const acts = {
      gateway: () => timed(() => cells.execute('1+1')),
      v1: () => timed(() => subject.run(id, '1+1', { contextId })),
    };
    await inTurns(WARM_UP, acts);
    const { gateway, v1 } = await inTurns(bench.rounds(1000, 200), acts);
    cells.close();
    await subject.kill(id);
    const added = gateway.map((ms, round) => ms - (v1[round] ?? 0));
    const note = 'in turns, one WebSocket; a cell ends with its reply and the state idle';
    return {
      rows: [
        {
          what: 'cell `1+1` through the kernel gateway',
          unit: 'ms',
          subject: figuresOf(gateway),
          peer: beside('a hot run by `/v1`', v1),
          note,
        },
        {
          what: 'what the kernel gateway adds to a run',
          unit: 'ms',
          subject: figuresOf(added),
          targets: [{ atMost: ADDED_MS }],
          note: 'difference of each pair',
        },
      ],
    };
  },
};

/** A client of one kernel that executes one cell at a time. */
class Cells {
  readonly #socket: WebSocket;
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async open(url: string, apiKey: string, kernelId: string): Promise<Cells> {
    const socket = new WebSocket(
      `${url.replace('http', 'ws')}/jupyter/api/kernels/${kernelId}/channels?token=${apiKey}`,
    );
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error('the kernel gateway opened no WebSocket'));
    });
    return new Cells(socket);
  }

  /** @throws when the cell fails */
  execute(code: string): Promise<void> {
    this.#count += 1;
    const msg_id = `cell-${this.#count}`;
    const date = new Date().toISOString();
    const header = { msg_id, msg_type: 'execute_request', session: 'bench', username: '', date, version: '5.4' };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let hasReply = false;
    this.#socket.onclose = () => reject(new Error('the kernel gateway closed the WebSocket'));
    this.#socket.onmessage = ({ data }) => {
      const { channel, parent_header, content } = JSON.parse(String(data));
      if (parent_header.msg_id !== msg_id) return;
      if (channel === 'shell' && content.status !== 'ok') reject(new Error(`${content.ename}: ${content.evalue}`));
      hasReply ||= channel === 'shell';
      if (hasReply && content.execution_state === 'idle') resolve();
    };
    this.#socket.send(
      JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content: { code, silent: false } }),
    );
    return promise;
  }

  close(): void {
    this.#socket.onclose = null;
    this.#socket.close();
  }
}
