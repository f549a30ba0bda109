import { randomUUID } from 'node:crypto';

/** The path, name and type of a session, which clients choose. */
export interface SessionName {
  readonly path: string;
  readonly name: string | null;
  readonly type: string | null;
}

/** A kernel with the path of a notebook or console. Changing the kernel keeps the session. */
export interface Session extends SessionName {
  readonly id: string;
  readonly kernelId: string;
}

const PREFIX = 'session-of-';
/** Sessions that are remembered. */
const MAX_SESSIONS = 10_000;
/** Sessions of one kernel that are remembered, so that one client cannot make the server forget all others. */
const MAX_OF_KERNEL = 100;

/**
 * The sessions in the memory of one server. A kernel without one has a session with the kernel's id as its path. Who may
 * use a session is who may use its kernel, which only `/v1` knows.
 */
export class Sessions {
  readonly #sessions = new Map<string, Session>();
  readonly #ofKernel = new Map<string, Set<string>>();

  /** Returns undefined if the id is of no session. */
  find(id: string): Session | undefined {
    const known = this.#sessions.get(id);
    if (known || !id.startsWith(PREFIX)) return known;
    const kernelId = id.slice(PREFIX.length);
    // A kernel that a session has left has no session of its own.
    return this.#ofKernel.has(kernelId) ? undefined : unnamed(kernelId);
  }

  /** Returns the sessions of a kernel. */
  ofKernel(kernelId: string): readonly [Session, ...Session[]] {
    const ids = [...(this.#ofKernel.get(kernelId) ?? [])];
    const [first = unnamed(kernelId), ...others] = ids
      .map((id) => this.#sessions.get(id))
      .filter((session) => session !== undefined);
    return [first, ...others];
  }

  /** Opens a session of a kernel that may have others, as a console beside a notebook has. */
  open(kernelId: string, name: Partial<SessionName>): Session {
    const first = unnamed(kernelId);
    const [oldest, ...others] = this.#ofKernel.get(kernelId) ?? [];
    if (oldest !== undefined && others.length + 1 >= MAX_OF_KERNEL) this.forget(oldest);
    const id = this.#sessions.has(first.id) || oldest !== undefined ? randomUUID() : first.id;
    return this.set({ ...first, ...name, id });
  }

  /** Changes a session, or the kernel that it has. */
  set(session: Session): Session {
    this.forget(session.id);
    this.#sessions.set(session.id, session);
    this.#ofKernel.set(session.kernelId, (this.#ofKernel.get(session.kernelId) ?? new Set()).add(session.id));
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.forget(oldest);
    return session;
  }

  forget(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    this.#sessions.delete(id);
    const others = this.#ofKernel.get(session.kernelId);
    others?.delete(id);
    if (others?.size === 0) this.#ofKernel.delete(session.kernelId);
  }
}

function unnamed(kernelId: string): Session {
  return { id: `${PREFIX}${kernelId}`, kernelId, path: kernelId, name: '', type: 'notebook' };
}
