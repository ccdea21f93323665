// The OpenAPI document as people read it.

import assert from "node:assert/strict";
import test from "node:test";

import { bodiesOf, groupsOf, written } from "./docs_model.js";

const schemas = {
  Said: { type: "object", properties: { text: { type: "string" }, more: { $ref: "#/components/schemas/Said" } }, required: ["text"] },
};
const content = (schema) => ({ "application/json": { schema } });
const said = { $ref: "#/components/schemas/Said" };
const document_ = {
  tags: [
    { name: "a", about: "", description: "The first." },
    { name: "b", description: "Empty." },
  ],
  paths: {
    "/say/{who}": {
      post: {
        tags: ["a"],
        summary: "Say something",
        parameters: [{ name: "who", in: "path" }],
        requestBody: { content: content(said) },
        responses: { 200: { content: content({ type: "array", items: { type: "integer" } }) }, default: { content: content({ enum: ["bad"] }) } },
      },
      get: { tags: ["a"], summary: "Hear", responses: {} },
    },
  },
  components: { schemas },
};

test("addresses stand under their tags, and every wanted word has to be there", () => {
  assert.deepEqual(groupsOf(document_, "").map((one) => [one.name, one.addresses.length]), [["a", 2]]);
  assert.deepEqual(groupsOf(document_, " POST say")[0].addresses.map((one) => one.method), ["POST"]);
  assert.deepEqual(groupsOf(document_, "post hear"), []);
});

test("what is sent and answered is written out", () => {
  const [{ addresses }] = groupsOf(document_, "something");
  const bodies = bodiesOf(document_, addresses[0]);
  assert.deepEqual(bodies.map((one) => one.title), [
    "Parts",
    "What is sent (application/json)",
    "200 (application/json)",
    "A failure (application/json)",
  ]);
  assert.equal(bodies[0].text, "who (path)");
  assert.match(bodies[1].text, /^\{\n {2}text: string\n {2}more\?: \{/);
  assert.deepEqual([bodies[2].text, bodies[3].text], ["[integer]", '"bad"']);
});

test("a type that holds itself ends, and one that is not there is a name", () => {
  assert.match(written(document_, said), /more\?: Said/);
  assert.equal(written(document_, { $ref: "#/components/schemas/Gone" }), "Gone");
  assert.equal(written(document_, { anyOf: [{ type: "string" }, { type: "null" }] }), "string | null");
  assert.equal(written(document_, { const: true }), "true");
  assert.equal(written(document_, {}), "anything");
});
