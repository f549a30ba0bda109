import type { AnyNode, Expression, Pattern } from 'acorn';

/**
 * The `Color || {}` in `var Color = function (Color) { … }(Color || {})`, which is what a TypeScript enum becomes: one
 * that is declared again starts empty, instead of adding to the one of an earlier cell.
 */
export function enumAccumulator(init: Expression, id: Pattern): AnyNode | undefined {
  if (init.type !== 'CallExpression' || init.callee.type !== 'FunctionExpression' || id.type !== 'Identifier') return;
  const [argument] = init.arguments;
  if (argument?.type !== 'LogicalExpression' || argument.left.type !== 'Identifier') return;
  return argument.left.name === id.name && argument.right.type === 'ObjectExpression' ? argument : undefined;
}

/** What the TypeScript transformer appends to a decorated class, which is no expression of the user's. */
export function isDecoration(statement: string): boolean {
  return /^([\w$]+ = )*babelHelpers\.decorate\(/.test(statement);
}
