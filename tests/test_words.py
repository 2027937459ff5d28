"""Word lists: pinned by hash, refused line by line, split by secret."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordlelib.words import (
    Words,
    list_sha256,
    load_words,
    read_list,
    require_disjoint,
    sample_words,
    split_secrets,
    without,
)

ANSWERS = "f40e47975cf360ff9febe7d49c8e285054d8fa3fb9644cea575922060951d6ee"
ALLOWED = "feacc549249b5dcb43e2799fbbcda14ebc33d55904fb15d043779104e60c1579"


@pytest.fixture
def write(tmp_path):
    def write_list(text, name="list.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_list


def test_shipped_lists_are_the_pinned_ones(shipped):
    assert shipped.sha256 == {"answers": ANSWERS, "allowed": ALLOWED}
    assert (len(shipped.answers), len(shipped.allowed), shipped.length) == (2315, 12972, 5)
    assert set(shipped.answers) <= shipped.dictionary
    assert load_words() == shipped


def test_case_08_list_version_decides_what_is_a_word_and_is_shown(shipped):
    """Published lists changed over the years: these words tell the versions apart, and the text
    form of the lists, which reports print, carries counts and hashes."""
    membership = {
        word: (word in shipped.answers, word in shipped.dictionary)
        for word in ("agora", "fibre", "quran", "tarse", "guano")
    }
    assert membership == {
        "agora": (True, True),
        "fibre": (True, True),
        "quran": (False, False),
        "tarse": (False, False),
        "guano": (False, True),
    }
    assert repr(shipped) == "Words(2,315 answers f40e4797, 12,972 allowed feacc549)"


CASE_07 = {
    "blank line": ("crane\n\nslate\n", 2),
    "blank first line": ("\ncrane\n", 1),
    "six letters": ("crane\nslates\n", 2),
    "four letters": ("crane\nslate\nslat\n", 3),
    "two words": ("crane slate\nraise\n", 1),
    "digit": ("crane\nsl4te\n", 2),
    "tag": ("crane\n<s>te\n", 2),
    "accent": ("crane\nslaté\n", 2),
    "other script": ("crane\nсlate\n", 2),
    "capital that only looks plain": ("crane\n\u212aayak\n", 2),
    "full-width letters": ("crane\nｓｌａｔｅ\n", 2),
    "zero-width space": ("crane\nslat\u200be\n", 2),
    "null byte": ("crane\nslat\0\n", 2),
    "duplicate": ("crane\nslate\ncrane\n", 3),
    "duplicate in capitals": ("crane\nCRANE\r\n", 2),
}


@pytest.mark.parametrize("text, line", CASE_07.values(), ids=CASE_07)
def test_case_07_bad_line_is_refused_with_file_and_line(write, text, line):
    path = write(text)
    with pytest.raises(ValueError, match=rf"list\.txt, line {line}: ") as error:
        read_list(path)
    assert "\n" not in str(error.value)


def test_case_07_capitals_spaces_and_line_ends_do_not_matter(write):
    plain = read_list(write("crane\nslate\n"))
    assert plain == ("crane", "slate")
    for text in ("CRANE\r\n slate \r\n", "crane\r\nSlate", "\ufeffcrane\n\tslate\n", "crane\rslate\r"):
        assert read_list(write(text)) == plain


@given(st.sets(st.text("abcdefgh", min_size=5, max_size=5), min_size=1), st.randoms())
def test_case_07_same_words_have_the_same_hash_however_the_file_is_written(tmp_path_factory, words, rng):
    words = sorted(words)
    lines = [rng.choice((str.upper, str.title, str))(word) + rng.choice(("", " ", "\t")) for word in words]
    path = tmp_path_factory.mktemp("lists") / "list.txt"
    path.write_bytes(rng.choice(("\n", "\r\n")).join(lines).encode())
    assert list_sha256(read_list(path)) == list_sha256(words)


def test_order_of_the_file_is_kept_and_hashed(write):
    words = read_list(write("slate\ncrane\n"))
    assert words == ("slate", "crane")
    assert list_sha256(words) != list_sha256(sorted(words))


def test_missing_empty_and_binary_files_are_refused(write, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt: no such word list"):
        read_list(tmp_path / "nothing.txt")
    with pytest.raises(FileNotFoundError, match="no such word list"):
        read_list(tmp_path)
    with pytest.raises(ValueError, match=r"list\.txt: the word list is empty"):
        read_list(write(""))
    with pytest.raises(ValueError, match=r"list\.txt: not a UTF-8 text file"):
        read_list(write("crane\n".encode("utf-16")))


@pytest.mark.parametrize(
    "text, alphabet, words",
    [
        ("word\nplay\n", "a-z", ("word", "play")),
        ("letter\nplayer\n", "a-z", ("letter", "player")),
        ("GRÜßE\nkröte\n", "a-zäöüß", ("grüße", "kröte")),
        ("СЛОВО\nбуква\n", "а-я", ("слово", "буква")),
    ],
)
def test_length_comes_from_the_list_and_letters_from_the_alphabet(write, text, alphabet, words):
    loaded = load_words(write(text), alphabet=alphabet)
    assert loaded == Words(words, words)
    assert loaded.length == len(words[0])


def test_own_lists_are_read_anew_at_each_call(write):
    assert load_words(write("crane\n")).answers == ("crane",)
    assert load_words(write("slate\n")).answers == ("slate",)


def test_answer_that_is_no_allowed_guess_is_named(write):
    answers, allowed = write("crane\nslate\n", "answers.txt"), write("crane\nraise\n", "allowed.txt")
    with pytest.raises(ValueError, match=r"answers\.txt: 1 of 2 answers not in .*allowed\.txt.*'slate'"):
        load_words(answers, allowed)


def test_allowed_list_of_another_length_is_refused(write):
    with pytest.raises(ValueError, match=r"allowed\.txt, line 1: 'word' is not a word of 5 letters"):
        load_words(write("crane\n", "answers.txt"), write("word\n", "allowed.txt"))


def test_allowed_list_alone_is_refused(write):
    with pytest.raises(ValueError, match="give both files"):
        load_words(allowed=write("crane\n"))


def test_small_game_is_a_fixed_seeded_sample(shipped):
    small = sample_words(shipped, 256)
    assert small.answers == small.allowed == tuple(sorted(small.answers))
    assert len(set(small.answers)) == 256 and set(small.answers) < set(shipped.answers)
    assert small == sample_words(shipped, 256, seed=0) != sample_words(shipped, 256, seed=1)
    for size in (0, 2316):
        with pytest.raises(ValueError, match=f"cannot draw {size} words from 2,315 answers"):
            sample_words(shipped, size)


def test_train_lexicon_leaves_heldout_words_out_of_both_lists(shipped):
    kept = without(shipped, ["crane", "slate"])
    assert shipped.dictionary - kept.dictionary == {"crane", "slate"}
    assert set(shipped.answers) - set(kept.answers) == {"crane", "slate"}
    assert kept.sha256 != shipped.sha256


def test_case_11_split_is_by_secret_seeded_and_no_slice(shipped):
    """The thing that must be unseen is the secret word: parts are disjoint, cover all answers, repeat,
    leave the global generator alone, and are no alphabetical slice."""
    random.seed(5)
    before = random.getstate()
    split = split_secrets(shipped)
    assert random.getstate() == before
    assert (len(split.train), len(split.val), len(split.test)) == (1700, 115, 500)
    assert sorted(split.train + split.val + split.test) == list(shipped.answers)
    assert split == split_secrets(shipped) != split_secrets(shipped, seed=8)
    assert split.test[:6] == ("frock", "extol", "crank", "grape", "pixie", "clasp")
    assert len({word[0] for word in split.test}) > 20


def test_case_11_rows_of_many_turns_keep_their_secret_on_one_side(shipped):
    """200 games over 40 words with three rows each: rows follow their secret, so no secret meets both."""
    small = sample_words(shipped, 40)
    split = split_secrets(small, test=8, val=4)
    rows = [(small.answers[game % 40], turn) for game in range(200) for turn in range(3)]
    train = [row for row in rows if row[0] in split.train]
    heldout = [row for row in rows if row[0] in split.val + split.test]
    assert len(train) + len(heldout) == len(rows)
    require_disjoint([secret for secret, _ in train], [secret for secret, _ in heldout], "rows")
    shuffled = random.Random(0).sample(rows, len(rows))
    with pytest.raises(ValueError, match=r"rows: .* secrets are both trained on and held out: "):
        require_disjoint([s for s, _ in shuffled[:500]], [s for s, _ in shuffled[500:]], "rows")


def test_case_11_overlap_is_named():
    with pytest.raises(ValueError, match=r"data card: 2 secrets are both .* held out: crane, slate"):
        require_disjoint(["slate", "crane", "raise"], ["crane", "slate"], "data card")


@given(st.integers(2, 300), st.integers(0, 300), st.integers(0, 300), st.integers())
def test_split_sizes_fit_or_are_refused(shipped, size, test, val, seed):
    small = Words(shipped.answers[:size], shipped.answers[:size])
    if test + val >= size:
        with pytest.raises(ValueError, match=f"test part of {test} and a validation part of {val} do not"):
            split_secrets(small, seed, test, val)
    else:
        split = split_secrets(small, seed, test, val)
        assert tuple(map(len, split)) == (size - test - val, val, test)
        assert set(split.train + split.val + split.test) == set(small.answers)


@pytest.mark.parametrize("test, val", [(-1, 10), (10, -1)])
def test_negative_split_sizes_are_refused(shipped, test, val):
    with pytest.raises(ValueError, match="do not fit"):
        split_secrets(shipped, test=test, val=val)
