// What a request without an answer yet is waiting for, out of the gateway's feed. Pure.
//
// Until the reply begins its id is not known here, so it is looked for among one's own: by model,
// by how long it has been there, and by having said nothing yet.

import { stateOf } from "./answer.js";

const CLOSE_S = 2;
const SILENT = new Set(["waiting", "prefill"]);

/** A sentence, or "" where nobody can tell; `requests` are rows of `/roost/v1/observability`. */
export function waitingFor(requests, model, waitedS) {
  const far = (one) => Math.abs(one.elapsed_seconds - waitedS);
  const mine = requests.filter((one) => one.model === model && SILENT.has(one.state));
  const [nearest] = mine.sort((a, b) => far(a) - far(b));
  return nearest && far(nearest) <= CLOSE_S ? stateOf(nearest.doing ?? "") : "";
}
