"""VALUE: what a request may say about its answer, with ranges, and what a backend needs for it.

Dialects read these from their own fields; backends check the numbers once more.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Parameter(msgspec.Struct, frozen=True):
    """One parameter: `least` and `most` bound a number, or the number of texts in a list.

    `needs` names the capability without which a backend does not heed it, "" for none.
    """

    name: str
    kind: Literal["number", "whole", "texts", "switch"]
    meaning: str
    least: float | None = None
    most: float | None = None
    needs: str = ""


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("max_tokens", "whole", "most tokens of the answer; none is up to the context", 1),
    Parameter("temperature", "number", "how much chance there is; 0 takes the likeliest", 0, 2),
    Parameter("top_p", "number", "likeliest tokens that have this much together", 0, 1),
    Parameter("top_k", "whole", "so many of the likeliest tokens; 0 is all", 0, 1_000_000),
    Parameter("min_p", "number", "tokens at least this likely, beside the likeliest", 0, 1),
    Parameter("seed", "whole", "the same seed, the same answer", 0, 2**32 - 1, "seed"),
    Parameter("presence_penalty", "number", "against what was said at all", -2, 2),
    Parameter("frequency_penalty", "number", "against what was said often", -2, 2),
    Parameter("stop", "texts", "texts before which the answer ends", 0, 16),
    Parameter("logprobs", "whole", "so many alternatives to each token", 0, 20, "logprobs"),
    Parameter("logit_bias", "number", "for or against tokens", -100, 100, "logit_bias"),
    Parameter("ignore_eos", "switch", "go on where the model would end"),
    Parameter("stream", "switch", "text as it comes", needs="streaming"),
)
