import { DEFAULT_TEMPLATE, LANGUAGES, type Template } from '@cloche/contract';
import type { Cloche } from '@cloche/sdk';
import { kernelNameOf } from './kernel-name.ts';
import { JUPYTER_LANGUAGES } from './languages.ts';

export const LOGO = 'logo-svg.svg';

export interface KernelSpecs {
  readonly default: string;
  readonly kernelspecs: Readonly<Record<string, object>>;
}

/** Returns a kernel spec for each language of each template that a sandbox can be created from. */
export async function listKernelSpecs(cloche: Cloche, prefix: string): Promise<KernelSpecs> {
  const { data: templates } = await cloche.call('listTemplates');
  const usable = templates.filter(({ defaultVersionId }) => defaultVersionId !== undefined);
  const specs = usable.flatMap((template) => specsOf(template, prefix));
  return { default: kernelNameOf('python', DEFAULT_TEMPLATE), kernelspecs: Object.fromEntries(specs) };
}

function specsOf({ slug, languages }: Template, prefix: string): [string, object][] {
  return LANGUAGES.filter((language) => languages.includes(language)).map((language) => {
    const { title, info } = JUPYTER_LANGUAGES[language];
    const name = kernelNameOf(language, slug);
    const spec = {
      argv: [],
      env: {},
      display_name: slug === DEFAULT_TEMPLATE ? `${title} (Cloche)` : `${title} (Cloche, ${slug})`,
      language: info.name,
      interrupt_mode: 'message',
      metadata: {},
    };
    return [name, { name, spec, resources: { 'logo-svg': `${prefix}/kernelspecs/${name}/${LOGO}` } }];
  });
}
