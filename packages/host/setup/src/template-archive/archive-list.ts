/**
 * The form of an archive of templates: a tar whose first entry lists the others. Each of them is the tar of one folder,
 * compressed with zstd.
 */
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { TemplateArchiveError } from './template-archive-error.ts';

/** First entry of the archive. `cloche template import` knows an archive of templates by it. */
export const LIST_NAME = 'cloche-templates.json';
/** Size of the first entry, filled up with spaces: it is written last, when the digests are known. */
export const LIST_BYTES = 16 * 1024;

const FORMAT = 1;
const MAX_PARTS = 16;

const Packed = {
  /** Name of the part's entry. */
  name: Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,79}$' }),
  sizeBytes: Type.Integer({ minimum: 1 }),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  /** Bytes of the tar. */
  plainBytes: Type.Integer({ minimum: 1 }),
};

const TemplatePart = Type.Object({
  ...Packed,
  kind: Type.Literal('template'),
  slug: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
  /** Name of the version's folder in the cache. */
  digest: Type.String({ pattern: '^[0-9a-f]{64}$' }),
});

const GuestPart = Type.Object({
  ...Packed,
  kind: Type.Literal('guest'),
  /** Name of the guest folder in the cache. */
  digest: Type.String({ pattern: '^[0-9a-f]{32}$' }),
});

const ArchiveList = Type.Object({
  format: Type.Literal(FORMAT),
  /** The processor of the machine that wrote the archive, as Node's `process.arch` names it. */
  architecture: Type.Union([Type.Literal('x64'), Type.Literal('arm64')]),
  parts: Type.Array(Type.Union([TemplatePart, GuestPart]), { minItems: 1, maxItems: MAX_PARTS }),
});
export type ArchiveList = Static<typeof ArchiveList>;
export type ArchivePart = ArchiveList['parts'][number];
export type TemplatePart = Static<typeof TemplatePart>;

/** Returns the first entry of an archive. */
export function writeList(parts: readonly ArchivePart[]): Buffer {
  const text = JSON.stringify({ format: FORMAT, architecture: process.arch, parts }, null, 2);
  const bytes = Buffer.alloc(LIST_BYTES, ' ');
  if (bytes.write(text) > LIST_BYTES - 1) throw new Error('The list of the archive is too long.');
  bytes.write('\n', LIST_BYTES - 1);
  return bytes;
}

/** Reads the first entry of an untrusted archive. @throws {TemplateArchiveError} */
export function readList(bytes: Buffer): ArchiveList {
  const list = parsed(bytes);
  const { format, architecture } = list as Partial<ArchiveList>;
  if (Number.isInteger(format) && format !== FORMAT)
    throw new TemplateArchiveError(`it has format ${format}, and this release reads format ${FORMAT}`);
  if (!Value.Check(ArchiveList, list)) {
    const [problem] = Value.Errors(ArchiveList, list);
    throw new TemplateArchiveError(`${LIST_NAME} is invalid at ${problem?.instancePath || '/'}: ${problem?.message}`);
  }
  if (architecture !== process.arch)
    throw new TemplateArchiveError(`it is for ${architecture}, and this machine is ${process.arch}`);
  for (const names of [list.parts.map(({ name }) => name), list.parts.map(contentOf)])
    for (const [index, name] of names.entries())
      if (names.indexOf(name) !== index) throw new TemplateArchiveError(`${LIST_NAME} lists ${name} twice`);
  return list;
}

function contentOf(part: ArchivePart): string {
  return part.kind === 'guest' ? 'guest files' : `template ${part.slug}`;
}

function parsed(bytes: Buffer): object {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Said below.
  }
  throw new TemplateArchiveError(`${LIST_NAME} is not JSON`);
}
