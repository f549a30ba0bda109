import { type Static, Type } from 'typebox';
import { OrgIdSchema, TemplateBuildIdSchema, TemplateIdSchema, TemplateVersionIdSchema } from './ids.ts';
import { Resources } from './sandbox.ts';
import { TemplateDescription, TemplateRecipe, TemplateSlug } from './template-recipe.ts';
import { Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

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
    buildId: Type.Optional(TemplateBuildIdSchema),
    fromVersionId: Type.Optional(
      Type.String({ description: 'Version that this one was built from. Absent for a curated template.' }),
    ),
    resources: Type.Optional(Resources),
    createdAt: Timestamp,
  },
  { $id: 'TemplateVersion' },
);
export type TemplateVersion = Static<typeof TemplateVersion>;

export const Template = Type.Object(
  {
    id: TemplateIdSchema,
    orgId: Type.Optional(OrgIdSchema),
    slug: Type.String({ description: 'Name to create sandboxes with.' }),
    description: Type.String({ description: 'What the template contains.' }),
    languages: Type.Array(Type.String(), {
      description: 'Languages that code runs can use, in sandboxes of the default version.',
    }),
    latestVersion: Type.Optional(
      Type.String({ description: 'Name of the newest version. Absent until a build has succeeded.' }),
    ),
    latestVersionId: Type.Optional(TemplateVersionIdSchema),
    defaultVersionId: Type.Optional(
      Type.String({
        description:
          'Version of sandboxes whose request names the template alone. A build that succeeds sets it to its version. Absent ' +
          'until a build has succeeded.',
      }),
    ),
    createdAt: Timestamp,
    deletedAt: Type.Optional(timestamp('When the template was deleted.')),
  },
  {
    $id: 'Template',
    description: 'A template. Without `orgId`, it is a curated one, which every organization has.',
  },
);
export type Template = Static<typeof Template>;

export const CreateTemplateBody = Type.Object(
  { slug: TemplateSlug, description: Type.Optional(TemplateDescription), ...TemplateRecipe.properties },
  {
    $id: 'CreateTemplate',
    additionalProperties: false,
    examples: [
      {
        slug: 'reports',
        from: 'python-node',
        packages: { apt: ['graphviz'], pip: ['jinja2==3.1.4'] },
        files: [{ path: '/etc/reports.conf', content: 'theme = plain\n' }],
        setup: [{ as: 'user', run: 'mkdir -p ~/reports' }],
        warm: { imports: ['jinja2'] },
      },
    ],
  },
);
export type CreateTemplateBody = Static<typeof CreateTemplateBody>;

export const UpdateTemplateBody = Type.Object(
  {
    description: Type.Optional(TemplateDescription),
    defaultVersionId: Type.Optional(
      Text({
        maxLength: 100,
        description:
          'Id of a version of this template, such as an earlier one. The next build that succeeds sets it anew.',
      }),
    ),
  },
  {
    $id: 'UpdateTemplate',
    additionalProperties: false,
    examples: [{ description: 'Reports, with graphviz.' }, { defaultVersionId: 'tplv_0123456789abcdef0123' }],
  },
);
export type UpdateTemplateBody = Static<typeof UpdateTemplateBody>;
