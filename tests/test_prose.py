"""The words of the repository: turns of phrase that a native reader stumbles over are found in
code, comments, messages and pages.
"""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUFFIXES = (".py", ".md", ".yaml", ".j2")
LEFT_OUT = ("CHANGELOG.md", "tests/test_prose.py")

UNITS = (
    "batch|block|cell|column|configuration|context|corpus|dictionary|direction|entity|entry|epoch|evaluation|example|"
    "expert|file|fold|form|grid|head|key|kind|language|layer|line|list|method|metric|model|node|"
    "occurrence|option|page|pair|panel|paper|paragraph|person|piece|point|premise|question|row|"
    "run|second|section|seed|sentence|set|side|size|split|stage|step|table|task|text|thread|"
    "token|trial|type|value|vector|window|word|worker"
)
THINGS = (
    "accuracy|artifact|axis|bar|batch|boolean|bytes?|cell|class|column|count|digest|driver|edge|"
    "entry|entries|evaluation|example|experiment|file|float|folder|gradient|id|index|key|layer|"
    "link|matrix|matrices|message|metric|model|number|object|pair|panel|parent|prediction|"
    "request|section|sentence|sequence|sum|table|tag|text|thread|token|training|trial|vector|"
    "vocabulary|vocabularies|word|worker"
)
AMBIGUOUS = (  # verbs as well ("names a file"), unless they are counted or have an article
    "answer|figure|form|forward|function|group|label|line|list|map|mark|mask|mean|measure|name|"
    "note|piece|point|process|query|record|result|row|run|sample|score|shift|space|stage|step|"
    "transform|translation|type|value|view|weight"
)
SEVERAL = r"(?:two|three|\d+|several|some|many|more|most)"
A_UNIT = (  # not "of the pairs a metric is taken over"
    rf"(?:a|an) (?:{UNITS})\b(?! (?:of (?:its|their) own|at a time|is|are|leaves|may|can|has|had|"
    r"rests|needs|gives|reads)\b)"
)
NO = (  # what may follow "is no"
    "longer|more|such|difference|better|worse|loss|test|interval|one|need|way|limit|reason|point|"
    "doubt|less|fewer|later|other|room|chance"
)
WORDS = {  # advice: words of which one is in each match, and the patterns
    'one thing "a" another: write "per"': (
        (rf" an? +(?:{UNITS})\b",),
        rf"(?<!per )\b(?:{THINGS})s? {A_UNIT}",
        rf"\b(?:one|an?|1) (?:\w+ )?(?:{AMBIGUOUS}) {A_UNIT}",
        rf"\b{SEVERAL} (?:\w+ )?(?:{AMBIGUOUS})s {A_UNIT}",
        rf"\bone {A_UNIT}",
    ),
    '"is no": write "is not a"': (
        (" no ",),
        rf"(?<!here )\b(?:is|are|was|were) no (?!(?:{NO})\b)\w+",
    ),
    "told: write reported, printed or recorded": (
        ("told", "tell"),
        r"\b(?:is|are|be|were|was) told\b(?! (?:apart|to|from)\b)",
        r"\btells? (?:what|how|that|whether|the user)\b",
    ),
    "beside: write next to, besides or with": (
        ("eside",),
        r"\b(?:stands?|lies?|stood|lay|put|written|sets?|shown|hold|given) beside\b",
        r"\bBeside (?!the\b|a\b)\w+",
    ),
    "handed over: write passed": ((" over",), r"\bhand(?:ed|s)? over\b"),
    "wants: write requires": (("want",), r"\bwants? (?:an?|the|more|one|two)\b"),
    "so many: write that many, or name the number": (
        ("many",),
        r"\b(?:most|from|for|in|and) so many\b",
    ),
    "brings: write copies, passes or maps": (
        ("bring", "brought"),
        r"\bbr(?:ings?|ought|inging) (?:to MLflow|twice|both|all|again|here|over|later|results|runs"
        r"|curves|means|them|it|the rest|one grid|what)\b",
        r"\b(?:be|is|are|was|were|still) brought(?! (?:to|down|up)\b)",
    ),
    "what stands: write is, or name the thing": (
        ("stand",),
        r"\bwhat stands\b",
        r"\bstands? in the (?:notes|report|record)\b",
    ),
    "the very: write exactly the": (
        (" very",),
        r"\bthe very (?!same|first|last|start|end|beginning)\w+",
    ),
    "whoever: name who": (("hoever",), r"\b[Ww]hoever\b"),
    "said: write stated or described": (
        (" said",),
        r"\b(?:is|are) said (?:by|of|beside|in|once)\b",
    ),
    "but for: write except": (("but +for",), r"\bbut for (?:the|what|its|a|an|part|words|those)\b"),
    "an old word": (
        ("ereof", "wherein", "thither", "lest", "inasmuch", "hence"),
        r"\b(?:thereof|whereof|wherein|thither|lest|inasmuch|whence|thence)\b",
    ),
    "an unusual turn of phrase": (
        (
            *("such +a ", "they +lie", "ever", "the +same +of", "one +go", "nothing", " of "),
            *("it +is +made", " so\\b", "wanted", "together", "taken"),
        ),
        r"\bsuch a one\b",
        r"\bas they lie\b",
        r"\bfor ever\b",
        r"\bthe same of\b",
        r"\bin one go\b",
        r"\bcom(?:e|es|ing) to nothing\b",
        r"\bit is made (?:of|from)\b",
        r"\b(?:is|are) of (?:an?|the|no|both)\b(?! (?:kind|form|type|opinion|order|size))",
        r"\b(?:they|it|those|weights|shifts) (?:is|are) of\b",
        r"\b(?:named|called) so\b",
        r"\b(?:is|are) wanted\b",
        r"\bf[ae]ll(?:s|ing)? together\b",
        r"\btaken off\b",
    ),
}
OLD_WORDS = {  # the word of the field, and what was written for it
    "GPU": r"(?<!model )(?<!its )(?<!encoder's )\bcards?\b",
    "subword token": r"\bpieces?\b(?! \||:)",  # not as a value in a table, nor in the path of a key
    "training run": r"\btrainings\b",
    "stale map": r"\boutdated readouts?\b",
    "generalising to new languages": r"\b(?:languages like|[Ll]ike these)\b",
    "identically spelt pairs": r"\bpairs of one (?:form|spelling)\b",
    "configuration": r"\b(?:all|best|chosen|equal|excluded|merged|several|suggested) points?\b"
    r"(?! of percent)|\bpoints? (?:of (?:the|a) (?:grid|study|search)|that (?:dev|it|a search) ch)",
    "random": r"\b(?:is|are|has|have|be) chance\b",
}
CODE = re.compile(r"`+[^`]*`+|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
AROUND = 100
"""A match has at most that many characters before and after the word that it is found by."""


def compiled(words):
    """Return the pattern of some words; a space stands for any number, but not in a lookbehind."""
    spaced = re.sub(r"(\(\?<![^)]*\))|( )", lambda found: found[1] or " +", "|".join(words))
    return re.compile(spaced)


PATTERNS = [
    (advice, [re.compile(word) for word in words], compiled(patterns))
    for advice, (words, *patterns) in WORDS.items()
]
LINES, MARKS = str.maketrans("\n\t\r", "   "), str.maketrans('"#', "  ")


def flat(text):
    """Return a text on one line, every character at its place, without comment marks and the
    quotation marks between adjacent literals.
    """
    line = text.translate(LINES)
    return line.replace(' f"', "   ").replace(' r"', "   ").translate(MARKS)


def findings(text, name):
    """Return ``file:line: words (advice)`` of every turn of phrase in a text."""
    line, found = flat(text), {}
    for advice, words, pattern in PATTERNS:
        for match in (match for word in words for match in word.finditer(line)):
            part = max(match.start() - AROUND, 0), match.end() + AROUND
            for wrong in pattern.finditer(line, *part):
                found[wrong.start(), advice] = " ".join(wrong.group().split())
    return [
        f"{name}:{text.count(chr(10), 0, start) + 1}: {words} ({advice})"
        for (start, advice), words in found.items()
    ]


def written():
    """Return the paths of the files that people read or write by hand."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if name.endswith(SUFFIXES) and not name.startswith(LEFT_OUT) and (ROOT / name).exists()
    ]


def test_the_prose_is_plain_english():
    found = [
        line
        for name in written()
        for line in findings((ROOT / name).read_text(encoding="utf-8"), name)
    ]
    assert not found, "\n".join(["", *found])


def shown():
    """Yield name and text of what the code shows to users: messages, templates of the report and
    of exports, and the pages that are made of descriptions.
    """
    for path in sorted((ROOT / "raxalign").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and " " in text and id(node) not in docstrings:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text
    reference = ROOT / "docs" / "reference"
    lists = [p for p in reference.glob("*.md") if "Made by `raxalign" in p.read_text("utf-8")]
    made = [*lists, reference / "commands.md", *reference.glob("*/*.md")]
    made += (ROOT / "raxalign").rglob("*.j2")
    for path in sorted(made):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_users_read_the_words_of_the_field():
    found = [
        f"{name}: {wrong.group()} (write {word})"
        for name, text in shown()
        for word, pattern in OLD_WORDS.items()
        for wrong in re.finditer(pattern, " ".join(CODE.sub("", text).split()))
    ]
    assert not found, "\n".join(["", *found])


def test_a_page_writes_out_what_its_first_interval_is():
    first = {
        name: re.search(r"95 %\s+(confidence\s+interval|CI|interval)", text)
        for name in written()
        if name.endswith(".md") and (text := (ROOT / name).read_text(encoding="utf-8"))
    }
    assert not [name for name, found in first.items() if found and found[1] == "interval"]


def test_files_that_pages_name_and_link_to_are_there():
    missing = []
    for name in (name for name in written() if name.endswith(".md")):
        text, folder = (ROOT / name).read_text(encoding="utf-8"), (ROOT / name).parent
        links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", text)
        missing += [f"{name}: {link}" for link in links if not (folder / link).exists()]
        modules = re.findall(r"`(?:raxalign/)?(\w+/[\w/]+\.py)`", text)
        places = (ROOT, ROOT / "raxalign")
        missing += [
            f"{name}: {file}"
            for file in modules
            if not any(map(Path.exists, (p / file for p in places)))
        ]
    assert missing == []
