import type { ImportDeclaration } from 'acorn';

/** Returns an awaited `import()` with the effect of the declaration. */
export function importExpression({ source, attributes }: ImportDeclaration): string {
  const withAttributes = attributes.map(({ key, value }) => {
    return `${key.type === 'Identifier' ? key.name : key.raw}: ${value.raw}`;
  });
  const options = withAttributes.length > 0 ? `, { with: { ${withAttributes.join(', ')} } }` : '';
  return `await import(${source.raw}${options})`;
}

/** Returns the name of the imported export. `*` is the module itself. */
export function importedName(specifier: ImportDeclaration['specifiers'][number]): string {
  if (specifier.type === 'ImportNamespaceSpecifier') return '*';
  if (specifier.type === 'ImportDefaultSpecifier') return 'default';
  const { imported } = specifier;
  return imported.type === 'Identifier' ? imported.name : String(imported.value);
}
