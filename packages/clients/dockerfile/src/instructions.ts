import {
  DockerfileParser,
  type Instruction as Parsed,
  type Heredoc as ParsedHeredoc,
  PropertyInstruction,
} from 'dockerfile-ast';
import { DockerfileError } from './dockerfile-error.ts';

export interface Heredoc {
  readonly name: string;
  /** Whether the name is quoted, so that no variable is replaced in the content. */
  readonly isQuoted: boolean;
  /** The lines, each with a newline; without leading tabs for `<<-`. */
  readonly content: string;
}

export interface Assignment {
  readonly name: string;
  /** Value with its quotes; undefined for `ARG NAME`. */
  readonly value: string | undefined;
}

/** An instruction of a Dockerfile. */
export interface Instruction {
  /** Line of its first word, from 1. */
  readonly line: number;
  /** In capitals, such as `RUN`. */
  readonly keyword: string;
  readonly flags: readonly { readonly name: string; readonly value: string }[];
  /** The rest of the instruction on one line: without flags, comments, continuation lines and here-documents. */
  readonly text: string;
  readonly heredocs: readonly Heredoc[];
  /** Assignments of an `ENV` or `ARG`. */
  readonly assignments: readonly Assignment[];
}

export interface ParsedDockerfile {
  readonly escapeCharacter: string;
  readonly instructions: readonly Instruction[];
}

/** Divides a Dockerfile into instructions. @throws {DockerfileError} for a here-document without an end. */
export function parseInstructions(source: string): ParsedDockerfile {
  const text = source.replaceAll('\r\n', '\n');
  const parsed = DockerfileParser.parse(text);
  const escapeCharacter = parsed.getEscapeCharacter();
  const lines = text.split('\n');
  return {
    escapeCharacter,
    instructions: parsed.getInstructions().map((each) => readInstruction(each, lines, escapeCharacter)),
  };
}

function readInstruction(parsed: Parsed, lines: readonly string[], escapeCharacter: string): Instruction {
  const { start, end } = parsed.getRange();
  const line = start.line + 1;
  const own = lines.slice(start.line, end.line + 1);
  own[0] = (own[0] ?? '').slice(start.character + parsed.getInstruction().length);
  const heredocs = heredocsOf(parsed).map((heredoc) => readHeredoc(heredoc, lines, line));
  const { flags, text } = splitFlags(joinLines(own, escapeCharacter, heredocs.length > 0));
  const assignments = parsed instanceof PropertyInstruction ? parsed.getProperties() : [];
  return {
    line,
    keyword: parsed.getKeyword(),
    flags,
    text,
    heredocs,
    assignments: assignments.map((each) => ({
      name: each.getName(),
      value: each.getUnescapedValue() ?? (each.getAssignmentOperator() === '=' ? '' : undefined),
    })),
  };
}

/** Returns the logical line. Comments and empty lines between continuation lines do not count. */
function joinLines(lines: readonly string[], escapeCharacter: string, hasHeredocs: boolean): string {
  let text = '';
  for (const [index, line] of lines.entries()) {
    if (index > 0 && /^\s*(#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    const continues = trimmed.endsWith(escapeCharacter);
    text += continues ? trimmed.slice(0, -1) : line;
    // The following lines are the contents of here-documents.
    if (!continues && hasHeredocs) break;
  }
  return text.trim();
}

function splitFlags(text: string): Pick<Instruction, 'flags' | 'text'> {
  const flags: { name: string; value: string }[] = [];
  let rest = text;
  for (;;) {
    const [whole, name, value = ''] = /^--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)/.exec(rest) ?? [];
    if (whole === undefined || name === undefined) return { flags, text: rest };
    flags.push({ name, value });
    rest = rest.slice(whole.length);
  }
}

function heredocsOf(parsed: Parsed): readonly ParsedHeredoc[] {
  const { getHeredocs } = parsed as Parsed & { getHeredocs?: () => ParsedHeredoc[] };
  if (!['RUN', 'COPY', 'ADD'].includes(parsed.getKeyword())) return [];
  // The parser also reports `<<` without a name, which is not a here-document.
  return (getHeredocs?.call(parsed) ?? []).filter((heredoc) => heredoc.getName() !== '');
}

function readHeredoc(heredoc: ParsedHeredoc, lines: readonly string[], line: number): Heredoc {
  const { start, end } = heredoc.getStartRange();
  const operator = (lines[start.line] ?? '').slice(start.character, end.character);
  const name = heredoc.getName();
  const delimiter = heredoc.getDelimiterRange();
  if (!delimiter)
    throw new DockerfileError(line, `the here-document <<${name} does not end: no line consists of ${name} alone.`);
  const first = heredoc.getContentRange()?.start.line ?? delimiter.start.line;
  const body = lines.slice(first, delimiter.start.line);
  const content = operator.startsWith('<<-') ? body.map((each) => each.replace(/^\t+/, '')) : body;
  return { name, isQuoted: /["']/.test(operator), content: content.map((each) => `${each}\n`).join('') };
}
