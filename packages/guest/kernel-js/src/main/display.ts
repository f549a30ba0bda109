import { base64, customDisplay, type Forms, isForms, renderPlain, toForms } from './render.ts';

/**
 * The global `display` of cells: shows a value in the middle of a run.
 *
 * - `display(value)` shows the value like the result of a last expression.
 * - `display({ 'text/html': '<b>…</b>', 'text/plain': '…' })` shows several forms of one output. Bytes become base64.
 * - `display.html(text)`, `.markdown`, `.svg`, `.latex`, `.json(value)`, `.png(bytes or base64)` and `.jpeg` show one
 *   form.
 *
 * A value can have a method `Symbol.for('cloche.display')` that returns such an object of forms. It is then used here
 * and for results. Returns `undefined`, or a promise if that method is asynchronous. Shows nothing after the end of
 * the run.
 */
export interface Display {
  (value: unknown): Promise<void> | undefined;
  html(text: string): void;
  markdown(text: string): void;
  svg(text: string): void;
  latex(text: string): void;
  json(value: unknown): void;
  png(image: Uint8Array | string): void;
  jpeg(image: Uint8Array | string): void;
}

export function createDisplay(show: (forms: Forms) => void): Display {
  const display = (value: unknown): Promise<void> | undefined => {
    const custom = customDisplay(value);
    if (!custom) {
      show(isForms(value) ? toForms(value) : renderPlain(value));
      return;
    }
    const forms = custom();
    if (forms instanceof Promise) return forms.then((settled) => show(toForms(settled)));
    show(toForms(forms));
  };
  const text = (mimeType: string) => (value: string) => show({ [mimeType]: String(value) });
  const image = (mimeType: string) => (value: Uint8Array | string) =>
    show({ [mimeType]: typeof value === 'string' ? value : base64(value) });

  return Object.assign(display, {
    html: text('text/html'),
    markdown: text('text/markdown'),
    svg: text('image/svg+xml'),
    latex: text('text/latex'),
    json: (value: unknown) => show({ 'application/json': value }),
    png: image('image/png'),
    jpeg: image('image/jpeg'),
  });
}
