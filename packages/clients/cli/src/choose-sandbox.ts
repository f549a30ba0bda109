import { askLine } from './ask-line.ts';
import { CliError, UsageError } from './cli-error.ts';
import { InterruptedError } from './interruption.ts';
import type { Session } from './session.ts';
import { formatAge } from './terminal/duration.ts';
import { statusColor } from './terminal/status-color.ts';
import { statusText } from './terminal/status-text.ts';
import { table } from './terminal/table.ts';

/** Sandboxes that a choice offers: as many as a person reads. */
const OFFERED = 20;

/**
 * Returns the sandbox that a person means who names none: the only live one, or the one chosen from a list.
 * @throws {UsageError} where no person can be asked
 */
export async function chooseSandbox(session: Session): Promise<string> {
  if (!process.stdin.isTTY || session.json) throw new UsageError("Missing required argument 'sandbox'.");
  const page = await (await session.connect()).sandboxes.list({ limit: OFFERED });
  const sandboxes = page.map(({ info }) => info);
  const [only] = sandboxes;
  if (only === undefined) throw new CliError('There is no live sandbox; `cloche sandbox create` creates one.');
  if (sandboxes.length === 1) return only.id;
  const { err } = session.terminal;
  const columns = [
    { title: '#', value: (sandbox: typeof only) => String(sandboxes.indexOf(sandbox) + 1) },
    { title: 'ID', value: ({ id }: typeof only) => id },
    { title: 'STATUS', value: (sandbox: typeof only) => statusText(sandbox), style: styleOf },
    { title: 'TEMPLATE', value: ({ templateSlug }: typeof only) => templateSlug },
    { title: 'CREATED', value: ({ createdAt }: typeof only) => formatAge(createdAt) },
  ];
  await err.line(table(sandboxes, columns, err));
  const chosen = sandboxes[Number(await ask(`Which one, 1 to ${sandboxes.length}? [1] `)) - 1];
  if (!chosen) throw new UsageError(`Choose a number from 1 to ${sandboxes.length}.`);
  return chosen.id;
}

function styleOf(cell: string, { status }: { status: string }, colors: Parameters<typeof statusColor>[1]): string {
  return statusColor(status, colors)(cell);
}

async function ask(question: string): Promise<string> {
  try {
    const line = await askLine(question, { output: process.stderr });
    if (line === undefined) throw new InterruptedError('SIGINT');
    return line.trim() || '1';
  } catch (error) {
    process.stderr.write('\n');
    throw error;
  }
}
