/** Changes honest messages of an agent into false ones, by a seed. */
import { mutantsOf, type Schema } from '../../../../packages/service/server/testing/schema-mutants.ts';
import { mutateBytes, mutateJson } from '../../../../packages/shared/testkit/src/mutations.ts';
import type { Random } from '../../../../packages/shared/testkit/src/random.ts';

/** Bytes of an answer without end, after which the liar waits: the other side should have left long before. */
export const FLOOD_BYTES = 96 * 2 ** 20;
const LINE_BYTES = 8 * 2 ** 20;
const LEVELS = 100_000;

/** Returns a JSON message with one constraint of its schema broken, at the bounds, or changed at random. */
export function brokenMessage(random: Random, text: string, schema: Schema | undefined): string {
  const kind = random.next();
  if (kind < 0.1) return text.replace(/"(?=[^"]*"$)/, `"${'x'.repeat(random.below(LINE_BYTES))}`);
  if (kind < 0.15) return '['.repeat(random.below(LEVELS));
  if (kind < 0.2) return `{"type":${'{"a":'.repeat(random.below(LEVELS))}`;
  const message = parsed(text);
  if (message === undefined) return mutateBytes(random, Buffer.from(text)).toString('latin1');
  const mutants = schema && kind < 0.7 ? mutantsOf(branchOf(schema, message), message, (same) => same) : [];
  const [first, ...rest] = mutants;
  const value = first ? random.pick([first, ...rest]).value : mutateJson(random, message);
  return JSON.stringify(value) ?? 'undefined';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the branch of a union that has the type of the message. */
function branchOf(schema: Schema, message: unknown): Schema {
  const branches = schema.anyOf as Schema[] | undefined;
  const { type } = (message ?? {}) as { type?: unknown };
  return branches?.find((branch) => JSON.stringify(branch).includes(`"const":${JSON.stringify(type)}`)) ?? schema;
}

/** Changes lines of a stream in content, order and number. Keeps lines only to send them later. */
export class LyingLines {
  readonly #random: Random;
  readonly #schema: Schema | undefined;
  #rest = '';
  #kept: string | undefined;

  constructor(random: Random, schema: Schema | undefined) {
    this.#random = random;
    this.#schema = schema;
  }

  /** Returns what is sent for a piece of the honest stream, and whether the stream ends or breaks there. */
  of(piece: Buffer): { text: string; ending?: 'end' | 'reset' | 'flood' } {
    const lines = (this.#rest + piece.toString('latin1')).split('\n');
    this.#rest = lines.pop() ?? '';
    let text = '';
    for (const line of lines) {
      const random = this.#random.next();
      if (random < 0.6) text += `${line}\n`;
      else if (random < 0.7) text += `${brokenMessage(this.#random, line, this.#schema)}\n`;
      else if (random < 0.75) text += `${line}\n${line}\n`;
      else if (random < 0.8) text += '';
      else if (random < 0.85) text += `${this.#swapped(line)}\n`;
      else if (random < 0.88) text += `${line}\n${'\n'.repeat(this.#random.below(10_000))}`;
      else if (random < 0.9) text += `${line}\n`.repeat(this.#random.below(2_000));
      else if (random < 0.92)
        return { text: `${text}${line.slice(0, this.#random.below(line.length + 1))}`, ending: 'end' };
      else if (random < 0.94) return { text, ending: 'end' };
      else if (random < 0.96) return { text, ending: 'reset' };
      else if (random < 0.97) return { text: `${text}${line}\n`, ending: 'flood' };
      else text += line.replace(/"runId":"[^"]*"/, '"runId":"run_other"').concat('\n');
    }
    return { text };
  }

  /** Returns an earlier line in place of this one, which is kept for later. */
  #swapped(line: string): string {
    const earlier = this.#kept ?? '';
    this.#kept = line;
    return earlier;
  }
}
