// The OpenAPI document as people read it: groups of addresses, and types written out.

const REFERENCE = "#/components/schemas/";
const DEPTH = 3;

/** The addresses by their tags, those alone in which every wanted word is found. */
export function groupsOf(document_, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const all = Object.entries(document_.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, told]) => ({
      method: method.toUpperCase(),
      path,
      summary: told.summary,
      told,
    })),
  );
  const found = all.filter((one) => {
    const text = `${one.method} ${one.path} ${one.summary}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return document_.tags
    .map((tag) => ({
      name: tag.name,
      about: tag.description,
      addresses: found.filter((one) => one.told.tags.includes(tag.name)),
    }))
    .filter((group) => group.addresses.length > 0);
}

/** What is sent to an address and what it answers, each with its type written out. */
export function bodiesOf(document_, one) {
  const { told } = one;
  const sent = Object.entries(told.requestBody?.content ?? {}).map(([media, { schema }]) => ({
    title: `What is sent (${media})`,
    text: written(document_, schema),
  }));
  const asked = (told.parameters ?? []).map((part) => `${part.name} (${part.in})`).join(", ");
  const answers = Object.entries(told.responses).flatMap(([code, reply]) =>
    Object.entries(reply.content ?? {}).map(([media, { schema }]) => ({
      title: `${code === "default" ? "A failure" : code} (${media})`,
      text: written(document_, schema),
    })),
  );
  return [...(asked ? [{ title: "Parts", text: asked }] : []), ...sent, ...answers];
}

/** A type as text; deeper ones by their names. */
export function written(document_, schema, depth = 0) {
  if (schema.$ref) {
    const name = schema.$ref.replace(REFERENCE, "");
    const known = document_.components.schemas[name];
    return known && depth < DEPTH ? written(document_, known, depth) : name;
  }
  if (schema.contentSchema) return written(document_, schema.contentSchema, depth);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => written(document_, one, depth)).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") {
    return schema.items ? `[${written(document_, schema.items, depth)}]` : "[…]";
  }
  if (schema.properties) return members(document_, schema, depth);
  return schema.type ?? "anything";
}

function members(document_, schema, depth) {
  if (depth >= DEPTH) return schema.title ?? "object";
  const needed = new Set(schema.required ?? []);
  const indent = "  ".repeat(depth + 1);
  const lines = Object.entries(schema.properties).map(([name, one]) => {
    const mark = needed.has(name) ? "" : "?";
    return `${indent}${name}${mark}: ${written(document_, one, depth + 1)}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}
