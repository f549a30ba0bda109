import { type Static, Type } from 'typebox';
import { TemplateIdSchema, TemplateVersionIdSchema } from './ids.ts';
import { Timestamp } from './timestamps.ts';

export const TemplateVersion = Type.Object(
  {
    id: TemplateVersionIdSchema,
    templateId: TemplateIdSchema,
    templateSlug: Type.String({ description: 'Slug of the template.' }),
    version: Type.String({ description: 'Name of the version.' }),
    digest: Type.String({ description: 'SHA-256 of everything that the environment is built from.' }),
    packages: Type.Record(Type.String(), Type.Record(Type.String(), Type.String()), {
      description: 'Installed packages: package manager, then name, then version.',
    }),
    createdAt: Timestamp,
  },
  { $id: 'TemplateVersion' },
);
export type TemplateVersion = Static<typeof TemplateVersion>;

export const Template = Type.Object(
  {
    id: TemplateIdSchema,
    slug: Type.String({ description: 'Name to create sandboxes with.' }),
    description: Type.String({ description: 'What the template contains.' }),
    languages: Type.Array(Type.String(), { description: 'Languages that code runs can use.' }),
    latestVersion: Type.String({ description: 'Name of the newest version.' }),
    latestVersionId: TemplateVersionIdSchema,
    createdAt: Timestamp,
  },
  { $id: 'Template' },
);
export type Template = Static<typeof Template>;
