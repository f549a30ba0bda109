/** Files of sandboxes in a simulation, without their bytes: each file has its path as its content. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { SandboxId } from '@cloche/contract';
import { AgentError } from '@cloche/runtime';
import type { AgentFiles } from '@cloche/runtime/agent-files';
import type { Incoming, Staged, Staging } from '../../src/features/artifacts/store/staging.ts';
import {
  AccessFiles,
  type AccessFilesDeps,
  type Activity,
  type Caller,
} from '../../src/features/files/access-files.ts';
import type { Peer } from './faults.ts';
import type { Seams } from './seams.ts';

/** A stream that says which file it would read. It is not read, because streams are slower than a simulation waits. */
class FileStream extends Readable {
  readonly file: string;

  constructor(file: string) {
    super();
    this.file = file;
  }
}

/** Gives access to the files of sandboxes that are ready; each sandbox has every file. */
export class SimulatedFiles extends AccessFiles {
  readonly #files: AgentFiles;

  constructor(deps: AccessFilesDeps, seams: Seams, peer: Peer) {
    super(deps);
    const lost = () => new AgentError('gone', 'the connection broke');
    const files: Partial<AgentFiles> = {
      as: () => this.#files,
      stat: async (path) => ({ path, type: 'file', size: path.length, mode: '0644', modifiedAt: '' }) as never,
      read: (path, _options, signal) =>
        seams.call(peer, 'agent', `read ${path}`, () => ({ body: new FileStream(path) }) as never, { lost, signal }),
    };
    // Sound: a simulation calls nothing else; a missing method would throw.
    this.#files = files as AgentFiles;
  }

  override with<T>(
    call: Caller,
    sandboxId: SandboxId,
    act: (files: AgentFiles, activity: Activity) => Promise<T>,
  ): Promise<T> {
    return super.with(call, sandboxId, (_none, activity) => act(this.#files, activity));
  }
}

/** Receives simulated files. */
const staging: Pick<Staging, 'take'> = {
  async take({ open }: Incoming): Promise<Staged> {
    const source = await open();
    if (!(source instanceof FileStream)) throw new Error('not a file of a simulation');
    const { file } = source;
    const sha256 = createHash('sha256').update(file).digest('hex');
    return { file, sha256, sizeBytes: file.length, async [Symbol.asyncDispose]() {} };
  },
};
// Sound: nothing else receives anything in a simulation.
export const simulatedStaging = staging as Staging;
