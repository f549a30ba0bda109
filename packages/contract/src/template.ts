import { type Static, Type } from 'typebox';
import { TemplateIdSchema, TemplateVersionIdSchema } from './ids.ts';
import { Timestamp } from './timestamps.ts';

export const TemplateVersion = Type.Object(
  {
    id: TemplateVersionIdSchema,
    templateId: TemplateIdSchema,
    templateSlug: Type.String(),
    version: Type.String(),
    digest: Type.String({ description: 'SHA-256 of what the environment is made of.' }),
    packages: Type.Record(Type.String(), Type.Record(Type.String(), Type.String()), {
      description: 'Name and version of what is installed, by package manager.',
    }),
    createdAt: Timestamp,
  },
  { $id: 'TemplateVersion' },
);
export type TemplateVersion = Static<typeof TemplateVersion>;

export const Template = Type.Object(
  {
    id: TemplateIdSchema,
    slug: Type.String(),
    description: Type.String(),
    languages: Type.Array(Type.String()),
    latestVersion: Type.String(),
    latestVersionId: TemplateVersionIdSchema,
    createdAt: Timestamp,
  },
  { $id: 'Template' },
);
export type Template = Static<typeof Template>;
