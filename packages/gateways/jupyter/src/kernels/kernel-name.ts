import { DEFAULT_TEMPLATE, type Language } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { JUPYTER_LANGUAGES, languageOfKernel } from './languages.ts';

/** The kernel that a name stands for: its language, and where it runs. */
export interface KernelKind {
  readonly language: Language;
  /** A template for a sandbox of its own, or a sandbox that exists. */
  readonly place: { readonly template: string } | { readonly sandboxId: string };
}

/** `python3`, `python3-TEMPLATE`, or `python3@SANDBOX`. */
const KERNEL_NAME = /^([a-z0-9]+)(?:-([^@]+)|@(sbx_\w+))?$/;

/** Returns the name of the kernels of a language in a template. */
export function kernelNameOf(language: Language, template: string): string {
  const { kernel } = JUPYTER_LANGUAGES[language];
  return template === DEFAULT_TEMPLATE ? kernel : `${kernel}-${template}`;
}

/** @throws GatewayError 404 */
export function readKernelName(name: string): KernelKind {
  const [, word = '', template = DEFAULT_TEMPLATE, sandboxId] = KERNEL_NAME.exec(name) ?? [];
  const language = languageOfKernel(word);
  if (!language) {
    const kernels = Object.values(JUPYTER_LANGUAGES).map(({ kernel }) => kernel);
    throw new GatewayError(404, `There is no kernel "${name}"; /api/kernelspecs lists them: ${kernels.join(', ')}, …`);
  }
  return { language, place: sandboxId ? { sandboxId } : { template } };
}
