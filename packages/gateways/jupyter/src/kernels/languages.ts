import { LANGUAGES, type Language } from '@cloche/contract';

/** A language as Jupyter describes it. */
interface JupyterLanguage {
  /** Name of its kernels. */
  readonly kernel: string;
  readonly title: string;
  /**
   * What kernels answer in this release: all messages, or only questions about code and expressions. In the second case
   * cells are run as code.
   */
  readonly answers: 'messages' | 'questions';
  /** The `language_info` of a kernel. */
  readonly info: Readonly<Record<string, unknown>> & { readonly name: string };
  readonly logo: { readonly text: string; readonly color: string };
}

export const JUPYTER_LANGUAGES: Readonly<Record<Language, JupyterLanguage>> = {
  python: {
    kernel: 'python3',
    title: 'Python 3',
    answers: 'messages',
    info: {
      name: 'python',
      version: '3',
      mimetype: 'text/x-python',
      file_extension: '.py',
      codemirror_mode: { name: 'ipython', version: 3 },
      pygments_lexer: 'ipython3',
      nbconvert_exporter: 'python',
    },
    logo: { text: 'Py', color: '#3572a5' },
  },
  javascript: {
    kernel: 'javascript',
    title: 'JavaScript',
    answers: 'questions',
    info: {
      name: 'javascript',
      version: '',
      mimetype: 'text/javascript',
      file_extension: '.js',
      codemirror_mode: 'javascript',
      pygments_lexer: 'javascript',
    },
    logo: { text: 'JS', color: '#b59b00' },
  },
  typescript: {
    kernel: 'typescript',
    title: 'TypeScript',
    answers: 'questions',
    info: {
      name: 'typescript',
      version: '',
      mimetype: 'application/typescript',
      file_extension: '.ts',
      codemirror_mode: 'text/typescript',
      pygments_lexer: 'typescript',
    },
    logo: { text: 'TS', color: '#3178c6' },
  },
};

/** Returns the language of a name or of what precedes a hyphen in it; undefined if no kernel is named so. */
export function languageOfKernel(name: string): Language | undefined {
  return LANGUAGES.find((language) => JUPYTER_LANGUAGES[language].kernel === name);
}
