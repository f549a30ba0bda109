import { Readable } from 'node:stream';
import { LIMITS, type OutputFormat } from '@cloche/contract';
import { jsonBytes } from '@cloche/node-support';
import type { AgentOutput } from '@cloche/protocol';
import { UNAUDITED } from '../../platform/call/call.ts';
import type { KeepArtifact } from '../artifacts/keep-artifact.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';

/** The artifact that holds the value of an output. */
export interface PromotedOutput {
  readonly artifactId: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

export interface PromotionContext {
  readonly sandbox: SandboxRecord;
  readonly runId: string;
  /** Index of the output in its run. */
  readonly index: number;
  /** Bytes of inline outputs that the result still has room for. */
  readonly inlineBytesLeft: number;
  /** Aborts when the run must end. */
  readonly signal: AbortSignal;
}

const BINARY: ReadonlySet<OutputFormat> = new Set(['png', 'jpeg', 'gif', 'pdf']);
const EXTENSIONS: Readonly<Record<OutputFormat, string>> = {
  text: 'txt',
  html: 'html',
  markdown: 'md',
  latex: 'tex',
  svg: 'svg',
  png: 'png',
  jpeg: 'jpeg',
  gif: 'gif',
  pdf: 'pdf',
  json: 'json',
  javascript: 'js',
  chart: 'json',
  data: 'json',
};
const MIME_TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;

/**
 * Stores outputs of a run as artifacts if the client asked for it: binary outputs and those too large for a response.
 */
export class PromoteOutputs {
  readonly #keepArtifact: KeepArtifact;

  constructor(keepArtifact: KeepArtifact) {
    this.#keepArtifact = keepArtifact;
  }

  /** Returns undefined for an output that stays inline. */
  async promote(
    { format, mimeType, value }: AgentOutput,
    { sandbox, runId, index, inlineBytesLeft, signal }: PromotionContext,
  ): Promise<PromotedOutput | undefined> {
    const isBinary = BINARY.has(format);
    const mostBytes = Math.min(LIMITS.inlineOutputBytes, inlineBytesLeft);
    if (!isBinary && jsonBytes(value) <= mostBytes) return undefined;
    const artifact = {
      orgId: sandbox.orgId,
      projectId: sandbox.projectId,
      sandboxId: sandbox.id,
      name: `${runId}-${index}.${EXTENSIONS[format]}`,
      path: undefined,
      contentType: MIME_TYPE.test(mimeType) ? mimeType : 'application/octet-stream',
      metadata: {},
      idempotencyRecordId: undefined,
    };
    const bytes = Buffer.from(value, isBinary ? 'base64' : 'utf8');
    const content = { sizeBytes: bytes.length, open: () => Readable.from([bytes]) };
    const { id, sizeBytes, sha256 } = await this.#keepArtifact.keep({ signal, ...UNAUDITED }, artifact, content);
    return { artifactId: id, sizeBytes, sha256 };
  }
}
