/** A language whose programs are files that an interpreter runs. */
export interface ProgramLanguage {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly extension: string;
  readonly interpreter: string;
}

/** The languages of the template `python-node`, by their names in Piston. */
export const LANGUAGES: readonly ProgramLanguage[] = [
  { name: 'python', aliases: ['py', 'py3', 'python3'], extension: 'py', interpreter: 'python3' },
  {
    name: 'javascript',
    aliases: ['js', 'node', 'nodejs', 'node-js', 'node-javascript'],
    extension: 'js',
    interpreter: 'node',
  },
  { name: 'typescript', aliases: ['ts', 'node-ts'], extension: 'ts', interpreter: 'node' },
  { name: 'bash', aliases: ['sh'], extension: 'sh', interpreter: 'bash' },
];

/** Finds a language by its name or an alias. */
export function findLanguage(name: string): ProgramLanguage | undefined {
  return LANGUAGES.find((language) => language.name === name || language.aliases.includes(name));
}

export const LANGUAGE_NAMES = LANGUAGES.map(({ name }) => name).join(', ');
