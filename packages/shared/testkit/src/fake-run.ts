import type { AgentRunEvent, RunError } from '@cloche/protocol';
import { AgentError } from '@cloche/runtime';
import { EventQueue } from './event-queue.ts';
import type { FakePorts } from './fake-ports.ts';
import type { Statement } from './toy-language.ts';

type Ending = RunError | 'completed';

/** One run of a fake agent. The first call of `end` decides how it ends. */
export class FakeRun {
  readonly id: string;
  readonly queue: EventQueue<AgentRunEvent>;
  readonly ended = Promise.withResolvers<Ending>();
  readonly answers: EventQueue<string>;
  isOver = false;
  deaf = false;
  truncated = 0;

  constructor(id: string, onLeave: () => void) {
    this.id = id;
    this.queue = new EventQueue(onLeave);
    this.answers = new EventQueue(() => undefined);
  }

  end(ending: Ending): void {
    this.isOver = true;
    this.ended.resolve(ending);
  }
}

/** State besides the run that its statements change. */
export interface RunScope {
  readonly context: { readonly variables: Map<string, string> };
  readonly ports: FakePorts;
  /** Loses the instance. */
  vanish(): void;
}

/** Executes statements of the toy language until they end or the run does. Rejects with the error of the code. */
export async function interpret(statements: readonly Statement[], run: FakeRun, scope: RunScope): Promise<void> {
  let over = false;
  run.ended.promise.then(() => {
    over = true;
  });
  for (const statement of statements) {
    await step(statement, run, scope);
    // Allows an end that was decided meanwhile to stop the program here.
    await Promise.resolve();
    if (over) return;
  }
}

async function step({ verb, text }: Statement, run: FakeRun, { context, ports, vanish }: RunScope): Promise<void> {
  const { id: runId, queue, ended } = run;
  const [first = '', ...rest] = text.split(' ');
  const print = (type: 'stdout' | 'stderr', line: string) => queue.push({ type, runId, data: `${line}\n` });
  switch (verb) {
    case 'print':
      return print('stdout', text);
    case 'warn':
      return print('stderr', text);
    case 'value':
      return queue.push({ type: 'output', runId, data: textOutput(text) });
    case 'picture':
      return queue.push({
        type: 'output',
        runId,
        data: { ...textOutput(text), format: 'png', mimeType: 'image/png' },
      });
    case 'large':
      return queue.push({ type: 'output', runId, data: textOutput('x'.repeat(Number(text))) });
    case 'tell':
      return queue.push({ type: 'message', runId, data: text });
    case 'ask': {
      const request = { channel: 'stdin', type: 'input_request', content: { prompt: text, password: false } };
      queue.push({ type: 'message', runId, data: JSON.stringify(request) });
      const answer = await Promise.race([run.answers[Symbol.asyncIterator]().next(), ended.promise]);
      if (typeof answer === 'object' && 'value' in answer && answer.value)
        print('stdout', JSON.parse(answer.value).content.value);
      return;
    }
    case 'set':
      context.variables.set(first, rest.join(' '));
      return;
    case 'get': {
      const value = context.variables.get(first);
      if (value === undefined) throw { name: 'NameError', message: `${first} is not defined` };
      return print('stdout', value);
    }
    case 'fail':
      throw { name: first, message: rest.join(' '), traceback: [`${first}: ${rest.join(' ')}`] };
    case 'sleep':
      await Promise.race([new Promise((resolve) => setTimeout(resolve, Number(text))), ended.promise]);
      return;
    case 'hang':
      await ended.promise;
      return;
    case 'die':
      throw { name: 'KernelDiedError', message: 'the kernel died' };
    case 'deaf':
      run.deaf = true;
      await ended.promise;
      return;
    case 'vanish':
      return vanish();
    case 'cut':
      return queue.fail(new AgentError('gone', 'the connection broke'));
    case 'impostor':
      return queue.push({ type: 'stdout', runId: `${runId}_of_another`, data: 'late' });
    case 'overflow':
      return queue.push({ type: 'stdout', runId, data: 'x'.repeat(Number(text)) });
    case 'listen':
      return ports.echo(Number(text));
    case 'truncate':
      run.truncated = Number(text);
      return;
    default:
      throw { name: 'SyntaxError', message: `unknown statement ${verb}` };
  }
}

function textOutput(value: string) {
  return { kind: 'inline', format: 'text', mimeType: 'text/plain', value, role: 'result', bundle: 0 } as const;
}
