"""Secrets and personal data: found after every escape of JSON, counted as they are in the file, in linear time."""

from __future__ import annotations

import json
import re

import pytest

from exports.errors import BadRecipe
from exports.recipe import Recipe
from exports.rules import redaction
from exports.rules.redaction import Redactor

SECRETS = {
    "aws_access_key": "AKIAIOSFODNN7EXAMPLE",
    "openai": "sk-proj-" + "a1" * 20,
    "hugging_face": "hf_" + "a1" * 17,
    "gitlab_token": "glpat-" + "a1" * 10,
    "artifactory_credentials": "AKCp8aaaaaaaaaa",
    "npm": "npm_" + "a1" * 18,
    "awmweb": "awm_" + "a1" * 12,
}


def redactor(redact="secrets", **more):
    return Redactor(Recipe.read({"format": "raw", "redact": redact, **more}), salt="p")


@pytest.mark.parametrize("before", ["", "\n", "\t", '"', "“", "\\", "key=", " "])
@pytest.mark.parametrize("kind", SECRETS)
def test_secret_goes_whatever_escape_stands_before_it(kind, before):
    own = redactor()
    value = {"a": [f"x{before}{SECRETS[kind]}" if before else SECRETS[kind], 1]}
    if kind == "artifactory_credentials" and before in ("“", "\\"):
        pytest.skip("the library's own rule asks for a blank, a quote, = or : before it")
    hidden = json.loads(own.redact_json(json.dumps(value)))
    assert hidden == {"a": [f"x{before}[redacted:{kind}]" if before else f"[redacted:{kind}]", 1]}
    assert own.counts == {kind: 1}


def test_two_secrets_with_one_character_between_both_go():
    key = "glpat-" + "a1" * 10
    assert redactor().redact(f"{key} {key},{key}") == ",".join(
        ["[redacted:gitlab_token] [redacted:gitlab_token]", "[redacted:gitlab_token]"]
    )


@pytest.mark.parametrize("end", ["-----END RSA PRIVATE KEY-----", ""])
def test_private_key_goes_with_its_lines(end):
    body = {"a": f"Key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n{end}", "b": 1}
    assert json.loads(redactor().redact_json(json.dumps(body))) == {"a": "Key:\n[redacted:private_key]", "b": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("email", "bob.smith+x@mail.example.com"), ("phone", "+1 555-123-4567"), ("phone", "(555) 123-4567"),
        ("ssn", "123-45-6789"), ("credit_card", "4111 1111 1111 1111"), ("iban", "DE89 3704 0044 0532 0130 00"),
    ],
)  # fmt: skip
def test_personal_data_counts_as_often_as_its_mark_is_there(kind, value):
    own = redactor("personal")
    text = own.redact_json(json.dumps({"said": f"Hi\n{value}, {value}; x", "again": [value]}))
    marks = re.findall(r"\[redacted:(\w+):([0-9a-f]{6})\]", text)
    assert len(set(marks)) == 1 and marks[0][0] == kind
    assert own.counts == {kind: len(marks)} == {kind: 3} and json.loads(text)["said"].startswith("Hi\n[")


@pytest.mark.parametrize(
    "text", ["3f123456789ab", "a" * 40 + "123456789" + "b" * 15, "id 123456789", "v1.2.3@x", "@a.b"]
)
def test_digits_of_ids_and_digests_are_no_personal_data(text):
    own = redactor("personal")
    assert own.redact(text) == text and not own.counts


@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 2**32 - 1, 2**32])
def test_limit_of_integers_is_no_phone(limit):
    schema = {"type": "integer", "maximum": limit}
    assert redactor("personal").redact_value({**schema, "title": str(limit)})["maximum"] == limit
    assert redactor("personal").redact(f"Call {limit}.") != f"Call {limit}."


@pytest.mark.parametrize("bound", ["maximum", "exclusiveMinimum", "multipleOf", "maxLength", "minItems"])
def test_bound_of_a_schema_is_no_phone(bound):
    own = redactor("personal")
    schema = {"type": "integer", bound: 5551234567, "description": f'"{bound}": 5551234567'}
    hidden = own.redact_value(schema)
    assert hidden[bound] == 5551234567 and "5551234567" not in hidden["description"] and own.counts == {"phone": 1}
    assert isinstance(own.redact_value({"limit": 5551234567})["limit"], str)


@pytest.mark.parametrize("number", ["5551234567", "4111111111111111", "5551234567.5", "-5551234567e10"])
def test_json_with_a_number_of_a_person_stays_json(number):
    text = redactor("personal").redact_json(f'{{"n":{number},"m":[1,{number}]}}')
    hidden = json.loads(text)
    assert isinstance(hidden["n"], str) is number.isdecimal()


@pytest.mark.parametrize("regex", [r"(?<!\w)secret", r"secret(?!s)", r"(a)\1", "((("])
def test_pattern_of_a_recipe_is_one_of_re2(regex):
    with pytest.raises(BadRecipe, match="RE2"):
        redactor(patterns=[{"name": "own", "regex": regex}])


def test_each_rule_of_the_library_is_one_of_re2():
    rules = list(redaction._library_rules())
    assert len(rules) > 30 and not [
        rule for rule in rules if "(?!" in rule.pattern.pattern or "(?<" in rule.pattern.pattern
    ]


def test_halves_of_pairs_stay_beside_a_secret():
    assert redactor().redact(f"a\ud800 {SECRETS['openai']}\x00") == "a\ud800 [redacted:openai]\x00"


ASSIGNED = {
    "API_KEY=abc12345def": "abc12345def",
    "export OPENAI_API_KEY='k9f8e7d6c5b4a3'": "k9f8e7d6c5b4a3",
    "client_secret: 9f86d081884c7d659a2feaa0c55ad015": "9f86d081884c7d659a2feaa0c55ad015",
    "token=eyJabc12345": "eyJabc12345",
    "password: hunter2": "hunter2",
    'Password="swordfish"': "swordfish",
    "my_db_password: s3cret!": "s3cret!",
    "pwd=Tr0ub4dor&3": "Tr0ub4dor&3",
    "Server=db;User Id=sa;Password=yourStrong!Pw;": "yourStrong!Pw",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==": "dXNlcjpwYXNzd29yZA==",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "It is wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY.": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "postgres://u:p4ssw0rd@h/db": "p4ssw0rd",
    "sk-" + "aB3d" * 12: "aB3d" * 12,
    "xapp-1-A0B1C2D3-1234567890-" + "ab12" * 8: "ab12" * 8,
}


@pytest.mark.parametrize("text", ASSIGNED)
def test_secret_that_is_given_to_a_name_goes_whole(text):
    own = redactor()
    for said in (own.redact(text), *json.loads(own.redact_json(json.dumps([text, {"a": f"Run\n{text}"}])))):
        assert ASSIGNED[text] not in str(said) and "[redacted:" in str(said)
    assert own.counts.total() == 3


def test_password_of_an_object_goes_and_its_json_stays():
    body = {"user": "ann", "password": "swordfish", "pin": 7, "nested": [{"api_key": "a1b2c3d4e5"}], "token": None}
    hidden = json.loads(redactor().redact_json(json.dumps(body)))
    wanted = {"password": "[redacted:password]", "nested": [{"api_key": "[redacted:assigned_secret]"}]}
    assert hidden == {**body, **wanted}


@pytest.mark.parametrize(
    "text",
    [
        "sha256: 9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
        "commit da39a3ee5e6b4b0d3255bfef95601890afd80709", "password: required", "next_token: abc12345678",
        "max_tokens: 512000000", "password=password", "password = self.password", "api_key=os.environ",
        "password=getpass()", "API_KEY=$SECRET_1234", "Basic information about tickets", "The password is wrong.",
        "token: string", "src/components/UserProfile/Avatar2Compon", "DE89 3704 0044 0532 0130 01", "token: Merge",
        "XX12 3456 7890 1234 5678", "Your password: please enter a new one", "secret: the garden",
        '{"password": {"type": "string"}, "token": {"type": "string"}}', '{"type": "password", "secret": true}',
    ],
)  # fmt: skip
def test_texts_about_secrets_and_digests_stay(text):
    own = redactor("personal")
    assert own.redact(text) == text == own.redact_json(text) and not own.counts


@pytest.mark.parametrize("blank", ["", " ", "-", "\u00a0", "\u202f", "  "])
@pytest.mark.parametrize(
    "number", ["GB29NWBK60161331926819", "FR1420041010050500013M02606", "NO9386011117947", "ES9121000418450200051332"]
)
def test_account_number_of_any_country_goes_whole(number, blank):
    own = redactor("personal")
    spelled = blank.join(number[at : at + 4] for at in range(0, len(number), 4))
    (hidden,) = json.loads(own.redact_json(json.dumps([f"Pay {spelled} 4000 euros to Ann, {spelled}."])))
    assert re.sub(r":[0-9a-f]{6}\]", "]", hidden) == "Pay [redacted:iban] 4000 euros to Ann, [redacted:iban]."
    assert own.counts == {"iban": 2}


def test_card_rule_takes_no_half_of_an_account_number():
    own = redactor("personal")
    hidden = own.redact("To FR80 4000 6000 0112 3456 7890 189, please.")
    assert re.sub(r":[0-9a-f]{6}\]", "]", hidden) == "To [redacted:iban], please."
