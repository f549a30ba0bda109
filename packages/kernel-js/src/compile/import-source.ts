import type { ImportDeclaration } from 'acorn';

/** The `import()` that does what the declaration does, awaited. */
export function importExpression({ source, attributes }: ImportDeclaration): string {
  const withAttributes = attributes.map(({ key, value }) => {
    return `${key.type === 'Identifier' ? key.name : key.raw}: ${value.raw}`;
  });
  const options = withAttributes.length > 0 ? `, { with: { ${withAttributes.join(', ')} } }` : '';
  return `await import(${source.raw}${options})`;
}

/** `*` stands for the module itself. */
export function importedName(specifier: ImportDeclaration['specifiers'][number]): string {
  if (specifier.type === 'ImportNamespaceSpecifier') return '*';
  if (specifier.type === 'ImportDefaultSpecifier') return 'default';
  const { imported } = specifier;
  return imported.type === 'Identifier' ? imported.name : String(imported.value);
}
