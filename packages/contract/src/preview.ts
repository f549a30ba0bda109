import { type Static, Type } from 'typebox';
import { OrgIdSchema, PreviewIdSchema, ProjectIdSchema, SandboxIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { Timestamp } from './timestamps.ts';

export const PREVIEW_VISIBILITIES = ['private', 'public'] as const;
export type PreviewVisibility = (typeof PREVIEW_VISIBILITIES)[number];

/** The header that opens a private preview; it never reaches what is previewed. */
export const PREVIEW_TOKEN_HEADER = 'x-cloche-preview-token';
/** The query parameter that does so; it becomes a cookie of the preview's host. */
export const PREVIEW_TOKEN_PARAMETER = 'cloche_token';

export const Preview = Type.Object(
  {
    id: PreviewIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    sandboxId: SandboxIdSchema,
    port: Type.Integer({ minimum: 1, maximum: 65_535 }),
    url: Type.String({ format: 'uri', description: 'A host of its own, HTTP and WebSocket.' }),
    visibility: oneOf(PREVIEW_VISIBILITIES),
    createdAt: Timestamp,
    expiresAt: Timestamp,
    deletedAt: Type.Optional(Timestamp),
    accessToken: Type.Optional(
      Type.String({
        description:
          `Of a private one, in the answer to its creation alone. Send it as the header \`${PREVIEW_TOKEN_HEADER}\`, or open ` +
          `the URL once with \`?${PREVIEW_TOKEN_PARAMETER}=\` and it.`,
      }),
    ),
  },
  { $id: 'Preview' },
);
export type Preview = Static<typeof Preview>;

export const OpenPreviewBody = Type.Object(
  {
    port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'Nothing need listen on it yet.' }),
    visibility: Type.Optional(
      oneOf(PREVIEW_VISIBILITIES, '`private`, the default, asks for its token; `public` lets in whoever has the URL.'),
    ),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.updateTtlMaxMs,
        description: 'As long as its sandbox lives where left out, and never longer.',
      }),
    ),
  },
  { $id: 'OpenPreview', additionalProperties: false },
);
export type OpenPreviewBody = Static<typeof OpenPreviewBody>;
