/** Turns a recipe into a plan, and checks what its schema cannot express. */
import { posix } from 'node:path';
import {
  BASE64_PATTERN,
  DEFAULT_CWD,
  type Issue,
  LIMITS,
  mapBytes,
  normalizeNetworkPolicy,
  type TemplateFile,
  type TemplateRecipe,
  type TemplateSetupStep,
} from '@cloche/contract';
import { invalidRequest } from '../../../platform/base/app-error.ts';
import type { Plan, PlannedFile, PlannedPull, PlannedStep } from './plan.ts';

/** Artifacts that files of a recipe name, by id, with the digests of their contents. */
export type ArtifactDigests = ReadonlyMap<string, string>;

const BASE64 = new RegExp(BASE64_PATTERN);

export interface RecipeBase {
  /** Languages of the version that the recipe starts from. */
  readonly languages: readonly string[];
  /** Languages of a recipe that names none. Default: all. */
  readonly defaultLanguages?: readonly string[];
  /** The image of a registry that the recipe starts from. */
  readonly pull?: PlannedPull | undefined;
}

/** @throws AppError `invalid_request` with every issue of the recipe */
export function planRecipe(recipe: TemplateRecipe, base: RecipeBase, artifacts: ArtifactDigests): Plan {
  const issues: Issue[] = [];
  const { packages = {}, files = [], setup = [], env = {}, warm, resources = {} } = recipe;
  const steps: PlannedStep[] = (['apt', 'pip', 'npm'] as const).flatMap((kind) => {
    const wanted = packages[kind] ?? [];
    return wanted.length > 0 ? [{ kind, packages: wanted }] : [];
  });
  if (base.pull) steps.unshift({ kind: 'image', pull: base.pull });
  else if (typeof recipe.from !== 'string' && 'artifactId' in recipe.from) {
    const { artifactId } = recipe.from;
    steps.unshift({ kind: 'image', artifactId, sha256: artifacts.get(artifactId) ?? '' });
  }
  if (files.length > 0) steps.push(planFiles(files, 'body.files', artifacts, issues));
  for (const [index, step] of setup.entries()) steps.push(planSetup(step, `body.setup.${index}`, artifacts, issues));
  checkContents(steps, issues);
  checkEnv(env, 'body.env', issues);
  const languages = recipe.languages ?? base.defaultLanguages ?? base.languages;
  for (const [index, language] of languages.entries()) {
    if (base.languages.includes(language)) continue;
    issues.push({
      path: `body.languages.${index}`,
      message: `is not one of ${base.languages.join(', ')}, which body.from has`,
    });
  }
  const policy = normalizeNetworkPolicy(recipe.networkPolicy ?? { mode: 'unrestricted' });
  if (!policy.ok)
    issues.push(...policy.issues.map((issue) => ({ ...issue, path: `body.networkPolicy.${issue.path}` })));
  const [first, ...others] = issues;
  if (first || !policy.ok) throw invalidRequest(first as Issue, ...others);
  return {
    steps,
    settings: { env, languages: [...new Set(languages)], imports: [...new Set(warm?.imports ?? [])], resources },
    networkPolicy: policy.policy,
  };
}

/** Returns the ids of the artifacts that a recipe names, with the paths of the fields. */
export function artifactsOf({ from, files = [], setup = [] }: TemplateRecipe): { id: string; path: string }[] {
  const ofFiles = (list: readonly TemplateFile[], path: string) =>
    list.flatMap(({ artifactId }, index) =>
      artifactId === undefined ? [] : [{ id: artifactId, path: `${path}.${index}.artifactId` }],
    );
  return [
    ...(typeof from === 'string' || 'image' in from ? [] : [{ id: from.artifactId, path: 'body.from.artifactId' }]),
    ...ofFiles(files, 'body.files'),
    ...setup.flatMap((step, index) => ('files' in step ? ofFiles(step.files, `body.setup.${index}.files`) : [])),
  ];
}

function planSetup(step: TemplateSetupStep, path: string, artifacts: ArtifactDigests, issues: Issue[]): PlannedStep {
  if ('files' in step) return planFiles(step.files, `${path}.files`, artifacts, issues);
  const { run, as = 'root', cwd = DEFAULT_CWD, env = {} } = step;
  const bytes = Buffer.byteLength(run);
  if (bytes > LIMITS.commandArgumentBytes) {
    issues.push({
      path: `${path}.run`,
      message: `has ${bytes} bytes of UTF-8; at most ${LIMITS.commandArgumentBytes} are allowed`,
    });
  }
  checkEnv(env, `${path}.env`, issues);
  return { kind: 'run', run, as, cwd: posix.resolve(DEFAULT_CWD, cwd), env };
}

function planFiles(
  files: readonly TemplateFile[],
  path: string,
  artifacts: ArtifactDigests,
  issues: Issue[],
): PlannedStep {
  const planned = files.map((file, index) => planFile(file, `${path}.${index}`, artifacts, issues));
  return { kind: 'files', files: planned };
}

function planFile(file: TemplateFile, path: string, artifacts: ArtifactDigests, issues: Issue[]): PlannedFile {
  const { content, encoding = 'utf8', artifactId, mode = '0644', as = 'root' } = file;
  if (!file.path.startsWith('/') || file.path.endsWith('/')) {
    issues.push({ path: `${path}.path`, message: 'must be the absolute path of a file, such as "/etc/app.conf"' });
  }
  if ((content === undefined) === (artifactId === undefined)) {
    issues.push({ path, message: 'needs exactly one of content and artifactId' });
  }
  if (content !== undefined && encoding === 'base64' && !BASE64.test(content)) {
    issues.push({ path: `${path}.content`, message: 'must be base64 of the standard alphabet' });
  }
  return {
    path: posix.normalize(file.path),
    content:
      artifactId === undefined
        ? { base64: Buffer.from(content ?? '', encoding).toString('base64') }
        : { artifactId, sha256: artifacts.get(artifactId) ?? '' },
    mode: mode.padStart(4, '0'),
    as,
  };
}

function checkContents(steps: readonly PlannedStep[], issues: Issue[]): void {
  let bytes = 0;
  for (const step of steps) {
    if (step.kind !== 'files') continue;
    for (const { content } of step.files) if ('base64' in content) bytes += Buffer.byteLength(content.base64, 'base64');
  }
  if (bytes <= LIMITS.templateContentBytes) return;
  const message = `have ${bytes} bytes of content together; at most ${LIMITS.templateContentBytes} are allowed. Use artifactId for large files`;
  issues.push({ path: 'body.files', message });
}

function checkEnv(env: Readonly<Record<string, string>>, path: string, issues: Issue[]): void {
  const bytes = mapBytes(env);
  if (bytes <= LIMITS.envBytes) return;
  issues.push({ path, message: `has ${bytes} bytes of UTF-8; at most ${LIMITS.envBytes} are allowed` });
}
