import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Gate } from '../src/base/gate.ts';
import { type AgentServerDeps, createAgentServer } from '../src/http/agent-server.ts';
import { FileRequests } from '../src/http/file-requests.ts';

export interface FileAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
  readonly json: any;
}

/** The agent's server with files only, in this process. The workspace belongs to the user. */
export class FileAgent implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'cloche-files-'));
  readonly workspace = join(this.folder, 'workspace');
  readonly gate = new Gate();
  readonly user = { uid: 1000, gid: 1000 };
  readonly #connections = new Agent({ keepAlive: true });
  readonly #server;

  private constructor() {
    // Allows the user to reach the workspace.
    chmodSync(this.folder, 0o711);
    mkdirSync(this.workspace);
    chownSync(this.workspace, this.user.uid, this.user.gid);
    const files = new FileRequests({ workspace: this.workspace, ...this.user });
    // Cast, because no test opens a context or starts a command.
    this.#server = createAgentServer({ files, gate: this.gate } as AgentServerDeps);
  }

  static async start(): Promise<FileAgent> {
    const agent = new FileAgent();
    agent.#server.listen(agent.#socketPath);
    await once(agent.#server, 'listening');
    return agent;
  }

  async call(
    method: string,
    path: string,
    query: Record<string, string> = {},
    { headers = {}, body }: { headers?: OutgoingHttpHeaders; body?: string | Buffer } = {},
  ): Promise<FileAnswer> {
    this.#giveToUser();
    const asked = this.open(method, path, query, headers);
    asked.end(body);
    return this.answerTo(asked);
  }

  /** Opens a request. The caller writes its body. */
  open(method: string, path: string, query: Record<string, string> = {}, headers: OutgoingHttpHeaders = {}) {
    const url = `/files${path}?${new URLSearchParams(query)}`;
    const asked = request({ socketPath: this.#socketPath, agent: this.#connections, method, path: url, headers });
    // After an early refusal the rest of the body can fail to be sent. Only the answer matters.
    return asked.on('error', () => undefined);
  }

  async answerTo(asked: ReturnType<typeof request>): Promise<FileAnswer> {
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const bytes = await buffer(response);
    const isJson = response.headers['content-type'] === 'application/json' && bytes.length > 0;
    const json = isJson ? JSON.parse(bytes.toString()) : undefined;
    return { status: response.statusCode ?? 0, headers: response.headers, bytes, json };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connections.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Gives the user the files that a test, which runs as root, has created in the workspace. */
  #giveToUser(): void {
    const { uid, gid } = this.user;
    execFileSync('chown', ['-Rh', '--from=0', `${uid}:${gid}`, this.workspace]);
  }

  get #socketPath(): string {
    return join(this.folder, 'agent.sock');
  }
}
