import { Readable } from 'node:stream';
import { LIMITS, type OutputFormat } from '@cloche/contract';
import { type AgentOutput, jsonBytes } from '@cloche/protocol';
import type { KeepArtifact } from '../artifacts/keep-artifact.ts';
import type { SandboxRecord } from '../sandboxes/record/sandbox.ts';

/** Where an output is kept that is no longer in its value. */
export interface PromotedOutput {
  readonly artifactId: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

export interface PromotionContext {
  readonly sandbox: SandboxRecord;
  readonly runId: string;
  /** Counts the outputs of the run. */
  readonly index: number;
  /** What the answer still has room for. */
  readonly inlineBytesLeft: number;
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

/** Makes artifacts of the outputs of a run that asks for it: of binary ones, and of those too large for an answer. */
export class PromoteOutputs {
  readonly #keep: KeepArtifact;

  constructor(keep: KeepArtifact) {
    this.#keep = keep;
  }

  /** Undefined for one that stays where it is. */
  async promote(
    { format, mimeType, value }: AgentOutput,
    { sandbox, runId, index, inlineBytesLeft }: PromotionContext,
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
    const { id, sizeBytes, sha256 } = await this.#keep.keep(artifact, Readable.from([bytes]));
    return { artifactId: id, sizeBytes, sha256 };
  }
}
