import type { CodeContext, Language } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import type { E2bDeps } from '../e2b-deps.ts';
import { type BoxSession, pathOf } from './box-session.ts';
import { moveOnce } from './home-directory.ts';

/** Languages of which E2B's sandboxes have a context from the beginning. */
const STANDING: readonly Language[] = ['python', 'javascript'];
const STANDING_ID = 'default-';
/** Begins the names of notes. */
const NOTE = 'e2b cwd ';

interface Shown {
  readonly id: string;
  readonly language: Language;
  readonly cwd: string;
}

/**
 * Returns the language of a context that every sandbox of E2B has, by its id. `/v1` makes it with the first run, and
 * until then it has no other id.
 */
export function standingLanguage(id: string | null | undefined): Language | undefined {
  return STANDING.find((language) => id === STANDING_ID + language);
}

/** Contexts as E2B's clients know them: `/v1` has their kernels, and notes of the sandbox have their directories. */
export class E2bContexts {
  readonly #deps: Pick<E2bDeps, 'notes'>;

  constructor(deps: Pick<E2bDeps, 'notes'>) {
    this.#deps = deps;
  }

  /** The newest one is last. */
  async list(session: BoxSession): Promise<Shown[]> {
    const infos = (await session.contexts.list()).map(({ info }) => info);
    const missing = STANDING.filter((each) => !infos.some(({ isDefault, language }) => isDefault && language === each));
    const standing = missing.map((language) => ({ id: STANDING_ID + language, language, cwd: pathOf('', 'user') }));
    const own = infos.sort((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt));
    const notes = await this.#deps.notes.all(session.sandboxId);
    return [...standing, ...own.map((info) => shown(info, notes))];
  }

  /** Makes a context whose code begins in `cwd`, or at home if the user of the sandbox may not enter it. */
  async create(session: BoxSession, language: Language, cwd: string): Promise<Shown> {
    const { info } = await session.contexts.create({ language });
    try {
      await moveOnce(session, { language, contextId: info.id }, cwd);
    } catch (error) {
      await session.contexts.delete(info.id).catch(() => undefined);
      throw error;
    }
    const { notes } = this.#deps;
    await notes.put(session.sandboxId, nameOf(info.id), JSON.stringify(cwd));
    // As many notes stay as the sandbox has contexts, however many a client makes and deletes.
    const ids = (await session.contexts.list()).map((context) => context.info.id);
    await notes.keep(session.sandboxId, NOTE, [...ids, info.id].map(nameOf));
    return { id: info.id, language, cwd };
  }

  async remove({ contexts }: BoxSession, id: string): Promise<void> {
    if (standingLanguage(id)) return;
    await contexts.get(id);
    await contexts.delete(id);
  }

  /** Replaces the kernel of a context, which begins in its directory again. */
  async restart(session: BoxSession, id: string): Promise<void> {
    if (standingLanguage(id)) return;
    const context = await session.contexts.get(id);
    await context.restart();
    const { language, cwd } = shown(context.info, await this.#deps.notes.all(session.sandboxId));
    await moveOnce(session, { language, contextId: id }, cwd);
  }
}

function shown({ id, language }: CodeContext, notes: ReadonlyMap<string, string>): Shown {
  const note = notes.get(nameOf(id));
  // Sound: only `create` writes this note.
  const cwd = note === undefined ? pathOf('', 'user') : (parsePlainJson(note, 1) as string);
  return { id, language, cwd };
}

function nameOf(contextId: string): string {
  return NOTE + contextId;
}
