"""The gist of a talk has its facts, fits, and is the same every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.text.gist import Remark, clipped, gist, kept_share, remarks, repeats_itself, script
from roost.text.sentences import facts_of

PLANTED = (
    "My name is Ingrid Holm.",
    "I live at 17 Birch Lane in Bergen.",
    "My sister Marta was born on 4 March 1988.",
    "The contract number is K-2291.",
    "My flight LH417 leaves at 06:45.",
)
CHATTER = (
    Remark("assistant", "That sounds lovely! How can I help you further today?"),
    Remark("user", "Please tell me something about the sea. It is nice to hear about it."),
    Remark("assistant", "The sea is wide and deep. Many animals live in it, small and large."),
)


def talk() -> list[Remark]:
    """A talk with facts between much that says nothing."""
    said: list[Remark] = []
    for fact in PLANTED:
        said += [Remark("user", f"Hello again. {fact} What do you think of that?"), *CHATTER]
    return said


def test_facts_survive_and_chatter_does_not() -> None:
    """What a user says of himself, with names and numbers, is there word for word, in order."""
    found = gist(talk(), 400)
    assert all(fact in found for fact in PLANTED)
    assert [found.index(fact) for fact in PLANTED] == sorted(found.index(f) for f in PLANTED)
    assert "lovely" not in found
    assert "?" not in found
    assert len(found.encode()) <= 400


def test_a_gist_of_a_gist_keeps_the_facts() -> None:
    """Compacted again and again beside new chatter, the facts stay; they weigh more."""
    found = gist(talk(), 400)
    for _ in range(12):
        found = gist([*remarks(found), *CHATTER], 400)
    assert all(fact in found for fact in PLANTED)


def test_what_is_said_twice_is_kept_once() -> None:
    """A model that repeats what the user said adds nothing."""
    said = [
        Remark("user", "My dog is called Rex."),
        Remark("assistant", "Rex is a fine name!"),
        Remark("user", "My dog is called Rex."),
    ]
    assert gist(said, 1000) == "User: My dog is called Rex."


def test_where_nothing_is_a_fact_something_is_still_said() -> None:
    """A talk without names or numbers has a gist all the same; one that fits nowhere has none."""
    said = [Remark("user", "tell a story."), Remark("assistant", "once there was a fox.")]
    assert gist(said, 100) == "User: tell a story.\nAssistant: once there was a fox."
    assert gist(said, 3) == ""
    assert gist([], 100) == ""


def test_other_scripts_are_not_forgotten() -> None:
    """What a user states in a script without capitals is kept; what he asks gives way."""
    said = [Remark("user", "我叫王芳。我住在北京。今天天气怎么样？"), *CHATTER]
    assert gist(said, 60) == "User: 我叫王芳。 我住在北京。"


speaker = st.sampled_from(["user", "assistant", ""])
remark = st.builds(Remark, speaker, st.text(alphabet="Aa 1.?我\n", max_size=60))


@given(st.lists(remark, max_size=8), st.integers(0, 300))
def test_a_gist_fits_and_is_the_same_every_time(said: list[Remark], most: int) -> None:
    """At most so many bytes, no fact that was not said, and equal talks have equal gists."""
    found = gist(said, most)
    assert len(found.encode()) <= most
    assert gist(list(said), most) == found
    for line in remarks(found):
        assert any(line.text.split()[0] in one.text for one in said)


def test_a_gist_is_read_as_it_was_written() -> None:
    """Speakers survive: what the user said of himself is the user's after ten summaries."""
    said = [Remark("user", "I am Tom."), Remark("assistant", "Hi Tom."), Remark("", "They met.")]
    assert remarks(script(said)) == said


def test_circles_are_noticed_and_lists_are_not() -> None:
    """A loop of a small model repeats itself; a long honest text and a short one do not."""
    assert repeats_itself("The user likes cats. " * 12)
    assert repeats_itself("我喜欢猫，我喜欢猫，" * 6)
    assert not repeats_itself("no no no no")
    assert not repeats_itself(script(talk()[:4]) + " ".join(PLANTED))


def test_lost_facts_are_counted() -> None:
    """The share of names and numbers that a summary still has, however it says them."""
    facts = facts_of(" ".join(PLANTED))
    assert kept_share(" ".join(PLANTED), facts) == 1.0
    assert kept_share("They talked about the sea.", facts) == 0.0
    half = kept_share("INGRID HOLM lives in Bergen, number K-2291", facts)
    assert 0.2 < half < 0.6
    assert kept_share("", frozenset()) == 1.0
    assert kept_share("he said the old one is here", frozenset({"the old one"})) == 1.0


def test_clipping_keeps_whole_sentences() -> None:
    """What does not fit goes from the end, by sentences; lines stay lines."""
    text = "One is here. Two is there.\nThree is away."
    assert clipped(text, 1000) == text
    assert clipped(text, 30) == "One is here. Two is there."
    assert clipped(text, 20) == "One is here."
    assert clipped(text, 5) == ""
