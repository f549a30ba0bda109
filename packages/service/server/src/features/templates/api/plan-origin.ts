import { DEFAULT_TEMPLATE, ID_PREFIXES, isImageName, parseImageName, type TemplateRecipe } from '@cloche/contract';
import type { ProjectAccess } from '../../../platform/access/project-access.ts';
import { AppError, invalidRequest } from '../../../platform/base/app-error.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import { requireSecrets } from '../../secrets/sandbox-secrets.ts';
import type { SecretRepository } from '../../secrets/secret-repository.ts';
import type { FindTemplates } from '../../template-catalogue/custom/find-templates.ts';
import type { PlannedPull } from '../../template-catalogue/recipe/plan.ts';
import type { RecipeBase } from '../../template-catalogue/recipe/plan-recipe.ts';
import type { ResolvedVersion } from '../../template-catalogue/template-catalogue.ts';

/** The kernels of these languages come with the guest folder. The Python kernel needs libraries of the image. */
const LANGUAGES_OF_IMAGES = ['javascript', 'typescript'];

export interface PlanOriginDeps {
  readonly findTemplates: FindTemplates;
  readonly projects: Pick<ProjectAccess, 'forCreation'>;
  readonly secrets: SecretRepository;
  /** Registry of images whose names have none. */
  readonly defaultRegistry: string;
}

export interface Origin extends RecipeBase {
  /** The version whose sandboxes run the first step. */
  readonly version: ResolvedVersion;
}

/** Decides what a recipe starts from: a version of a template, or an image. */
export class PlanOrigin {
  readonly #deps: PlanOriginDeps;

  constructor(deps: PlanOriginDeps) {
    this.#deps = deps;
  }

  /** @throws AppError `invalid_request`, `not_found` for an id of a template or a secret */
  async plan(credential: Credential, from: TemplateRecipe['from']): Promise<Origin> {
    if (typeof from !== 'string') {
      if ('artifactId' in from) return this.#ofImage(credential, undefined);
      const { image, ...account } = from;
      return this.#ofImage(credential, { ...this.#read(image, 'body.from.image'), ...account });
    }
    if (isImageName(from)) return this.#ofImage(credential, this.#read(from, 'body.from'));
    try {
      const version = await this.#resolve(credential, from);
      return { version, languages: languagesOf(version) };
    } catch (error) {
      const isId = from.startsWith(ID_PREFIXES.template) || from.startsWith(ID_PREFIXES.templateVersion);
      if (isId || !(error instanceof AppError && error.code === 'not_found')) throw error;
      return this.#ofImage(credential, this.#read(from, 'body.from'));
    }
  }

  /** Unpacks an image in a sandbox of the default template. */
  async #ofImage(credential: Credential, pull: PlannedPull | undefined): Promise<Origin> {
    const { projects, secrets } = this.#deps;
    if (pull?.credentials)
      await requireSecrets(secrets, await projects.forCreation(credential, undefined), [pull.credentials.secretId]);
    const version = await this.#resolve(credential, DEFAULT_TEMPLATE);
    return { version, languages: languagesOf(version), defaultLanguages: LANGUAGES_OF_IMAGES, pull };
  }

  #resolve({ orgId }: Credential, wanted: string): ResolvedVersion | Promise<ResolvedVersion> {
    const isPinned = wanted.startsWith(ID_PREFIXES.templateVersion);
    const [slug, version] = isPinned ? [undefined, wanted] : [wanted, undefined];
    return this.#deps.findTemplates.resolve(orgId, slug, version, DEFAULT_TEMPLATE);
  }

  #read(image: string, path: string): PlannedPull {
    const name = parseImageName(image, this.#deps.defaultRegistry);
    if (name) return name;
    const message =
      'must be a template, or an image as in `docker pull`, such as debian:bookworm or registry.example/a/b:1';
    throw invalidRequest({ path, message });
  }
}

function languagesOf({ template, version }: ResolvedVersion): readonly string[] {
  return 'languages' in version ? (version.languages as readonly string[]) : template.languages;
}
