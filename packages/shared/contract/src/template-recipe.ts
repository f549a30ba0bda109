/** Recipes: what a template of an organization is built from. */
import { type Static, Type } from 'typebox';
import { COMMAND_USERS } from './command.ts';
import { environment } from './environment.ts';
import { SecretIdSchema } from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { NetworkPolicy } from './network-policy.ts';
import { Resources } from './sandbox.ts';
import { documented, Text } from './text.ts';

export const TemplateSlug = Type.String({
  maxLength: LIMITS.templateSlugLength,
  pattern: '^[a-z0-9][a-z0-9-]*$',
  description:
    'Name to create sandboxes with. It must be unique in the organization, and differ from the slugs of the curated ' +
    'templates; the slug of a deleted template is free again.',
});

export const TemplateDescription = Text({
  maxLength: LIMITS.templateDescriptionLength,
  description: 'What the template contains. Default: empty.',
});

const packageList = (pattern: string, description: string) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: LIMITS.templatePackageLength, pattern }), {
      maxItems: LIMITS.templatePackages,
      description,
    }),
  );

const Packages = Type.Object(
  {
    apt: packageList(
      '^[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$',
      'Debian packages: `name` or `name=version`. Installed without recommended packages.',
    ),
    pip: packageList(
      '^[A-Za-z0-9][^\\u0000-\\u001f\\u007f]*$',
      'Requirements of pip, such as `jinja2==3.1.4`. Installed for every user.',
    ),
    npm: packageList(
      '^[@A-Za-z0-9][^\\u0000-\\u0020\\u007f]*$',
      'Packages of npm, such as `typescript@5.9.3`. Installed globally.',
    ),
  },
  { additionalProperties: false, description: 'Packages to install, in the order apt, pip, npm.' },
);

const modePattern = '^0?[0-7]{3}$';

export const TemplateFile = Type.Object(
  {
    path: Text({
      maxLength: LIMITS.templateFilePathLength,
      ...documented({ pattern: '^/' }),
      description: 'Absolute path. Missing directories are created.',
    }),
    content: Type.Optional(
      Type.String({ description: 'The content. Exactly one of `content` and `artifactId` must be given.' }),
    ),
    encoding: Type.Optional(oneOf(['utf8', 'base64'], 'Encoding of `content`. Default: `utf8`.')),
    artifactId: Type.Optional(
      Text({ maxLength: 100, description: 'Id of an artifact whose bytes are the content of the file.' }),
    ),
    mode: Type.Optional(
      Type.String({ pattern: modePattern, description: 'Permissions in octal, such as `"0755"`. Default: `"0644"`.' }),
    ),
    as: Type.Optional(oneOf(COMMAND_USERS, 'Owner of the file. Default: `root`.')),
  },
  { additionalProperties: false },
);
export type TemplateFile = Static<typeof TemplateFile>;

const Files = Type.Array(TemplateFile, {
  maxItems: LIMITS.templateFiles,
  description:
    `Files to write. All contents of a recipe together have at most ${LIMITS.templateContentBytes} bytes, without those of ` +
    'artifacts.',
});

const RunStep = Type.Object(
  {
    run: Text({
      minLength: 1,
      ...documented({ maxLength: LIMITS.commandArgumentBytes }),
      description: `A shell line: it runs as \`/bin/bash -lc -- LINE\`, and must end with exit code 0. At most ${LIMITS.commandArgumentBytes} bytes of UTF-8.`,
    }),
    as: Type.Optional(oneOf(COMMAND_USERS, 'User that runs the line. Default: `root`.')),
    cwd: Type.Optional(
      Text({
        minLength: 1,
        maxLength: LIMITS.cwdLength,
        default: DEFAULT_CWD,
        description: 'Working directory. Relative paths are resolved against `/workspace`.',
      }),
    ),
    env: Type.Optional(environment('Environment variables of this line, in addition to those of the recipe.')),
  },
  { additionalProperties: false, description: 'Runs a shell line.' },
);
const FilesStep = Type.Object({ files: Files }, { additionalProperties: false, description: 'Writes files.' });

export const RegistryImage = Type.Object(
  {
    image: Text({
      minLength: 1,
      maxLength: LIMITS.imageNameLength,
      description:
        'Name of the image as in `docker pull`, such as `debian:bookworm` or `registry.example/team/app@sha256:…`. The build ' +
        'downloads it in its sandbox, over HTTPS, under its network policy.',
    }),
    credentials: Type.Optional(
      Type.Object(
        {
          username: Text({
            minLength: 1,
            maxLength: LIMITS.imageUserLength,
            ...documented({ pattern: '^[^:\\u0000]+$' }),
            description: 'Name of the account, without a colon.',
          }),
          secretId: SecretIdSchema,
        },
        {
          additionalProperties: false,
          description:
            'Account of a private image. The secret, of the default project, has the password or the token; its `hosts` must ' +
            'include the registry, and the host that issues its tokens.',
        },
      ),
    ),
    caCertificates: Type.Optional(
      Type.String({
        maxLength: LIMITS.imageCertificatesLength,
        pattern: '^\\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s-]*-----END CERTIFICATE-----\\s*$',
        description:
          'Certificates of further authorities of the registry, as PEM. With `credentials`, an `allowlist` or a `denylist`, ' +
          'the gateway checks certificates: its operator adds authorities.',
      }),
    ),
  },
  {
    $id: 'RegistryImage',
    additionalProperties: false,
    description: 'An image of a registry.',
    examples: [{ image: 'debian:bookworm' }],
  },
);

export type RegistryImage = Static<typeof RegistryImage>;

/** Settings of an image that apply to the instructions after `FROM` in a Dockerfile. */
export const ImageSettings = Type.Object(
  {
    name: Type.String({ description: 'Whole name of the image, with the digest that it has now.' }),
    digest: Type.String({ description: 'Digest of the manifest or of the index.' }),
    env: Type.Record(Type.String(), Type.String(), { description: 'Environment variables that a sandbox can have.' }),
    user: Type.String({ description: 'User as the image names it; empty for root.' }),
    workdir: Type.String({ description: 'Absolute path of the working directory.' }),
    shell: Type.Optional(
      Type.Array(Type.String(), { description: 'Program and arguments of shell lines. Absent for `/bin/sh -c`.' }),
    ),
    onBuild: Type.Array(Type.String(), { description: 'Instructions of `ONBUILD`.' }),
  },
  {
    $id: 'ImageSettings',
    description: 'The settings of an image that count for the steps of a build.',
    examples: [
      {
        name: `docker.io/library/golang:1.25@sha256:${'0'.repeat(64)}`,
        digest: `sha256:${'0'.repeat(64)}`,
        env: { PATH: '/usr/local/go/bin:/usr/bin:/bin' },
        user: '',
        workdir: '/go',
        onBuild: [],
      },
    ],
  },
);
export type ImageSettings = Static<typeof ImageSettings>;

export const TemplateRecipe = Type.Object(
  {
    from: Type.Union(
      [
        Text({
          minLength: 1,
          maxLength: LIMITS.imageNameLength,
          description:
            'A slug or `tpl_` id, for the default version, or a `tplv_` id. Any other name is an image of a registry.',
        }),
        Type.Object(
          {
            artifactId: Text({
              minLength: 1,
              maxLength: 100,
              description: 'Artifact with an image archive: of `docker save`, or an OCI layout as a tar.',
            }),
          },
          { additionalProperties: false, description: 'An image, whose files become the root file system.' },
        ),
        RegistryImage,
      ],
      {
        description:
          "What the template is made from: a curated template or one of the organization's own, or an image. Sandboxes of " +
          'an image have JavaScript and TypeScript; Python needs `languages`, and before 3.11 IPython in the image.',
      },
    ),
    packages: Type.Optional(Packages),
    files: Type.Optional(Files),
    setup: Type.Optional(
      Type.Array(Type.Union([RunStep, FilesStep]), {
        maxItems: LIMITS.templateSetupSteps,
        description: 'Steps after packages and files, in this order.',
      }),
    ),
    env: Type.Optional(
      environment(
        'Environment variables of all steps, and of all processes in sandboxes of the version. Those of `from` stay.',
      ),
    ),
    languages: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 32 }), {
        minItems: 1,
        maxItems: 8,
        description: 'Languages that code runs can use: some of those of `from`. Default: all of them.',
      }),
    ),
    warm: Type.Optional(
      Type.Object(
        {
          imports: Type.Array(
            Type.String({
              maxLength: LIMITS.templateImportLength,
              pattern: '^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$',
            }),
            {
              maxItems: LIMITS.templateImports,
              description:
                'Python modules that are loaded before the first run, so that importing them takes milliseconds.',
            },
          ),
        },
        { additionalProperties: false },
      ),
    ),
    resources: Type.Optional(Resources),
    networkPolicy: Type.Optional(NetworkPolicy),
  },
  {
    $id: 'TemplateRecipe',
    additionalProperties: false,
    description:
      'What a version is built from. Steps: packages of apt, of pip and of npm, the files, then each entry of `setup`. ' +
      '`resources` are the defaults of sandboxes of the version, and those of the build itself. `networkPolicy` is the one ' +
      'of the build.',
    examples: [{ from: 'python-node', packages: { pip: ['jinja2==3.1.4'] }, warm: { imports: ['jinja2'] } }],
  },
);
export type TemplateRecipe = Static<typeof TemplateRecipe>;
export type TemplateSetupStep = NonNullable<TemplateRecipe['setup']>[number];
