import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Language } from '@cloche/sdk';
import { CliError, UsageError } from './cli-error.ts';
import { standardInput } from './standard-input.ts';

const LANGUAGE_OF: Readonly<Record<string, Language>> = {
  '.py': 'python',
  '.js': 'javascript',
  '.cjs': 'javascript',
  '.mjs': 'javascript',
  '.ts': 'typescript',
  '.cts': 'typescript',
  '.mts': 'typescript',
};

export interface Source {
  code: string;
  /** Language of the file's extension; undefined if unknown. */
  language: Language | undefined;
}

/**
 * Reads the code to run: the given text, a file, or standard input (`-`, or no file while input is piped).
 * @throws {UsageError} if there is no code.
 */
export async function readSource(file: string | undefined, code: string | undefined): Promise<Source> {
  if (code !== undefined && file !== undefined) throw new UsageError('Give a file or -c CODE, not both.');
  if (code !== undefined) return { code, language: undefined };
  if (file === undefined && process.stdin.isTTY) {
    throw new UsageError("There is no code; give a file, `-` for standard input, or -c 'print(1)'.");
  }
  if (file === undefined || file === '-') {
    const piped = await text(standardInput());
    if (piped === '') throw new UsageError('Standard input is empty; give a file, or -c CODE.');
    return { code: piped, language: undefined };
  }
  return { code: await readCodeFile(file), language: LANGUAGE_OF[extname(file).toLowerCase()] };
}

async function readCodeFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : (error as Error).message;
    throw new CliError(`${file} cannot be read: ${why}.`);
  }
}
