"""What is shown on a terminal."""

import json

from raxalign.errors import RaxalignError
from raxalign.printing import masked, printable


def test_passwords_of_uris_are_never_shown():
    text = "the store at postgresql://ann:se/c%40ret@db:5432/runs does not answer (http://key@host)"
    assert "se/c" not in printable(text.replace("/c", "c"))
    assert printable("http://ann:secret@host:80/x?a=b@c") == "http://***@host:80/x?a=b@c"
    assert printable("s3://bucket/folder and a@b.c") == "s3://bucket/folder and a@b.c"


def test_terminal_escapes_of_data_are_shown_and_not_obeyed():
    assert printable("\x1b]0;owned\x07\x9b2J\r") == r"\u001b]0;owned\u0007\u009b2J\u000d"
    assert printable("abc\u202egnp.exe") == "abc\\u202egnp.exe"


def test_line_ends_tabs_and_letters_of_every_script_stay():
    text = "naïve\t中国\r\nไทย\n"
    assert printable(text) == text


def test_json_stays_json():
    value = {"x": "\x7f\u202e\x9b"}
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value


def test_secrets_with_a_slash_are_hidden_too_and_ports_and_paths_are_not():
    assert printable("s3://AKIA:a/b@bucket/x") == "s3://***@bucket/x"
    for whole in ("http://host:8080/a@b", "https://host/x@y", "s3://bucket/runs@2026"):
        assert printable(whole) == whole


def test_what_leaves_has_no_token_and_no_secret_of_a_url():
    hub = "hf_" + "a" * 34
    text = f"Bearer abc.def-9 {hub} http://h/x?v=1&X-Amz-Signature=ab%2F1&n=2 http://h?token=t1"
    assert (
        masked(text) == "Bearer *** *** http://h/x?v=1&X-Amz-Signature=***&n=2 http://h?token=***"
    )
    for whole in ("mask_token=[MASK]", "a?viewStateShareKey=cells", "seconds per token=3"):
        assert masked(whole) == whole
    assert str(RaxalignError("http://ann:secret@host does not answer")) == (
        "http://***@host does not answer"
    )
