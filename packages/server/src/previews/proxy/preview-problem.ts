import { PREVIEW_ERRORS, type PreviewErrorCode } from '@cloche/contract';

/** Why the host of a preview answers for itself. The message is for whoever looks at the page. */
export class PreviewProblem extends Error {
  override readonly name = 'PreviewProblem';
  readonly code: PreviewErrorCode;

  constructor(code: PreviewErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get status(): number {
    return PREVIEW_ERRORS[this.code].status;
  }

  /** It may pass by itself, and soon. */
  get passes(): boolean {
    return this.code === 'preview_port_closed' || this.code === 'preview_unavailable' || this.code === 'preview_busy';
  }
}
